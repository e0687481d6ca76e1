/* gale tokenize: lines of text to token ids and back. */
#include "cli/cli.h"
#include "cli/encoder_args.h"
#include "base/json.h"
#include "base/thread.h"
#include "gale/text.h"
#include <errno.h>
#include <string.h>

static const gale__arg args[] = {
    {"FILE", 0, GALE__ARG_FILE, "FILE|-", "-", NULL, "text file, one text per line; -: standard input"},
    {"tokenizer", 'T', GALE__ARG_FILE, "FILE|FOLDER|NAME", NULL, NULL,
        "tokenizer.json, vocab.txt, vocab.json with merges.txt, a SentencePiece model, a folder with one of them, or "
        "the name of such a folder in the models folder"},
    {"models", 0, GALE__ARG_FILE, "FOLDER", NULL, NULL, "models folder (default: ~/.local/share/gale/models)",
        "GALE_MODELS"},
    {"pairs", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "each line holds two texts separated by a tab"},
    {"no-special", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "do not add special tokens such as [CLS]"},
    {"special-as-text", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "treat special tokens in the text as ordinary text"},
    {"max-length", 'm', GALE__ARG_TEXT, "N|none", NULL, NULL,
        "truncate to N tokens (default: as the tokenizer file says)"},
    {"pad", 0, GALE__ARG_TEXT, "N|none", NULL, NULL, "pad to N tokens (default: as the tokenizer file says)"},
    {"decode", 'D', GALE__ARG_FLAG, NULL, NULL, NULL, "convert ids, separated by spaces or commas, to text"},
    {"with-special", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "--decode: print special tokens too"},
    GALE__ARG_THREADS,
    {"json", 'j', GALE__ARG_FLAG, NULL, NULL, NULL,
        "print one JSON object per line: ids, offsets (code points) and words (default: tokens separated by spaces)"},
    {0},
};

enum { BLOCK_BYTES = 4 << 20, LINES_PER_TASK = 256 };

typedef struct line {
    const char *text;
    size_t size;
} line;
typedef struct worker {
    gale_encoder *encoder;
    uint32_t *ids;
    size_t capacity;
} worker;
typedef struct job {
    const gale_tokenizer *tokenizer;
    const char *name; /* of the input, for messages */
    gale_encode_options options;
    bool pairs, json, decode, with_special;
    worker *workers;
    int width;
    line *lines;
    size_t line_count, line_capacity, first_line;
    gale__str *outputs; /* one for each task */
    gale_status *statuses;
    char (*errors)[256];
    size_t task_count;
} job;

/* --- One line. --- */

static void add_number(gale__str *out, uint64_t v)
{
    char text[24], *at = text + sizeof text;
    do *--at = (char)('0' + v % 10);
    while (v /= 10);
    gale__str_add_n(out, at, (size_t)(text + sizeof text - at));
}

static void add_list(gale__str *out, const char *name, const uint32_t *v, const uint8_t *bytes, size_t count)
{
    gale__str_addf(out, "\"%s\": [", name);
    for (size_t i = 0; i < count; i++) {
        if (i) gale__str_add_n(out, ", ", 2);
        add_number(out, v ? v[i] : bytes[i]);
    }
    gale__str_add(out, "]");
}

static void add_json(const job *j, gale__str *out, const gale_encoding *e)
{
    bool padded = e->count && (!e->mask[0] || !e->mask[e->count - 1]);
    gale__str_add(out, "{");
    add_list(out, "ids", e->ids, NULL, e->count);
    gale__str_add(out, ", \"offsets\": [");
    for (size_t i = 0; i < e->count; i++) {
        gale__str_add(out, i ? ", [" : "[");
        add_number(out, e->ranges[i].begin);
        gale__str_add_n(out, ", ", 2);
        add_number(out, e->ranges[i].end);
        gale__str_add_n(out, "]", 1);
    }
    gale__str_add(out, "], \"words\": [");
    for (size_t i = 0; i < e->count; i++) {
        if (i) gale__str_add_n(out, ", ", 2);
        if (e->words[i] < 0) gale__str_add(out, "null");
        else add_number(out, (uint64_t)e->words[i]);
    }
    gale__str_add(out, "]");
    if (j->pairs) gale__str_add(out, ", "), add_list(out, "type_ids", e->type_ids, NULL, e->count);
    if (padded) gale__str_add(out, ", "), add_list(out, "mask", NULL, e->mask, e->count);
    gale__str_add(out, "}\n");
}

static gale_status add_tokens(const job *j, gale__str *out, const gale_encoding *e)
{
    for (size_t i = 0, size; i < e->count; i++) {
        const char *token;
        if (i) gale__str_add(out, " ");
        GALE_TRY(gale_tokenizer_token(j->tokenizer, e->ids[i], &token, &size));
        gale__str_add_n(out, token, size);
    }
    gale__str_add(out, "\n");
    return GALE_OK;
}

