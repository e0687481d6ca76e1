/* The kernels of the self-test as one graph, so that a device builds them all at once. */
#ifndef GALE_JOBS_SELFTEST_KERNELS_H
#define GALE_JOBS_SELFTEST_KERNELS_H
#include "device/trust.h"
#include "gale/graph.h"

enum { GALE__SELFTEST_INPUTS = 24 };

/* The graph while it is written, and the values of its inputs. */
typedef struct gale__selftest_net {
    gale_graph *graph;
    gale_tensor *inputs[GALE__SELFTEST_INPUTS];
    int n_inputs;
} gale__selftest_net;

typedef struct gale__selftest_kernel {
    const char *name;
    gale_status (*write)(gale__selftest_net *net, gale_value *out);
    char compare; /* see selftest_kernels.def */
} gale__selftest_kernel;
extern const gale__selftest_kernel gale__selftest_kernels[];
int gale__selftest_count(bool matrix); /* of the kernels, for devices with and without matrix units */

/* One output per kernel of the part, in their order. */
gale_status gale__selftest_net_create(gale__selftest_net *net, int count, gale__trust_part part);
void gale__selftest_net_finish(gale__selftest_net *net);
#endif
