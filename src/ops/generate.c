/* Values that only depend on a shape: ranges, unit matrices, triangles, and random numbers. */
#include "ops/lower.h"
#include "base/seed.h"
#include <math.h>

/* Small ranges are constants, so that shapes made of them are known when planning. */
static gale__node small_range(gale__lower *L, gale_type type, double start, double delta, int64_t n)
{
    size_t size = gale_type_size(type);
    char *data = gale__arena_alloc(&L->g->arena, (size_t)(n + 1) * size);
    if (!data) L->g->status = GALE_NO_MEMORY;
    for (int64_t i = 0; data && i < n; i++) gale__store_f64(type, data + i * size, start + (double)i * delta);
    return data ? gale__prim_const(L->g, type, 1, &n, data) : GALE__NIL;
}

LOWER(Range)
{
    gale__prim_graph *g = L->g;
    int64_t n[3];
    const double *start = gale__lower_known_floats(L, 0, &n[0]), *limit = gale__lower_known_floats(L, 1, &n[1]),
                 *delta = gale__lower_known_floats(L, 2, &n[2]);
    if (gale__lower_good(L) && (n[0] != 1 || n[1] != 1 || n[2] != 1 || delta[0] == 0))
        gale__lower_refuse(L, "start, limit and delta must be one number each, and delta not 0");
    if (!gale__lower_good(L)) return;
    gale_type type = gale__lower_type_of(g, L->in[0]);
    double span = ceil((limit[0] - start[0]) / delta[0]);
    if (!(span < 1e15)) gale__lower_refuse(L, "%g elements", span);
    int64_t count = span > 0 ? (int64_t)span : 0;
    if (count <= GALE__FOLD_MAX) {
        L->out[0] = small_range(L, type, start[0], delta[0], count);
        return;
    }
    gale_type work = gale__lower_wide_type(type);
    gale__node i = gale__prim_cast(g, gale__prim_iota(g, 1, &count, 0), work);
    L->out[0] = gale__prim_cast(g,
        gale__prim_add(
            g, gale__prim_mul(g, i, gale__prim_scalar(g, work, delta[0])), gale__prim_scalar(g, work, start[0])),
        type);
}

/* column - row over the last two axes, as I64. */
static gale__node above_diagonal(gale__lower *L, int rank, const int64_t *dims)
{
    return gale__prim_sub(
        L->g, gale__prim_iota(L->g, rank, dims, rank - 1), gale__prim_iota(L->g, rank, dims, rank - 2));
}

LOWER(EyeLike)
{
    gale__prim_node p = gale__lower_peek(L->g, L->in[0]);
    if (p.rank != 2) gale__lower_refuse(L, "the input has rank %d instead of 2", p.rank);
    if (!gale__lower_good(L)) return;
    gale__node on = gale__prim_binary(
        L->g, GALE__EQ, above_diagonal(L, p.rank, p.dims), gale__lower_index(L, gale__attr_i(L, "k", 0)));
    L->out[0] = gale__prim_cast(L->g, on, gale__attr_type(L, "dtype", p.type));
}

LOWER(Trilu)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]);
    int64_t n = 0;
    const int64_t *k = gale__lower_known_ints(L, 1, &n);
    if (p.rank < 2) gale__lower_refuse(L, "the input has rank %d; at least 2 is needed", p.rank);
    if (!gale__lower_good(L)) return;
    bool upper = gale__attr_i(L, "upper", 1);
    gale__node keep = gale__prim_binary(
        g, upper ? GALE__GE : GALE__LE, above_diagonal(L, p.rank, p.dims), gale__lower_index(L, n ? k[0] : 0));
    L->out[0] = gale__prim_select(g, keep, L->in[0], gale__lower_value(L, L->in[0], 0));
}

/* --- Random numbers: the same for the same seed and shape on every device. --- */

static gale__node constant_key(gale__lower *L, uint64_t key)
{
    return gale__prim_splat_i(L->g, GALE_U64, 0, NULL, (int64_t)key);
}

