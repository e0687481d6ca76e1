/* Cases on a device.  Several share one graph, since some compilers take long to start; when such a graph fails, its
 * cases are run one by one, so that each gets its own verdict.  Results are between guard bytes that must survive. */
#include "graph/run/tensor.h"
#include "jobs/selftest/check.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define BATCH 96      /* enough kernels at once for compilers on all cores */
#define BATCH_SLOW 48 /* drivers that compile at the first launch must answer before the watchdog barks */
#define GUARD 256
#define GUARD_BYTE 0xA5

typedef struct item {
    gale__case_run run;
    gale__case_value want[GALE__CASE_VALUES]; /* the reference's */
    gale__case_value
        flushed[GALE__CASE_VALUES]; /* the reference's where denormals count as zero; only for devices that do so */
    bool turned;
    int first_in, first_out;
    char *name;
} item;

/* --- One case as part of a graph. --- */

static gale_status reverse_axes(gale_graph *graph, gale_value *value, int rank)
{
    gale_value turned;
    int64_t perm[GALE_MAX_RANK];
    for (int d = 0; d < rank; d++) perm[d] = rank - 1 - d;
    gale_attr order = GALE_INTS("perm", perm, (size_t)rank);
    GALE_TRY(gale_graph_op(graph, "Transpose", value, 1, &order, 1, &turned, 1));
    *value = turned;
    return GALE_OK;
}

static bool is_turned(const gale__case_value *v, bool turned) { return turned && v->rank > 1; }

gale_status gale__check_add(gale_graph *graph, const gale__case_run *run, bool turned, gale_value *outputs)
{
    gale_value in[GALE__CASE_VALUES];
    for (int i = 0; i < run->n_in; i++) {
        const gale__case_value *v = &run->in[i];
        int64_t dims[GALE_MAX_RANK];
        for (int d = 0; d < v->rank; d++) dims[d] = v->dims[is_turned(v, turned) ? v->rank - 1 - d : d];
        if (v->absent) in[i] = GALE_NONE;
        else if (v->plan) GALE_TRY(gale_graph_constant(graph, v->type, v->rank, v->dims, v->data, &in[i]));
        else {
            GALE_TRY(gale_graph_input(graph, "x", v->type, v->rank, dims, NULL, &in[i]));
            if (is_turned(v, turned)) GALE_TRY(reverse_axes(graph, &in[i], v->rank));
        }
    }
    GALE_TRY(gale_graph_op(graph, run->op->name, in, run->n_in, run->attrs, run->n_attrs, outputs, run->n_out));
    graph->nodes[graph->n_nodes - 1].number = 0; /* draws what it draws in the reference, where it is alone */
    return GALE_OK;
}

gale_status gale__check_tensor(gale_device *device, const gale__case_value *v, bool turned, gale_tensor **out)
{
    if (!is_turned(v, turned)) return gale_tensor_from_cpu(device, v->type, v->rank, v->dims, v->data, out);
    size_t size = gale_type_size(v->type);
    int64_t dims[GALE_MAX_RANK], at[GALE_MAX_RANK] = {0};
    char *data = gale__alloc((size_t)v->elements * size + 1);
    if (!data) return GALE_NO_MEMORY;
    for (int d = 0; d < v->rank; d++) dims[d] = v->dims[v->rank - 1 - d];
    for (int64_t i = 0; i < v->elements; i++) {
        int64_t to = 0;
        for (int d = v->rank - 1; d >= 0; d--) to = to * v->dims[d] + at[d];
        memcpy(data + (size_t)to * size, (const char *)v->data + (size_t)i * size, size);
        for (int d = v->rank - 1; d >= 0 && ++at[d] == v->dims[d]; d--) at[d] = 0;
    }
    gale_status status = gale_tensor_from_cpu(device, v->type, v->rank, dims, data, out);
    gale__free(data);
    return status;
}

/* --- Outputs between guards: the tensor that is written shows the middle of a larger one. --- */

typedef struct guarded {
    gale_tensor *whole;
    gale_buffer middle;
    gale_tensor tensor;
} guarded;

