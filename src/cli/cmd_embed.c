/* gale embed: files of texts to a file of vectors. */
#include "cli/cli.h"
#include "cli/embed_page.h"
#include "cli/encoder_args.h"
#include "cli/progress.h"
#include "cli/shard.h"
#include "base/file.h"
#include "base/json.h"
#include "base/thread.h"
#include "gale/search.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const gale__arg args[] = {
    {"FILE", 0, GALE__ARG_FILE, NULL, "-", NULL, "text files, plain or compressed with gzip or zstd; -: standard input",
        NULL, false, true},
    {"output", 'o', GALE__ARG_FILE, NULL, "-", NULL, "file for the vectors; -: standard output (default format: JSONL)",
        .writes = true},
    {"format", 'f', GALE__ARG_CHOICE, NULL, "auto", "auto|npy|jsonl|csv|raw|fvecs|pgvector",
        "output format; auto: by file name, else npy; pgvector: PostgreSQL's COPY format"},
    {"type", 0, GALE__ARG_CHOICE, NULL, "f32", "f32|f16|int8|binary", "number type; npy and raw support all of them"},
    {"input-format", 0, GALE__ARG_CHOICE, NULL, "auto", "auto|lines|jsonl|csv|tsv|footprint",
        "input format; auto: by file name, else one text per line; footprint: JSON objects, embedded as lines key: "
        "value"},
    {"field", 0, GALE__ARG_TEXT, "KEY|COLUMN", NULL, NULL,
        "JSONL: key of the text; CSV, TSV: name of the column in the first record, or its number from 1 (default: "
        "text)"},
    GALE__ARGS_ENCODER,
    {"batch", 'b', GALE__ARG_INT, "TEXTS", "0", "0..1000000",
        "maximum texts per run of the model; 0: limited by tokens only"},
    {"batch-tokens", 0, GALE__ARG_INT, "N", "0", "0..100000000",
        "maximum tokens per run, including padding; 0: chosen by device"},
    {"pack", 0, GALE__ARG_CHOICE, NULL, "auto", "auto|on|off",
        "several short texts share a row of a batch; auto: on GPUs, if the model's results allow it"},
    {"lanes", 0, GALE__ARG_INT, NULL, "0", "0..64", "concurrent runs; 0: chosen by device"},
    {"window", 0, GALE__ARG_INT, "TEXTS", "0", "0..10000000",
        "number of texts sorted by length together; 0: chosen by device"},
    {"pool-limit", 0, GALE__ARG_INT, "MB", NULL, "1..16777216",
        "limit on the memory allocated from each device; batches that do not fit are halved", "GALE_POOL_LIMIT_MB"},
    {"shard", 0, GALE__ARG_TEXT, "K/N|auto", NULL, NULL,
        "process only the K-th of N equal parts; auto: K and N from MPI or Slurm, and -K-of-N is added to the output's "
        "name"},
    {"cache", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "store vectors in the cache folder and reuse them; `gale cache --kind vectors` shows the cache"},
    {"restart", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "start over instead of resuming an interrupted run"},
    {"with-text", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "JSONL: write the text too"},
    {"pairs", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "each line holds two texts separated by a tab, as in a .tsv file without a header: write their cosine, one per "
        "line, instead of vectors"},
    {"dedup", 0, GALE__ARG_REAL, "THRESHOLD", NULL, "-1..1",
        "afterwards list texts whose cosine with an earlier kept text is at least this: row, kept row, cosine"},
    {"report", 0, GALE__ARG_FILE, NULL, NULL, NULL,
        "write an HTML report: rate over time, text lengths, where the time went, and a map of a sample",
        .writes = true},
    GALE__ARG_OVERWRITE,
    GALE__ARGS_DEVICE,
    GALE__ARG_THREADS,
    GALE__ARG_JSON,
    {0},
};

typedef struct job {
    const gale__args *a;
    gale_embed_options options;
    gale_embed_report report;
    gale__str output; /* its name with the part */
    bool drawn;
    int write_error;  /* errno of standard output */
    gale__str *lines; /* of pairs */
    gale__embed_page page;
} job;

/* --- Parts. --- */

static gale_status name_part(job *j, const char *output)
{
    const char *slash = strrchr(output, '/'), *dot = strrchr(slash ? slash : output, '.');
    size_t stem = dot ? (size_t)(dot - output) : strlen(output);
    gale__str_addf(&j->output, "%.*s-%05lld-of-%05lld%s", (int)stem, output, (long long)j->options.shard + 1,
        (long long)j->options.shards, output + stem);
    j->options.output = gale__str_text(&j->output);
    return gale__str_check(&j->output);
}

