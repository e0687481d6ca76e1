/* Trees of messages: whether two are equal, and a walk over their tensors.  For tests and fuzzers. */
#ifndef GALE_TESTS_ONNX_TREE_H
#define GALE_TESTS_ONNX_TREE_H
#include "onnx/wire/model_file.h"
#include <string.h>

static inline bool tree_text_equal(const gale__pb_text *a, const gale__pb_text *b)
{
    return a->size == b->size && (!a->size || !memcmp(a->at, b->at, a->size));
}

static inline bool tree_raw_equal(gale__onnx *fa, const gale__pb_tensor *a, gale__onnx *fb, const gale__pb_tensor *b)
{
    gale__pb_place p = {0}, q = {0};
    char x[512], y[512];
    if (a->raw_data.size != b->raw_data.size) return false;
    if (gale__pb_is_external(a)) return true;
    if (gale__onnx_place(fa, a, &p) || gale__onnx_place(fb, b, &q)) return false;
    for (uint64_t at = 0; at < p.size; at += sizeof x) {
        size_t n = p.size - at < sizeof x ? (size_t)(p.size - at) : sizeof x;
        if (gale__pb_place_read(&p, at, n, x) || gale__pb_place_read(&q, at, n, y) || memcmp(x, y, n)) return false;
    }
    return true;
}

static inline bool tree_equal(gale__onnx *fa, gale__onnx *fb, gale__pb_which which, const void *a, const void *b)
{
    const gale__pb_table *t = &gale__pb_tables[which];
    const gale__pb_head *x = a, *y = b;
    if (x->unknown.n != y->unknown.n) return false;
    for (size_t i = 0; i < x->unknown.n; i++)
        if (!tree_text_equal(&x->unknown.at[i], &y->unknown.at[i])) return false;
    for (int i = 0; i < t->n_fields; i++) {
        const gale__pb_field *f = &t->fields[i];
        const char *p = (const char *)a + f->offset, *q = (const char *)b + f->offset;
        gale__pb_list l = {(void *)p, 1}, k = {(void *)q, 1};
        size_t item = gale__pb_item_bytes(f);
        if (f->list) {
            memcpy(&l, p, sizeof l);
            memcpy(&k, q, sizeof k);
        } else {
            if ((x->present ^ y->present) >> i & 1) return false;
            if (f->kind == GALE__PB_MESSAGE) {
                memcpy(&l.at, p, sizeof l.at);
                memcpy(&k.at, q, sizeof k.at);
                if (!l.at != !k.at) return false;
                if (!l.at) continue;
            }
        }
        if (l.n != k.n) return false;
        for (size_t n = 0; n < l.n; n++) {
            const void *u = (const char *)l.at + n * item, *v = (const char *)k.at + n * item;
            if (f->kind == GALE__PB_RAW       ? !tree_raw_equal(fa, a, fb, b)
                : f->kind == GALE__PB_TEXT    ? !tree_text_equal(u, v)
                : f->kind == GALE__PB_MESSAGE ? !tree_equal(fa, fb, f->message, u, v)
                                              : memcmp(u, v, item) != 0)
                return false;
        }
    }
    return true;
}

/* Calls for each tensor and each sparse tensor (then tensor is NULL). */
static inline void tree_tensors(gale__pb_which which, const void *message,
    void (*fn)(void *user, const gale__pb_tensor *tensor, const gale__pb_sparse *sparse), void *user)
{
    const gale__pb_table *t = &gale__pb_tables[which];
    if (which == GALE__PB_IS_tensor) fn(user, message, NULL);
    if (which == GALE__PB_IS_sparse) fn(user, NULL, message);
    for (int i = 0; i < t->n_fields; i++) {
        const gale__pb_field *f = &t->fields[i];
        gale__pb_list l = {NULL, 1};
        if (f->kind != GALE__PB_MESSAGE) continue;
        memcpy(&l, (const char *)message + f->offset, f->list ? sizeof l : sizeof l.at);
        for (size_t n = 0; l.at && n < l.n; n++)
            tree_tensors(f->message, (const char *)l.at + n * gale__pb_item_bytes(f), fn, user);
    }
}

typedef struct tree_decoded {
    gale__onnx *file;
    int good, bad;
} tree_decoded;
static inline void tree_decode_one(void *user, const gale__pb_tensor *tensor, const gale__pb_sparse *sparse)
{
    tree_decoded *d = user;
    gale_tensor *t = NULL;
    gale_status status = tensor ? gale__onnx_tensor(d->file, tensor, &t) : gale__onnx_sparse(d->file, sparse, &t);
    if (status == GALE_OK) d->good++;
    else d->bad++;
    gale_tensor_destroy(&t);
}
static inline tree_decoded tree_decode(gale__onnx *file)
{
    tree_decoded d = {.file = file};
    tree_tensors(gale__pb_of_kind(file->kind), file->root, tree_decode_one, &d);
    return d;
}

/* Encodes, reads again, compares: GALE_MISMATCH when the trees differ. */
static inline gale_status tree_round_trip(gale__onnx *file, gale__str *bytes)
{
    gale__onnx *again = NULL;
    GALE_TRY(gale__onnx_encode(file, file->kind, file->root, bytes));
    GALE_TRY(gale__onnx_parse(gale__str_text(bytes), bytes->length, false, NULL, file->kind, &again));
    bool same = tree_equal(file, again, gale__pb_of_kind(file->kind), file->root, again->root);
    gale__onnx_close(&again);
    return same ? GALE_OK : gale__fail(GALE_MISMATCH, "%s: written and read again it differs", file->path);
}
#endif
