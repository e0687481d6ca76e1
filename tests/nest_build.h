/* Building loop nests by hand and at random, for tests. */
#ifndef GALE_TEST_NEST_BUILD_H
#define GALE_TEST_NEST_BUILD_H
#include "kernel/nest/nest.h"
#include <string.h>

static uint64_t random_state = 0x9E3779B97F4A7C15ull;
static inline uint32_t random_u32(void)
{
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    uint64_t x = random_state ^ random_state >> 29;
    return (uint32_t)((x * 0xBF58476D1CE4E5B9ull) >> 32);
}
static inline int below(int n) { return (int)(random_u32() % (uint32_t)n); }
static inline bool chance(int percent) { return below(100) < percent; }

/* A nest under construction, with room for everything. */
typedef struct build {
    gale__nest nest;
    gale__nest_instr code[64];
    gale__nest_access accesses[32];
    gale__nest_guard guards[32][GALE__GUARDS];
    gale__nest_store stores[8];
    gale__nest_buffer buffers[24];
} build;

static inline void build_init(build *b, int n_outer, int n_inner, const int64_t *extent)
{
    memset(b, 0, sizeof *b);
    b->nest = (gale__nest){.n_outer = n_outer,
        .n_inner = n_inner,
        .code = b->code,
        .accesses = b->accesses,
        .stores = b->stores,
        .buffers = b->buffers};
    memcpy(b->nest.extent, extent, sizeof(int64_t) * (size_t)(n_outer + n_inner));
}

static inline int add_buffer(build *b, gale_type type, int64_t elements, bool written)
{
    b->buffers[b->nest.n_buffers] = (gale__nest_buffer){elements, type, written};
    return b->nest.n_buffers++;
}

static inline gale__nest_access *add_access(build *b, int buffer)
{
    int i = b->nest.n_accesses++;
    gale__nest_access *a = &b->accesses[i];
    *a = (gale__nest_access){
        .buffer = buffer, .type = buffer < 0 ? GALE_I64 : b->buffers[buffer].type, .guards = b->guards[i]};
    return a;
}

static inline int add(build *b, int op, gale_type type, int inner, int x, int y, int z)
{
    b->code[b->nest.n_code] =
        (gale__nest_instr){.op = (uint8_t)op, .type = (uint8_t)type, .inner = (uint8_t)inner, .a = x, .b = y, .c = z};
    return b->nest.n_code++;
}

static inline int add_load(build *b, gale__nest_access *a, int inner)
{
    int i = add(b, GALE__NEST_LOAD, a->type, inner, 0, 0, 0);
    b->code[i].access = (int32_t)(a - b->accesses);
    return i;
}

static inline int add_const(build *b, gale_type type, double v)
{
    int i = add(b, GALE__NEST_CONST, type, 0, 0, 0, 0);
    gale__store_f64(gale__compute_type(type), &b->code[i].imm, v);
    return i;
}

static inline int add_reduce(build *b, int kind, gale_type type, gale_type acc, int value)
{
    int i = add(b, GALE__NEST_REDUCE, type, 0, value, 0, 0);
    b->code[i].imm = (uint64_t)kind;
    b->code[i].acc = (uint8_t)acc;
    return i;
}

static inline void add_store(build *b, int value, gale__nest_access *a)
{
    b->stores[b->nest.n_stores++] = (gale__nest_store){value, (int32_t)(a - b->accesses), -1, 0};
}

/* Dense row-major strides over the dimensions of mask, in their order. */
static inline int64_t dense(const build *b, gale__nest_access *a, uint32_t mask)
{
    int64_t size = 1;
    for (int d = b->nest.n_outer + b->nest.n_inner - 1; d >= 0; d--)
        if (mask >> d & 1) {
            a->stride[d] = size;
            size *= b->nest.extent[d];
        }
    return size;
}

/* A new input or output buffer, dense over mask. */
static inline gale__nest_access *dense_access(build *b, gale_type type, uint32_t mask, bool written)
{
    gale__nest_access *a = add_access(b, add_buffer(b, type, 0, written));
    b->buffers[a->buffer].elements = dense(b, a, mask);
    return a;
}

/* What a convolution reads, [n, groups, c, h, w], by dimensions n, group, output channel, y, x and c, taps of y, of x.
 */
typedef struct build_maps {
    int64_t n, groups, c, h, w, pad, stride, hop;
} build_maps;
static inline gale__nest_access *maps_access(build *b, const build_maps *m)
{
    gale__nest_access *x = add_access(b, add_buffer(b, GALE_F32, m->n * m->groups * m->c * m->h * m->w, false));
    x->stride[0] = m->groups * m->c * m->h * m->w;
    x->stride[1] = m->c * m->h * m->w;
    x->stride[5] = m->h * m->w;
    x->offset = -m->pad * (m->w + 1);
    for (int axis = 0; axis < 2; axis++) {
        gale__nest_guard *g = &x->guards[axis];
        *g = (gale__nest_guard){.c0 = -m->pad, .extent = axis ? m->w : m->h, .div = 1};
        g->coef[3 + axis] = m->stride;
        g->coef[6 + axis] = m->hop;
        x->stride[6 + axis] = m->hop * (axis ? 1 : m->w);
        x->stride[3 + axis] = m->stride * (axis ? 1 : m->w);
    }
    x->n_guards = m->pad ? 2 : 0;
    return x;
}

/* Runs a kernel, and destroys it: buffers as given but for `written`, of so many bytes, which comes back, to be freed;
 * nothing beside it may be touched.  What the kernel wants in the place of a constant is made of it. */
static inline float *run_guarded(gale__cpu_kernel **k, float *const *at, int n, int written, size_t bytes)
{
    enum { ROOM = 64 };
    void *buffers[64];
    char *out = malloc(bytes + 2 * ROOM), *made = NULL;
    gale__cpu_panels panels = gale__cpu_kernel_panels(*k);
    memset(out, 0x5a, bytes + 2 * ROOM);
    for (int i = 0; i < n; i++) buffers[i] = at[i];
    buffers[written] = out + ROOM;
    if (panels.bytes) {
        made = gale__alloc_aligned(64, panels.bytes);
        gale__cpu_kernel_make_panels(*k, at[panels.buffer], made);
        buffers[panels.buffer] = made;
    }
    gale__cpu_kernel_run(*k, buffers);
    for (int i = 0; i < ROOM; i++) CHECK(out[i] == 0x5a && out[ROOM + bytes + (size_t)i] == 0x5a);
    gale__cpu_kernel_destroy(k);
    gale__free(made);
    memmove(out, out + ROOM, bytes);
    return (float *)(void *)out;
}

/* Every allocation of creating a kernel may fail; nothing is left behind. */
static inline void check_create_faults(const gale__nest *nest)
{
    int64_t live = gale__alloc_live();
    for (uint64_t n = 1; n < 100; n++) {
        gale__cpu_kernel *k = NULL;
        gale__alloc_fail_at(n);
        gale_status status = gale__cpu_kernel_create(nest, &k);
        gale__alloc_fail_at(0);
        CHECK((status == GALE_OK) == (k != NULL));
        gale__cpu_kernel_destroy(&k);
        CHECK_EQ(gale__alloc_live(), live);
        if (status == GALE_OK) return;
    }
}
#endif
