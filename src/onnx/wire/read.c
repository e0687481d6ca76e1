/* Protocol buffers, read by hand: one walk for all messages, over the tables of schema.c.  Libraries read a
 * file as a whole, weights included, and need code generated from ONNX's description: all-MiniLM-L6-v2 takes 95 ms and
 * 173 MB (onnx 1.23, upb), here 10 ms and 1 MB (`gale inspect`, a Granite Rapids core, 17 November 2026).
 *
 * Each message is walked twice: first hopping over what is inside to count, then reading into lists of exactly that
 * size.  So nothing grows, memory is bounded before it is taken, and large tensor data is never touched.  A file may
 * change between the two walks, so the second one checks too. */
#include "onnx/wire/model_file.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    WINDOW = 64 << 10,
    WINDOW_FAR = 4 << 10,
    DEPTH = 64,
    RAW_KEPT = 4 << 10,
    ARENA_FLOOR = 1 << 20,
    ARENA_PER_BYTE = 64
};
enum { WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_GROUP, WIRE_GROUP_END, WIRE_32 };

typedef struct reader {
    const gale__pb_source *source;
    gale__arena *arena;
    uint64_t at;           /* next byte */
    const uint8_t *window; /* bytes low to high of the source */
    uint64_t low, high;
    uint8_t *buffer;
    uint64_t used, most; /* bytes of the arena */
    int depth;
    struct {
        const gale__pb_field *field;
        size_t index;
    } path[DEPTH + 1];
} reader;

static void path_text(const reader *r, char *text, size_t size)
{
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; i <= r->depth && n + 1 < size; i++) {
        const gale__pb_field *f = r->path[i].field;
        if (!f) break;
        int more = f->list ? snprintf(text + n, size - n, "%s%s[%zu]", i ? "." : ", ", f->name, r->path[i].index)
                           : snprintf(text + n, size - n, "%s%s", i ? "." : ", ", f->name);
        n += more > 0 ? (size_t)more : 0;
    }
    if (n >= size) snprintf(text + size - 4, 4, "...");
}

static gale_status fail(const reader *r, gale_status status, const char *format, ...) GALE__PRINTF(3, 4);
static gale_status fail(const reader *r, gale_status status, const char *format, ...)
{
    char path[256], text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    path_text(r, path, sizeof path);
    return gale__fail(status, "%s%s: %s", r->source->name, path, text);
}

/* --- Bytes. --- */

/* Brings the next byte into the window.  After a jump little is wanted: often the next jump. */
static gale_status fill(reader *r)
{
    uint64_t want = r->at == r->high ? WINDOW : WINDOW_FAR;
    if (want > r->source->size - r->at) want = r->source->size - r->at;
    r->low = r->high = 0;
    GALE_TRY(gale__pb_source_read(r->source, r->at, (size_t)want, r->buffer));
    r->low = r->at;
    r->high = r->at + want;
    return GALE_OK;
}

static inline gale_status get_byte(reader *r, uint64_t end, uint8_t *out)
{
    if (r->at >= end)
        return fail(
            r, GALE_FORMAT, "not an ONNX file, or damaged: unexpected end at byte %llu", (unsigned long long)r->at);
    if (r->at < r->low || r->at >= r->high) GALE_TRY(fill(r));
    *out = r->window[r->at++ - r->low];
    return GALE_OK;
}

static gale_status get_varint(reader *r, uint64_t end, uint64_t *out)
{
    uint64_t v = 0;
    for (int i = 0; i < 10; i++) {
        uint8_t b = 0;
        GALE_TRY(get_byte(r, end, &b));
        v |= (uint64_t)(b & 0x7f) << (7 * i);
        if (b < 0x80) return *out = v, GALE_OK;
    }
    return fail(r, GALE_FORMAT, "not an ONNX file, or damaged: invalid number at byte %llu", (unsigned long long)r->at);
}

