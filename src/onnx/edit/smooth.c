/* Channel factors for quantised products.  A few channels of an activation are often far larger than the others, above
 * all in language models; with one 8-bit range for all channels they would leave little precision for the rest.  A
 * product does not change if a channel is divided by a number and its weights are multiplied by it.  So each channel
 * gets the factor that gives the product the smallest error. */
#include "onnx/edit/int8.h"
#include <math.h>
#include <string.h>

static const double strengths[] = {
    0, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75}; /* more than that leans on samples too much: other data goes beyond */
enum { STRENGTHS = sizeof strengths / sizeof *strengths };
static const double worth_it = 0.8; /* of the squared error may be left, else the multiplication is not added */
static const double tail = 8; /* times its root mean square a channel is taken to reach, whatever the samples had */
static const double floor_of = 1e-5; /* of the largest: for channels that are hardly there */

typedef struct problem {
    const gale__int8_range *range;
    const gale__int8_smooth_weight *weights;
    size_t n_weights, channels;
    double *large, *heavy; /* by channel: the largest of the activation, and of its weights */
    double *factors;       /* by channel */
    double *most;          /* by output, of one weight */
} problem;

static double larger(double a, double b) { return a > b ? a : b; }
static double smaller(double a, double b) { return a < b ? a : b; }

static double weight_at(const gale__int8_smooth_weight *w, size_t k, size_t n)
{
    double v = fabs((double)w->data[k * w->row + n * w->column]);
    return isfinite(v) ? v : 0;
}

static void look_at(problem *p)
{
    double largest = 0, heaviest = 0;
    for (size_t k = 0; k < p->channels; k++) {
        const gale__int8_channel *c = &p->range->channels[k];
        double extreme = larger(fabs((double)c->low), fabs((double)c->high));
        p->large[k] = larger(extreme, tail * sqrt(c->squares / (double)p->range->rows));
        for (size_t i = 0; i < p->n_weights; i++)
            for (size_t n = 0; n < p->weights[i].outputs; n++)
                p->heavy[k] = larger(p->heavy[k], weight_at(&p->weights[i], k, n));
        largest = larger(largest, p->large[k]);
        heaviest = larger(heaviest, p->heavy[k]);
    }
    for (size_t k = 0; k < p->channels; k++) {
        p->large[k] = larger(p->large[k], largest * floor_of);
        p->heavy[k] = larger(p->heavy[k], heaviest * floor_of);
    }
}

/* Factors whose geometric mean is 1. */
static void choose(problem *p, double strength)
{
    double sum = 0;
    for (size_t k = 0; k < p->channels; k++) {
        p->factors[k] = strength > 0 ? strength * log(p->large[k]) - (1 - strength) * log(p->heavy[k]) : 0;
        sum += p->factors[k];
    }
    for (size_t k = 0; k < p->channels; k++) p->factors[k] = exp(p->factors[k] - sum / (double)p->channels);
}

/* The squared error of one row of products, up to a constant: rounding of the activation meets the weights, rounding of
 * the weights the activation. */
static double error_of(problem *p)
{
    double low = 0, high = 0, energy = 0, error = 0;
    for (size_t k = 0; k < p->channels; k++) {
        const gale__int8_channel *c = &p->range->channels[k];
        low = smaller(low, (double)c->low / p->factors[k]);
        high = larger(high, (double)c->high / p->factors[k]);
        energy += c->squares / (double)p->range->rows / (p->factors[k] * p->factors[k]);
    }
    double step = (high - low) / 255;
    for (size_t i = 0; i < p->n_weights; i++) {
        const gale__int8_smooth_weight *w = &p->weights[i];
        double squares = 0, steps = 0;
        memset(p->most, 0, w->outputs * sizeof *p->most);
        for (size_t k = 0; k < p->channels; k++)
            for (size_t n = 0; n < w->outputs; n++) {
                double v = weight_at(w, k, n) * p->factors[k];
                squares += v * v;
                p->most[n] = v > p->most[n] ? v : p->most[n];
            }
        for (size_t n = 0; n < w->outputs; n++) steps += p->most[n] / 127 * (p->most[n] / 127);
        error += step * step * squares + steps * energy;
    }
    return error;
}

static bool solve(problem *p, float *factors)
{
    double before = 0, least = INFINITY, best = 0;
    look_at(p);
    for (size_t k = 0; k < p->channels; k++)
        if (!(p->large[k] > 0) || !(p->heavy[k] > 0)) return false;
    for (int i = 0; i < STRENGTHS; i++) {
        choose(p, strengths[i]);
        double error = error_of(p);
        if (i == 0) before = error;
        if (error < least) least = error, best = strengths[i];
    }
    if (!(least < worth_it * before)) return false;
    choose(p, best);
    for (size_t k = 0; k < p->channels; k++) {
        factors[k] = (float)p->factors[k];
        if (!(factors[k] > 0) || !isfinite(factors[k])) return false;
    }
    return true;
}

gale_status gale__int8_smooth_find(const gale__int8_range *range, const gale__int8_smooth_weight *weights,
    size_t n_weights, float *factors, bool *worth)
{
    problem p = {.range = range, .weights = weights, .n_weights = n_weights, .channels = (size_t)range->n_channels};
    size_t outputs = 0;
    for (size_t i = 0; i < n_weights; i++) outputs = weights[i].outputs > outputs ? weights[i].outputs : outputs;
    double *room = gale__calloc(3 * p.channels + outputs + 1, sizeof *room);
    if (!room) return GALE_NO_MEMORY;
    p.large = room, p.heavy = room + p.channels, p.factors = room + 2 * p.channels, p.most = room + 3 * p.channels;
    *worth = range->rows && p.channels && solve(&p, factors);
    gale__free(room);
    return GALE_OK;
}
