/* OUT.part grows, and OUT.journal records how much of it is valid: rows, bytes, and a hash of their texts.  The part
 * is flushed to disk before the journal is updated; anything after it is cut off when the job resumes. */
#include "jobs/embed/vector_sink.h"
#include "base/json.h"
#include <stdio.h>
#include <string.h>

enum { HEADER = 128, CHUNK = 64 };
#define SAVE_NS 1000000000u

const char *gale_vector_format_name(gale_vector_format format)
{
    static const char *const names[GALE_VECTOR_FORMAT_COUNT] = {
        "auto", "npy", "jsonl", "csv", "raw", "fvecs", "pgvector"};
    return (unsigned)format < GALE_VECTOR_FORMAT_COUNT ? names[format] : "?";
}

static gale_vector_format find_format(const gale_embed_options *o)
{
    static const struct {
        const char *end;
        gale_vector_format format;
    } ends[] = {{".jsonl", GALE_VECTORS_JSONL}, {".ndjson", GALE_VECTORS_JSONL}, {".csv", GALE_VECTORS_CSV},
        {".raw", GALE_VECTORS_RAW}, {".f32", GALE_VECTORS_RAW}, {".bin", GALE_VECTORS_RAW},
        {".fvecs", GALE_VECTORS_FVECS}, {".copy", GALE_VECTORS_PGVECTOR}};
    const char *dot = o->output ? strrchr(o->output, '.') : NULL;
    if (o->format != GALE_VECTORS_AUTO) return o->format;
    if (o->write) return GALE_VECTORS_JSONL;
    for (size_t i = 0; dot && i < sizeof ends / sizeof *ends; i++)
        if (!strcmp(dot, ends[i].end)) return ends[i].format;
    return GALE_VECTORS_NPY;
}

static bool is_text(gale_vector_format f)
{
    return f == GALE_VECTORS_JSONL || f == GALE_VECTORS_CSV || f == GALE_VECTORS_PGVECTOR;
}

/* As long as the widest one, so that it can be written again when the rows are known. */
static void make_header(const gale__vector_sink *s, char header[HEADER])
{
    static const char *const types[] = {"<f4", "<f2", "|i1", "|u1"};
    gale_vector_type type = s->options->type;
    long long columns = type == GALE_VECTOR_BINARY ? (long long)((s->dims + 7) / 8) : (long long)s->dims;
    char text[HEADER];
    int n = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%llu, %lld), }", types[type],
        (unsigned long long)s->rows, columns);
    memset(header, ' ', HEADER);
    memcpy(header, "\x93NUMPY\1\0\x76\0", 10); /* version 1.0, 118 bytes behind this */
    memcpy(header + 10, text, (size_t)n);
    header[HEADER - 1] = '\n';
}

static gale_status put(gale__vector_sink *s, const void *data, size_t size)
{
    s->pending += size;
    if (!s->options->write) return gale__file_add(&s->file, data, size);
    if (s->options->write(s->options->user, data, size)) return GALE_OK;
    return gale__fail(GALE_IO, "cannot write the output");
}

/* --- Resuming. --- */

static gale_status read_journal(gale__vector_sink *s, uint64_t have)
{
    gale__bytes file = {0};
    gale__arena arena = {0};
    gale__json *j = NULL;
    gale_status status = gale__file_exists(s->journal) ? gale__file_read(s->journal, 1 << 16, &file) : GALE_NOT_FOUND;
    if (status == GALE_OK) status = gale__json_parse(&arena, file.data, file.size, &j);
    if (status == GALE_OK) {
        const char *settings = gale__json_text(j, "settings", ""), *hash = gale__json_text(j, "texts", "");
        double rows = gale__json_number(j, "rows", 0), bytes = gale__json_number(j, "bytes", -1);
        unsigned long long input = 0;
        bool fits = !strcmp(settings, s->settings) && sscanf(hash, "%llx", &input) == 1 && rows > 0 && bytes >= 0;
        if (fits && bytes <= (double)have) {
            s->rows = (uint64_t)rows;
            s->bytes = (uint64_t)bytes;
            s->input_hash = input;
        } else
            gale__log(GALE__WARN, "%s: does not match the current %s; starting over", s->journal,
                strcmp(settings, s->settings) ? "settings or inputs" : "partial output");
    }
    gale__bytes_finish(&file);
    gale__arena_finish(&arena);
    if (status == GALE_NO_MEMORY) return status;
    gale__error_clear();
    return GALE_OK;
}

