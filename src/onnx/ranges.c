/* Ranges of activations over samples.  A few outliers must not cost everybody else their precision; but in some networks the outliers carry what matters.  So the outermost
 * parts of a large tensor are cut off only where its squared error gets smaller by that, judged by a histogram of each tensor as it comes. */
#include "graph/tensor.h"
#include "onnx/edit.h"
#include "onnx/int8.h"
#include <math.h>
#include <string.h>

enum { BINS = 4096, MANY = 10000, ONE_IN = 20000 };

void gale__ranges_finish(gale__ranges *r)
{
    gale__names_finish(&r->names);
    gale__free(r->at);
    *r = (gale__ranges){0};
}

static bool is_one(const gale__pb_node *n)
{
    return gale__pb_is_core(&n->domain) && (gale__pb_is(&n->op_type, "MatMul") || gale__pb_is(&n->op_type, "Gemm") || gale__pb_is(&n->op_type, "Conv"));
}

gale_status gale__ranges_of(const gale__pb_model *model, gale__ranges *out)
{
    const gale__pb_graph *g = model->graph;
    for (size_t i = 0; g && i < g->node.n; i++)
        for (size_t k = 0; is_one(&g->node.at[i]) && k < g->node.at[i].input.n && k < 2; k++) {
            const gale__pb_text *name = &g->node.at[i].input.at[k];
            bool known = !name->size || gale__names_find(&out->names, name->at, name->size) >= 0;
            for (size_t t = 0; t < g->initializer.n && !known; t++) known = gale__pb_text_equal(&g->initializer.at[t].name, name);
            if (known) continue;
            GALE_TRY(gale__grow((void **)&out->at, &out->capacity, out->n + 1, sizeof *out->at));
            GALE_TRY(gale__names_set(&out->names, name->at, name->size, (int32_t)out->n));
            out->at[out->n++] = (gale__range){0};
        }
    return GALE_OK;
}

/* Where `cut` elements lie outside either end. */
static void cut_off(const size_t bins[BINS], size_t cut, int *a, int *b)
{
    size_t below = 0, above = 0;
    for (*a = 0; *a < BINS - 1 && below + bins[*a] <= cut; ++*a) below += bins[*a];
    for (*b = BINS - 1; *b > *a && above + bins[*b] <= cut; --*b) above += bins[*b];
}

/* The squared error of 255 steps from bin a to bin b: rounding inside, distance outside. */
static double error_of(const size_t bins[BINS], int a, int b)
{
    double step = (b + 1 - a) / 255.0, sum = 0;
    for (int i = 0; i < BINS; i++) {
        double d = i < a ? a - i : i > b ? i - b : 0;
        sum += (double)bins[i] * (d * d + step * step / 12);
    }
    return sum;
}

/* Moves the ends inwards where that loses less than it wins; at most one element in 10,000 lies outside. */
static void trim(const float *x, size_t n, double *low, double *high)
{
    size_t bins[BINS] = {0};
    double first = *low, width = (*high - first) / BINS, least = INFINITY;
    if (!(width > 0)) return;
    for (size_t i = 0; i < n; i++) {
        double at = isfinite(x[i]) ? (x[i] - first) / width : -1;
        if (at >= 0) bins[at < BINS ? (int)at : BINS - 1]++;
    }
    for (size_t cut = 0; cut <= n / ONE_IN; cut = cut ? 2 * cut : 1) {
        int a, b;
        cut_off(bins, cut, &a, &b);
        double error = error_of(bins, cut ? a : 0, cut ? b : BINS - 1);
        if (error >= least) continue;
        least = error;
        *low = first + (cut ? a : 0) * width;
        *high = first + ((cut ? b : BINS - 1) + 1) * width;
    }
}

void gale__ranges_note(gale__ranges *r, const char *name, const gale_tensor *t)
{
    int32_t at = *name ? gale__names_find(&r->names, name, strlen(name)) : -1;
    const float *x = t->host;
    size_t n = t->size_bytes / sizeof *x;
    double low = INFINITY, high = -INFINITY;
    if (at < 0 || t->type != GALE_F32 || t->device || !x || gale__tensor_mapped(t)) return;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) continue;
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    if (low > high) return;
    if (n >= MANY) trim(x, n, &low, &high);
    gale__range *range = &r->at[at];
    range->low = range->seen && range->low < low ? range->low : low;
    range->high = range->seen && range->high > high ? range->high : high;
    range->seen = true;
}