static gale_status guard(gale_device *device, const gale__case_value *want, guarded *g)
{
    size_t size = (size_t)want->elements * gale_type_size(want->type);
    int64_t total = (int64_t)size + 2 * GUARD;
    uint8_t *bytes = gale__alloc((size_t)total);
    if (!bytes) return GALE_NO_MEMORY;
    memset(bytes, GUARD_BYTE, (size_t)total);
    gale_status status = gale_tensor_from_cpu(device, GALE_U8, 1, &total, bytes, &g->whole);
    gale__free(bytes);
    GALE_TRY(status);
    const gale_buffer *from = g->whole->buffer;
    g->middle = (gale_buffer){.device = from->device,
        .mem = from->mem,
        .offset = from->offset + GUARD,
        .size = size,
        .piece = from->piece,
        .refs = 1 << 20};
    g->tensor = (gale_tensor){
        .device = device, .type = want->type, .rank = want->rank, .size_bytes = size, .buffer = &g->middle};
    memcpy(g->tensor.dims, want->dims, sizeof want->dims);
    return GALE_OK;
}

/* --- Devices that take denormals for zero: both results pass, element by element. --- */

static bool has_denormals(gale_type t)
{
    return t == GALE_F32 || t == GALE_BF16;
} /* those of other types are ordinary numbers in f32, or kept */

static double flushed_number(gale_type type, const void *p)
{
    double v = gale__load_f64(type, p);
    return has_denormals(type) && fabs(v) < 0x1p-126 ? copysign(0, v) : v;
}

static void flush_denormals(gale_type type, void *data, int64_t n)
{
    for (int64_t i = 0; has_denormals(type) && i < n; i++) {
        char *p = (char *)data + (size_t)i * gale_type_size(type);
        gale__store_f64(type, p, flushed_number(type, p));
    }
}

/* The reference again, with denormal inputs and results at zero. */
static gale_status flushed_reference(item *it)
{
    void *kept[GALE__CASE_VALUES] = {0};
    gale_status status = GALE_OK;
    for (int i = 0; i < it->run.n_in && status == GALE_OK; i++) {
        gale__case_value *v = &it->run.in[i];
        if (v->absent || !has_denormals(v->type)) continue;
        kept[i] = gale__arena_copy(&it->run.arena, v->data, (size_t)v->elements * gale_type_size(v->type));
        if (!kept[i]) status = GALE_NO_MEMORY;
        else flush_denormals(v->type, v->data, v->elements);
    }
    if (status == GALE_OK) status = gale__case_reference(&it->run, it->flushed);
    for (int i = 0; i < it->run.n_in; i++)
        if (kept[i])
            memcpy(it->run.in[i].data, kept[i], (size_t)it->run.in[i].elements * gale_type_size(it->run.in[i].type));
    for (int i = 0; i < it->run.n_out && status == GALE_OK; i++)
        flush_denormals(it->flushed[i].type, it->flushed[i].data, it->flushed[i].elements);
    return status;
}

/* Puts the device's element where it is the flushed reference's, to the bit or both NaN, and where both results are
 * denormals or 0: a device that compares so may hand either operand on, bits and all. */
static void allow_flushed(const item *it, int i, const uint8_t *got, const void *want, uint8_t *merged)
{
    size_t size = gale_type_size(it->want[i].type);
    gale_type type = it->want[i].type;
    memcpy(merged, want, (size_t)it->want[i].elements * size);
    for (int64_t k = 0; k < it->want[i].elements; k++) {
        const uint8_t *have = got + (size_t)k * size, *zero = (const uint8_t *)it->flushed[i].data + (size_t)k * size;
        double a = flushed_number(type, have), b = gale__load_f64(type, zero);
        bool nothing = a == 0 && flushed_number(type, (const uint8_t *)want + (size_t)k * size) == 0;
        if (a == b || (a != a && b != b) || nothing) memcpy(merged + (size_t)k * size, have, size);
    }
}