/* A seed mixed with the node's place, so that no two nodes draw the same.  seed: U64, or NIL: none can be had. */
static gale__node own_key(gale__lower *L, gale__node seed, uint64_t draw)
{
    gale__node place = constant_key(L, gale__seed_mix(gale__seed_mix(L->g->scope + 1, L->node->number), draw));
    return seed < 0 ? place : gale__prim_binary(L->g, GALE__XOR, seed, place);
}

/* The key that a node draws under, U64: the attribute `seed`, which is the same for all nodes and runs, or its own from
 * the seed of the run.  draw: which of the node's keys. */
static gale__node key_of(gale__lower *L, uint64_t draw)
{
    double fixed = gale__attr_f(L, "seed", NAN);
    if (isnan(fixed)) return own_key(L, gale__prim_seed(L->g), draw);
    return constant_key(L, (uint64_t)(int64_t)(fixed * 65536) ^ (draw ? 0xd1b54a32d192ed03u : 0));
}

/* Uniform in [0, 1) with 24 bits, F32. */
static gale__node uniform(gale__lower *L, gale__node key, int rank, const int64_t *dims)
{
    gale__prim_graph *g = L->g;
    gale__node bits =
        gale__prim_binary(g, GALE__SHR, gale__prim_random(g, key, rank, dims), gale__prim_scalar(g, GALE_U32, 8));
    return gale__prim_mul(g, gale__prim_cast(g, bits, GALE_F32), gale__prim_scalar(g, GALE_F32, 0x1p-24));
}

static void random_uniform(gale__lower *L, gale_type type, int rank, const int64_t *dims)
{
    double low = gale__attr_f(L, "low", 0), high = gale__attr_f(L, "high", 1);
    gale__node u = uniform(L, key_of(L, 0), rank, dims);
    u = gale__prim_add(
        L->g, gale__prim_mul(L->g, u, gale__lower_value(L, u, high - low)), gale__lower_value(L, u, low));
    L->out[0] = gale__prim_cast(L->g, u, type);
}

/* Box and Muller's: the radius from one number in (0, 1], the angle from another. */
static void random_normal(gale__lower *L, gale_type type, int rank, const int64_t *dims)
{
    gale__prim_graph *g = L->g;
    gale__node u = uniform(L, key_of(L, 0), rank, dims), v = uniform(L, key_of(L, 1), rank, dims);
    gale__node log = gale__prim_unary(g, GALE__LOG, gale__prim_add(g, u, gale__lower_value(L, u, 0x1p-24)));
    gale__node radius = gale__prim_unary(g, GALE__SQRT, gale__prim_mul(g, log, gale__lower_value(L, u, -2)));
    gale__node n = gale__prim_mul(
        g, radius, gale__prim_unary(g, GALE__COS, gale__prim_mul(g, v, gale__lower_value(L, v, 6.283185307179586))));
    n = gale__prim_add(g, gale__prim_mul(g, n, gale__lower_value(L, n, gale__attr_f(L, "scale", 1))),
        gale__lower_value(L, n, gale__attr_f(L, "mean", 0)));
    L->out[0] = gale__prim_cast(g, n, type);
}

typedef void maker(gale__lower *L, gale_type type, int rank, const int64_t *dims);
static void of_shape(gale__lower *L, maker *make)
{
    int rank;
    const int64_t *dims = gale__attr_ints(L, "shape", &rank);
    if (!dims) gale__lower_refuse(L, "missing attribute 'shape'");
    if (gale__lower_good(L)) make(L, gale__attr_type(L, "dtype", GALE_F32), rank, dims);
}
static void like(gale__lower *L, maker *make)
{
    gale__prim_node p = gale__lower_peek(L->g, L->in[0]);
    make(L, gale__attr_type(L, "dtype", p.type), p.rank, p.dims);
}
LOWER(RandomUniform) { of_shape(L, random_uniform); }
LOWER(RandomNormal) { of_shape(L, random_normal); }
LOWER(RandomUniformLike) { like(L, random_uniform); }
LOWER(RandomNormalLike) { like(L, random_normal); }

