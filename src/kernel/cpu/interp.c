/* Creates a kernel from a nest: copies the nest, chooses a schedule, and reserves the scratch memory that runs will
 * need. */
#include "kernel/cpu/interp.h"
#include "base/thread.h"
#include "kernel/cpu/contract.h"
#include "kernel/cpu/direct.h"
#include "kernel/cpu/last.h"
#include "kernel/cpu/last_bytes.h"
#include "kernel/cpu/last_first.h"
#include "kernel/cpu/last_window.h"
#include "kernel/cpu/scratch.h"
#include <string.h>

struct gale__cpu_kernel {
    gale__arena arena;
    gale__nest nest;
    bool contracts; /* which of the two */
    gale__cpu_direct direct;
    gale__cpu_contract contract;
    gale__cpu_last last;          /* instead of both, if it has a kind */
    gale__cpu_last_bytes bytes;   /* the same */
    gale__cpu_last_window window; /* the same, if it has a nest */
    gale__cpu_last_first first;   /* the same */
    gale__cpu_scratch_kind private_kind, shared_kind;
    size_t private_bytes, shared_bytes;
};

/* A shared piece, and a private one for each thread. */
static gale_status reserve(gale__cpu_kernel *k, size_t private, size_t shared)
{
    GALE_TRY(gale__cpu_scratch_reserve(GALE__CPU_SCRATCH_SHARED, shared, 1));
    k->shared_bytes = shared;
    GALE_TRY(gale__cpu_scratch_reserve(GALE__CPU_SCRATCH_PRIVATE, private, gale__parallel_width()));
    k->private_bytes = private;
    return GALE_OK;
}

static gale_status prepare(gale__cpu_kernel *k, const gale__nest *nest)
{
    k->shared_kind = GALE__CPU_SCRATCH_SHARED;
    k->private_kind = GALE__CPU_SCRATCH_PRIVATE;
    GALE_TRY(gale__nest_copy(&k->arena, nest, &k->nest));
    gale__nest_trim(&k->nest);
    gale__contraction info;
    bool last = gale__cpu_last_find(&k->last, &k->nest);
    if (last) return reserve(k, k->last.private_bytes, 0);
    if (gale__cpu_last_window_find(&k->window, &k->nest))
        return reserve(k, k->window.private_bytes, k->window.shared_bytes);
    if (gale__cpu_last_first_find(&k->first, &k->nest))
        return reserve(k, k->first.private_bytes, k->first.shared_bytes);
    if (gale__cpu_last_bytes_find(&k->bytes, &k->nest))
        return reserve(k, k->bytes.private_bytes, k->bytes.shared_bytes);
    k->contracts = gale__cpu_contract_fits(&k->nest, &info);
    if (k->contracts) GALE_TRY(gale__cpu_contract_init(&k->contract, &k->nest, &info));
    else GALE_TRY(gale__cpu_direct_init(&k->direct, &k->nest));
    size_t shared = k->contracts ? k->contract.shared_bytes : k->direct.parts_bytes;
    size_t private = k->contracts ? k->contract.private_bytes : k->direct.scratch_bytes;
    k->shared_kind = gale__cpu_contract_scratch(&k->contract, GALE__CPU_SCRATCH_SHARED);
    k->private_kind = gale__cpu_contract_scratch(&k->contract, GALE__CPU_SCRATCH_PRIVATE);
    GALE_TRY(gale__cpu_scratch_reserve(k->shared_kind, shared, k->contracts ? k->contract.shared_pieces : 1));
    k->shared_bytes = shared;
    GALE_TRY(gale__cpu_scratch_reserve(k->private_kind, private, gale__parallel_width()));
    k->private_bytes = private;
    return GALE_OK;
}

gale_status gale__cpu_kernel_create(const gale__nest *nest, gale__cpu_kernel **out)
{
    gale__cpu_kernel *k = gale__calloc(1, sizeof *k);
    if (!k) return GALE_NO_MEMORY;
    gale_status status = prepare(k, nest);
    if (status != GALE_OK) gale__cpu_kernel_destroy(&k);
    else *out = k;
    return status;
}

void gale__cpu_kernel_destroy(gale__cpu_kernel **kernel)
{
    gale__cpu_kernel *k = *kernel;
    *kernel = NULL;
    if (!k) return;
    gale__cpu_scratch_release(k->shared_kind, k->shared_bytes);
    gale__cpu_scratch_release(k->private_kind, k->private_bytes);
    gale__cpu_direct_finish(&k->direct);
    gale__cpu_contract_finish(&k->contract);
    gale__arena_finish(&k->arena);
    gale__free(k);
}

static bool same_place(const gale__nest *nest, const gale__nest_access *a, const gale__nest_access *b)
{
    if (a->offset != b->offset || a->n_guards || b->n_guards || gale_type_size(a->type) != gale_type_size(b->type))
        return false;
    return !memcmp(a->stride, b->stride, sizeof *a->stride * (size_t)(nest->n_outer + nest->n_inner));
}