/* Whether the device takes denormals for zero: asked of those that do not promise to keep them. */
static gale_status find_flushing(gale_device *device, bool *out)
{
    static const int64_t dims[1] = {1};
    static const float tiny = 1e-40f;
    gale_graph *g = NULL;
    gale_program *p = NULL;
    gale_tensor *x = NULL, *y = NULL;
    gale_value in, negated;
    gale_status status;
    *out = false;
    if (device->info.caps.denormals) return GALE_OK;
    GALE_TRY(gale_graph_create(&g));
    GALE_GO(gale_graph_input(g, "x", GALE_F32, 1, dims, NULL, &in));
    GALE_GO(gale_graph_op(g, "Neg", &in, 1, NULL, 0, &negated, 1));
    GALE_GO(gale_graph_output(g, "y", negated));
    GALE_GO(gale_tensor_from_cpu(NULL, GALE_F32, 1, dims, &tiny, &x));
    GALE_GO(gale_program_create(g, device, NULL, &p));
    GALE_GO(gale_program_run(p, &x, &y, GALE_RUN_ON_HOST));
    *out = *(const float *)gale_tensor_data(y) == 0;
done:
    gale_tensor_destroy(&x);
    gale_tensor_destroy(&y);
    gale_program_destroy(&p);
    gale_graph_destroy(&g);
    return status;
}

/* Compares one output with what is wanted of it. */
static bool agrees(const item *it, int i, const uint8_t *got, const void *want, char *text, size_t size)
{
    const gale__case_value *v = &it->want[i];
    if (gale__case_equal(v->type, v->elements, got, want, it->run.tolerance, text, size)) return true;
    if (!it->flushed[i].data) return false;
    uint8_t *merged = gale__alloc((size_t)v->elements * gale_type_size(v->type));
    if (!merged) return false;
    allow_flushed(it, i, got, want, merged);
    bool same = gale__case_equal(v->type, v->elements, got, merged, it->run.tolerance, text, size);
    gale__free(merged);
    return same;
}

/* Compares one output with the reference and the case's own values. */
static gale_status verdict(const item *it, int i, const uint8_t *bytes, char *text, size_t size)
{
    const gale__case_value *want = &it->want[i], *own = &it->run.out[i];
    size_t n = (size_t)want->elements * gale_type_size(want->type);
    for (size_t k = 0; k < GUARD; k++)
        if (bytes[k] != GUARD_BYTE || bytes[GUARD + n + k] != GUARD_BYTE) {
            snprintf(text, size, "output %d: a guard byte %s the result was overwritten", i,
                bytes[k] != GUARD_BYTE ? "before" : "behind");
            return GALE_MISMATCH;
        }
    const uint8_t *got = bytes + GUARD;
    int used = snprintf(text, size, "output %d: ", i);
    if (!agrees(it, i, got, want->data, text + used, size - (size_t)used)) return GALE_MISMATCH;
    if (own->absent) return GALE_OK;
    used = snprintf(text, size, "output %d, compared with the expected values of the case: ", i);
    bool same = own->type == want->type && own->elements == want->elements;
    return same && agrees(it, i, got, own->data, text + used, size - (size_t)used) ? GALE_OK : GALE_MISMATCH;
}

/* --- A batch. --- */

typedef struct batch {
    gale_device *device;
    gale__check *check;
    item *items;
    int n;
    gale_graph *graph;
    gale_program *program;
    gale_tensor **in, **out;
    guarded *guards;
    int n_in, n_out;
} batch;

static gale_status build(batch *b)
{
    GALE_TRY(gale_graph_create(&b->graph));
    b->n_in = b->n_out = 0;
    for (int k = 0; k < b->n; k++) {
        item *it = &b->items[k];
        gale_value outputs[GALE__CASE_VALUES];
        it->first_in = b->n_in, it->first_out = b->n_out;
        GALE_TRY(gale__check_add(b->graph, &it->run, it->turned, outputs));
        for (int i = 0; i < it->run.n_out; i++) GALE_TRY(gale_graph_output(b->graph, "y", outputs[i]));
        for (int i = 0; i < it->run.n_in; i++) b->n_in += !it->run.in[i].absent && !it->run.in[i].plan;
        b->n_out += it->run.n_out;
    }
    b->in = gale__calloc((size_t)b->n_in + 1, sizeof *b->in);
    b->out = gale__calloc((size_t)b->n_out + 1, sizeof *b->out);
    b->guards = gale__calloc((size_t)b->n_out + 1, sizeof *b->guards);
    if (!b->in || !b->out || !b->guards) return GALE_NO_MEMORY;
    gale_program_options options = {0};
    return gale_program_create(b->graph, b->device, &options, &b->program);
}

