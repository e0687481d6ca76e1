/* Messages as bytes, by the tables they were read with (by hand for the reasons in read.c).  One walk writes and, asked
 * only to count, finds the lengths that stand in front of sub-messages; nothing is kept in between, so a model's
 * tensors pass through a small buffer from file to file. */
#include "onnx/wire/write.h"
#include <string.h>

enum { FLUSH = 64 << 10, PIECE = 1 << 20 };
enum { WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_32 = 5 };

typedef struct writer {
    gale__onnx *file;
    const gale__pb_swap *swaps;
    size_t n_swaps;
    gale__str *text;     /* NULL: count only */
    gale__file_out *out; /* where text goes when it is long; NULL: nowhere */
    uint64_t total;      /* when counting */
    gale_status status;
} writer;

static void write_message(writer *w, gale__pb_which which, const void *message);

static void put(writer *w, const void *data, size_t size)
{
    if (!w->text) {
        w->total += size;
        return;
    }
    if (w->status != GALE_OK) return;
    gale__str_add_n(w->text, data, size);
    w->status = gale__str_check(w->text);
    if (w->status != GALE_OK || !w->out || w->text->length < FLUSH) return;
    w->status = gale__file_add(w->out, w->text->text, w->text->length);
    w->text->length = 0;
}

static void put_varint(writer *w, uint64_t v)
{
    uint8_t bytes[10];
    size_t n = 0;
    for (; v >= 0x80; v >>= 7) bytes[n++] = (uint8_t)(v | 0x80);
    bytes[n++] = (uint8_t)v;
    put(w, bytes, n);
}

static void put_tag(writer *w, const gale__pb_field *f, int wire)
{
    put_varint(w, (uint64_t)f->number << 3 | (unsigned)wire);
}

static int scalar_wire(const gale__pb_field *f)
{
    return f->kind == GALE__PB_F32 ? WIRE_32 : f->kind == GALE__PB_F64 ? WIRE_64 : WIRE_VARINT;
}

static void put_scalar(writer *w, const gale__pb_field *f, const void *at)
{
    int32_t narrow;
    uint64_t wide;
    if (scalar_wire(f) != WIRE_VARINT) {
        put(w, at, gale__pb_item_bytes(f));
    } else if (f->kind == GALE__PB_I32) {
        memcpy(&narrow, at, sizeof narrow);
        put_varint(w, (uint64_t)(int64_t)narrow);
    } else {
        memcpy(&wide, at, sizeof wide);
        put_varint(w, wide);
    }
}

static void put_packed(writer *w, const gale__pb_field *f, const gale__pb_list *l)
{
    writer count = {.file = w->file};
    size_t bytes = gale__pb_item_bytes(f);
    for (size_t i = 0; i < l->n; i++) put_scalar(&count, f, (const char *)l->at + i * bytes);
    put_tag(w, f, WIRE_BYTES);
    put_varint(w, count.total);
    for (size_t i = 0; i < l->n; i++) put_scalar(w, f, (const char *)l->at + i * bytes);
}

static void put_message(writer *w, const gale__pb_field *f, const void *message)
{
    writer count = {.file = w->file, .swaps = w->swaps, .n_swaps = w->n_swaps};
    if (w->status != GALE_OK) return;
    write_message(&count, f->message, message);
    put_tag(w, f, WIRE_BYTES);
    put_varint(w, count.total);
    if (w->text) write_message(w, f->message, message);
    else w->total += count.total;
}

static void put_text(writer *w, const gale__pb_field *f, const gale__pb_text *text)
{
    put_tag(w, f, WIRE_BYTES);
    put_varint(w, text->size);
    put(w, text->at, text->size);
}

gale_status gale__pb_place_copy(
    const gale__pb_place *place, gale_status (*to)(void *user, const void *data, size_t size), void *user)
{
    size_t most = place->size < PIECE ? (size_t)place->size : PIECE;
    void *piece = gale__alloc(most);
    gale_status status = piece ? GALE_OK : GALE_NO_MEMORY;
    for (uint64_t at = 0; at < place->size && status == GALE_OK; at += most) {
        size_t n = place->size - at < most ? (size_t)(place->size - at) : most;
        status = gale__pb_place_read(place, at, n, piece);
        if (status == GALE_OK) status = to(user, piece, n);
    }
    gale__free(piece);
    return status;
}

static gale_status add_piece(void *user, const void *data, size_t size)
{
    writer *w = user;
    put(w, data, size);
    return w->status;
}