static gale_status begin(gale__vector_sink *s)
{
    char header[HEADER];
    s->rows = s->bytes = s->input_hash = 0;
    if (s->format != GALE_VECTORS_NPY) return GALE_OK;
    make_header(s, header);
    GALE_TRY(put(s, header, sizeof header));
    s->bytes = s->pending;
    s->pending = 0;
    return GALE_OK;
}

gale_status gale__vector_sink_restart(gale__vector_sink *s)
{
    if (gale__file_exists(s->journal)) GALE_TRY(gale__file_remove(s->journal));
    GALE_TRY(gale__file_restart(&s->file));
    return begin(s);
}

static gale_status open_file(gale__vector_sink *s)
{
    const char *path = s->options->output;
    uint64_t have = 0;
    if (gale__file_is_stream(path)) {
        if (s->format == GALE_VECTORS_NPY)
            return gale__fail(GALE_INVALID,
                "%s: not a regular file, which .npy needs because it begins with the number of rows; use --format raw",
                path);
        return gale__file_begin(path, &s->file);
    }
    gale__str journal = {0};
    gale__str_addf(&journal, "%s.journal", path);
    GALE_TRY(gale__str_check(&journal));
    s->journal = journal.text;
    GALE_TRY(gale__file_resume(path, &s->file, &have));
    if (have && !s->options->restart) GALE_TRY(read_journal(s, have));
    if (!s->rows) return gale__vector_sink_restart(s);
    return gale__file_cut(&s->file, s->bytes);
}

/* --- The journal. --- */

gale_status gale__vector_sink_save(gale__vector_sink *s)
{
    gale__str text = {0};
    gale__mutex_lock(&s->lock);
    uint64_t rows = s->rows, bytes = s->bytes, hash = s->input_hash;
    gale__mutex_unlock(&s->lock);
    if (!s->journal || !rows) return GALE_OK;
    GALE_TRY(gale__file_sync(&s->file));
    gale__str_addf(&text, "{\"settings\": \"%s\", \"rows\": %llu, \"bytes\": %llu, \"texts\": \"%llx\"}\n", s->settings,
        (unsigned long long)rows, (unsigned long long)bytes, (unsigned long long)hash);
    gale_status status = gale__str_check(&text);
    if (status == GALE_OK) status = gale__file_write(s->journal, text.text, text.length);
    gale__str_finish(&text);
    return status;
}

static void run_saver(void *arg)
{
    gale__vector_sink *s = arg;
    uint64_t saved = 0;
    gale__mutex_lock(&s->lock);
    while (!s->ending) {
        gale__cond_wait_ns(&s->wake, &s->lock, SAVE_NS);
        if (s->ending || s->rows == saved) continue;
        saved = s->rows;
        gale__mutex_unlock(&s->lock);
        gale_status status = gale__vector_sink_save(s);
        gale__mutex_lock(&s->lock);
        if (status == GALE_OK || s->save_status != GALE_OK) continue;
        s->save_status = status;
        snprintf(s->save_message, sizeof s->save_message, "%s", gale_error());
    }
    gale__mutex_unlock(&s->lock);
}

static void stop_saver(gale__vector_sink *s)
{
    if (!s->saving) return;
    gale__mutex_lock(&s->lock);
    s->ending = true;
    gale__cond_signal(&s->wake);
    gale__mutex_unlock(&s->lock);
    gale__thread_end(&s->saver);
    s->saving = false;
}

gale_status gale__vector_sink_open(
    const gale_embed_options *options, int64_t dims, const char *settings, gale__vector_sink *s)
{
    *s = (gale__vector_sink){.options = options, .format = find_format(options), .dims = dims, .file = {.fd = -1}};
    gale__mutex_init(&s->lock);
    gale__cond_init(&s->wake);
    if (options->type != GALE_VECTOR_F32 && s->format != GALE_VECTORS_NPY && s->format != GALE_VECTORS_RAW)
        return gale__fail(GALE_INVALID, "vectors of type %s can be written as npy or raw, not as %s",
            gale_vector_type_name(options->type), gale_vector_format_name(s->format));
    if (options->write && s->format == GALE_VECTORS_NPY)
        return gale__fail(
            GALE_INVALID, ".npy needs a file, because it begins with the number of rows; use --format raw");
    snprintf(s->settings, sizeof s->settings, "%s", settings);
    return options->write ? begin(s) : open_file(s);
}

