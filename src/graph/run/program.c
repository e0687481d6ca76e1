/* Programs: the plan for each signature is made once and kept; the plans used longest ago leave when there are many. */
#include "graph/run/program.h"
#include "base/hash.h"
#include "graph/rewrite/merge_products.h"
#include "graph/rewrite/precision.h"
#include "graph/rewrite/recognise.h"
#include "graph/run/run.h"
#include "kernel/cpu/interp.h"
#include <string.h>

enum { INSTANCES_MAX = 32 };

static gale_status check_options(const gale_program_options *o)
{
    if ((unsigned)o->precision > GALE_PRECISION_BF16)
        return gale__fail(GALE_INVALID, "gale_program_options: precision %d is none", (int)o->precision);
    if (o->layout < 0 || o->layout > 2)
        return gale__fail(GALE_INVALID, "gale_program_options: layout %d is none", o->layout);
    return GALE_OK;
}

gale_status gale_program_create(
    const gale_graph *graph, gale_device *device, const gale_program_options *options, gale_program **out)
{
    GALE__NEED({"graph", graph}, {"device", device}, {"out", out});
    GALE__OPTIONS(options);
    if (options) GALE_TRY(check_options(options));
    if (graph->n_outputs == 0)
        return gale__fail(GALE_INVALID, "the graph has no output: name one with gale_graph_output");
    gale_program *p = gale__calloc(1, sizeof *p);
    if (!p) return GALE_NO_MEMORY;
    p->plan_inputs = gale__calloc((size_t)graph->n_inputs + 1, sizeof *p->plan_inputs);
    gale_status status = p->plan_inputs ? gale__opgraph_plan_inputs(graph, p->plan_inputs) : GALE_NO_MEMORY;
    if (status == GALE_OK) status = gale__recognise(graph, options && options->no_recognise, &p->arena, p->graph);
    if (status == GALE_OK) status = gale__index_rules(graph, &p->arena, &p->index_rules, &p->n_index_rules);
    if (status == GALE_OK && !(options && options->no_recognise) && !device->info.caps.host_functions)
        status = gale__merge_products(p->graph, &p->arena);
    if (status == GALE_OK && options && options->precision)
        status = gale__precision_apply(p->graph, options->precision == GALE_PRECISION_F16 ? GALE_F16 : GALE_BF16);
    if (status != GALE_OK) {
        gale__precision_finish(p->graph);
        gale__merge_finish(p->graph, graph);
        gale__arena_finish(&p->arena);
        gale__free(p->plan_inputs);
        gale__free(p);
        return status;
    }
    gale__graph_hold(graph);
    p->source = graph;
    p->device = gale__device_hold(device);
    if (options) p->options = *options;
    gale__mutex_init(&p->lock);
    *out = p;
    return GALE_OK;
}

/* Destroys the contexts of a list; true when there were any. */
static bool destroy_contexts(const gale_program *p, const gale__instance *i, gale__run_context **list)
{
    bool any = *list != NULL;
    while (*list) {
        gale__run_context *c = *list;
        *list = c->next;
        gale__run_context_destroy(i->plan, p->graph->n_inputs, c);
    }
    return any;
}

static void destroy_instance(const gale_program *p, gale__instance *i)
{
    destroy_contexts(p, i, &i->idle);
    gale_buffer_destroy(&i->constants);
    if (i->weights) gale__weights_give(p->device, i->weights, i->plan->n_weights);
    gale__free(i->weights);
    gale__plan_destroy(&i->plan);
    gale__free(i->signature);
    gale__free(i);
}

void gale_program_destroy(gale_program **program)
{
    if (!program || !*program) return;
    gale_program *p = *program;
    *program = NULL;
    while (p->instances) {
        gale__instance *i = p->instances;
        p->instances = i->next;
        destroy_instance(p, i);
    }
    gale_graph *source = (gale_graph *)p->source;
    gale__precision_finish(p->graph);
    gale__merge_finish(p->graph, source);
    gale_graph_destroy(&source);
    gale__arena_finish(&p->arena);
    gale_device_close(&p->device);
    gale__mutex_finish(&p->lock);
    gale__free(p->plan_inputs);
    gale__free(p);
}