static gale_status parse_shard(job *j)
{
    const char *text = gale__args_text(j->a, "shard"), *slash = text ? strchr(text, '/') : NULL;
    int64_t k = 0, n = 0;
    char first[32];
    if (!text) return GALE_OK;
    if (!strcmp(text, "auto")) {
        GALE_TRY(gale__shard_auto(&k, &n));
        if (!n)
            return gale__fail(
                GALE_INVALID, "--shard auto: not started by mpirun or srun, nor an array of Slurm; use --shard K/N");
        j->options.shard = k;
        j->options.shards = n;
        return n < 2 ? GALE_OK : name_part(j, j->options.output);
    }
    snprintf(first, sizeof first, "%.*s", slash ? (int)(slash - text) : 0, text);
    if (!slash || !gale__text_to_i64(first, &k) || !gale__text_to_i64(slash + 1, &n) || k < 1 || n < 1 || k > n)
        return gale__fail(GALE_INVALID, "--shard: '%s' is neither K/N with K from 1 to N, nor auto", text);
    j->options.shard = k - 1;
    j->options.shards = n;
    return GALE_OK;
}

/* --- While it runs. --- */

static bool write_out(void *user, const void *data, size_t size)
{
    job *j = user;
    if (fwrite(data, 1, size, stdout) == size) return true;
    j->write_error = errno;
    return false;
}

static bool progress(void *user, const gale_embed_report *r)
{
    job *j = user;
    char left[32];
    uint64_t texts = r->texts - r->resumed;
    if (gale__ending) return false;
    if (gale__args_given(j->a, "report") && gale__embed_page_note(&j->page, r) != GALE_OK) return false;
    if (!isatty(STDERR_FILENO) || !gale__log_on(GALE__WARN)) return true;
    double rate = r->seconds > 0 ? (double)texts / r->seconds : 0;
    fprintf(stderr, "\r\033[Kembed: %llu texts, %.0f texts/s, %.0f tokens/s", (unsigned long long)r->texts, rate,
        r->seconds > 0 ? (double)r->tokens / r->seconds : 0);
    if (r->input_bytes && r->read_bytes && texts && r->seconds > 1 && r->read_bytes < r->input_bytes) {
        double share = (double)r->read_bytes / (double)r->input_bytes;
        fprintf(stderr, ", %s left", gale__duration_text(r->seconds * (1 - share) / share, left));
    }
    fflush(stderr);
    j->drawn = true;
    return true;
}

/* --- Afterwards. --- */

static int print_json(const job *j, const gale_embedder *e)
{
    char *text = NULL;
    gale_status status = gale_embed_report_json(e, &j->options, &j->report, &text);
    if (status == GALE_OK) fputs(text, stdout);
    gale_free(text);
    return gale__report(status);
}

static void print_summary(const job *j, const gale_embedder_info *info)
{
    const gale_embed_report *r = &j->report;
    double done = (double)(r->texts - r->resumed), all = (double)(r->tokens + r->padding);
    if (!gale__log_on(GALE__WARN)) return;
    fprintf(stderr, "%s: %llu vector%s of %lld numbers in %.1f s, %.0f texts/s, %.0f tokens/s, %.*f %% padding%s\n",
        j->options.output, (unsigned long long)r->texts, r->texts == 1 ? "" : "s", (long long)info->dims, r->seconds,
        r->seconds > 0 ? done / r->seconds : 0, r->seconds > 0 ? (double)r->tokens / r->seconds : 0, r->packed ? 1 : 0,
        all > 0 ? 100 * (double)r->padding / all : 0, r->packed ? ", packed" : "");
    if (r->resumed) fprintf(stderr, "  %llu of them from the previous run\n", (unsigned long long)r->resumed);
    if (r->cached) fprintf(stderr, "  %llu of them from the cache\n", (unsigned long long)r->cached);
    if (r->truncated)
        fprintf(stderr, "  %llu text%s at least %lld tokens and %s truncated\n", (unsigned long long)r->truncated,
            r->truncated == 1 ? " has" : "s have", (long long)info->max_length, r->truncated == 1 ? "was" : "were");
    if (r->cut)
        fprintf(
            stderr, "  %llu text%s truncated to 64 MiB\n", (unsigned long long)r->cut, r->cut == 1 ? " was" : "s were");
}

/* --- Pairs and near duplicates. --- */

