/* Models in 8 bit: ranges of activations, found by running, and the pairs of QuantizeLinear and DequantizeLinear that hold values to them. */
#ifndef GALE_ONNX_INT8_H
#define GALE_ONNX_INT8_H
#include "onnx/names.h"

typedef struct gale__range { double low, high; bool seen; } gale__range;
typedef struct gale__ranges { gale__names names; gale__range *at; size_t n, capacity; } gale__ranges; /* begins as zero */
void gale__ranges_finish(gale__ranges *ranges);

/* The values to be watched: what MatMul, Gemm and Conv of the main graph read and no initialiser gives.  Names point into the model. */
gale_status gale__ranges_of(const gale__pb_model *model, gale__ranges *out);
/* Widens the range of a value by a host tensor; of other names and types nothing is noted.  From 10,000 elements on, up to one in 20,000 at either end is left
 * out where the rest gains more by it. */
void gale__ranges_note(gale__ranges *ranges, const char *name, const gale_tensor *tensor);

/* Weights of MatMul, Gemm and Conv become i8 with a scale for each channel; with ranges (may be NULL), what they read otherwise is held to u8.
 * n_weights and n_values, when not NULL: how many were changed. */
gale_status gale__edit_int8(gale__onnx *file, gale__pb_model *model, const gale__ranges *ranges, int *n_weights, int *n_values);
#endif
