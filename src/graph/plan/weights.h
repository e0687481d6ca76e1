/* Weights: large constants on a device, one copy however many plans and programs read them.  Programs made from parts
 * of one model share them too, since a weight is identified by the memory of its tensor. */
#ifndef GALE_GRAPH_WEIGHTS_H
#define GALE_GRAPH_WEIGHTS_H
#include "graph/run/tensor.h"
#include "kernel/kernels.h"

/* What a plan needs: a tensor as stored, or as panels for products.  A NULL tensor is not needed. */
typedef struct gale__weight_wanted {
    const gale_tensor *tensor;
    gale__panels panels;
    bool last; /* channels-last, and not as panels */
} gale__weight_wanted;

typedef struct gale__weight {
    struct gale__weight *next; /* in the store */
    uint64_t key;              /* of panels; 0: as stored, LAST: channels-last */
    gale_tensor *tensor;       /* held, so that its memory stays what it is */
    gale_buffer *buffer;       /* NULL if the device reads the tensor in place */
    gale__mem mem;
    gale__ref ref; /* for launches */
    int refs;
} gale__weight;

/* Finds them on the stream's device or brings them there, complete on return; out[i] stays until it is released. */
gale_status gale__weights_take(gale_stream *stream, const gale__weight_wanted *wanted, int n, gale__weight **out);
void gale__weights_give(gale_device *device, gale__weight **weights, int n); /* entries may be NULL; cleared */
#endif