static gale_status encode_line(const job *j, worker *w, line l, gale__str *out)
{
    gale_encoding e;
    const char *tab = j->pairs ? memchr(l.text, '\t', l.size) : NULL;
    size_t size = tab ? (size_t)(tab - l.text) : l.size;
    if (j->pairs && !tab)
        return gale__fail(GALE_FORMAT, "no tab in the line; --pairs needs two texts separated by a tab");
    GALE_TRY(gale_tokenizer_encode(
        j->tokenizer, w->encoder, l.text, size, tab ? tab + 1 : NULL, tab ? l.size - size - 1 : 0, &j->options, &e));
    if (!j->json) return add_tokens(j, out, &e);
    add_json(j, out, &e);
    return GALE_OK;
}

static gale_status decode_line(const job *j, worker *w, line l, gale__str *out)
{
    size_t count = 0, size;
    const char *text;
    for (size_t i = 0; i < l.size;) {
        uint64_t v = 0;
        if (strchr(" \t\r,[]", l.text[i]) && l.text[i]) {
            i++;
            continue;
        }
        if (l.text[i] < '0' || l.text[i] > '9')
            return gale__fail(GALE_FORMAT, "unexpected character '%c' in a list of numbers", l.text[i]);
        for (; i < l.size && l.text[i] >= '0' && l.text[i] <= '9'; i++)
            v = v > UINT32_MAX ? v : v * 10 + (uint64_t)(l.text[i] - '0');
        if (v > UINT32_MAX) return gale__fail(GALE_FORMAT, "a number is too large for a token id");
        GALE_TRY(gale__grow((void **)&w->ids, &w->capacity, count + 1, sizeof *w->ids));
        w->ids[count++] = (uint32_t)v;
    }
    GALE_TRY(gale_tokenizer_decode(
        j->tokenizer, w->encoder, w->ids, count, j->with_special ? GALE_DECODE_SPECIAL : 0, &text, &size));
    if (j->json) gale__json_quote(out, text, size);
    else gale__str_add_n(out, text, size);
    gale__str_add(out, "\n");
    return GALE_OK;
}

static void run_task(void *user, size_t task, int index)
{
    job *j = user;
    worker *w = j->workers + index;
    gale__str *out = j->outputs + task;
    size_t end = (task + 1) * LINES_PER_TASK < j->line_count ? (task + 1) * LINES_PER_TASK : j->line_count;
    gale_status status = w->encoder ? GALE_OK : gale_encoder_create(j->tokenizer, &w->encoder);
    out->length = 0;
    for (size_t i = task * LINES_PER_TASK; i < end && status == GALE_OK; i++) {
        status = j->decode ? decode_line(j, w, j->lines[i], out) : encode_line(j, w, j->lines[i], out);
        if (status != GALE_OK) gale__fail_within(status, "line %zu", j->first_line + i + 1);
    }
    if (status == GALE_OK) status = gale__str_check(out);
    j->statuses[task] = status;
    if (status != GALE_OK) snprintf(j->errors[task], sizeof *j->errors, "%s", gale_error());
}

/* --- All of them. --- */

static gale_status reserve_tasks(job *j, size_t count)
{
    if (count <= j->task_count) return GALE_OK;
    gale__str *outputs = gale__realloc(j->outputs, count * sizeof *outputs);
    if (!outputs) return GALE_NO_MEMORY;
    j->outputs = outputs;
    memset(outputs + j->task_count, 0, (count - j->task_count) * sizeof *outputs);
    gale_status *statuses = gale__realloc(j->statuses, count * sizeof *statuses);
    if (statuses) j->statuses = statuses;
    char(*errors)[256] = gale__realloc(j->errors, count * sizeof *errors);
    if (errors) j->errors = errors;
    j->task_count = count;
    return statuses && errors ? GALE_OK : GALE_NO_MEMORY;
}

static gale_status run_lines(job *j)
{
    size_t tasks = (j->line_count + LINES_PER_TASK - 1) / LINES_PER_TASK;
    GALE_TRY(reserve_tasks(j, tasks));
    gale__parallel(tasks, run_task, j);
    for (size_t i = 0; i < tasks; i++) {
        if (j->statuses[i] != GALE_OK) return gale__fail(j->statuses[i], "%s: %s", j->name, j->errors[i]);
        if (fwrite(gale__str_text(j->outputs + i), 1, j->outputs[i].length, stdout) != j->outputs[i].length)
            return gale__fail(GALE_IO, "standard output: %s", strerror(errno));
    }
    j->first_line += j->line_count;
    j->line_count = 0;
    return GALE_OK;
}

