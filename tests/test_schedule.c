/* Schedules: nests of every kind, random and chosen, built for each device that is here, run, and compared with their
 * meaning point by point. */
#include "nest_launch.h"
#include "base/thread.h"
#include "kernel/print/print.h"

/* --- cases -----------------------------------------------------------------------------------------------------------
 */

#define CASES 1024
static nest_case *cases;
static int n_cases;

static nest_case *new_case(const char *name, int n_outer, int n_inner, const int64_t *extent)
{
    nest_case *c = &cases[n_cases];
    nr_init(c, name, n_outer, n_inner, extent);
    return c;
}

static void add_case(nest_case *c)
{
    nr_evaluate(c);
    gale__nest_canonicalize(&c->nest);
    n_cases++;
}

static const gale_type float_types[] = {GALE_F32, GALE_F32, GALE_F16, GALE_BF16, GALE_F64};
static const gale_type int_types[] = {GALE_I32, GALE_I8, GALE_U8, GALE_I64, GALE_U16, GALE_I16, GALE_U32};

/* An axis for dimension d: plain, reversed, sliced, padded or dilated. */
static nr_axis random_axis(int d, int64_t extent)
{
    nr_axis a = nr_plain(d, extent);
    int what = nr_below(10);
    if (what == 0) {
        a.coef[d] = -1;
        a.c0 = extent - 1;
    } else if (what == 1) {
        a.coef[d] = 2;
        a.c0 = 1;
        a.extent = 2 * extent + 1;
    } else if (what == 2) {
        a.c0 = -1;
        a.extent = extent > 2 ? extent - 1 : 1;
        a.guard = true;
    } else if (what == 3) {
        a.c0 = -1;
        a.extent = extent / 2 + 1;
        a.div = 2;
        a.guard = true;
    } else if (what == 4) {
        a.extent = extent + 3;
        a.c0 = 2;
    }
    return a;
}

