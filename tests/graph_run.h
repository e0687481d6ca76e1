/* Runs a primitive graph through the planner on a device and compares with the scalar reference. */
#ifndef GALE_TEST_GRAPH_RUN_H
#define GALE_TEST_GRAPH_RUN_H
#include "graph/run/run.h"
#include "graph/reference/reference.h"
#include "test.h"
#include <math.h>
#include <stdlib.h>

#define GR_INPUTS 8

static uint64_t gr_state = 1;
static inline uint32_t gr_next(void)
{
    return (uint32_t)((gr_state = gr_state * 6364136223846793005u + 1442695040888963407u) >> 33);
}
static inline int gr_below(int n) { return (int)(gr_next() % (uint32_t)n); }
static inline double gr_unit(void) { return (double)gr_next() / 2147483648.0; }

typedef struct gr_graph {
    gale__prim_graph g;
    int n_inputs;
    void *inputs[GR_INPUTS];
    size_t bytes[GR_INPUTS];
} gr_graph;

static inline void gr_begin(gr_graph *t)
{
    memset(t, 0, sizeof *t);
    gale__prim_init(&t->g);
}

/* A new input with random contents in (-2, 2), integers in -3 .. 3. */
static inline gale__node gr_input(gr_graph *t, gale_type type, int rank, const int64_t *dims)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i];
    size_t size = gale_type_size(type);
    int at = t->n_inputs++;
    t->bytes[at] = (size_t)n * size;
    t->inputs[at] = calloc((size_t)n + 1, size);
    for (int64_t i = 0; i < n; i++) {
        char *p = (char *)t->inputs[at] + (size_t)i * size;
        if (gale__type_is_float(type)) gale__store_f64(type, p, 4 * gr_unit() - 2);
        else gale__store_i64(type, p, type == GALE_BOOL ? gr_below(2) : gr_below(7) - 3);
    }
    return gale__prim_input(&t->g, at, type, rank, dims);
}
#define GR_INPUT(t, ...) \
    gr_input(t, GALE_F32, (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})

static inline void gr_end(gr_graph *t)
{
    for (int i = 0; i < t->n_inputs; i++) free(t->inputs[i]);
    gale__prim_finish(&t->g);
}

/* Largest difference, relative to 1 + |want|; integers must agree. */
static inline double gr_difference(gale_type type, const void *want, const void *have, int64_t n)
{
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        size_t at = (size_t)i * gale_type_size(type);
        double a = gale__load_f64(type, (const char *)want + at), b = gale__load_f64(type, (const char *)have + at);
        if (isnan(a) && isnan(b)) continue;
        if (a == b) continue;
        double d = fabs(a - b) / (1 + fabs(a));
        if (isnan(d)) d = INFINITY;
        if (d > worst) worst = d;
    }
    return worst;
}

/* Largest difference as it is: levels of 8 bits. */
static inline double gr_levels(gale_type type, const void *want, const void *have, int64_t n)
{
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        size_t at = (size_t)i * gale_type_size(type);
        double d = fabs(gale__load_f64(type, (const char *)want + at) - gale__load_f64(type, (const char *)have + at));
        if (d > worst) worst = d;
    }
    return worst;
}

typedef struct gr_result {
    int kernels;
    double difference, levels;
} gr_result;

/* Plans, runs on a context of its own, compares.  Takes the graph over.  False when anything failed (a check says so).
 */
static inline bool gr_run(gr_graph *t, gale_device *device, const gale__node *outputs, int n,
    const gale__fusion_options *options, gr_result *out)
{
    void *want[8] = {0};
    gale__plan *plan = NULL;
    gale_buffer *constants = NULL, *slabs[32] = {0}, *bound[GR_INPUTS + 8] = {0};
    gale__ref refs[GR_INPUTS + 8];
    gale_stream *stream = NULL;
    bool ok =
        CHECK_OK(t->g.status) && CHECK_OK(gale__reference_run(&t->g, (const void *const *)t->inputs, outputs, n, want));
    ok = ok && CHECK_OK(gale__plan_make(device, &t->g, outputs, n, options, &plan)) &&
         CHECK_OK(gale_stream_create(device, &stream));
    for (int i = 0; ok && i < t->n_inputs; i++) {
        ok = CHECK_OK(gale_buffer_create(device, t->bytes[i] ? t->bytes[i] : 1, &bound[i]));
        if (ok && t->bytes[i]) ok = CHECK_OK(gale_upload(stream, bound[i], 0, t->inputs[i], t->bytes[i]));
        if (ok) refs[i] = gale__buffer_ref(bound[i], 0);
    }
    for (int i = 0; ok && i < n; i++) {
        size_t size = (size_t)gale__prim_elements(&plan->g, outputs[i]) *
                      gale_type_size((gale_type)gale__prim_at(&plan->g, outputs[i])->type);
        int at = t->n_inputs + i;
        ok = CHECK_OK(gale_buffer_create(device, size ? size : 1, &bound[at]));
        if (ok) refs[at] = gale__buffer_ref(bound[at], 0);
    }
    for (int i = 0; ok && i < plan->n_slabs; i++) ok = CHECK_OK(gale_buffer_create(device, plan->slabs[i], &slabs[i]));
    if (ok && plan->const_bytes) ok = CHECK_OK(gale_buffer_create(device, plan->const_bytes, &constants));
    for (int i = 0; ok && i < plan->n_constants; i++)
        if (plan->constants[i].size)
            ok = CHECK_OK(gale_upload(
                stream, constants, plan->constants[i].offset, plan->constants[i].data, plan->constants[i].size));
    gale__run_memory memory = {constants, NULL, slabs, refs, t->n_inputs};
    for (int once = 1; once >= 0; once--) ok = ok && CHECK_OK(gale__plan_send(plan, stream, &memory, once));
    out->kernels = ok ? plan->kernels : -1;
    out->difference = out->levels = 0;
    for (int i = 0; ok && i < n; i++) {
        const gale__prim_node *node = gale__prim_at(&plan->g, outputs[i]);
        int64_t count = gale__prim_elements(&plan->g, outputs[i]);
        size_t size = (size_t)count * gale_type_size((gale_type)node->type);
        if (!size) continue;
        void *have = malloc(size);
        ok = CHECK_OK(gale_download(stream, bound[t->n_inputs + i], 0, have, size)) &&
             CHECK_OK(gale_stream_sync(stream));
        if (ok) {
            double d = gr_difference((gale_type)node->type, want[i], have, count);
            if (d > out->difference) out->difference = d;
            d = gr_levels((gale_type)node->type, want[i], have, count);
            if (d > out->levels) out->levels = d;
        }
        free(have);
    }
    for (int i = 0; i < n; i++) gale__free(want[i]);
    for (int i = 0; i < GR_INPUTS + 8; i++) gale_buffer_destroy(&bound[i]);
    for (int i = 0; i < 32; i++) gale_buffer_destroy(&slabs[i]);
    gale_buffer_destroy(&constants);
    gale_stream_destroy(&stream);
    if (plan) gale__plan_destroy(&plan);
    return ok;
}
#endif