static gale_status add_line(job *j, const char *text, size_t size)
{
    GALE_TRY(gale__grow((void **)&j->lines, &j->line_capacity, j->line_count + 1, sizeof *j->lines));
    j->lines[j->line_count++] = (line){text, size};
    return GALE_OK;
}

/* Blocks of the file; a line that is cut by the end of a block waits for the next one. */
static gale_status run_file(job *j, FILE *file)
{
    char *block = NULL;
    size_t have = 0, capacity = 0, got;
    gale_status status;
    do {
        GALE_GO(gale__grow((void **)&block, &capacity, have + BLOCK_BYTES, 1));
        got = fread(block + have, 1, BLOCK_BYTES, file);
        have += got;
        if (ferror(file)) GALE_GO(gale__fail(GALE_IO, "%s: %s", j->name, strerror(errno)));
        char *at = block, *end = block + have, *stop;
        while ((stop = memchr(at, '\n', (size_t)(end - at)))) {
            GALE_GO(add_line(j, at, (size_t)(stop - at)));
            at = stop + 1;
        }
        if (!got && at < end) {
            GALE_GO(add_line(j, at, (size_t)(end - at)));
            at = end;
        }
        GALE_GO(run_lines(j));
        have = (size_t)(end - at);
        memmove(block, at, have);
    } while (got);
    status = GALE_OK;
done:
    gale__free(block);
    return status;
}

static bool parse_length(const char *text, int64_t *out)
{
    if (!text) return true;
    if (!strcmp(text, "none")) return *out = -1, true;
    return gale__text_to_i64(text, out) && *out > 0 && *out <= 1 << 24;
}

static void finish(job *j)
{
    for (int i = 0; j->workers && i < j->width; i++) {
        gale_encoder_destroy(&j->workers[i].encoder);
        gale__free(j->workers[i].ids);
    }
    for (size_t i = 0; i < j->task_count; i++) gale__str_finish(j->outputs + i);
    gale__free(j->outputs);
    gale__free(j->statuses);
    gale__free(j->errors);
    gale__free(j->workers);
    gale__free(j->lines);
}

static int run(const gale__args *a)
{
    const char *path = gale__args_text(a, "FILE"), *from = gale__args_text(a, "tokenizer");
    job j = {.pairs = gale__args_flag(a, "pairs"),
        .json = gale__args_flag(a, "json"),
        .decode = gale__args_flag(a, "decode"),
        .with_special = gale__args_flag(a, "with-special"),
        .options = {gale__args_flag(a, "no-special"), gale__args_flag(a, "special-as-text"), 0, 0}};
    gale_tokenizer *tokenizer = NULL;
    gale_status status;
    if (!from) return gale__usage("tokenize", "missing option: --tokenizer FILE or FOLDER");
    if (!parse_length(gale__args_text(a, "max-length"), &j.options.max_length))
        return gale__usage("tokenize", "--max-length: expected a number of tokens or none");
    if (!parse_length(gale__args_text(a, "pad"), &j.options.pad_length))
        return gale__usage("tokenize", "--pad: expected a number of tokens or none");
    bool standard = !strcmp(path, "-");
    FILE *file = standard ? stdin : fopen(path, "rb");
    if (!file) return gale__report(gale__fail(GALE_IO, "%s: %s", path, strerror(errno)));
    GALE_GO(gale__open_tokenizer(from, &tokenizer));
    j.tokenizer = tokenizer;
    j.width = gale__parallel_width();
    j.workers = gale__calloc((size_t)j.width, sizeof *j.workers);
    GALE_GO(j.workers ? GALE_OK : GALE_NO_MEMORY);
    j.name = standard ? "standard input" : path;
    status = run_file(&j, file);
done:
    if (!standard) fclose(file);
    finish(&j);
    gale_tokenizer_destroy(&tokenizer);
    return gale__report(status);
}

const gale__command gale__command_tokenize = {
    .args = args,
    .run = run,
    .about = "Token ids are identical to those of Hugging Face's tokenizers: WordPiece, BPE, Unigram and WordLevel, "
             "with the normalizers, pre-tokenizers, post-processors and decoders of tokenizer.json. An unsupported "
             "part is an error that names it. Each invalid UTF-8 sequence is replaced by U+FFFD; offsets count code "
             "points of the resulting text.",
    .examples = "  gale tokenize texts.txt --tokenizer all-MiniLM-L6-v2 --json\n"
                "  echo \"Hello world\" | gale tokenize --tokenizer tokenizer.json\n"
                "  echo \"101 7592 2088 102\" | gale tokenize --tokenizer vocab.txt --decode",
};