int gale_program_inputs(const gale_program *p)
{
    if (!p) return gale__lack(__func__, "program"), 0;
    return p->graph->n_inputs;
}

int gale_program_outputs(const gale_program *p)
{
    if (!p) return gale__lack(__func__, "program"), 0;
    return p->graph->n_outputs;
}

static gale_status check_symbol(const gale_graph *g, int input, int axis, gale_tensor *const *inputs)
{
    const gale__value_info *v = &g->values[g->inputs[input]];
    for (int i = 0; i <= input; i++) {
        const gale__value_info *other = &g->values[g->inputs[i]];
        for (int a = 0; a < (i == input ? axis : other->rank); a++)
            if (other->symbols[a] && !strcmp(other->symbols[a], v->symbols[axis]) &&
                inputs[i]->dims[a] != inputs[input]->dims[axis])
                return gale__fail(GALE_INVALID, "%s is %lld in input %s and %lld in input %s", v->symbols[axis],
                    (long long)inputs[i]->dims[a], other->name, (long long)inputs[input]->dims[axis], v->name);
    }
    return GALE_OK;
}

static gale_status check_inputs(const gale_program *p, gale_tensor *const *inputs)
{
    const gale_graph *g = p->graph;
    for (int i = 0; i < g->n_inputs; i++) {
        const gale__value_info *v = &g->values[g->inputs[i]];
        const gale_tensor *t = inputs[i];
        if (!t) return gale__fail(GALE_INVALID, "input %s is missing", v->name);
        if (t->type != v->type)
            return gale__fail(GALE_INVALID, "input %s has type %s, not %s", v->name, gale_type_name(t->type),
                gale_type_name(v->type));
        if (t->rank != v->rank && v->rank >= 0)
            return gale__fail(GALE_INVALID, "input %s has rank %d, not %d", v->name, t->rank, v->rank);
        if (t->device && t->device != p->device)
            return gale__fail(GALE_INVALID,
                "input %s lies on another device than the program: gale_tensor_to_device moves it", v->name);
        for (int a = 0; a < v->rank; a++) {
            if (v->dims[a] >= 0 && v->dims[a] != t->dims[a])
                return gale__fail(GALE_INVALID, "input %s has extent %lld along axis %d, not %lld", v->name,
                    (long long)t->dims[a], a, (long long)v->dims[a]);
            if (v->symbols[a]) GALE_TRY(check_symbol(g, i, a, inputs));
        }
    }
    return GALE_OK;
}

/* Host data of the inputs whose values are part of the signature. */
typedef struct known {
    void **data;
    gale__str text;
} known; /* text: the signature's bytes */

/* Extents alone do not tell where they end. */
static bool rank_in_signature(const gale_program *p, int input)
{
    return p->graph->values[p->graph->inputs[input]].rank < 0;
}

static gale_status read_known(const gale_program *p, gale_tensor *const *inputs, known *k)
{
    int n = p->graph->n_inputs;
    k->data = gale__calloc((size_t)n + 1, sizeof *k->data);
    if (!k->data) return GALE_NO_MEMORY;
    for (int i = 0; i < n; i++) {
        const gale_tensor *t = inputs[i];
        if (rank_in_signature(p, i)) gale__str_add_n(&k->text, (const char *)&t->rank, sizeof t->rank);
        gale__str_add_n(&k->text, (const char *)t->dims, (size_t)t->rank * sizeof *t->dims);
        if (!p->plan_inputs[i]) continue;
        if (t->size_bytes > 1u << 24)
            return gale__fail(GALE_LIMIT, "input %s decides shapes and has %zu bytes: too many to be part of a plan",
                p->graph->values[p->graph->inputs[i]].name, t->size_bytes);
        k->data[i] = gale__alloc(t->size_bytes + 8);
        if (!k->data[i]) return GALE_NO_MEMORY;
        GALE_TRY(gale_tensor_to_cpu(t, k->data[i], t->size_bytes));
        gale__str_add_n(&k->text, k->data[i], t->size_bytes);
    }
    return gale__str_check(&k->text);
}

