/* Matrix products with cuBLASLt.  The library is told to multiply and add in f32 (no tf32, no emulation) and to sum in
 * a fixed order, so that the numeric contract holds and runs are bit-identical.  It uses column-major order: our
 * row-major d is its d transposed, so our b is its first factor. */
#include "device/cuda/blas.h"
#include <stddef.h>
#include <string.h>

enum { F32_TYPE = 0, F16_TYPE = 2, BF16_TYPE = 14 };
enum { COMPUTE_F32 = 68, COMPUTE_F32_EXACTLY = 69 };
enum { PRODUCT_TRANSPOSE_A = 3, PRODUCT_TRANSPOSE_B = 4 };
enum { LAYOUT_BATCHES = 5, LAYOUT_BATCH_STRIDE = 6 };
enum { WISH_WORKSPACE = 1, WISH_REDUCTIONS = 3, WISH_ALIGNMENT_A = 5, WISH_ALIGNMENT_D = 8 };
enum { REDUCE_IN_F32 = 2 }; /* parts of k in the workspace, added in order */
enum { NO_ALGORITHM = 15 }; /* "not supported" */
#define WORKSPACE_MOST ((uint64_t)32 << 20)
#define ALIGNMENT 16u

typedef struct blas {
    gale__dl *dl;
#define X(need, result, field, cuda, hip, args) result(*field) args;
#include "device/cuda/blas.def"
#undef X
} blas;
static const gale__cu_symbol symbols[] = {
#define X(need, result, field, cuda, hip, args) {GALE__CU_##need, {cuda, hip}, offsetof(blas, field)},
#include "device/cuda/blas.def"
#undef X
};
static const char *const sonames[] = {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13",
    "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so.12", "libcublasLt.so.11", "libcublasLt.so", NULL};

static blas library; /* once opened it stays open */
static gale__once once;
static gale__mutex lock;
static void init(void) { gale__mutex_init(&lock); }

static gale_status load(void)
{
    bool damaged;
    gale__dl *dl = NULL;
    blas table = {0};
    if (library.dl) return GALE_OK;
    GALE_TRY(gale__cu_open_library(GALE__ENV_CUBLASLT_LIBRARY, sonames, &dl, &damaged));
    gale_status status = gale__cu_fill(dl, false, symbols, sizeof symbols / sizeof *symbols, &table);
    if (status != GALE_OK) return gale__dl_close(&dl), status;
    table.dl = dl;
    library = table;
    return GALE_OK;
}

static gale_status check(int code, const char *what)
{
    if (!code) return GALE_OK;
    gale_status status = code == NO_ALGORITHM ? GALE_UNSUPPORTED : code == 3 ? GALE_NO_MEMORY : GALE_INTERNAL;
    return gale__fail(status, "cuBLASLt: %s: status %d", what, code);
}

/* From this side on the library is faster than our own kernels by more than what it cannot fuse costs (H200: f32 512
 * cubed and more, f16 4096 cubed and more: 187 us, and 207 by our own; of 2048, 38 and 37). */
enum { SIDE_AUTO = 4096, SIDE_ASKED = 64 };

uint32_t gale__cu_blas_side(const gale__cu_device *d)
{
    const char *how = gale__env_get(GALE__ENV_BLAS);
    if (d->api->maker->hip || !strcmp(how, "0")) return 0;
    return !strcmp(how, "1") ? SIDE_ASKED : SIDE_AUTO;
}

/* The library is large: it is opened for the first product that it may take. */
static gale_status open_library(gale__cu_device *d)
{
    gale__once_run(&once, init);
    gale__mutex_lock(&lock);
    gale_status status = d->blas_missing ? gale__fail(GALE_NOT_FOUND, "cuBLASLt could not be opened before") : GALE_OK;
    if (status == GALE_OK && !d->blas) {
        status = load();
        if (status == GALE_OK) status = check(library.create(&d->blas), "starting");
        d->blas_missing = status != GALE_OK;
        if (status != GALE_OK) gale__log(GALE__INFO, "cuBLASLt is not used for products: %s", gale_error());
    }
    gale__mutex_unlock(&lock);
    return status;
}

void gale__cu_blas_close(gale__cu_device *d)
{
    if (d->blas) library.destroy(d->blas);
    d->blas = NULL;
}

/* A product prepared: the library's own objects. */
typedef struct prepared {
    void *product, *layout[3]; /* of its first factor, its second, and d */
    uint64_t algorithm[8], offset_bytes[2];
} prepared;

static gale_status set_layout(
    prepared *p, int which, int type, int64_t rows, int64_t columns, int64_t pitch, int64_t batches, int64_t stride)
{
    int32_t count = (int32_t)batches;
    GALE_TRY(
        check(library.layout_create(&p->layout[which], type, (uint64_t)rows, (uint64_t)columns, pitch), "a layout"));
    GALE_TRY(check(library.layout_set(p->layout[which], LAYOUT_BATCHES, &count, sizeof count), "a layout"));
    return check(library.layout_set(p->layout[which], LAYOUT_BATCH_STRIDE, &stride, sizeof stride), "a layout");
}

