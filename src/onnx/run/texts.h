/* Strings as numbers: operators that only move elements process strings by moving their indices with the numeric
 * operator and looking up the strings afterwards. */
#ifndef GALE_ONNX_TEXTS_H
#define GALE_ONNX_TEXTS_H
#include "base/str.h"
#include "graph/run/tensor.h"
#include "onnx/host/host.h"

/* Strings that are elsewhere.  Number 0 is the empty string, so that what an operator fills with zeros becomes empty.
 */
typedef struct gale__onnx_texts {
    gale__string *items; /* by number - 1; once ranked by rank */
    size_t count, capacity;
    int64_t
        *ranks; /* by number - 1: place among the different strings in order, the empty one is 0; NULL: not ranked */
} gale__onnx_texts;
/* Appends the strings of a tensor, which must outlive the list; base: how many stood there before. */
gale_status gale__onnx_texts_add(gale__onnx_texts *t, const gale_tensor *strings, size_t *base);
/* From here on equal strings have equal numbers, in the order of their bytes; nothing can be added. */
gale_status gale__onnx_texts_rank(gale__onnx_texts *t);
/* The numbers of a tensor that was added, in its shape. */
gale_status gale__onnx_texts_numbers(
    const gale__onnx_texts *t, const gale_tensor *strings, size_t base, gale_tensor **numbers);
/* And back; the numbers may be on a device. */
gale_status gale__onnx_texts_pick(const gale__onnx_texts *t, const gale_tensor *numbers, gale_tensor **strings);
void gale__onnx_texts_finish(gale__onnx_texts *t);
int gale__onnx_string_compare(const gale__string *a, const gale__string *b);

/* Strings that are being made, one after another: append to `text`, then end. */
typedef struct gale__onnx_string_list {
    gale__str text;
    size_t *ends, count, capacity;
} gale__onnx_string_list;
gale_status gale__onnx_string_list_end(gale__onnx_string_list *list);
gale_status gale__onnx_string_list_tensor(
    const gale__onnx_string_list *list, int rank, const int64_t *dims, gale_tensor **out);
void gale__onnx_string_list_finish(gale__onnx_string_list *list);

#endif