static gale_status get_bytes(reader *r, uint64_t end, size_t size, void *to)
{
    if (size > end - r->at)
        return fail(r, GALE_FORMAT, "not an ONNX file, or damaged: %zu bytes needed, %llu left", size,
            (unsigned long long)(end - r->at));
    for (uint8_t *p = to; size;) {
        if (r->at < r->low || r->at >= r->high) {
            if (size >= WINDOW) { /* past the window, which could only slow it down */
                GALE_TRY(gale__pb_source_read(r->source, r->at, size, p));
                r->at += size;
                return GALE_OK;
            }
            GALE_TRY(fill(r));
        }
        size_t n = (size_t)(r->high - r->at) < size ? (size_t)(r->high - r->at) : size;
        memcpy(p, r->window + (r->at - r->low), n);
        p += n;
        size -= n;
        r->at += n;
    }
    return GALE_OK;
}

static gale_status get_tag(reader *r, uint64_t end, uint32_t *number, int *wire)
{
    uint64_t tag = 0;
    GALE_TRY(get_varint(r, end, &tag));
    if (tag > UINT32_MAX || tag < 8)
        return fail(r, GALE_FORMAT, "not an ONNX file, or damaged: invalid field %llu at byte %llu",
            (unsigned long long)(tag >> 3), (unsigned long long)r->at);
    *number = (uint32_t)(tag >> 3);
    *wire = (int)(tag & 7);
    if (*wire == WIRE_GROUP || *wire == WIRE_GROUP_END)
        return fail(r, GALE_UNSUPPORTED, "not an ONNX file, or damaged: field %u is a group", *number);
    if (*wire > WIRE_32)
        return fail(r, GALE_FORMAT, "not an ONNX file, or damaged: field %u has wire type %d", *number, *wire);
    return GALE_OK;
}

/* The end of what has a length in front. */
static gale_status get_end(reader *r, uint64_t end, uint64_t *stop)
{
    uint64_t length = 0;
    GALE_TRY(get_varint(r, end, &length));
    if (length > end - r->at)
        return fail(r, GALE_FORMAT,
            "not an ONNX file, or damaged: a length of %llu bytes, but %llu are left, at byte %llu",
            (unsigned long long)length, (unsigned long long)(end - r->at), (unsigned long long)r->at);
    *stop = r->at + length;
    return GALE_OK;
}

static gale_status skip(reader *r, uint64_t end, int wire)
{
    uint64_t value = 0;
    if (wire == WIRE_VARINT) return get_varint(r, end, &value);
    if (wire == WIRE_BYTES) {
        GALE_TRY(get_end(r, end, &value));
        r->at = value;
        return GALE_OK;
    }
    unsigned size = wire == WIRE_64 ? 8 : 4;
    if (size > end - r->at)
        return fail(
            r, GALE_FORMAT, "not an ONNX file, or damaged: unexpected end at byte %llu", (unsigned long long)r->at);
    r->at += size;
    return GALE_OK;
}

/* --- Memory. --- */

/* A few bytes of file can stand for a large struct; a file that is mostly such is not a model. */
static gale_status take(reader *r, size_t size, void **out)
{
    if (size > r->most - r->used)
        return fail(r, GALE_LIMIT,
            "not an ONNX file, or damaged: it needs more than %d bytes of memory for each byte of the file",
            ARENA_PER_BYTE);
    r->used += size;
    *out = gale__arena_alloc(r->arena, size);
    return *out ? GALE_OK : GALE_NO_MEMORY;
}

static gale_status reserve(reader *r, void *list, size_t item_bytes, size_t more)
{
    gale__pb_list l;
    size_t n, bytes;
    memcpy(&l, list, sizeof l);
    if (gale__add_size(l.n, more, &n) || gale__mul_size(n, item_bytes, &bytes)) bytes = SIZE_MAX;
    void *at = NULL;
    GALE_TRY(take(r, bytes, &at));
    if (l.n) memcpy(at, l.at, l.n * item_bytes);
    l.at = at;
    memcpy(list, &l, sizeof l);
    return GALE_OK;
}

