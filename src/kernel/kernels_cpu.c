/* Kernels of the CPU device: nests that the interpreter takes as they are, and functions of the host. */
#include "base/hash.h"
#include "base/hash_table.h"
#include "kernel/cpu/interp.h"
#include "kernel/kernels.h"
#include <string.h>

typedef struct key {
    uint64_t a, b;
} key;

static void run_on_cpu(void *user, const gale__launch *launch)
{
    void *pointers[256];
    for (int i = 0; i < launch->n_refs && i < 256; i++)
        pointers[i] = (char *)(uintptr_t)launch->refs[i].mem->address + launch->refs[i].offset;
    gale__cpu_kernel_run(user, pointers);
}

static gale_status new_host(gale_device *device, gale__host_kernel *fn, gale__runnable *r)
{
    r->host = gale__calloc(1, sizeof *r->host);
    if (!r->host) return GALE_NO_MEMORY;
    r->host->module.device = device;
    r->host->module.source = (gale__source){.code = GALE__CODE_HOST, .fn = fn, .options = "", .ours = true};
    r->host->kernel.module = &r->host->module;
    for (int i = 0; i < 3; i++) r->host->kernel.group[i] = r->groups[i] = 1;
    r->parts = 1;
    r->kernel = &r->host->kernel;
    return GALE_OK;
}

static gale_status make_cpu(gale_device *device, const gale__nest *nest, gale__runnable *r)
{
    GALE_TRY(new_host(device, run_on_cpu, r));
    GALE_TRY(gale__cpu_kernel_create(nest, &r->host->cpu));
    r->host->module.source.user = r->host->cpu;
    r->name = gale__cpu_kernel_schedule(r->host->cpu);
    return GALE_OK;
}

static const gale__cpu_kernel *cpu_kernel_of(const gale__runnable *r)
{
    return r->kernel && r->kernel->module->source.fn == run_on_cpu ? r->kernel->module->source.user : NULL;
}

bool gale__runnable_in_place(const gale__runnable *r, int buffer)
{
    const gale__cpu_kernel *cpu = cpu_kernel_of(r);
    return cpu && gale__cpu_kernel_in_place(cpu, buffer);
}

gale__panels gale__runnable_panels(const gale__runnable *r)
{
    const gale__cpu_kernel *cpu = cpu_kernel_of(r);
    if (!cpu) return (gale__panels){0};
    gale__cpu_panels p = gale__cpu_kernel_panels(cpu);
    return (gale__panels){cpu, p.buffer, p.bytes, p.key};
}

void gale__panels_make(const gale__panels *p, void *from, void *to) { gale__cpu_kernel_make_panels(p->by, from, to); }

gale_status gale__runnable_host(gale_device *device, gale__host_kernel *fn, const void *user, size_t user_bytes,
    const char *name, gale__runnable *out)
{
    memset(out, 0, sizeof *out);
    GALE_TRY(new_host(device, fn, out));
    out->host->user = gale__alloc(user_bytes);
    if (!out->host->user) return gale__runnable_finish(out), GALE_NO_MEMORY;
    memcpy(out->host->user, user, user_bytes);
    out->host->module.source.user = out->host->user;
    out->name = name;
    return GALE_OK;
}

/* Words on their way into a key; hashed whenever there are many. */
typedef struct feed {
    key key;
    int n;
    uint64_t words[128];
} feed;

static void flush(feed *f)
{
    f->key.a = gale__hash(f->words, (size_t)f->n * sizeof *f->words, f->key.a);
    f->key.b = gale__hash(f->words, (size_t)f->n * sizeof *f->words, f->key.b);
    f->n = 0;
}

static void add_word(feed *f, uint64_t word)
{
    if (f->n == (int)(sizeof f->words / sizeof *f->words)) flush(f);
    f->words[f->n++] = word;
}

static void add_words(feed *f, const int64_t *words, int n)
{
    for (int i = 0; i < n; i++) add_word(f, (uint64_t)words[i]);
}

static uint64_t pair(int32_t a, int32_t b) { return (uint64_t)(uint32_t)a << 32 | (uint32_t)b; }

static void add_access(feed *f, const gale__nest_access *x, int dims)
{
    add_word(f, pair(x->buffer, (int32_t)x->type << 8 | x->n_guards));
    add_words(f, (const int64_t[]){x->offset, (int64_t)x->fill}, 2);
    add_words(f, x->stride, dims);
    for (int g = 0; g < x->n_guards; g++) {
        const gale__nest_guard *y = &x->guards[g];
        add_words(f, (const int64_t[]){y->c0, y->extent, y->div, y->stride}, 4);
        add_words(f, y->coef, dims);
    }
}

/* Everything that determines the work of a nest, member by member: padding of a struct may contain anything. */
static key nest_key(const gale__nest *nest)
{
    feed f; /* its words are not cleared */
    f.key = (key){1, 2};
    f.n = 0;
    int dims = nest->n_outer + nest->n_inner;
    add_words(&f,
        (const int64_t[]){nest->n_outer, nest->n_inner, nest->n_stores, nest->n_buffers, nest->n_code, nest->n_accesses,
            nest->fast, nest->steady},
        8);
    add_words(&f, nest->extent, dims);
    for (int i = 0; i < nest->n_code; i++) {
        const gale__nest_instr *in = &nest->code[i];
        add_word(&f, pair(in->op | in->type << 8 | in->inner << 16 | in->acc << 24, in->a));
        add_word(&f, pair(in->b, in->c));
        add_words(&f, (const int64_t[]){in->access, (int64_t)in->imm}, 2);
    }
    for (int a = 0; a < nest->n_accesses; a++) add_access(&f, &nest->accesses[a], dims);
    for (int b = 0; b < nest->n_buffers; b++)
        add_words(&f,
            (const int64_t[]){
                nest->buffers[b].elements, nest->buffers[b].type, nest->buffers[b].written, nest->buffers[b].constant},
            4);
    for (int s = 0; s < nest->n_stores; s++) {
        const gale__nest_store *x = &nest->stores[s];
        add_words(&f, (const int64_t[]){x->value, x->access, x->index, x->limit}, 4);
    }
    flush(&f);
    return f.key;
}

/* Layers repeat: nests that are the same in every number share the first one's kernel. */
gale_status gale__runnables_make_cpu(gale_device *device, const gale__nest *const *nests, int n, gale__runnable *out)
{
    gale__hash_table seen = {0};
    key *keys = gale__calloc((size_t)n + 1, sizeof *keys);
    gale_status status = keys ? gale__hash_table_reserve(&seen, (size_t)n) : GALE_NO_MEMORY;
    for (int i = 0; i < n && status == GALE_OK; i++) {
        keys[i] = nest_key(nests[i]);
        gale__hash_table_probe probe = gale__hash_table_look(keys[i].a);
        int64_t same;
        do same = gale__hash_table_next(&seen, &probe);
        while (same >= 0 && (keys[same].a != keys[i].a || keys[same].b != keys[i].b));
        if (same >= 0) {
            out[i] = out[same];
            out[i].host = NULL;
            continue;
        }
        status = gale__hash_table_add(&seen, keys[i].a, (uint32_t)i);
        if (status == GALE_OK) status = make_cpu(device, nests[i], &out[i]);
    }
    gale__hash_table_finish(&seen);
    gale__free(keys);
    return status;
}

void gale__runnable_finish(gale__runnable *r)
{
    if (r->host) {
        gale__cpu_kernel_destroy(&r->host->cpu);
        gale__free(r->host->user);
    }
    gale__free(r->host);
    memset(r, 0, sizeof *r);
}