/* --- Rows. --- */

typedef struct chunks {
    const gale__vector_sink *s;
    const float *vectors;
    const gale__vector_text *texts;
    size_t count;
    gale__str *out;
} chunks;

static void write_chunk(void *arg, size_t i, int worker)
{
    const chunks *c = arg;
    const gale__vector_sink *s = c->s;
    gale_vector_type type = s->options->type;
    size_t end = (i + 1) * CHUNK < c->count ? (i + 1) * CHUNK : c->count, size = gale_vector_bytes(type, s->dims);
    int32_t dims = (int32_t)s->dims;
    char packed[8192];
    (void)worker;
    for (size_t r = i * CHUNK; r < end; r++) {
        const float *v = c->vectors + r * (size_t)s->dims;
        if (is_text(s->format))
            gale__vector_text_add(&c->out[i], s->format, s->dims, s->first_row + s->rows + r, v,
                c->texts && s->options->text ? &c->texts[r] : NULL);
        if (is_text(s->format)) continue;
        if (s->format == GALE_VECTORS_FVECS) gale__str_add_n(&c->out[i], (const char *)&dims, sizeof dims);
        if (type == GALE_VECTOR_F32) gale__str_add_n(&c->out[i], (const char *)v, size);
        else if (size <= sizeof packed) {
            gale_vector_pack(type, s->dims, v, packed);
            gale__str_add_n(&c->out[i], packed, size);
        } else c->out[i].failed = true;
    }
}

static gale_status add_chunks(gale__vector_sink *s, const float *vectors, const gale__vector_text *texts, size_t count)
{
    size_t n = (count + CHUNK - 1) / CHUNK;
    gale_status status = GALE_OK;
    chunks c = {s, vectors, texts, count, gale__calloc(n, sizeof *c.out)};
    if (!c.out) return GALE_NO_MEMORY;
    gale__parallel(n, write_chunk, &c);
    for (size_t i = 0; i < n; i++) {
        if (status == GALE_OK) status = gale__str_check(&c.out[i]);
        if (status == GALE_OK) status = put(s, gale__str_text(&c.out[i]), c.out[i].length);
        gale__str_finish(&c.out[i]);
    }
    gale__free(c.out);
    return status;
}

gale_status gale__vector_sink_add(
    gale__vector_sink *s, const float *vectors, const gale__vector_text *texts, size_t count, uint64_t input_hash)
{
    bool plain =
        s->options->type == GALE_VECTOR_F32 && (s->format == GALE_VECTORS_NPY || s->format == GALE_VECTORS_RAW);
    if (!count) return GALE_OK;
    if (plain) GALE_TRY(put(s, vectors, count * (size_t)s->dims * sizeof *vectors));
    else GALE_TRY(add_chunks(s, vectors, texts, count));
    gale__mutex_lock(&s->lock);
    s->rows += count;
    s->bytes += s->pending;
    s->pending = 0;
    s->input_hash = input_hash;
    gale_status status = s->save_status;
    gale__mutex_unlock(&s->lock);
    if (s->journal && !s->saving) {
        GALE_TRY(gale__thread_begin(&s->saver, run_saver, s));
        s->saving = true;
    }
    return status == GALE_OK ? GALE_OK : gale__fail(status, "%s", s->save_message);
}

gale_status gale__vector_sink_end(gale__vector_sink *s)
{
    char header[HEADER];
    stop_saver(s);
    if (s->options->write) return GALE_OK;
    if (s->format == GALE_VECTORS_NPY) {
        make_header(s, header);
        GALE_TRY(gale__file_patch(&s->file, 0, header, sizeof header));
    }
    GALE_TRY(gale__file_end(&s->file));
    if (s->journal && gale__file_exists(s->journal)) GALE_TRY(gale__file_remove(s->journal));
    return GALE_OK;
}

void gale__vector_sink_close(gale__vector_sink *s)
{
    if (!s->options) return; /* not opened at all */
    stop_saver(s);
    if (s->journal && gale__file_exists(s->journal)) gale__file_keep(&s->file);
    else gale__file_drop(&s->file);
    gale__free(s->journal);
    s->journal = NULL;
    gale__cond_finish(&s->wake);
    gale__mutex_finish(&s->lock);
}