static bool print_pair(void *user, uint64_t number, float similarity)
{
    const job *j = user;
    gale__str *out = j->lines;
    if (gale__args_flag(j->a, "json"))
        gale__str_addf(
            out, "{\"index\": %llu, \"similarity\": %.7g}\n", (unsigned long long)number, (double)similarity);
    else gale__str_addf(out, "%.6f\n", (double)similarity);
    return !gale__ending && !out->failed;
}

static gale_status embed_pairs(job *j, gale_embedder *e)
{
    gale__str lines = {0};
    j->lines = &lines;
    gale_status status = gale_embed_pairs(e, &j->options, print_pair);
    if (status == GALE_OK) status = gale__str_check(&lines);
    if (status == GALE_OK && j->options.output)
        status = gale__file_write(j->options.output, gale__str_text(&lines), lines.length);
    else if (status == GALE_OK && fwrite(gale__str_text(&lines), 1, lines.length, stdout) != lines.length)
        status = gale__fail_stdout();
    gale__str_finish(&lines);
    return status;
}

static void print_duplicates(const job *j, const gale_index_info *info, const int64_t *of, const float *score)
{
    bool json = gale__args_flag(j->a, "json");
    int64_t count = 0;
    for (int64_t i = 0; i < info->rows; i++) {
        if (of[i] == i) continue;
        count++;
        printf(json ? "{\"row\": %lld, \"of\": %lld, \"score\": %.7g}\n" : "%lld\t%lld\t%.6f\n", (long long)i,
            (long long)of[i], (double)score[i]);
    }
    if (gale__log_on(GALE__WARN))
        fprintf(stderr, "%lld of %lld texts are near duplicates\n", (long long)count, (long long)info->rows);
}

static gale_status find_duplicates(job *j, int64_t dims)
{
    gale_index_options o = {.format = j->options.format, .dims = dims, .type = j->options.type};
    gale_index *index = NULL;
    gale_index_info info;
    GALE_TRY(gale_index_open(j->options.output, &o, &index));
    gale_index_get_info(index, &info);
    int64_t *of = gale__calloc((size_t)info.rows + 1, sizeof *of);
    float *score = gale__calloc((size_t)info.rows + 1, sizeof *score);
    gale_status status =
        of && score ? gale_index_duplicates(index, (float)gale__args_real(j->a, "dedup"), of, score) : GALE_NO_MEMORY;
    if (status == GALE_OK) print_duplicates(j, &info, of, score);
    gale__free(of);
    gale__free(score);
    gale_index_close(&index);
    return status;
}

static int choice_of(const gale__args *a, const char *name, const char *const *words)
{
    const char *text = gale__args_text(a, name);
    for (int i = 0; words[i]; i++)
        if (!strcmp(words[i], text)) return i;
    return 0;
}

static gale_status fill_options(job *j, const char **files, size_t count)
{
    static const char *const kinds[] = {"auto", "lines", "jsonl", "csv", "tsv", "footprint", NULL},
                             *const formats[] = {"auto", "npy", "jsonl", "csv", "raw", "fvecs", "pgvector", NULL},
                             *const types[] = {"f32", "f16", "int8", "binary", NULL},
                             *const packings[] = {"auto", "on", "off", NULL};
    const gale__args *a = j->a;
    const char *output = gale__args_text(a, "output");
    bool standard = !strcmp(output, "-");
    j->options = (gale_embed_options){.files = files,
        .file_count = count,
        .kind = (gale_text_kind)choice_of(a, "input-format", kinds),
        .field = gale__args_text(a, "field"),
        .output = standard ? NULL : output,
        .write = standard ? write_out : NULL,
        .format = (gale_vector_format)choice_of(a, "format", formats),
        .type = (gale_vector_type)choice_of(a, "type", types),
        .batch_texts = gale__args_int(a, "batch"),
        .batch_tokens = gale__args_int(a, "batch-tokens"),
        .lanes = (int)gale__args_int(a, "lanes"),
        .packing = (gale_packing)choice_of(a, "pack", packings),
        .window = gale__args_int(a, "window"),
        .cache = gale__args_flag(a, "cache"),
        .restart = gale__args_flag(a, "restart"),
        .text = gale__args_flag(a, "with-text"),
        .progress = progress,
        .user = j};
    if (gale__args_given(a, "dedup") && (standard || gale__args_flag(a, "pairs")))
        return gale__fail(GALE_INVALID, "--dedup needs -o with a vector file (npy, raw or fvecs)");
    if (standard && gale__args_given(a, "report")) return gale__fail(GALE_INVALID, "--report needs -o");
    return parse_shard(j);
}

