/* Internals of writing: tensors whose written form differs from the tree. */
#ifndef GALE_ONNX_WRITE_H
#define GALE_ONNX_WRITE_H
#include "onnx/wire/model_file.h"

/* Data that moves into the file, or out of it: `as` is written for `of`, its raw data (raw_data.size bytes) taken from
 * `place`. */
typedef struct gale__pb_swap {
    const gale__pb_tensor *of;
    gale__pb_tensor as;
    gale__pb_place place;
} gale__pb_swap;

/* swaps: sorted by the address in `of`. */
uint64_t gale__pb_size(
    gale__onnx *file, gale__pb_which which, const void *message, const gale__pb_swap *swaps, size_t n_swaps);
gale_status gale__pb_write(gale__onnx *file, gale__pb_which which, const void *message, const gale__pb_swap *swaps,
    size_t n_swaps, gale__str *text, gale__file_out *out); /* to one of the two */
/* The bytes of a place, piece by piece. */
gale_status gale__pb_place_copy(
    const gale__pb_place *place, gale_status (*to)(void *user, const void *data, size_t size), void *user);
#endif
