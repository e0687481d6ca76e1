/* Ranges of activations over samples.  A few outliers must not cost everybody else their precision; but in some
 * networks the outliers carry what matters.  So the outermost parts of a large tensor are cut off only where its
 * squared error gets smaller by that, judged by a histogram of each tensor as it comes. */
#include "graph/run/tensor.h"
#include "onnx/edit/edit.h"
#include "onnx/edit/int8.h"
#include <math.h>
#include <string.h>

enum { BINS = 4096, MANY = 10000, ONE_IN = 20000 };

void gale__int8_ranges_finish(gale__int8_ranges *r)
{
    gale__onnx_names_finish(&r->names);
    for (size_t i = 0; i < r->n; i++) gale__free(r->at[i].channels);
    gale__free(r->at);
    *r = (gale__int8_ranges){0};
}

bool gale__int8_takes(const gale__pb_node *n)
{
    return gale__pb_is_core(&n->domain) &&
           (gale__pb_is(&n->op_type, "MatMul") || gale__pb_is(&n->op_type, "Gemm") || gale__pb_is(&n->op_type, "Conv"));
}

bool gale__int8_reads_rows(const gale__pb_node *n)
{
    const gale__pb_attribute *turned = gale__pb_find_attribute(n, "transA");
    return n->input.n >= 2 && !gale__pb_is(&n->op_type, "Conv") && !(turned && turned->i);
}

gale_status gale__int8_ranges_of(const gale__pb_model *model, gale__int8_ranges *out)
{
    const gale__pb_graph *g = model->graph;
    for (size_t i = 0; g && i < g->node.n; i++)
        for (size_t k = 0; gale__int8_takes(&g->node.at[i]) && k < g->node.at[i].input.n && k < 2; k++) {
            const gale__pb_node *node = &g->node.at[i];
            const gale__pb_text *name = &node->input.at[k];
            if (!name->size || gale__pb_has_value(g, name)) continue;
            int32_t at = gale__onnx_names_find(&out->names, name->at, name->size);
            if (at < 0) {
                at = (int32_t)out->n;
                GALE_TRY(gale__grow((void **)&out->at, &out->capacity, out->n + 1, sizeof *out->at));
                GALE_TRY(gale__onnx_names_set(&out->names, name->at, name->size, at));
                out->at[out->n++] = (gale__int8_range){0};
            }
            if (k == 0 && gale__int8_reads_rows(node) && gale__pb_has_value(g, &node->input.at[1]))
                out->at[at].by_channel = true;
        }
    return GALE_OK;
}

/* Where `cut` elements are outside either end. */
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

/* Moves the ends inwards where that loses less than it wins; at most one element in 10,000 is outside. */
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

static gale_status note_channels(gale__int8_range *r, const gale_tensor *t)
{
    int64_t n = t->rank ? t->dims[t->rank - 1] : 0;
    const float *x = t->host;
    if (!r->by_channel || r->n_channels < 0 || n < 1) return GALE_OK;
    if (!r->n_channels && !(r->channels = gale__calloc((size_t)n, sizeof *r->channels))) return GALE_NO_MEMORY;
    r->n_channels = !r->n_channels || r->n_channels == n ? n : -1;
    if (r->n_channels < 0) return GALE_OK;
    size_t rows = t->size_bytes / sizeof *x / (size_t)n;
    for (size_t row = 0; row < rows; row++)
        for (int64_t k = 0; k < n; k++) {
            gale__int8_channel *c = &r->channels[k];
            float v = x[row * (size_t)n + (size_t)k];
            if (!isfinite(v)) continue;
            c->low = v < c->low ? v : c->low;
            c->high = v > c->high ? v : c->high;
            c->sum += (double)v;
            c->squares += (double)v * (double)v;
        }
    r->rows += rows;
    return GALE_OK;
}

gale_status gale__int8_ranges_note(gale__int8_ranges *r, const char *name, const gale_tensor *t)
{
    int32_t at = *name ? gale__onnx_names_find(&r->names, name, strlen(name)) : -1;
    const float *x = t->host;
    size_t n = t->size_bytes / sizeof *x;
    double low = INFINITY, high = -INFINITY;
    if (at < 0 || t->type != GALE_F32 || t->device || !x || gale__tensor_mapped(t)) return GALE_OK;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) continue;
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    if (low > high) return GALE_OK;
    if (n >= MANY) trim(x, n, &low, &high);
    gale__int8_range *range = &r->at[at];
    range->low = range->seen && range->low < low ? range->low : low;
    range->high = range->seen && range->high > high ? range->high : high;
    range->seen = true;
    return note_channels(range, t);
}