/* Values that are added to finished sums, as these are stored. */
static bool is_finish_load(const gale__cpu_kernel *k, const gale__nest_access *a)
{
    const gale__cpu_finish *q = &k->contract.finish;
    return k->contracts && q->out && (a == q->other || a == q->also);
}

/* An output is memory that the nest also reads, or another output's, in a way that element by element does not cover:
 * what is read then must be copied before anything is written. */
static bool outputs_aliased(const gale__cpu_kernel *k, void *const *buffers)
{
    const gale__nest *nest = &k->nest;
    for (int s = 0; s < nest->n_stores; s++) {
        const gale__nest_access *out = &nest->accesses[nest->stores[s].access];
        for (int i = 0; i < nest->n_code; i++) {
            if (nest->code[i].op != GALE__NEST_LOAD && nest->code[i].op != GALE__NEST_TAKE) continue;
            const gale__nest_access *in = &nest->accesses[nest->code[i].access];
            if (buffers[in->buffer] != buffers[out->buffer]) continue;
            if (nest->n_stores > 1 || nest->code[i].op == GALE__NEST_TAKE || !same_place(nest, in, out) ||
                (nest->n_inner && !is_finish_load(k, in)))
                return true;
        }
    }
    return false;
}

void gale__cpu_kernel_run(const gale__cpu_kernel *k, void *const *buffers)
{
    bool aliased = outputs_aliased(k, buffers);
    if (k->last.kind) gale__cpu_last_run(&k->last, buffers);
    else if (k->window.nest) gale__cpu_last_window_run(&k->window, buffers);
    else if (k->first.nest) gale__cpu_last_first_run(&k->first, buffers);
    else if (k->bytes.kind) gale__cpu_last_bytes_run(&k->bytes, buffers);
    else if (k->contracts) gale__cpu_contract_run(&k->contract, buffers, aliased);
    else gale__cpu_direct_run(&k->direct, buffers, aliased);
}

bool gale__cpu_kernel_in_place(const gale__cpu_kernel *k, int buffer)
{
    if (k->nest.n_stores != 1) return false;
    if (k->last.kind) return k->last.finish.other && k->last.finish.other->buffer == buffer;
    if (k->window.nest) return k->window.finish.other && k->window.finish.other->buffer == buffer;
    if (k->first.nest) return false;
    if (k->bytes.kind)
        return k->bytes.requant.skip && k->bytes.requant.skip->buffer == buffer && k->bytes.x.access->buffer != buffer;
    for (int i = 0; i < k->nest.n_accesses && k->contracts; i++)
        if (k->nest.accesses[i].buffer == buffer && !is_finish_load(k, &k->nest.accesses[i])) return false;
    return k->contracts || !k->nest.n_inner;
}

gale__cpu_panels gale__cpu_kernel_panels(const gale__cpu_kernel *k)
{
    if (k->last.kind) return k->last.panels;
    if (k->window.nest) return k->window.panels;
    if (k->first.nest) return k->first.panels;
    if (k->bytes.kind) return k->bytes.panels;
    if (!k->contracts) return (gale__cpu_panels){.buffer = -1};
    return k->contract.panels.bytes ? k->contract.panels : k->contract.a_panels;
}

void gale__cpu_kernel_make_panels(const gale__cpu_kernel *k, void *from, void *to)
{
    if (k->last.kind) gale__cpu_last_make_panels(&k->last, from, to);
    else if (k->window.nest) gale__cpu_last_window_make_panels(&k->window, from, to);
    else if (k->first.nest) gale__cpu_last_first_make_panels(&k->first, from, to);
    else if (k->bytes.kind) gale__cpu_last_bytes_make_panels(&k->bytes, from, to);
    else gale__cpu_contract_make_panels(&k->contract, from, to);
}

const char *gale__cpu_kernel_schedule(const gale__cpu_kernel *k)
{
    bool depth = k->last.kind == GALE__CPU_LAST_DEPTH || k->bytes.kind == GALE__CPU_LAST_BYTES_DEPTH;
    if (k->bytes.kind && k->bytes.tiles) return "tiles of pixels, channels last";
    if (k->window.nest) return k->window.winograd.m ? "winograd, channels last" : "by group, channels last";
    if (k->first.nest) return "first layer, channels last";
    if (k->last.kind || k->bytes.kind) return depth ? "by channel, channels last" : "pixels, channels last";
    if (k->contracts && k->contract.channel.weights) return "by channel";
    if (k->contracts && k->contract.winograd.weights) return "winograd";
    if (k->contracts && k->contract.shares) return "contraction, f32 as three bf16";
    if (k->contracts) return k->contract.groups > 1 ? "contraction, split" : "contraction";
    if (!k->nest.n_inner) return k->direct.plan.takes_rows ? "map, rows by index" : "map";
    return k->direct.plan.inner_lanes ? k->direct.groups > 1 ? "row, split" : "row"
           : k->direct.groups > 1     ? "column, split"
                                      : "column";
}