static void finish_known(const gale_program *p, known *k)
{
    for (int i = 0; k->data && i < p->graph->n_inputs; i++) gale__free(k->data[i]);
    gale__free(k->data);
    gale__str_finish(&k->text);
}

static gale_status make_plan(gale_program *p, gale_tensor *const *inputs, const known *k, gale__plan **out)
{
    int n = p->graph->n_inputs;
    gale__prim_graph g;
    gale__prim_init(&g);
    int64_t(*dims)[GALE_MAX_RANK] = gale__arena_alloc(&g.arena, ((size_t)n + 1) * sizeof *dims);
    int *ranks = gale__arena_alloc(&g.arena, ((size_t)n + 1) * sizeof *ranks);
    gale__node *outputs = gale__calloc((size_t)p->graph->n_outputs, sizeof *outputs);
    gale_status status = GALE_NO_MEMORY;
    if (!dims || !ranks || !outputs) goto done;
    for (int i = 0; i < n; i++) {
        ranks[i] = inputs[i]->rank;
        memcpy(dims[i], inputs[i]->dims, sizeof dims[i]);
    }
    GALE_GO(gale__prim_reserve(&g, p->nodes));
    g.whole_products = !p->options.no_paths && !p->options.no_fusion && p->device->info.caps.host_functions &&
                       gale__cpu_narrow_bytes();
    GALE_GO(gale__opgraph_lower(p->graph, (const int64_t(*)[GALE_MAX_RANK])dims, ranks, (const void *const *)k->data,
        p->options.no_paths || p->options.no_fusion ? NULL : p->device, &g, outputs));
    p->nodes = g.count;
    gale__fusion_options options = {.no_fusion = p->options.no_fusion,
        .layout = p->options.layout,
        .groups = p->device->info.caps.matrix_groups,
        .matrix = p->device->info.caps.n_matrix > 0 || p->device->info.caps.matrix_emulated,
        .fast = p->options.fast,
        .wraps = !p->device->info.caps.host_functions,
        .store_operands = p->device->info.caps.host_functions};
    status = gale__plan_make(p->device, &g, outputs, p->graph->n_outputs, &options, out);
done:
    gale__prim_finish(&g);
    gale__free(outputs);
    return status;
}

static gale__instance *find_instance(gale_program *p, const gale__str *signature, uint64_t hash)
{
    for (gale__instance *i = p->instances; i; i = i->next)
        if (i->hash == hash && i->signature_size == signature->length &&
            (!signature->length || !memcmp(i->signature, signature->text, signature->length)))
            return i;
    return NULL;
}

/* The same without making the signature's bytes, for the steady run; values that only the device has are left to the
 * long way. */
static bool matches(const gale_program *p, const gale__instance *instance, gale_tensor *const *inputs)
{
    const uint8_t *at = instance->signature, *end = at + instance->signature_size;
    for (int i = 0; i < p->graph->n_inputs; i++) {
        gale_tensor *t = inputs[i];
        size_t n = (size_t)t->rank * sizeof *t->dims, head = rank_in_signature(p, i) ? sizeof t->rank : 0;
        if ((size_t)(end - at) < head || memcmp(at, &t->rank, head)) return false;
        at += head;
        if ((size_t)(end - at) < n || memcmp(at, t->dims, n)) return false;
        at += n;
        if (!p->plan_inputs[i] || !t->size_bytes) continue;
        const void *data = gale_tensor_data(t);
        if (!data || (size_t)(end - at) < t->size_bytes || memcmp(at, data, t->size_bytes)) return false;
        at += t->size_bytes;
    }
    return at == end;
}

static gale__instance *find_ready(const gale_program *p, gale_tensor *const *inputs)
{
    gale__instance *i = p->instances;
    while (i && !matches(p, i, inputs)) i = i->next;
    return i;
}

/* Called with the lock held: lets the plan used longest ago go when there are too many. */
static void evict(gale_program *p)
{
    if (p->n_instances < INSTANCES_MAX) return;
    gale__instance **oldest = NULL;
    for (gale__instance **at = &p->instances; *at; at = &(*at)->next)
        if (!(*at)->running && (!oldest || (*at)->used < (*oldest)->used)) oldest = at;
    if (!oldest) return;
    gale__instance *gone = *oldest;
    *oldest = gone->next;
    p->n_instances--;
    destroy_instance(p, gone);
}