/* The next free item of a list for which `*room` were counted. */
static gale_status append(reader *r, void *list, size_t item_bytes, size_t *room, void **item)
{
    gale__pb_list l;
    if (!*room) return fail(r, GALE_IO, "changed while it was read");
    --*room;
    memcpy(&l, list, sizeof l);
    *item = (char *)l.at + l.n++ * item_bytes;
    memcpy(list, &l, sizeof l);
    return GALE_OK;
}

/* --- Values. --- */

static int wire_of(const gale__pb_field *f)
{
    switch (f->kind) {
    case GALE__PB_I32:
    case GALE__PB_I64:
    case GALE__PB_U64: return WIRE_VARINT;
    case GALE__PB_F32: return WIRE_32;
    case GALE__PB_F64: return WIRE_64;
    default: return WIRE_BYTES;
    }
}

static gale_status read_scalar(reader *r, uint64_t end, const gale__pb_field *f, void *to)
{
    if (wire_of(f) != WIRE_VARINT) return get_bytes(r, end, gale__pb_item_bytes(f), to);
    uint64_t v = 0;
    GALE_TRY(get_varint(r, end, &v));
    memcpy(to, &v, gale__pb_item_bytes(f));
    return GALE_OK;
}

static gale_status read_text(reader *r, uint64_t stop, gale__pb_text *to)
{
    size_t size = (size_t)(stop - r->at);
    void *text = NULL;
    if (size) {
        GALE_TRY(take(r, size + 1, &text));
        GALE_TRY(get_bytes(r, stop, size, text));
    }
    *to = (gale__pb_text){size ? text : "", size};
    return GALE_OK;
}

static gale_status read_raw(reader *r, uint64_t stop, gale__pb_tensor *tensor)
{
    if (stop - r->at <= RAW_KEPT) return read_text(r, stop, &tensor->raw_data);
    tensor->raw_data = (gale__pb_text){NULL, (size_t)(stop - r->at)};
    tensor->raw_offset = r->at;
    r->at = stop;
    return GALE_OK;
}

/* --- Messages. --- */

static gale_status read_message(reader *r, uint64_t end, gale__pb_which which, void *message);

static const gale__pb_field *find_field(const gale__pb_table *t, uint32_t number)
{
    for (int i = 0; i < t->n_fields; i++)
        if (t->fields[i].number == number) return &t->fields[i];
    return NULL;
}

static gale_status count_packed(reader *r, uint64_t end, const gale__pb_field *f, size_t *n)
{
    uint64_t stop = 0;
    GALE_TRY(get_end(r, end, &stop));
    uint8_t b = 0;
    if (wire_of(f) == WIRE_VARINT) {
        for (; r->at < stop; *n += b < 0x80) GALE_TRY(get_byte(r, stop, &b));
    } else {
        *n += (size_t)((stop - r->at) / gale__pb_item_bytes(f));
        b = (stop - r->at) % gale__pb_item_bytes(f) ? 0x80 : 0;
        r->at = stop;
    }
    return b < 0x80 ? GALE_OK : fail(r, GALE_FORMAT, "not an ONNX file, or damaged: unexpected end");
}

/* The first walk: how many values each list gets; room[n_fields] counts unknown fields. */
static gale_status count_values(reader *r, uint64_t end, const gale__pb_table *t, void *message, size_t *room)
{
    uint64_t start = r->at;
    while (r->at < end) {
        uint32_t number = 0;
        int wire = 0;
        GALE_TRY(get_tag(r, end, &number, &wire));
        const gale__pb_field *f = find_field(t, number);
        size_t *n = &room[f ? f - t->fields : t->n_fields];
        r->path[r->depth].field = f;
        r->path[r->depth].index = *n;
        if (f && f->list && wire == WIRE_BYTES && wire_of(f) != WIRE_BYTES) {
            GALE_TRY(count_packed(r, end, f, n));
        } else {
            GALE_TRY(skip(r, end, wire));
            ++*n;
        }
    }
    r->at = start;
    r->path[r->depth].field = NULL;
    for (int i = 0; i < t->n_fields; i++)
        if (room[i] && t->fields[i].list)
            GALE_TRY(reserve(r, (char *)message + t->fields[i].offset, gale__pb_item_bytes(&t->fields[i]), room[i]));
    gale__pb_head *head = message;
    return room[t->n_fields] ? reserve(r, &head->unknown, sizeof(gale__pb_text), room[t->n_fields]) : GALE_OK;
}