static gale_status describe(const gale__matrix_product *s, prepared *p)
{
    int type = s->type == GALE_F32 ? F32_TYPE : s->type == GALE_F16 ? F16_TYPE : BF16_TYPE;
    int32_t transpose_a = s->b.transposed != 0, transpose_b = s->a.transposed != 0;
    int64_t m = s->m, n = s->n, k = s->k, batches = s->batches;
    GALE_TRY(
        check(library.product_create(&p->product, s->type == GALE_F32 ? COMPUTE_F32_EXACTLY : COMPUTE_F32, F32_TYPE),
            "a product"));
    GALE_TRY(
        check(library.product_set(p->product, PRODUCT_TRANSPOSE_A, &transpose_a, sizeof transpose_a), "a product"));
    GALE_TRY(
        check(library.product_set(p->product, PRODUCT_TRANSPOSE_B, &transpose_b, sizeof transpose_b), "a product"));
    GALE_TRY(set_layout(p, 0, type, transpose_a ? k : n, transpose_a ? n : k, s->b.pitch, batches, s->b.batch));
    GALE_TRY(set_layout(p, 1, type, transpose_b ? m : k, transpose_b ? k : m, s->a.pitch, batches, s->a.batch));
    return set_layout(p, 2, type, n, m, n, batches, m * n);
}

static gale_status set_wishes(void *wish)
{
    uint64_t workspace = WORKSPACE_MOST;
    uint32_t reductions = REDUCE_IN_F32, alignment = ALIGNMENT;
    GALE_TRY(check(library.wish_set(wish, WISH_WORKSPACE, &workspace, sizeof workspace), "setting the workspace"));
    GALE_TRY(check(
        library.wish_set(wish, WISH_REDUCTIONS, &reductions, sizeof reductions), "setting the order of summation"));
    for (int i = WISH_ALIGNMENT_A; i <= WISH_ALIGNMENT_D; i++)
        GALE_TRY(check(library.wish_set(wish, i, &alignment, sizeof alignment), "setting the alignment"));
    return GALE_OK;
}

static gale_status choose(const gale__cu_device *d, prepared *p, size_t *workspace_bytes)
{
    gale__cu_blas_choice choice = {0};
    void *wish = NULL;
    int found = 0;
    GALE_TRY(check(library.wish_create(&wish), "a choice"));
    gale_status status = set_wishes(wish);
    if (status == GALE_OK)
        status = check(library.choose(d->blas, p->product, p->layout[0], p->layout[1], p->layout[2], p->layout[2], wish,
                           1, &choice, &found),
            "choosing an algorithm");
    library.wish_destroy(wish);
    GALE_TRY(status);
    GALE_TRY(check(found < 1 ? NO_ALGORITHM : choice.state, "choosing an algorithm"));
    memcpy(p->algorithm, choice.algorithm, sizeof p->algorithm);
    *workspace_bytes = choice.workspace_bytes;
    return GALE_OK;
}

static void finish(prepared *p)
{
    for (int i = 0; i < 3; i++)
        if (p->layout[i]) library.layout_destroy(p->layout[i]);
    if (p->product) library.product_destroy(p->product);
    gale__free(p);
}

gale_status gale__cu_product(gale_device *device, const gale__matrix_product *product, gale__call *call)
{
    gale__cu_device *d = device->impl;
    prepared *p = gale__calloc(1, sizeof *p);
    if (!p) return GALE_NO_MEMORY;
    size_t size = gale_type_size((gale_type)product->type);
    p->offset_bytes[0] = (uint64_t)product->a.offset * size;
    p->offset_bytes[1] = (uint64_t)product->b.offset * size;
    gale_status status = gale__cu_enter(d);
    if (status == GALE_OK) status = open_library(d);
    if (status == GALE_OK) status = describe(product, p);
    if (status == GALE_OK) status = choose(d, p, &call->workspace_bytes);
    if (status != GALE_OK) return finish(p), status;
    call->impl = p;
    return GALE_OK;
}

void gale__cu_call_destroy(gale__call *call) { finish(call->impl); }

static uint64_t at(gale__ref ref) { return ref.mem->address + ref.offset; }

gale_status gale__cu_call_run(gale_stream *stream, gale__call *call, const gale__ref *refs)
{
    gale__cu_device *d = stream->device->impl;
    const prepared *p = call->impl;
    const float one = 1, zero = 0;
    uint64_t a = at(refs[1]) + p->offset_bytes[0], b = at(refs[2]) + p->offset_bytes[1], to = at(refs[0]);
    GALE_TRY(gale__cu_enter(d));
    return check(
        library.run(d->blas, p->product, &one, b, p->layout[0], a, p->layout[1], &zero, to, p->layout[2], to,
            p->layout[2], p->algorithm, call->workspace_bytes ? at(refs[3]) : 0, call->workspace_bytes, stream->impl),
        "multiplying");
}