static gale_status run(batch *b)
{
    for (int k = 0; k < b->n; k++) {
        const item *it = &b->items[k];
        int at = it->first_in;
        for (int i = 0; i < it->run.n_in; i++)
            if (!it->run.in[i].absent && !it->run.in[i].plan)
                GALE_TRY(gale__check_tensor(b->device, &it->run.in[i], it->turned, &b->in[at++]));
        for (int i = 0; i < it->run.n_out; i++) {
            guarded *g = &b->guards[it->first_out + i];
            GALE_TRY(guard(b->device, &it->want[i], g));
            b->out[it->first_out + i] = &g->tensor;
        }
    }
    return gale_program_run(b->program, b->in, b->out, 0);
}

static void clear(batch *b)
{
    for (int i = 0; b->in && i < b->n_in; i++) gale_tensor_destroy(&b->in[i]);
    for (int i = 0; b->guards && i < b->n_out; i++) gale_tensor_destroy(&b->guards[i].whole);
    gale__free(b->in);
    gale__free(b->out);
    gale__free(b->guards);
    gale_program_destroy(&b->program);
    gale_graph_destroy(&b->graph);
    b->in = b->out = NULL;
    b->guards = NULL;
}

static gale_status judge(batch *b, const item *it)
{
    char text[400] = "";
    gale_status status = GALE_OK;
    for (int i = 0; i < it->run.n_out && status == GALE_OK; i++) {
        const gale_tensor *whole = b->guards[it->first_out + i].whole;
        uint8_t *bytes = gale__alloc(whole->size_bytes);
        if (!bytes) return GALE_NO_MEMORY;
        status = gale_tensor_to_cpu(whole, bytes, whole->size_bytes);
        if (status == GALE_OK) status = verdict(it, i, bytes, text, sizeof text);
        else snprintf(text, sizeof text, "%s", gale_error());
        gale__free(bytes);
    }
    return gale__check_note(b->check, status, it->name, text);
}

/* The device is lost, or memory is gone: no case is to blame. */
static bool is_fatal(gale_status s) { return s == GALE_DEVICE_LOST || s == GALE_TIMEOUT; }

static gale_status run_items(batch *b, item *items, int n)
{
    b->items = items;
    b->n = n;
    gale_status status = build(b);
    if (status == GALE_OK) status = run(b);
    gale_status noted = GALE_OK;
    if (status == GALE_OK)
        for (int k = 0; k < n && noted == GALE_OK; k++) noted = judge(b, &items[k]);
    else if (n == 1) noted = gale__check_note(b->check, status, items[0].name, gale_error());
    clear(b);
    if (is_fatal(status)) return status;
    for (int k = 0; status != GALE_OK && n > 1 && k < n && noted == GALE_OK; k++) noted = run_items(b, &items[k], 1);
    return noted;
}

/* --- All cases. --- */

/* By the name alone: the values of cases take long to make. */
static bool is_wanted(const char *filter, const gale__case *c, int variant, bool turned)
{
    gale__arena arena = {0};
    const char *name = gale__case_name(c, variant, &arena);
    if (name && turned) name = gale__arena_printf(&arena, "%s (views)", name);
    bool wanted = !name || strstr(name, filter); /* out of memory: it is found out later */
    gale__arena_finish(&arena);
    return wanted;
}

/* A case with its reference; false (and noted) when it cannot be had, or is left to faster devices. */
static bool open_item(batch *b, const gale__case *c, int variant, bool turned, bool left, item *it)
{
    const char *filter = b->check->options->filter;
    memset(it, 0, sizeof *it);
    it->turned = turned;
    if (filter && !is_wanted(filter, c, variant, turned)) return false;
    if (gale__case_open(c, variant, &it->run) != GALE_OK) {
        gale__check_note(b->check, GALE_FORMAT, c->op, gale_error());
        return false;
    }
    it->name = gale__arena_printf(&it->run.arena, "%s%s", it->run.name, turned ? " (views)" : "");
    bool any = !turned;
    for (int i = 0; turned && i < it->run.n_in; i++)
        any = any || (!it->run.in[i].plan && !it->run.in[i].absent && it->run.in[i].rank > 1);
    bool wanted = it->name && any;
    if (wanted && left)
        gale__check_note(b->check, GALE_UNSUPPORTED, it->name,
            "additional types, views and large kernels are tested on faster devices (--all includes them)");
    gale_status status = wanted && !left ? gale__case_reference(&it->run, it->want) : GALE_OK;
    if (wanted && !left && status == GALE_OK && b->check->out->flushes) status = flushed_reference(it);
    if (status != GALE_OK) gale__check_note(b->check, status, it->name, gale_error());
    if (wanted && !left && status == GALE_OK) return true;
    gale__case_close(&it->run);
    return false;
}