static gale_status read_unknown(reader *r, uint64_t start, uint64_t end, int wire, gale__pb_head *head, size_t *room)
{
    void *item = NULL;
    GALE_TRY(skip(r, end, wire));
    GALE_TRY(append(r, &head->unknown, sizeof(gale__pb_text), room, &item));
    uint64_t stop = r->at;
    r->at = start;
    return read_text(r, stop, item);
}

/* Of a choice the last one stays. */
static void clear_others(const gale__pb_table *t, const gale__pb_field *f, void *message)
{
    gale__pb_head *head = message;
    for (int i = 0; i < t->n_fields; i++) {
        const gale__pb_field *other = &t->fields[i];
        if (other == f || other->choice != f->choice) continue;
        head->present &= ~(1ull << i);
        memset((char *)message + other->offset, 0,
            other->kind == GALE__PB_MESSAGE ? sizeof(void *) : gale__pb_item_bytes(other));
        if (other->flag) *((bool *)message + other->flag) = false;
    }
}

static gale_status read_submessage(reader *r, uint64_t stop, const gale__pb_field *f, void *to)
{
    if (r->depth >= DEPTH)
        return fail(r, GALE_LIMIT, "not an ONNX file, or damaged: messages are nested more than %d levels deep", DEPTH);
    r->path[++r->depth].field = NULL;
    gale_status status = read_message(r, stop, f->message, to);
    if (status == GALE_OK) r->depth--; /* else the place has been told already */
    return status;
}

static gale_status read_list_value(reader *r, uint64_t end, const gale__pb_field *f, int wire, void *list, size_t *room)
{
    void *item = NULL;
    size_t bytes = gale__pb_item_bytes(f);
    gale__pb_list l;
    memcpy(&l, list, sizeof l);
    r->path[r->depth].index = l.n;
    uint64_t stop = end;
    if (wire == WIRE_BYTES) GALE_TRY(get_end(r, end, &stop));
    if (wire == WIRE_BYTES && wire_of(f) != WIRE_BYTES) {
        while (r->at < stop) {
            GALE_TRY(append(r, list, bytes, room, &item));
            GALE_TRY(read_scalar(r, stop, f, item));
        }
        return GALE_OK;
    }
    GALE_TRY(append(r, list, bytes, room, &item));
    if (f->kind == GALE__PB_MESSAGE) return read_submessage(r, stop, f, item);
    return f->kind == GALE__PB_TEXT ? read_text(r, stop, item) : read_scalar(r, stop, f, item);
}

static gale_status read_value(reader *r, uint64_t end, const gale__pb_field *f, void *message)
{
    void *to = (char *)message + f->offset, *sub;
    uint64_t stop = end;
    if (wire_of(f) == WIRE_BYTES) GALE_TRY(get_end(r, end, &stop));
    if (f->kind == GALE__PB_TEXT) return read_text(r, stop, to);
    if (f->kind == GALE__PB_RAW) return read_raw(r, stop, message);
    if (f->kind != GALE__PB_MESSAGE) return read_scalar(r, stop, f, to);
    memcpy(&sub, to, sizeof sub);
    if (!sub) { /* else what comes twice is merged */
        GALE_TRY(take(r, gale__pb_item_bytes(f), &sub));
        memcpy(to, &sub, sizeof sub);
    }
    return read_submessage(r, stop, f, sub);
}