/* What the plan takes for itself must be within the program's limit. */
static gale_status check_memory(const gale_program *p, const gale__plan *plan)
{
    uint64_t work = 0, constants = plan->const_bytes + plan->weight_bytes, limit = p->options.memory_limit_bytes;
    for (int i = 0; i < plan->n_slabs; i++) work += plan->slabs[i];
    if (!limit || work + constants <= limit) return GALE_OK;
    char a[32], b[32], c[32];
    return gale__fail(GALE_NO_MEMORY, "these shapes need %s for work and %s for constants, the program's limit is %s",
        gale__bytes_text(work, a), gale__bytes_text(constants, b), gale__bytes_text(limit, c));
}

static gale_status make_instance(
    gale_program *p, gale_tensor *const *inputs, known *k, uint64_t hash, gale__instance **out)
{
    gale__instance *i = gale__calloc(1, sizeof *i);
    gale_status status;
    if (!i) return GALE_NO_MEMORY;
    i->hash = hash;
    i->signature_size = k->text.length;
    i->signature = gale__alloc(k->text.length + 1);
    if (!i->signature) status = GALE_NO_MEMORY;
    else {
        if (k->text.length) memcpy(i->signature, k->text.text, k->text.length);
        status = make_plan(p, inputs, k, &i->plan);
    }
    if (status == GALE_OK) status = check_memory(p, i->plan);
    if (status == GALE_OK) status = gale__instance_prepare(p, i);
    if (status != GALE_OK) return destroy_instance(p, i), status;
    gale__plan_settle(i->plan);
    *out = i;
    return GALE_OK;
}

static gale_status find_or_make(gale_program *p, gale_tensor *const *inputs, known *k, gale__instance **out)
{
    GALE_TRY(read_known(p, inputs, k));
    uint64_t hash = gale__hash(gale__str_text(&k->text), k->text.length, 7);
    *out = find_instance(p, &k->text, hash);
    if (*out) return GALE_OK;
    evict(p);
    GALE_TRY(make_instance(p, inputs, k, hash, out));
    (*out)->next = p->instances;
    p->instances = *out;
    p->n_instances++;
    return GALE_OK;
}

/* Plans are made under the lock: a second thread with the same shapes waits for the first one's. */
gale_status gale__program_instance(gale_program *p, gale_tensor *const *inputs, gale__instance **out)
{
    known k = {0};
    gale_status status;
    gale__mutex_lock(&p->lock);
    GALE_GO(check_inputs(p, inputs));
    gale__instance *i = find_ready(p, inputs);
    if (!i) GALE_GO(find_or_make(p, inputs, &k, &i));
    i->used = ++p->clock;
    i->running++;
    *out = i;
done:
    gale__mutex_unlock(&p->lock);
    finish_known(p, &k);
    return status;
}

void gale__instance_release(gale_program *p, gale__instance *i)
{
    gale__mutex_lock(&p->lock);
    i->running--;
    gale__mutex_unlock(&p->lock);
}

bool gale__program_shed(gale_program *p)
{
    bool any = false;
    gale__mutex_lock(&p->lock);
    for (gale__instance **at = &p->instances; *at;) {
        gale__instance *i = *at;
        if (i->running || i->used == p->clock) { /* the latest keeps a context: the one that asks for room */
            any |= destroy_contexts(p, i, i->running || !i->idle ? &i->idle : &i->idle->next);
            at = &i->next;
            continue;
        }
        *at = i->next;
        p->n_instances--;
        destroy_instance(p, i);
        any = true;
    }
    gale__mutex_unlock(&p->lock);
    if (any) gale_memory_trim(p->device);
    return any;
}

gale_status gale__program_kernels(gale_program *p, gale_tensor *const *inputs, int *kernels)
{
    gale__instance *i = NULL;
    GALE_TRY(gale__program_instance(p, inputs, &i));
    *kernels = i->plan->kernels;
    gale__instance_release(p, i);
    return GALE_OK;
}
