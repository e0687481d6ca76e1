/* A buffer that holds at least one record.  Lines are found by memchr; CSV tracks quotes, since a quoted field may
 * contain line breaks.  libcsv would copy every field byte by byte; here only the field that is embedded is read. */
#include "text/records.h"
#include "base/json.h"
#include "text/footprint.h"
#include "text/text_file.h"
#include <string.h>

enum { PIECE = 1 << 20 };

struct gale__records {
    gale__records_options options;
    gale__record_kind kind; /* of the file at hand */
    size_t file;            /* the next one to open */
    gale__text_file *in;
    char *buffer;
    size_t at, have, capacity;
    bool over; /* all of the file is in the buffer */
    uint64_t line, cut, taken;
    int64_t column;    /* of CSV, from 0; -1: not found yet */
    gale__arena arena; /* of a JSON object */
    gale__str field;   /* a field of CSV without its quotes */
};

static bool ends_with(const char *name, size_t n, const char *end)
{
    size_t m = strlen(end);
    return n >= m && !memcmp(name + n - m, end, m);
}

static gale__record_kind kind_by_name(const char *name)
{
    size_t n = strlen(name);
    if (ends_with(name, n, ".gz")) n -= 3;
    else if (ends_with(name, n, ".zst")) n -= 4;
    if (ends_with(name, n, ".jsonl") || ends_with(name, n, ".ndjson")) return GALE__RECORDS_JSONL;
    if (ends_with(name, n, ".csv")) return GALE__RECORDS_CSV;
    return ends_with(name, n, ".tsv") ? GALE__RECORDS_TSV : GALE__RECORDS_LINES;
}

static gale__record_kind kind_of(const gale__records *r, const char *name)
{
    gale__record_kind kind = r->options.kind == GALE__RECORDS_AUTO ? kind_by_name(name) : r->options.kind;
    return kind == GALE__RECORDS_TSV && r->options.pairs ? GALE__RECORDS_LINES : kind;
}

static const char *name_of(const gale__records *r)
{
    const char *name = r->options.files[r->file - 1];
    return strcmp(name, "-") ? name : "standard input";
}

gale_status gale__records_open(const gale__records_options *options, gale__records **out)
{
    gale__records *r = gale__calloc(1, sizeof *r);
    if (!r) return GALE_NO_MEMORY;
    r->options = *options;
    *out = r;
    return GALE_OK;
}

void gale__records_close(gale__records **records)
{
    gale__records *r = *records;
    if (!r) return;
    gale__text_file_close(&r->in);
    gale__arena_finish(&r->arena);
    gale__str_finish(&r->field);
    gale__free(r->buffer);
    gale__free(r);
    *records = NULL;
}

uint64_t gale__records_cut(const gale__records *r) { return r->cut; }
uint64_t gale__records_taken(const gale__records *r) { return r->taken + (r->in ? gale__text_file_taken(r->in) : 0); }

/* More bytes behind those that are there. */
static gale_status more(gale__records *r)
{
    size_t got = 0;
    if (r->at) {
        memmove(r->buffer, r->buffer + r->at, r->have - r->at);
        r->have -= r->at;
        r->at = 0;
    }
    GALE_TRY(gale__grow((void **)&r->buffer, &r->capacity, r->have + PIECE + 1, 1));
    while (got < PIECE / 2) {
        size_t n;
        GALE_TRY(gale__text_file_read(r->in, r->buffer + r->have + got, PIECE - got, &n));
        if (!n) break;
        got += n;
    }
    r->have += got;
    r->over = !got;
    return GALE_OK;
}

static gale_status next_file(gale__records *r)
{
    r->taken = gale__records_taken(r);
    gale__text_file_close(&r->in);
    if (r->file == r->options.count) return GALE_OK;
    GALE_TRY(gale__text_file_open(r->options.files[r->file], &r->in));
    r->kind = kind_of(r, r->options.files[r->file++]);
    r->at = r->have = 0;
    r->line = 0;
    r->column = -1;
    GALE_TRY(more(r));
    if (r->have >= 3 && !memcmp(r->buffer, "\xef\xbb\xbf", 3)) r->at = 3;
    return GALE_OK;
}

/* The end of a CSV record: the first end of a line outside of quotes.  NULL: not in the buffer. */
static char *find_csv_end(const gale__records *r, size_t *from, bool *quoted)
{
    for (size_t i = *from; i < r->have; i++) {
        char c = r->buffer[i];
        if (c == '"') *quoted = !*quoted;
        else if (c == '\n' && !*quoted) return r->buffer + i;
    }
    *from = r->have;
    return NULL;
}

/* The bytes of the next record without the end of its line.  A line that is far too long is passed over from where it
 * is cut, piece by piece, so that memory stays flat. */
static gale_status next_raw(gale__records *r, char **text, size_t *size)
{
    bool quoted = false;
    size_t seen = r->at, kept = 0;
    for (;;) {
        char *end = r->kind == GALE__RECORDS_CSV ? find_csv_end(r, &seen, &quoted)
                                                 : memchr(r->buffer + seen, '\n', r->have - seen);
        size_t length = (end ? (size_t)(end - r->buffer) : r->have) - r->at;
        if (end || r->over) {
            *text = length || end ? r->buffer + r->at : NULL;
            *size = kept ? kept : length;
            r->at += length + (end != NULL);
            break;
        }
        if (length > GALE__RECORD_BYTES) {
            kept = GALE__RECORD_BYTES;
            r->have = r->at + kept;
        }
        seen = r->have - r->at;
        GALE_TRY(more(r));
    }
    r->line++;
    r->cut += kept > 0;
    if (*text && *size && !kept && (*text)[*size - 1] == '\r') --*size;
    return GALE_OK;
}