LOWER(Bernoulli)
{
    gale__prim_node p = gale__lower_peek(L->g, L->in[0]);
    gale__node x = gale__lower_wide(L, L->in[0]),
               u = gale__prim_cast(L->g, uniform(L, key_of(L, 0), p.rank, p.dims), gale__lower_type_of(L->g, x));
    L->out[0] = gale__prim_cast(L->g, gale__prim_binary(L->g, GALE__LT, u, x), gale__attr_type(L, "dtype", p.type));
}

/* --- What NumPy's generator (MT19937) draws under a seed: ONNX's own expected values are made of it. --- */

typedef struct twister {
    uint32_t word[624];
    int at;
} twister;

static void twister_init(twister *t, uint32_t seed)
{
    t->at = 624;
    for (uint32_t i = 0; i < 624; i++, seed = 1812433253u * (seed ^ seed >> 30) + i) t->word[i] = seed;
}

static uint32_t twister_next(twister *t)
{
    for (int i = 0; t->at == 624 && i < 624; i++) {
        uint32_t y = (t->word[i] & 0x80000000u) | (t->word[(i + 1) % 624] & 0x7fffffffu);
        t->word[i] = t->word[(i + 397) % 624] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    uint32_t y = t->word[t->at = t->at == 624 ? 0 : t->at];
    t->at++;
    y ^= y >> 11, y ^= y << 7 & 0x9d2c5680u, y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

/* Whether each of as many numbers in [0, 1) is at least `ratio`. */
static gale__node drawn(gale__lower *L, uint32_t seed, double ratio, int rank, const int64_t *dims)
{
    size_t n = 1;
    twister t;
    for (int d = 0; d < rank; d++) n *= (size_t)dims[d];
    uint8_t *keep = gale__arena_alloc(&L->g->arena, n);
    if (!keep) return gale__prim_fail(L->g, GALE_NO_MEMORY, "Dropout: out of memory");
    twister_init(&t, seed);
    for (size_t i = 0; i < n; i++) {
        uint32_t high = twister_next(&t) >> 5, low = twister_next(&t) >> 6;
        keep[i] = (high * 67108864.0 + low) / 9007199254740992.0 >= ratio;
    }
    return gale__prim_const(L->g, GALE_BOOL, rank, dims, keep);
}

/* What stays: drawn at run time under the fourth input, or once under the attribute, or under the seed of the run. */
static gale__node kept(gale__lower *L, double ratio, int rank, const int64_t *dims)
{
    gale__node seed = gale__lower_arg(L, 3);
    double fixed = gale__attr_f(L, "seed", NAN);
    if (seed < 0 && !isnan(fixed)) return drawn(L, (uint32_t)(int64_t)fixed, ratio, rank, dims);
    if (seed >= 0) seed = gale__prim_cast(L->g, gale__prim_reshape(L->g, seed, 0, NULL), GALE_U64);
    gale__node u = uniform(L, seed >= 0 ? own_key(L, seed, 0) : key_of(L, 0), rank, dims);
    return gale__prim_binary(L->g, GALE__GE, u, gale__lower_value(L, u, ratio));
}

LOWER(Dropout)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]);
    int64_t n_mode, n_ratio;
    const int64_t *mode = gale__lower_known_ints(L, 2, &n_mode);
    const double *given = gale__lower_known_floats(L, 1, &n_ratio);
    if (!gale__lower_good(L)) return;
    double ratio = given && n_ratio ? given[0] : gale__attr_f(L, "ratio", 0.5);
    if (!mode || !n_mode || !mode[0] || ratio == 0) {
        L->out[0] = L->in[0];
        if (L->n_out > 1) L->out[1] = gale__prim_splat(g, GALE_BOOL, p.rank, p.dims, 1);
        return;
    }
    gale__node keep = kept(L, ratio, p.rank, p.dims), x = gale__lower_wide(L, L->in[0]);
    gale__node y = gale__prim_select(g, keep,
        gale__prim_mul(g, x, gale__lower_value(L, x, ratio < 1 ? 1 / (1 - ratio) : 0)), gale__lower_value(L, x, 0));
    L->out[0] = gale__prim_cast(g, y, p.type);
    if (L->n_out > 1) L->out[1] = keep;
}