/* How the encoder is opened: packed, if texts are many. */
static gale_packing packing_for(const job *j)
{
    const gale_embed_options *o = &j->options;
    uint64_t bytes = 0;
    if (o->packing != GALE_PACKING_AUTO || gale__args_flag(j->a, "pairs")) return o->packing;
    for (size_t i = 0; i < o->file_count; i++) {
        gale__file_identity file;
        if (!strcmp(o->files[i], "-") || !gale__file_identify(o->files[i], &file)) return GALE_PACKING_ON;
        bytes += file.size_bytes;
    }
    return bytes < 1 << 20 ? GALE_PACKING_AUTO : GALE_PACKING_ON;
}

static gale_status embed(job *j, const gale__devices *devices)
{
    gale_embedder *e = NULL;
    gale_embedder_info info;
    GALE_TRY(gale__encoder_open(j->a, devices->list[0], packing_for(j), &e));
    for (int i = 1; i < devices->count; i++) {
        gale_status added = gale_embedder_add_device(e, devices->list[i]);
        if (added != GALE_OK) return gale_embedder_close(&e), added;
    }
    gale_embedder_get_info(e, &info);
    gale__ends_itself = 1;
    bool pairs = gale__args_flag(j->a, "pairs"), dedup = gale__args_given(j->a, "dedup");
    gale_status status = pairs ? embed_pairs(j, e) : gale_embed_files(e, &j->options, &j->report);
    gale__ends_itself = 0;
    if (j->drawn) fputs("\r\033[K", stderr);
    if (j->options.write && (j->write_error || (status == GALE_OK && fflush(stdout)))) {
        if (j->write_error) errno = j->write_error;
        status = gale__fail_stdout();
    }
    if (status == GALE_OK && !j->options.write && !pairs) {
        if (gale__args_flag(j->a, "json") && !dedup) print_json(j, e);
        else print_summary(j, &info);
    }
    if (status == GALE_OK && gale__args_given(j->a, "report") && !pairs) {
        gale__embed_page_note(&j->page, &j->report);
        j->page.options = &j->options;
        j->page.report = &j->report;
        j->page.info = &info;
        j->page.device = gale_device_get_info(gale_embedder_device(e))->name;
        status = gale__embed_page_write(&j->page, gale__args_text(j->a, "report"));
    }
    if (status == GALE_OK && dedup) status = find_duplicates(j, info.dims);
    gale_embedder_close(&e);
    return status;
}

static int run(const gale__args *a)
{
    job j = {.a = a};
    gale__devices devices = {0};
    const char *usual = "-";
    size_t count = 0;
    while (gale__args_item(a, "FILE", count)) count++;
    const char **files = gale__calloc(count + 1, sizeof *files);
    if (!files) return gale__report(GALE_NO_MEMORY);
    for (size_t i = 0; i < count; i++) files[i] = gale__args_item(a, "FILE", i);
    if (!count) files[0] = usual;
    gale_status status = gale__encoder_given(a) ? fill_options(&j, files, count ? count : 1)
                                                : gale__fail(GALE_INVALID, "missing option: --model");
    int code = 0;
    if (status != GALE_OK) code = gale__usage("embed", "%s", gale_error());
    else {
        status = gale__encoder_devices(a, &devices);
        if (status == GALE_OK) status = embed(&j, &devices);
        code = gale__report(status);
    }
    gale__devices_close(&devices);
    gale__str_finish(&j.output);
    gale__embed_page_finish(&j.page);
    gale__free(files);
    gale__end_as_signalled();
    return code;
}

const gale__command gale__command_embed = {
    .args = args,
    .run = run,
    .about = "Every text becomes a row of the output, in input order, including empty texts. Texts are sorted by "
             "length within a window and run in batches, to keep padding small. The output is written to OUT.part with "
             "OUT.journal beside it and renamed when it is complete: run the same command again to resume an "
             "interrupted run. Invalid UTF-8 is replaced by U+FFFD.",
    .examples = "  gale embed texts.txt --model all-MiniLM-L6-v2 -o vectors.npy\n"
                "  zstdcat dump.jsonl.zst | gale embed - --input-format jsonl --field body -m e5-small -o v.npy "
                "--prompt-name passage\n"
                "  mpirun -n 4 gale embed corpus.txt.gz -m bge-small --shard auto -o vectors.raw",
};