static gale_status wrong(const gale__records *r, const char *what)
{
    return gale__fail(GALE_FORMAT, "%s, record %llu: %s", name_of(r), (unsigned long long)r->line, what);
}

static gale_status take_json(gale__records *r, const char **text, size_t *size)
{
    gale__json *object;
    const char *key = r->options.field ? r->options.field : "text";
    gale__arena_finish(&r->arena);
    gale_status status = gale__json_parse_with_zeros(&r->arena, *text, *size, &object);
    if (status == GALE_NO_MEMORY) return status;
    if (status != GALE_OK || object->kind != GALE__JSON_OBJECT)
        return wrong(r, status == GALE_OK ? "not a JSON object" : gale_error());
    const gale__json *value = gale__json_get(object, key);
    if (!value || value->kind != GALE__JSON_STRING)
        return gale__fail(GALE_FORMAT, "%s, record %llu: %s \"%s\"; use --field to name another", name_of(r),
            (unsigned long long)r->line, value ? "no string under the key" : "no key", key);
    *text = value->string;
    *size = value->string_size;
    return GALE_OK;
}

static gale_status take_footprint(gale__records *r, const char **text, size_t *size)
{
    gale__json *object;
    gale__arena_finish(&r->arena);
    gale_status status = gale__json_parse(&r->arena, *text, *size, &object);
    if (status == GALE_NO_MEMORY) return status;
    if (status != GALE_OK || object->kind != GALE__JSON_OBJECT)
        return wrong(r, status == GALE_OK ? "not a JSON object" : gale_error());
    r->field.length = 0;
    gale__str_add_n(&r->field, "", 0);
    gale__footprint_add(object, &r->field);
    *text = gale__str_text(&r->field);
    *size = r->field.length;
    return gale__str_check(&r->field);
}

/* The field at *at, which is moved after it: at the separator, or at the end. */
static gale_status take_field(gale__records *r, const char **at, const char *end, char separator)
{
    bool quotes = separator == ',' && *at < end && **at == '"';
    r->field.length = 0;
    gale__str_add_n(&r->field, "", 0);
    if (!quotes) {
        const char *stop = memchr(*at, separator, (size_t)(end - *at));
        if (!stop) stop = end;
        gale__str_add_n(&r->field, *at, (size_t)(stop - *at));
        *at = stop;
        return gale__str_check(&r->field);
    }
    for (++*at; *at < end; ++*at) {
        if (**at == '"' && (*at + 1 == end || (*at)[1] != '"')) break;
        if (**at == '"') ++*at;
        gale__str_add_n(&r->field, *at, 1);
    }
    if (*at >= end) return wrong(r, "unterminated quoted field");
    while (*at < end && **at != separator) ++*at;
    return gale__str_check(&r->field);
}

static gale_status find_column(gale__records *r, const char *text, size_t size)
{
    const char *at = text, *end = text + size, *want = r->options.field ? r->options.field : "text";
    char separator = r->kind == GALE__RECORDS_CSV ? ',' : '\t';
    for (int64_t i = 0;; i++) {
        GALE_TRY(take_field(r, &at, end, separator));
        if (r->field.length == strlen(want) && !memcmp(gale__str_text(&r->field), want, r->field.length))
            return r->column = i, GALE_OK;
        if (at >= end) break;
        at++;
    }
    return gale__fail(GALE_FORMAT,
        "%s: the first record has no column \"%s\"; use --field NAME, or --field N (from 1) if there is no header",
        name_of(r), want);
}

static gale_status take_column(gale__records *r, const char **text, size_t *size)
{
    const char *at = *text, *end = *text + *size;
    char separator = r->kind == GALE__RECORDS_CSV ? ',' : '\t';
    for (int64_t i = 0;; i++) {
        GALE_TRY(take_field(r, &at, end, separator));
        if (i == r->column) break;
        if (at >= end) return wrong(r, "has too few fields");
        at++;
    }
    *text = gale__str_text(&r->field);
    *size = r->field.length;
    return GALE_OK;
}

gale_status gale__records_next(gale__records *r, const char **text, size_t *size)
{
    int64_t number;
    bool numbered = r->options.field && gale__text_to_i64(r->options.field, &number) && number > 0;
    for (;;) {
        char *raw = NULL;
        if (r->in) GALE_TRY(next_raw(r, &raw, size));
        *text = raw;
        if (!raw) {
            GALE_TRY(next_file(r));
            if (!r->in) return *text = NULL, GALE_OK;
            continue;
        }
        if (r->kind == GALE__RECORDS_JSONL && !r->options.whole) return take_json(r, text, size);
        if (r->kind == GALE__RECORDS_FOOTPRINT) return take_footprint(r, text, size);
        if (r->kind != GALE__RECORDS_CSV && r->kind != GALE__RECORDS_TSV) return GALE_OK;
        if (r->column < 0 && numbered) r->column = number - 1;
        if (r->column >= 0) return take_column(r, text, size);
        GALE_TRY(find_column(r, *text, *size));
    }
}