static void put_raw(writer *w, const gale__pb_field *f, const gale__pb_tensor *tensor, const gale__pb_swap *swap)
{
    gale__pb_place place = {0};
    if (!swap && (tensor->raw_data.at || !tensor->raw_data.size)) {
        put_text(w, f, &tensor->raw_data);
        return;
    }
    put_tag(w, f, WIRE_BYTES);
    put_varint(w, tensor->raw_data.size);
    if (!w->text) {
        w->total += tensor->raw_data.size;
        return;
    }
    if (w->status != GALE_OK) return;
    if (swap) place = swap->place;
    else w->status = gale__onnx_place(w->file, tensor, &place);
    if (w->status == GALE_OK) w->status = gale__pb_place_copy(&place, add_piece, w);
}

static void put_list(writer *w, const gale__pb_field *f, const void *at)
{
    gale__pb_list l;
    memcpy(&l, at, sizeof l);
    if (!l.n) return;
    if (f->packed) {
        put_packed(w, f, &l);
        return;
    }
    for (size_t i = 0; i < l.n; i++) {
        const void *item = (const char *)l.at + i * gale__pb_item_bytes(f);
        if (f->kind == GALE__PB_MESSAGE) put_message(w, f, item);
        else if (f->kind == GALE__PB_TEXT) put_text(w, f, item);
        else {
            put_tag(w, f, scalar_wire(f));
            put_scalar(w, f, item);
        }
    }
}

/* What was in the file, and what has been set since. */
static bool is_there(const gale__pb_field *f, const void *message, bool present)
{
    const char *at = (const char *)message + f->offset;
    static const char zeros[16];
    if (f->flag) return *((const bool *)message + f->flag);
    if (f->kind == GALE__PB_MESSAGE) return memcmp(at, zeros, sizeof(void *)) != 0;
    if (f->kind == GALE__PB_TEXT || f->kind == GALE__PB_RAW) return present || ((const gale__pb_text *)at)->size;
    return present || memcmp(at, zeros, gale__pb_item_bytes(f)) != 0;
}

static const gale__pb_swap *find_swap(const writer *w, const void *tensor)
{
    size_t low = 0, high = w->n_swaps;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)w->swaps[middle].of < (uintptr_t)tensor) low = middle + 1;
        else high = middle;
    }
    return low < w->n_swaps && w->swaps[low].of == tensor ? &w->swaps[low] : NULL;
}

static void write_message(writer *w, gale__pb_which which, const void *message)
{
    const gale__pb_table *t = &gale__pb_tables[which];
    const gale__pb_swap *swap = which == GALE__PB_IS_tensor && w->n_swaps ? find_swap(w, message) : NULL;
    if (swap) message = &swap->as;
    const gale__pb_head *head = message;
    for (int i = 0; i < t->n_fields && w->status == GALE_OK; i++) {
        const gale__pb_field *f = &t->fields[i];
        const void *at = (const char *)message + f->offset, *sub;
        if (f->list) put_list(w, f, at);
        else if (!is_there(f, message, head->present >> i & 1)) continue;
        else if (f->kind == GALE__PB_TEXT) put_text(w, f, at);
        else if (f->kind == GALE__PB_RAW) put_raw(w, f, message, swap);
        else if (f->kind == GALE__PB_MESSAGE) {
            memcpy(&sub, at, sizeof sub);
            put_message(w, f, sub);
        } else {
            put_tag(w, f, scalar_wire(f));
            put_scalar(w, f, at);
        }
    }
    for (size_t i = 0; i < head->unknown.n; i++) put(w, head->unknown.at[i].at, head->unknown.at[i].size);
}

gale_status gale__onnx_encode(gale__onnx *file, gale__pb_kind kind, const void *message, gale__str *out)
{
    writer w = {.file = file, .text = out};
    write_message(&w, gale__pb_of_kind(kind), message);
    return w.status;
}

uint64_t gale__pb_size(
    gale__onnx *file, gale__pb_which which, const void *message, const gale__pb_swap *swaps, size_t n_swaps)
{
    writer w = {.file = file, .swaps = swaps, .n_swaps = n_swaps};
    write_message(&w, which, message);
    return w.total;
}

gale_status gale__pb_write(gale__onnx *file, gale__pb_which which, const void *message, const gale__pb_swap *swaps,
    size_t n_swaps, gale__str *text, gale__file_out *out)
{
    gale__str buffer = {0};
    writer w = {.file = file, .swaps = swaps, .n_swaps = n_swaps, .text = out ? &buffer : text, .out = out};
    write_message(&w, which, message);
    if (w.status == GALE_OK && buffer.length) w.status = gale__file_add(out, buffer.text, buffer.length);
    gale__str_finish(&buffer);
    return w.status;
}
