/* gale search: the vectors of a file that are nearest to texts. */
#include "cli/cli.h"
#include "cli/encoder_args.h"
#include "cli/job_progress.h"
#include "cli/table.h"
#include "base/json.h"
#include "base/npy.h"
#include "base/thread.h"
#include "base/utf8.h"
#include "gale/search.h"
#include "jobs/search/row_texts.h"
#include <string.h>

static const gale__arg args[] = {
    {"INDEX", 0, GALE__ARG_FILE, NULL, NULL, NULL, "vectors: .npy, .fvecs or raw, as gale embed writes them", NULL,
        true},
    {"TEXT", 0, GALE__ARG_TEXT, NULL, NULL, NULL, "text to search for", NULL, false, true},
    {"queries", 0, GALE__ARG_FILE, NULL, NULL, NULL, "file of texts to search for; -: standard input"},
    {"query-vectors", 0, GALE__ARG_FILE, NULL, NULL, NULL, ".npy file of vectors to search for; needs no model"},
    {"top", 'k', GALE__ARG_INT, NULL, "10", "1..100000", "number of results per query"},
    {"texts", 0, GALE__ARG_FILE, NULL, NULL, NULL, "file the vectors were made from, to show the texts of the results"},
    {"input-format", 0, GALE__ARG_CHOICE, NULL, "auto", "auto|lines|jsonl|csv|tsv", "format of --texts and --queries"},
    {"field", 0, GALE__ARG_TEXT, "KEY|COLUMN", NULL, NULL, "key or column of the text in them, as for gale embed"},
    {"where", 0, GALE__ARG_TEXT, "KEY=VALUE", NULL, NULL,
        "only rows whose JSON object in --texts matches; may be repeated, all must match", NULL, false, true},
    {"index-format", 0, GALE__ARG_CHOICE, NULL, "auto", "auto|npy|raw|fvecs", "format of INDEX; auto: by file name"},
    {"index-type", 0, GALE__ARG_CHOICE, NULL, "f32", "f32|f16|int8|binary", "number type of a raw INDEX"},
    {"probes", 0, GALE__ARG_INT, "N", NULL, "0..65536",
        "approximate search: look only into the N lists nearest to the query, of an index made by --build-index; 0: as "
        "many as find 95 % on a sample"},
    {"build-index", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "write INDEX.ivf for --probes: vectors grouped into lists, and the recall that a sample reaches"},
    {"lists", 0, GALE__ARG_INT, "N", "0", "0..65536",
        "lists of --build-index; 0: twice the square root of the number of vectors"},
    GALE__ARGS_ENCODER,
    GALE__ARGS_DEVICE,
    GALE__ARG_THREADS,
    GALE__ARG_JSON,
    {0},
};

typedef struct job {
    const gale__args *a;
    gale_device *device;
    gale_embedder *encoder;
    gale_index *index;
    gale_index_info info;
    char **texts; /* of the queries; NULL where they are vectors */
    float *vectors;
    size_t count, capacity;
    size_t k;
    gale_hit *hits;
    gale__row_text *found;
    size_t n_found;
    uint8_t *allowed;
    double search_s;
} job;

static int choice_of(const gale__args *a, const char *name, const char *const *words)
{
    const char *text = gale__args_text(a, name);
    for (int i = 0; words[i]; i++)
        if (!strcmp(words[i], text)) return i;
    return 0;
}

static gale__records_options source_of(const gale__args *a, const char *const *file)
{
    static const char *const kinds[] = {"auto", "lines", "jsonl", "csv", "tsv", NULL};
    return (gale__records_options){
        file, 1, (gale__record_kind)choice_of(a, "input-format", kinds), gale__args_text(a, "field"), false};
}

/* --- Queries. --- */

static gale_status add_query(job *j, const char *text, size_t size)
{
    GALE_TRY(gale__grow((void **)&j->texts, &j->capacity, j->count + 1, sizeof *j->texts));
    char *copy = gale__alloc(size + 1);
    if (!copy) return GALE_NO_MEMORY;
    memcpy(copy, text, size);
    copy[size] = 0;
    j->texts[j->count++] = copy;
    return GALE_OK;
}