static gale_status flush(batch *b, item *items, int *n)
{
    gale_status status = *n ? run_items(b, items, *n) : GALE_OK;
    for (int k = 0; k < *n; k++) gale__case_close(&items[k].run);
    *n = 0;
    return status;
}

/* Whether a case is left to faster devices: software drivers compile a kernel for up to seconds. */
static bool is_left(const batch *b, const gale__case *c, int variant)
{
    const gale_check_options *o = b->check->options;
    if (!b->device->info.caps.software || o->all) return false;
    return variant > 0 || (gale__case_is_large(c) && !o->large && !o->filter);
}

/* Whether a case belongs to the part that is asked for. */
static bool is_ours(const gale__check *check, int c)
{
    const gale_check_options *o = check->options;
    return !o->parts || c % o->parts == o->part;
}

static gale_status run_cases(batch *b, item *items)
{
    int n = 0, size = b->device->info.caps.software ? BATCH_SLOW : BATCH;
    uint64_t total = 0, done = 0;
    gale_status status = GALE_OK;
    for (int c = 0; c < gale__cases_count; c++)
        if (is_ours(b->check, c)) total += (uint64_t)gale__case_variants(&gale__cases[c]) + 1;
    for (int c = 0; c < gale__cases_count && status == GALE_OK; c++)
        for (int v = 0; is_ours(b->check, c) && v <= gale__case_variants(&gale__cases[c]) && status == GALE_OK; v++) {
            bool turned = v == gale__case_variants(&gale__cases[c]); /* the last round: the first type through views */
            status = gale__job_tell(&b->check->options->control, b->device->info.backend, "cases", ++done, total);
            if (status == GALE_OK &&
                open_item(b, &gale__cases[c], turned ? 0 : v, turned, is_left(b, &gale__cases[c], v), &items[n]) &&
                ++n == size)
                status = flush(b, items, &n);
        }
    if (status == GALE_OK) return flush(b, items, &n);
    for (int k = 0; k < n; k++) gale__case_close(&items[k].run);
    return status;
}

gale_status gale__check_cases(gale__check *check, gale_device *device)
{
    batch b = {.device = device, .check = check};
    item *items = gale__calloc(BATCH, sizeof *items);
    gale_status status = items ? find_flushing(device, &check->out->flushes) : GALE_NO_MEMORY;
    if (status == GALE_OK) status = run_cases(&b, items);
    gale__free(items);
    return status;
}

/* --- Notes. --- */

static gale_check_note *add(gale__check *c, gale_check_note **items, size_t *count, const char *name, const char *text)
{
    gale_check_note note = {
        gale__arena_strdup(c->arena, name ? name : "?"), gale__arena_strdup(c->arena, text ? text : "")};
    if (!note.name || !note.text) return NULL;
    gale_check_note *to = gale__arena_add(c->arena, items, count, sizeof *to);
    if (to) *to = note;
    return to;
}

static gale_status add_failure(gale__check *c, const char *name, const char *text)
{
    const gale_check_note *note = add(c, &c->failures, &c->out->n_failures, name, text);
    c->out->failed++;
    c->out->failures = c->failures;
    if (note && c->options->failed) c->options->failed(c->options->user, c->out->name, note);
    return note ? GALE_OK : GALE_NO_MEMORY;
}

gale_status gale__check_note(gale__check *c, gale_status status, const char *name, const char *text)
{
    gale_check_device *out = c->out;
    if (status == GALE_OK) return out->passed++, GALE_OK;
    if (status != GALE_UNSUPPORTED) return add_failure(c, name, text);
    out->skipped++;
    for (size_t i = 0; i < out->n_skips; i++)
        if (!strcmp(out->skips[i].text, text)) return GALE_OK;
    const gale_check_note *note = add(c, &c->skips, &out->n_skips, name, text);
    out->skips = c->skips;
    return note ? GALE_OK : GALE_NO_MEMORY;
}