/* Loads a tensor that walks some of the dimensions in some order. */
static int random_load(nest_case *c, gale_type type, int walked_percent)
{
    nr_axis axes[8];
    int order[8], n = 0, dims = c->nest.n_outer + c->nest.n_inner;
    for (int d = 0; d < dims; d++)
        if (nr_chance(walked_percent))
            axes[n++] = nr_chance(40) ? random_axis(d, c->nest.extent[d]) : nr_plain(d, c->nest.extent[d]);
    for (int k = 0; k < n; k++) order[k] = k;
    if (n > 1 && nr_chance(30)) {
        int i = nr_below(n), j = nr_below(n), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    int access = nr_access(c, type, axes, n, order, nr_chance(30) ? nr_below(5) : 0, nr_chance(20) ? nr_below(4) : 0);
    if (!gale__type_is_float(type)) c->accesses[access].fill = (uint64_t)nr_below(2);
    return nr_load(c, access);
}

static int to_f32(nest_case *c, int v)
{
    return c->code[v].type == GALE_F32 ? v : nr_op(c, GALE__CAST, GALE_F32, v, 0, 0);
}

static void random_map(int seed)
{
    static const int ops[] = {GALE__ADD, GALE__SUB, GALE__MUL, GALE__MIN, GALE__MAX};
    int64_t extent[5];
    nr_state = (uint64_t)seed * 977 + 3;
    int rank = nr_below(5);
    for (int d = 0; d < rank; d++) extent[d] = nr_chance(30) ? 4 * (1 + nr_below(5)) : 1 + nr_below(9);
    if (rank == 1 && nr_chance(70)) extent[0] = 1000 + nr_below(2000);
    nest_case *c = new_case("random map", rank, 0, extent);
    bool ints = nr_chance(35);
    gale_type type = ints ? int_types[nr_below(7)] : GALE_F32;
    int v = random_load(c, ints ? type : float_types[nr_below(5)], 95);
    if (!ints) v = to_f32(c, v);
    for (int k = 0; k < 2; k++) {
        int w = nr_chance(30) ? nr_const(c, type, nr_chance(50) ? 2 : 3)
                              : random_load(c, ints ? type : float_types[nr_below(5)], 70);
        if (!ints) w = to_f32(c, w);
        v = nr_op(c, ops[nr_below(5)], type, v, w, 0);
    }
    if (!ints && nr_chance(40)) v = nr_op(c, nr_chance(50) ? GALE__TANH : GALE__EXP, GALE_F32, v, 0, 0);
    if (nr_chance(20)) {
        nr_store(c, v);
        v = nr_op(c, GALE__NEG, type, v, 0, 0);
    }
    if (nr_chance(30)) v = nr_op(c, GALE__CAST, ints ? GALE_F32 : nr_chance(50) ? GALE_F16 : GALE_U8, v, 0, 0);
    nr_store(c, v);
    c->loose = 1e-4;
    add_case(c);
}

static void softmax(const char *name, int n_outer, const int64_t *extent, bool permuted, gale_type type)
{
    nest_case *c = new_case(name, n_outer, 1, extent);
    nr_axis axes[8];
    int order[8];
    for (int d = 0; d <= n_outer; d++) {
        axes[d] = nr_plain(d, extent[d]);
        order[d] = d;
    }
    if (permuted) {
        order[0] = n_outer;
        order[n_outer] = 0;
    }
    int x = to_f32(c, nr_load(c, nr_access(c, type, axes, n_outer + 1, order, 0, 0)));
    int most = nr_reduce(c, GALE__RMAX, x);
    int y = nr_op(c, GALE__EXP, GALE_F32, nr_op(c, GALE__SUB, GALE_F32, x, most, 0), 0, 0);
    int z = nr_op(c, GALE__DIV, GALE_F32, y, nr_reduce(c, GALE__SUM, y), 0);
    nr_store(c, z);
    if (permuted) { /* the result lies as the operand does */
        gale__nest_access *a = &c->accesses[c->stores[0].access], *from = &c->accesses[0];
        memcpy(a->stride, from->stride, sizeof a->stride);
    }
    add_case(c);
}

static void layer_norm(const char *name, int64_t rows, int64_t n)
{
    nest_case *c = new_case(name, 1, 1, (int64_t[]){rows, n});
    nr_axis axes[2] = {nr_plain(0, rows), nr_plain(1, n)};
    int x = nr_load(c, nr_access(c, GALE_F32, axes, 2, NULL, 0, 0));
    int scale = nr_load(c, nr_access(c, GALE_F32, axes + 1, 1, NULL, 0, 0));
    int share = nr_const(c, GALE_F32, 1.0 / (double)n);
    int mean = nr_op(c, GALE__MUL, GALE_F32, nr_reduce(c, GALE__SUM, x), share, 0);
    int d = nr_op(c, GALE__SUB, GALE_F32, x, mean, 0);
    int var = nr_op(c, GALE__MUL, GALE_F32, nr_reduce(c, GALE__SUM, nr_op(c, GALE__MUL, GALE_F32, d, d, 0)), share, 0);
    int root = nr_op(c, GALE__SQRT, GALE_F32, nr_op(c, GALE__ADD, GALE_F32, var, nr_const(c, GALE_F32, 1e-5), 0), 0, 0);
    nr_store(c, nr_op(c, GALE__MUL, GALE_F32, nr_op(c, GALE__DIV, GALE_F32, d, root, 0), scale, 0));
    nr_store(c, mean);
    add_case(c);
}

static void random_reduce(int seed)
{
    static const gale__reduce kinds[] = {GALE__SUM, GALE__PROD, GALE__RMAX, GALE__RMIN, GALE__ARGMAX, GALE__ARGMIN,
        GALE__ARGMAX_LAST, GALE__ARGMIN_LAST};
    int64_t extent[6];
    nr_state = (uint64_t)seed * 7919 + 11;
    int n_outer = nr_below(3), n_inner = 1 + nr_below(2);
    for (int d = 0; d < n_outer + n_inner; d++) extent[d] = 1 + nr_below(d < n_outer ? 12 : 40);
    if (nr_chance(25)) extent[n_outer] = 4 * (1 + nr_below(300));
    nest_case *c = new_case("random reduce", n_outer, n_inner, extent);
    bool ints = nr_chance(35);
    gale__reduce kind = kinds[nr_below(8)];
    gale_type type = ints ? int_types[nr_below(7)] : float_types[nr_below(5)];
    int x = random_load(c, type, 100);
    if (!ints) x = to_f32(c, x);
    if (!ints && kind == GALE__PROD)
        x = nr_op(c, GALE__ADD, GALE_F32, nr_const(c, GALE_F32, 1),
            nr_op(c, GALE__MUL, GALE_F32, x, nr_const(c, GALE_F32, 0.01), 0), 0);
    if (nr_chance(30) && !ints) x = nr_op(c, GALE__MUL, GALE_F32, x, to_f32(c, random_load(c, GALE_F32, 60)), 0);
    if (!ints && nr_chance(20) && c->buffers[0].type == GALE_F32)
        ((float *)c->data[0])[nr_below((int)c->buffers[0].elements)] = NAN;
    int r = nr_reduce(c, kind, x);
    if (kind < GALE__ARGMAX && !ints && nr_chance(50))
        r = nr_op(c, GALE__ADD, GALE_F32, r, random_load(c, GALE_F32, 60), 0);
    if (c->code[r].inner) r = nr_reduce(c, GALE__RMAX, r);
    nr_store(c, r);
    c->loose = 2e-4;
    add_case(c);
}

static void take_and_put(void)
{
    int64_t extent[2] = {37, 12};
    nest_case *c = new_case("take", 2, 0, extent);
    nr_axis row = nr_plain(0, 37), table = {.extent = 50 * 12, .div = 1};
    int index = nr_load(c, nr_access(c, GALE_I64, &row, 1, NULL, 0, 0)); /* -100 .. 99: some are clamped */
    int at = nr_op(c, GALE__ADD, GALE_I64, nr_op(c, GALE__MUL, GALE_I64, index, nr_const(c, GALE_I64, 12), 0),
        nr_index(c, (int64_t[]){0, 1}, 0), 0);
    int access = nr_access(c, GALE_F32, &table, 1, NULL, 0, 0);
    int v = nr_add(
        c, (gale__nest_instr){.op = GALE__NEST_TAKE, .type = GALE_F32, .a = at, .access = access, .imm = 50 * 12});
    nr_store(c, v);
    add_case(c);

    c = new_case("indexed store", 1, 0, (int64_t[]){150});
    nr_axis all = nr_plain(0, 150), to = {.extent = 200, .div = 1};
    index = nr_index(c, (int64_t[]){3}, -20); /* -20 .. 427: what is out of range is dropped */
    v = nr_load(c, nr_access(c, GALE_F32, &all, 1, NULL, 0, 0));
    access = nr_access(c, GALE_F32, &to, 1, NULL, 0, 0);
    c->buffers[c->accesses[access].buffer].written = true;
    c->stores[c->nest.n_stores++] = (gale__nest_store){.value = v, .access = access, .index = index, .limit = 200};
    add_case(c);
}

static void product(
    const char *name, int64_t b, int64_t m, int64_t n, int64_t k, gale_type type, bool transposed, bool fused)
{
    nest_case *c = new_case(name, 3, 1, (int64_t[]){b, m, n, k});
    nr_axis x[3] = {nr_plain(0, b), nr_plain(1, m), nr_plain(3, k)},
            y[3] = {nr_plain(0, b), nr_plain(3, k), nr_plain(2, n)};
    int turned[3] = {0, 2, 1};
    int p = nr_load(c, nr_access(c, type, x, 3, NULL, 0, 0)),
        q = nr_load(c, nr_access(c, type, y, 3, transposed ? turned : NULL, 0, 0));
    gale_type sum = gale__compute_type(type);
    if (fused) p = nr_op(c, GALE__MAX, type, p, nr_const(c, type, 0), 0);
    int r = nr_reduce(c, GALE__SUM, nr_op(c, GALE__MUL, type, p, q, 0));
    c->code[r].acc = (uint8_t)sum;
    if (fused) {
        nr_axis bias = nr_plain(2, n);
        r = nr_op(c, GALE__ADD, type, r, nr_load(c, nr_access(c, type, &bias, 1, NULL, 0, 0)), 0);
        r = nr_op(c, GALE__TANH, type, r, 0, 0);
    }
    nr_store(c, r);
    c->loose = 1e-4;
    add_case(c);
}

/* out[n, o, y, x] = sum over c, ky, kx of in[n, c, y*s + ky*d - p, x*s + kx*d - p] * w[o, c, ky, kx] */
static void convolution(const char *name, int64_t n, int64_t channels, int64_t out, int64_t size, int64_t kernel,
    int64_t stride, int64_t dilation, int64_t input_dilation)
{
    int64_t pad = kernel / 2, in = input_dilation > 1 ? (size + input_dilation - 1) / input_dilation : size * stride;
    nest_case *c = new_case(name, 4, 3, (int64_t[]){n, out, size, size, channels, kernel, kernel});
    nr_axis x[4] = {nr_plain(0, n), nr_plain(4, channels)},
            w[4] = {nr_plain(1, out), nr_plain(4, channels), nr_plain(5, kernel), nr_plain(6, kernel)};
    for (int i = 0; i < 2; i++) {
        nr_axis a = {.c0 = -pad, .extent = in, .div = input_dilation, .guard = true};
        a.coef[2 + i] = stride;
        a.coef[5 + i] = dilation;
        x[2 + i] = a;
    }
    int p = nr_load(c, nr_access(c, GALE_F32, x, 4, NULL, 0, 0)),
        q = nr_load(c, nr_access(c, GALE_F32, w, 4, NULL, 0, 0));
    nr_store(c, nr_reduce(c, GALE__SUM, nr_op(c, GALE__MUL, GALE_F32, p, q, 0)));
    c->loose = 1e-4;
    add_case(c);
}

/* out[n, y, x, c] = sum, or most, over ky, kx of in[n, y*s + ky*d - p, x*s + kx*d - p, c] (* w[ky, kx, c], then a bias)
 */
static void window(const char *name, gale_type type, const int64_t size[3], int64_t kernel, int64_t stride,
    int64_t dilation, bool pools)
{
    int64_t height = size[0], width = size[1], channels = size[2];
    nest_case *c = new_case(name, 4, 2, (int64_t[]){2, height, width, channels, kernel, kernel});
    nr_axis x[4] = {nr_plain(0, 2)}, channel = nr_plain(3, channels);
    nr_axis w[3] = {nr_plain(4, kernel), nr_plain(5, kernel), channel};
    for (int i = 0; i < 2; i++) {
        nr_axis a = {.c0 = -(kernel / 2), .extent = size[i] * stride, .div = 1, .guard = true};
        a.coef[1 + i] = stride;
        a.coef[4 + i] = dilation;
        x[1 + i] = a;
    }
    x[3] = channel;
    int v = to_f32(c, nr_load(c, nr_access(c, type, x, 4, NULL, 0, 0)));
    if (!pools) v = nr_op(c, GALE__MUL, GALE_F32, v, to_f32(c, nr_load(c, nr_access(c, type, w, 3, NULL, 0, 0))), 0);
    int r = nr_reduce(c, pools ? GALE__RMAX : GALE__SUM, v);
    if (!pools) r = nr_op(c, GALE__ADD, GALE_F32, r, nr_load(c, nr_access(c, GALE_F32, &channel, 1, NULL, 0, 0)), 0);
    nr_store(c, nr_op(c, GALE__CAST, type, r, 0, 0));
    c->loose = 1e-3;
    add_case(c);
}

/* Tensors that lie turned around: the kernel reads them along their own last axis. */
static void turned(const char *name, int64_t b, int64_t m, int64_t n, gale_type type)
{
    nest_case *c = new_case(name, 3, 0, (int64_t[]){b, m, n});
    nr_axis axes[3] = {nr_plain(0, b), nr_plain(1, m), nr_plain(2, n)}, padded = nr_plain(1, m - 3);
    int order[3] = {0, 2, 1};
    int x = to_f32(c, nr_load(c, nr_access(c, type, axes, 3, order, 0, 0)));
    padded.c0 = -1;
    padded.guard = true;
    axes[1] = padded;
    x = nr_op(c, GALE__ADD, GALE_F32, x, nr_load(c, nr_access(c, GALE_F32, axes, 3, order, 3, 0)), 0);
    nr_store(c, nr_op(c, GALE__MUL, GALE_F32, x, nr_load(c, nr_access(c, GALE_F32, axes + 2, 1, NULL, 0, 0)), 0));
    add_case(c);
}

/* Planes to pixels of bytes, and a factor that the channels share. */
static void interleaved_bytes(void)
{
    const int64_t extent[3] = {2, 3000, 3};
    nest_case *c = new_case("interleaved bytes", 3, 0, extent);
    nr_axis axes[3] = {nr_plain(0, 2), nr_plain(1, 3000), nr_plain(2, 3)};
    const int order[3] = {0, 2, 1};
    int x = nr_load(c, nr_access(c, GALE_F16, axes, 3, order, 0, 0));
    int f = nr_load(c, nr_access(c, GALE_F32, axes, 2, NULL, 0, 0));
    x = nr_op(c, GALE__MUL, GALE_F32, to_f32(c, x), nr_op(c, GALE__MUL, GALE_F32, f, f, 0), 0);
    nr_store(c, nr_op(c, GALE__CAST, GALE_U8, x, 0, 0));
    add_case(c);
}

static void line(const char *name, int64_t n, int64_t lead)
{
    nest_case *c = new_case(name, 1, 0, &n);
    nr_axis all = nr_plain(0, n);
    int x = nr_load(c, nr_access(c, GALE_F32, &all, 1, NULL, lead, 0));
    nr_store(c, nr_op(c, GALE__MUL, GALE_F32, x, nr_load(c, nr_access(c, GALE_F32, &all, 1, NULL, 0, 0)), 0));
    add_case(c);
}

static void make_cases(void)
{
    const char *more = getenv("GALE_TEST_MORE"); /* how many random nests of each kind beyond the usual ones */
    int n = (test_light() ? 6 : 24) + (more ? atoi(more) : 0);
    cases = calloc(CASES, sizeof *cases);
    for (int i = 0; i < n && n_cases < CASES - 100; i++) random_map(i);
    for (int i = 0; i < n && n_cases < CASES - 100; i++) random_reduce(i);
    softmax("softmax of 5", 1, (int64_t[]){33, 5}, false, GALE_F32);
    softmax("softmax of 64", 1, (int64_t[]){33, 64}, false, GALE_F32);
    softmax("softmax of 77, f16", 1, (int64_t[]){9, 77}, false, GALE_F16);
    softmax("softmax of 64, more rows", 1, (int64_t[]){70, 64}, false, GALE_F32);
    softmax("softmax of 1024", 1, (int64_t[]){5, 1024}, false, GALE_F32);
    softmax("softmax of 40000", 1, (int64_t[]){2, 40000}, false, GALE_F32);
    softmax("softmax of 40001", 1, (int64_t[]){2, 40001}, false, GALE_F32);
    softmax("softmax along the first axis", 1, (int64_t[]){36, 50}, true, GALE_F32);
    softmax("softmax along a long first axis", 1, (int64_t[]){8, 3000}, true, GALE_F32);
    layer_norm("layer norm of 768", 7, 768);
    layer_norm("layer norm of 768, fewer rows", 3, 768);
    layer_norm("layer norm of 100", 300, 100);
    layer_norm("layer norm of 16384", 3, 16384);
    take_and_put();
    line("line with a tail", 4099, 0);
    line("line, out of step", 4096, 1);
    line("line in many groups", 66001, 1);
    turned("turned", 3, 70, 100, GALE_F32);
    turned("turned, f16", 1, 200, 99, GALE_F16);
    turned("turned, u8", 1, 65, 300, GALE_U8);
    turned("interleaved", 2, 2760, 3, GALE_F32);
    turned("interleaved, f16", 1, 4200, 4, GALE_F16);
    turned("interleaved, u8", 3, 2800, 2, GALE_U8);
    interleaved_bytes();
    product("product, small", 2, 5, 7, 9, GALE_F32, false, false);
    product("product", 1, 100, 130, 70, GALE_F32, false, true);
    product("product, transposed", 3, 64, 64, 32, GALE_F32, true, false);
    product("product, f16", 1, 40, 48, 33, GALE_F16, false, true);
    product("product, f64", 1, 33, 20, 17, GALE_F64, true, false);
    product("product, large tiles", 1, 192, 256, 40, GALE_F32, false, false);
    convolution("convolution", 2, 5, 20, 9, 3, 1, 1, 1);
    convolution("convolution, strided", 1, 4, 16, 8, 3, 2, 2, 1);
    convolution("convolution, dilated input", 1, 3, 16, 8, 3, 1, 1, 2);
    window("windows of 7, f16", GALE_F16, (int64_t[]){6, 11, 24}, 7, 1, 1, false);
    window("windows of 5, strided", GALE_F32, (int64_t[]){7, 10, 16}, 5, 2, 1, false);
    window("windows of 3, dilated, odd channels", GALE_F32, (int64_t[]){9, 13, 11}, 3, 1, 2, false);
    window("windows of 3, the largest", GALE_F16, (int64_t[]){8, 14, 12}, 3, 2, 1, true);
}

/* --- running ---------------------------------------------------------------------------------------------------------
 */

/* Distinct kernels of one device, and which of them serves each case. */
typedef struct kernels {
    gale__schedule s[CASES];
    gale__ir *ir[CASES];
    int of[CASES], n;
    gale__str keys[CASES];
} kernels;

static void free_kernels(kernels *k)
{
    for (int i = 0; i < k->n; i++) {
        gale__ir_finish(k->ir[i]);
        free(k->ir[i]);
        gale__str_finish(&k->keys[i]);
    }
    free(k);
}

/* Equal keys must mean equal kernels: each case is built, and thrown away when its key is known. */
static bool same_kernel(const gale__ir *a, const gale__ir *b)
{
    if (a->count != b->count || a->n_words != b->n_words) return false;
    for (uint32_t i = 1; i < a->count; i++) { /* field by field: the structure has padding */
        const gale__ir_instr *x = &a->code[i], *y = &b->code[i];
        if (x->op != y->op || x->type != y->type || x->width != y->width || x->mem != y->mem || x->imm != y->imm)
            return false;
        if (x->a != y->a || x->b != y->b || x->c != y->c || x->d != y->d) return false;
    }
    return true;
}

/* Four sets of threads share the steps along k of a tile. */
static void share_k(gale__schedule *s)
{
    s->tile_m = s->tile_n = 32, s->micro_m = s->micro_n = 4;
    s->tile_k = 64, s->steps = 4, s->exact = 0;
}

static bool build_case(kernels *k, int i, const gale_device_caps *caps)
{
    gale__str key = {0};
    char name[32];
    int at = 0;
    gale__ir *ir = calloc(1, sizeof *ir);
    gale_device_caps small = *caps;
    bool window = strstr(cases[i].name, "windows of") != NULL;
    if (window) small.compute_units = 1; /* a larger device would want more of them */
    if (!CHECK_OK(gale__schedule_choose(&cases[i].nest, &small, &k->s[i]))) return false;
    if (window) CHECK_EQ(k->s[i].kind, GALE__SCHEDULE_WINDOW);
    /* As if the buffers were huge.  (lavapipe may not survive 64-bit division: see ir_lower.c.) */
    if (i % 6 == 5 && !(caps->software && caps->push_bytes)) k->s[i].index64 = 1;
    if (k->s[i].kind == GALE__SCHEDULE_MAP && i % 6 == 4) k->s[i].steps = 2;
    if (k->s[i].kind == GALE__SCHEDULE_TILE && i % 4 == 1) share_k(&k->s[i]);
    if (strstr(cases[i].name, "many groups")) k->s[i].rows = 1; /* more than one axis of the grid takes */
    CHECK_OK(gale__schedule_params(&cases[i].nest, &k->s[i], &key, NULL, NULL));
    while (at < k->n && (k->keys[at].length != key.length || memcmp(k->keys[at].text, key.text, key.length))) at++;
    snprintf(name, sizeof name, "k%d_%s", at, gale__schedule_name(&k->s[i]));
    if (!CHECK_OK(gale__schedule_build(&cases[i].nest, &k->s[i], name, ir)) || !CHECK_OK(gale__ir_validate(ir))) {
        printf("  in case %d, %s\n", i, cases[i].name);
        return false;
    }
    k->of[i] = at;
    if (at < k->n) {
        CHECK(same_kernel(ir, k->ir[at]));
        gale__ir_finish(ir);
        free(ir);
        gale__str_finish(&key);
        return true;
    }
    k->keys[at] = key;
    k->ir[k->n++] = ir;
    return true;
}

static kernels *build_all(const gale_device_caps *caps)
{
    kernels *k = calloc(1, sizeof *k);
    for (int i = 0; i < n_cases; i++)
        if (!build_case(k, i, caps)) k->of[i] = -1;
    return k;
}

static void describe(const nest_case *c, const kernels *k, int i)
{
    gale__str text = {0};
    gale__nest_print(&c->nest, &text);
    const gale__schedule *s = &k->s[i];
    printf("  case %d, %s: %s vector %d steps %d threads %d rows %d resident %d exact %d tail %d shuffle %d\n%s", i,
        c->name, gale__schedule_name(s), s->vector, s->steps, s->threads, s->rows, s->resident, s->exact, s->tail,
        s->shuffle, gale__str_text(&text));
    gale__str_finish(&text);
}

static void run_case(gale_device *device, gale_module *module, const kernels *k, int i)
{
    const nest_case *c = &cases[i];
    void *results[NR_BUFFERS];
    bool good = nr_launch(device, module, c, &k->s[i], k->ir[k->of[i]], results);
    for (int b = 0; good && b < c->nest.n_buffers; b++) {
        int64_t at = results[b] ? nr_compare(c, b, results[b]) : -1;
        if (CHECK_EQ(at, -1)) continue;
        gale_type type = c->buffers[b].type;
        nr_value want = nr_read(type, c->expected[b], at), have = nr_read(type, results[b], at);
        if (gale__type_is_float(type)) printf("  want %.9g, have %.9g in buffer %d\n", want.f, have.f, b);
        else printf("  want %" PRId64 ", have %" PRId64 " in buffer %d\n", want.i, have.i, b);
        good = false;
    }
    if (!good) describe(c, k, i);
    for (int b = 0; b < NR_BUFFERS; b++) free(results[b]);
}

/* One program for text, one module a kernel for SPIR-V. */
static gale_module *build_text(gale_device *device, const kernels *k, int dialect, const gale_device_caps *caps)
{
    gale__str text = {0};
    gale_module *module = NULL;
    gale__source source = {
        .code = GALE__CODE_TEXT, .options = dialect == GALE__DIALECT_CUDA ? "-fmad=false" : "", .ours = true};
    if (CHECK_OK(gale__ir_print_c((const gale__ir *const *)k->ir, k->n, (gale__dialect)dialect, caps, &text))) {
        source.data = text.text;
        source.size = text.length;
        if (!CHECK_OK(gale__module_build(device, &source, &module)) && getenv("GALE_TEST_KEEP"))
            printf("%s\n", text.text);
    }
    gale__str_finish(&text);
    return module;
}

static void run_target(int target)
{
    gale_device *device = ir_device(target);
    if (!device) return;
    const gale_device_caps *caps = &gale_device_get_info(device)->caps;
    kernels *k = build_all(caps);
    gale_module **modules = calloc(CASES, sizeof *modules);
    int dialect = ir_targets[target].dialect;
    gale_module *all = dialect >= 0 ? build_text(device, k, dialect, caps) : NULL;
    printf("%s: %d cases, %d kernels\n", ir_targets[target].provider, n_cases, k->n);
    for (int i = 0; i < n_cases; i++) {
        int at = k->of[i];
        if (at < 0) continue;
        if (dialect < 0 && !modules[at]) {
            gale_status status = ir_build(device, k->ir[at], dialect, &modules[at]);
            if (status == GALE_UNSUPPORTED) {
                printf("SKIP case %d on %s: %s\n", i, ir_targets[target].provider, gale_error());
                continue;
            }
            if (!CHECK_OK(status)) describe(&cases[i], k, i);
        }
        gale_module *module = all ? all : modules[at];
        if (module) run_case(device, module, k, i);
    }
    for (int i = 0; i < CASES; i++) gale_module_destroy(&modules[i]);
    gale_module_destroy(&all);
    free(modules);
    free_kernels(k);
}

TEST(opencl) { run_target(0); }
TEST(vulkan) { run_target(1); }
TEST(cuda) { run_target(2); }
TEST(hip) { run_target(3); }

/* Every text compiles for CUDA, whether there is a device or not. */
TEST(nvrtc)
{
    kernels *k = build_all(&ir_full_caps);
    gale__str text = {0};
    if (CHECK_OK(gale__ir_print_c((const gale__ir *const *)k->ir, k->n, GALE__DIALECT_CUDA, &ir_full_caps, &text)))
        ir_nvrtc(text.text, "all");
    gale__str_finish(&text);
    free_kernels(k);
}

static void key_of(int i, gale__str *key)
{
    gale__schedule s;
    CHECK_OK(gale__schedule_choose(&cases[i].nest, &ir_full_caps, &s));
    CHECK_OK(gale__schedule_params(&cases[i].nest, &s, key, NULL, NULL));
}

/* Shapes of one class share a kernel; another class has another. */
TEST(keys_are_classes)
{
    gale__str keys[4] = {{0}};
    const char *const names[4] = {
        "softmax of 64", "softmax of 64, more rows", "layer norm of 768", "layer norm of 768, fewer rows"};
    for (int n = 0; n < 4; n++)
        for (int i = 0; i < n_cases; i++)
            if (!strcmp(cases[i].name, names[n])) key_of(i, &keys[n]);
    for (int n = 0; n < 4; n += 2)
        CHECK(keys[n].length && keys[n].length == keys[n + 1].length &&
              !memcmp(keys[n].text, keys[n + 1].text, keys[n].length));
    CHECK(keys[0].length != keys[2].length || memcmp(keys[0].text, keys[2].text, keys[0].length));
    for (int n = 0; n < 4; n++) gale__str_finish(&keys[n]);
}

TEST(close)
{
    for (int i = 0; i < n_cases; i++) nr_finish(&cases[i]);
    free(cases);
    ir_close_devices();
}

static const test_row rows[] = {
    ROW(nvrtc), ROW(opencl), ROW(vulkan), ROW(cuda), ROW(hip), ROW(keys_are_classes), ROW(close)};
int main(int argc, char **argv)
{
    make_cases();
    return test_main(rows, sizeof rows / sizeof *rows, argc, argv);
}