static gale_status read_queries(job *j)
{
    const char *file = gale__args_text(j->a, "queries"), *text = "";
    for (size_t i = 0; gale__args_item(j->a, "TEXT", i); i++)
        GALE_TRY(add_query(j, gale__args_item(j->a, "TEXT", i), strlen(gale__args_item(j->a, "TEXT", i))));
    if (!file) return GALE_OK;
    gale__records_options source = source_of(j->a, &file);
    gale__records *r = NULL;
    size_t size;
    gale_status status = gale__records_open(&source, &r);
    while (status == GALE_OK && text) {
        status = gale__records_next(r, &text, &size);
        if (status == GALE_OK && text) status = add_query(j, text, size);
    }
    gale__records_close(&r);
    return status;
}

static gale_status embed_queries(job *j)
{
    gale_embedder_info info;
    GALE_TRY(read_queries(j));
    gale_embedder_get_info(j->encoder, &info);
    j->vectors = gale__alloc((j->count + 1) * (size_t)info.dims * sizeof *j->vectors);
    if (!j->vectors) return GALE_NO_MEMORY;
    if (info.dims != j->info.dims)
        return gale__fail(GALE_MISMATCH, "%s: vectors have %lld numbers, but the model produces %lld",
            gale__args_text(j->a, "INDEX"), (long long)j->info.dims, (long long)info.dims);
    return gale_embed(j->encoder, (const char *const *)j->texts, NULL, j->count, j->vectors);
}

static gale_status read_vectors(job *j, const char *path)
{
    gale__npy file;
    GALE_TRY(gale__npy_read(path, &file));
    bool fits = file.type == GALE_F32 && file.rank == 2 && file.dims[1] == j->info.dims;
    gale_status status =
        fits ? GALE_OK
             : gale__fail(GALE_MISMATCH, "%s: not a table of f32 with %lld columns", path, (long long)j->info.dims);
    if (fits) {
        j->count = (size_t)file.dims[0];
        j->vectors = gale__alloc(j->count * (size_t)j->info.dims * sizeof *j->vectors + 1);
        if (!j->vectors) status = GALE_NO_MEMORY;
        else memcpy(j->vectors, file.data.data, j->count * (size_t)j->info.dims * sizeof *j->vectors);
    }
    gale__npy_finish(&file);
    return status;
}

/* --- Results. --- */

static const gale__row_text *text_of(const job *j, int64_t row)
{
    return gale__row_texts_get(j->found, j->n_found, row);
}

static void add_string(gale__str *out, const char *text)
{
    gale__json_out json;
    gale__json_begin(&json, out);
    gale__json_string(&json, text);
}

/* A line a query, so that many can be read as they come. */
static void add_json(const job *j, size_t q, gale__str *out)
{
    gale__str_add(out, "{\"query\": ");
    if (j->texts) add_string(out, j->texts[q]);
    else gale__str_addf(out, "%zu", q);
    gale__str_add(out, ", \"hits\": [");
    for (size_t i = 0; i < j->k && j->hits[q * j->k + i].row >= 0; i++) {
        gale_hit hit = j->hits[q * j->k + i];
        const gale__row_text *text = text_of(j, hit.row);
        gale__str_addf(out, "%s{\"row\": %lld, \"score\": %.7g", i ? ", " : "", (long long)hit.row, (double)hit.score);
        if (text) {
            gale__str_add(out, ", \"text\": ");
            add_string(out, text->text);
        }
        gale__str_add(out, "}");
    }
    gale__str_add(out, "]}\n");
}

