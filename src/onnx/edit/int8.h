/* Models in 8 bit: ranges of activations, found by running, and the pairs of QuantizeLinear and DequantizeLinear that
 * hold values to them. */
#ifndef GALE_ONNX_INT8_H
#define GALE_ONNX_INT8_H
#include "onnx/import/names.h"

#define GALE__INT8_OPSET 13 /* the first that has a scale for each channel */

typedef struct gale__int8_channel {
    float low, high;
    double sum, squares;
} gale__int8_channel;
typedef struct gale__int8_range {
    double low, high;
    bool seen;
    bool by_channel; /* wanted: a product with weights reads it along its last axis */
    gale__int8_channel *channels;
    int64_t n_channels; /* 0: nothing seen yet; -1: not the same in all samples */
    uint64_t rows;
} gale__int8_range;
typedef struct gale__int8_ranges {
    gale__onnx_names names;
    gale__int8_range *at;
    size_t n, capacity;
} gale__int8_ranges; /* begins as zero */
void gale__int8_ranges_finish(gale__int8_ranges *ranges);

/* The values to be watched: what MatMul, Gemm and Conv of the main graph read and no initialiser gives.  Names point
 * into the model. */
gale_status gale__int8_ranges_of(const gale__pb_model *model, gale__int8_ranges *out);
/* Widens the range of a value by a host tensor; of other names and types nothing is noted.  From 10,000 elements on, up
 * to one in 20,000 at either end is left out where the rest gains more by it. */
gale_status gale__int8_ranges_note(gale__int8_ranges *ranges, const char *name, const gale_tensor *tensor);

/* smooth.c: numbers by channel to divide an activation by and to multiply its weights with, so that the product loses
 * less in 8 bit; not worth it: the factors mean nothing. Element n of channel k of a weight is data[k * row + n *
 * column]; there are as many channels as the range has. */
typedef struct gale__int8_smooth_weight {
    const float *data;
    size_t outputs, row, column;
} gale__int8_smooth_weight;
gale_status gale__int8_smooth_find(const gale__int8_range *range, const gale__int8_smooth_weight *weights,
    size_t n_weights, float *factors, bool *worth);

bool gale__int8_takes(const gale__pb_node *node);      /* MatMul, Gemm, Conv */
bool gale__int8_reads_rows(const gale__pb_node *node); /* of those, whether input 0 is multiplied along its last axis */

/* What rounding took from a weight, by the node that reads it. */
typedef struct gale__int8_layer {
    const char *node;   /* its name, or its result's; of the file's arena */
    const char *result; /* its first; "": it has none */
    double relative;    /* L2 */
} gale__int8_layer;
typedef struct gale__int8 {
    const gale__int8_ranges *ranges; /* NULL: weights alone */
    const char *const *left; /* nodes that stay as they are: by name, by their first result, or by operator; a star at
                                the end stands for anything */
    int n_left;
    int n_weights, n_values, n_smooth; /* returned: how many were changed; values that are divided by channel */
    const gale__int8_layer *layers;    /* as many as weights; of the file's arena */
    size_t n_layers;
} gale__int8;
/* edit_int8_tables.c: f32 tables of 64 rows and more that nothing but Gather along axis 0 reads become i8 with a scale
 * for each row; used: the names of values that there are. */
gale_status gale__edit_int8_tables(gale__onnx *file, gale__pb_graph *g, gale__onnx_names *used, gale__int8 *how);
bool gale__int8_looks_up(const gale__pb_node *node); /* a Gather along axis 0 */
bool gale__int8_is_left(const gale__int8 *how, const gale__pb_node *node);
/* Notes what it lost; node: the one that reads it. */
gale_status gale__int8_note(gale__arena *arena, gale__int8 *how, const gale__pb_node *node, double relative);
double gale__int8_loss(
    const float *x, size_t outer, size_t channels, size_t inner, const float *scales, const int8_t *q);
/* x [outer, channels, inner] to whole numbers of -127 to 127 times a scale for each channel. */
void gale__int8_quantise(const float *x, size_t outer, size_t channels, size_t inner, float *scales, int8_t *q);
/* Weights of MatMul, Gemm and Conv become i8 with a scale for each channel; with ranges, what they read otherwise is
 * held to u8.  Tables of embeddings become i8 as well. */
gale_status gale__edit_int8(gale__onnx *file, gale__pb_model *model, gale__int8 *how);
#endif