/* Files of the first IR versions do not say of which kind an attribute is: the field that is there does. */
static void find_attribute_type(gale__pb_attribute *a, gale__pb_head *head, const gale__pb_table *t)
{
    static const struct {
        uint8_t number, type;
    } values[] = {
        {2, GALE__PB_FLOAT},
        {3, GALE__PB_INT},
        {4, GALE__PB_STRING},
        {5, GALE__PB_TENSOR},
        {6, GALE__PB_GRAPH},
        {7, GALE__PB_FLOATS},
        {8, GALE__PB_INTS},
        {9, GALE__PB_STRINGS},
        {10, GALE__PB_TENSORS},
        {11, GALE__PB_GRAPHS},
        {14, GALE__PB_TYPE},
        {15, GALE__PB_TYPES},
        {22, GALE__PB_SPARSE},
        {23, GALE__PB_SPARSES},
    };
    if (a->type || a->ref_attr_name.size) return;
    for (size_t i = 0; i < sizeof values / sizeof *values && !a->type; i++)
        if (head->present >> (find_field(t, values[i].number) - t->fields) & 1) a->type = values[i].type;
    if (a->type) head->present |= 1ull << (find_field(t, 20) - t->fields);
}

/* Nobody has to ask whether a text is there before looking at it. */
static void empty_texts(const gale__pb_table *t, void *message)
{
    for (int i = 0; i < t->n_fields; i++) {
        gale__pb_text *text = (gale__pb_text *)((char *)message + t->fields[i].offset);
        if (t->fields[i].kind == GALE__PB_TEXT && !t->fields[i].list && !text->at) text->at = "";
    }
}

static gale_status read_message(reader *r, uint64_t end, gale__pb_which which, void *message)
{
    const gale__pb_table *t = &gale__pb_tables[which];
    gale__pb_head *head = message;
    size_t room[GALE__PB_MOST_FIELDS + 1] = {0};
    GALE_TRY(count_values(r, end, t, message, room));
    while (r->at < end) {
        uint64_t start = r->at;
        uint32_t number = 0;
        int wire = 0;
        r->path[r->depth].field = NULL;
        GALE_TRY(get_tag(r, end, &number, &wire));
        const gale__pb_field *f = find_field(t, number);
        if (!f) {
            GALE_TRY(read_unknown(r, start, end, wire, head, &room[t->n_fields]));
            continue;
        }
        r->path[r->depth].field = f;
        if (wire != wire_of(f) && !(f->list && wire == WIRE_BYTES))
            return fail(r, GALE_FORMAT, "not an ONNX file, or damaged: wire type %d instead of %d", wire, wire_of(f));
        if (f->choice) clear_others(t, f, message);
        if (f->list) GALE_TRY(read_list_value(r, end, f, wire, (char *)message + f->offset, &room[f - t->fields]));
        else GALE_TRY(read_value(r, end, f, message));
        head->present |= 1ull << (f - t->fields);
        if (f->flag) *((bool *)message + f->flag) = true;
    }
    if (which == GALE__PB_IS_attribute) find_attribute_type(message, head, t);
    empty_texts(t, message);
    return GALE_OK;
}

gale_status gale__pb_read(const gale__pb_source *source, gale__pb_which which, gale__arena *arena, void **out)
{
    reader r = {.source = source, .arena = arena};
    r.most = source->size > (UINT64_MAX - ARENA_FLOOR) / ARENA_PER_BYTE ? UINT64_MAX
                                                                        : source->size * ARENA_PER_BYTE + ARENA_FLOOR;
    if (source->memory) {
        r.window = source->memory;
        r.high = source->size;
    } else {
        r.window = r.buffer = gale__alloc(WINDOW);
        if (!r.buffer) return GALE_NO_MEMORY;
    }
    void *root = NULL;
    gale_status status = take(&r, gale__pb_tables[which].size_bytes, &root);
    if (status == GALE_OK) status = read_message(&r, source->size, which, root);
    gale__free(r.buffer);
    if (status == GALE_OK) *out = root;
    return status;
}