/* One line, of which a terminal shows all: whole characters, and none that control it. */
static void add_hit(gale__str *out, gale_hit hit, const char *text)
{
    enum { BYTES_MOST = 300 };
    const char *end = text, *all = text + strlen(text);
    for (const char *next = text; next < all && next - text <= BYTES_MOST; gale__utf8_take(&next, all)) end = next;
    if (all - text <= BYTES_MOST) end = all;
    gale__str_addf(out, "%7.4f %9lld  ", (double)hit.score, (long long)hit.row);
    size_t begin = out->length;
    gale__str_add_n(out, text, (size_t)(end - text));
    if (out->text) gale__text_make_plain(out->text + begin, out->length - begin, "\t");
    gale__str_add(out, "\n");
}

static void add_plain(const job *j, size_t q, gale__str *out)
{
    if (j->count > 1 && j->texts) gale__str_addf(out, "%s%s\n", q ? "\n" : "", j->texts[q]);
    else if (j->count > 1) gale__str_addf(out, "%squery %zu\n", q ? "\n" : "", q);
    for (size_t i = 0; i < j->k; i++) {
        gale_hit hit = j->hits[q * j->k + i];
        const gale__row_text *text = text_of(j, hit.row);
        if (hit.row < 0) break;
        add_hit(out, hit, text ? text->text : "");
    }
}

static int print(const job *j)
{
    gale__str out = {0};
    for (size_t q = 0; q < j->count; q++)
        if (gale__args_flag(j->a, "json")) add_json(j, q, &out);
        else add_plain(j, q, &out);
    return gale__print(&out);
}

/* --- The work. --- */

static gale_status open_index(job *j)
{
    static const char *const formats[] = {"auto", "npy", "raw", "fvecs", NULL}, *const types[] = {"f32", "f16", "int8",
                                                                                    "binary", NULL};
    static const gale_vector_format as[] = {GALE_VECTORS_AUTO, GALE_VECTORS_NPY, GALE_VECTORS_RAW, GALE_VECTORS_FVECS};
    gale_index_options o = {.format = as[choice_of(j->a, "index-format", formats)],
        .type = (gale_vector_type)choice_of(j->a, "index-type", types),
        .dims = gale__args_int(j->a, "dims"),
        .device = j->device};
    gale_embedder_info info;
    if (gale__args_given(j->a, "probes"))
        o.probes = gale__args_int(j->a, "probes") ? gale__args_int(j->a, "probes") : -1;
    if (j->encoder) {
        gale_embedder_get_info(j->encoder, &info);
        o.dims = info.dims;
    }
    GALE_TRY(gale_index_open(gale__args_text(j->a, "INDEX"), &o, &j->index));
    gale_index_get_info(j->index, &j->info);
    return GALE_OK;
}

/* --- Building an index. --- */

static void print_built(const gale_index_build_report *r, const char *file, bool json)
{
    if (json)
        printf("{\"rows\": %lld, \"lists\": %lld, \"probes\": %lld, \"recall\": %.4f, \"seconds\": %.3f}\n",
            (long long)r->rows, (long long)r->lists, (long long)r->probes, r->recall, r->seconds);
    else
        printf("%s.ivf: %lld vectors in %lld lists, %.1f s; a search of %lld lists finds %.1f %% of the ten nearest\n",
            file, (long long)r->rows, (long long)r->lists, r->seconds, (long long)r->probes, 100 * r->recall);
}

static gale_status build_index(job *j)
{
    gale__job_progress progress = {0};
    gale_index_build_report report;
    gale_index_build_options o = {.lists = gale__args_int(j->a, "lists"),
        .control = {.progress = gale__job_progress_show, .user = &progress, .cancel = &gale__ending}};
    GALE_TRY(gale__encoder_device(j->a, &j->device));
    GALE_TRY(open_index(j));
    o.device = j->device;
    gale__ends_itself = 1;
    gale_status status = gale_index_build(j->index, &o, &report);
    gale__job_progress_end(&progress);
    if (status == GALE_OK) print_built(&report, gale__args_text(j->a, "INDEX"), gale__args_flag(j->a, "json"));
    return status;
}

static gale_status make_filter(job *j)
{
    const char *conditions[64], *file = gale__args_text(j->a, "texts");
    size_t n = 0;
    while (n < 64 && (conditions[n] = gale__args_item(j->a, "where", n))) n++;
    if (!n) return GALE_OK;
    if (!file) return gale__fail(GALE_INVALID, "--where needs --texts with a JSONL file that has one object per row");
    gale__records_options source = source_of(j->a, &file);
    return gale__row_filter(&source, conditions, n, j->info.rows, &j->allowed);
}

static gale_status work(job *j)
{
    const char *vectors = gale__args_text(j->a, "query-vectors"), *texts = gale__args_text(j->a, "texts");
    GALE_TRY(gale__encoder_device(j->a, &j->device));
    if (!vectors) GALE_TRY(gale__encoder_open(j->a, j->device, GALE_PACKING_AUTO, &j->encoder));
    GALE_TRY(open_index(j));
    GALE_TRY(make_filter(j));
    GALE_TRY(vectors ? read_vectors(j, vectors) : embed_queries(j));
    j->k = (size_t)gale__args_int(j->a, "top");
    if (j->k > (size_t)j->info.rows) j->k = j->info.rows ? (size_t)j->info.rows : 1;
    j->hits = gale__calloc(j->count + 1, j->k * sizeof *j->hits);
    if (!j->hits) return GALE_NO_MEMORY;
    uint64_t start = gale__time_ns();
    GALE_TRY(gale_index_search(j->index, j->vectors, j->count, (int64_t)j->k, j->allowed, j->hits));
    j->search_s = (double)(gale__time_ns() - start) * 1e-9;
    gale__log(
        GALE__INFO, "%zu queries among %lld vectors in %.3f ms", j->count, (long long)j->info.rows, j->search_s * 1e3);
    if (!texts) return GALE_OK;
    gale__records_options source = source_of(j->a, &texts);
    return gale__row_texts_find(&source, j->info.rows, j->hits, j->count * j->k, &j->found, &j->n_found);
}

static int run(const gale__args *a)
{
    job j = {.a = a};
    bool asked = gale__args_item(a, "TEXT", 0) || gale__args_given(a, "queries");
    bool build = gale__args_flag(a, "build-index");
    if (build && (asked || gale__args_given(a, "query-vectors")))
        return gale__usage("search", "--build-index searches for nothing: omit TEXT, --queries and --query-vectors");
    if (!build && asked == gale__args_given(a, "query-vectors"))
        return gale__usage("search", "nothing to search for: give a TEXT, --queries or --query-vectors");
    if (asked && !gale__encoder_given(a)) return gale__usage("search", "missing option: --model");
    gale_status status = build ? build_index(&j) : work(&j);
    int code = gale__report(status);
    if (status == GALE_OK && !build) code = print(&j);
    for (size_t i = 0; j.texts && i < j.count; i++) gale__free(j.texts[i]);
    gale__free(j.texts);
    gale__free(j.vectors);
    gale__free(j.hits);
    gale__free(j.allowed);
    gale__row_texts_finish(&j.found, j.n_found);
    gale_index_close(&j.index);
    gale_embedder_close(&j.encoder);
    gale_device_close(&j.device);
    gale__end_as_signalled();
    return code;
}

const gale__command gale__command_search = {
    .args = args,
    .run = run,
    .about =
        "Exact search: every vector is compared with every query, on all cores directly from the file, or on a GPU; "
        "with --probes, search by an index that --build-index has made. "
        "Scores are cosines. Without --json each line has the score, the row (from 0) and, with --texts, the text. "
        "With --json each line is a query: {\"query\": ..., \"hits\": [{\"row\": 7, \"score\": 0.81, \"text\": ...}]}.",
    .examples = "  gale search vectors.npy \"a red bicycle\" -m all-MiniLM-L6-v2 --texts texts.txt\n"
                "  gale search v.npy --queries questions.txt -m e5-small --prompt-name query -k 5 --json\n"
                "  gale search v.npy \"refund\" -m bge-small --texts t.jsonl --where lang=en --where year=2024\n"
                "  gale search v.npy --build-index && gale search v.npy \"refund\" -m bge-small --probes 0",
};
