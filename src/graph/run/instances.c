/* The plans of a program: one for each signature, created once and kept as long as all of them fit the program's
 * budget; the least recently used ones are released first. A plan is created outside the program's lock, after
 * reserving its entry: runs with other shapes continue, and callers with the same shape wait for the first one. */
#include "base/hash.h"
#include "graph/run/run.h"
#include "kernel/cpu/interp.h"
#include "kernel/ir/ir_util.h"
#include <stdatomic.h>
#include <string.h>

/* Of the device's memory, where the program names no budget. */
enum { BUDGET_SHARE = 8, STEP_BYTES = 2048 /* about what a step and its kernel take on the host */ };

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

void gale__instance_destroy(const gale_program *p, gale__instance *i)
{
    destroy_contexts(p, i, &i->idle);
    gale_buffer_destroy(&i->constants);
    if (i->weights) gale__weights_give(p->device, i->weights, i->plan->n_weights);
    gale__free(i->weights);
    gale__plan_destroy(&i->plan);
    gale__free(i->signature);
    gale__free(i);
}

/* Host data of the inputs whose values are part of the signature. */
typedef struct known {
    void **data;
    gale__str text;
} known; /* text: the signature's bytes */

/* Kernels of host functions are cut for the number of threads that a run may use: it is a part of the signature. */
static int threads_of(const gale_program *p) { return p->device->info.caps.host_functions ? gale__parallel_now() : 0; }

/* Extents alone do not determine the rank. */
static bool rank_in_signature(const gale_program *p, int input)
{
    return p->graph->values[p->graph->inputs[input]].rank < 0;
}

static gale_status read_known(const gale_program *p, gale_tensor *const *inputs, known *k)
{
    int n = p->graph->n_inputs, threads = threads_of(p);
    k->data = gale__calloc((size_t)n + 1, sizeof *k->data);
    if (!k->data) return GALE_NO_MEMORY;
    gale__str_add_n(&k->text, (const char *)&threads, sizeof threads);
    for (int i = 0; i < n; i++) {
        const gale_tensor *t = inputs[i];
        if (rank_in_signature(p, i)) gale__str_add_n(&k->text, (const char *)&t->rank, sizeof t->rank);
        gale__str_add_n(&k->text, (const char *)t->dims, (size_t)t->rank * sizeof *t->dims);
        if (!p->plan_inputs[i]) continue;
        if (t->size_bytes > 1u << 24)
            return gale__fail(GALE_LIMIT, "input %s determines shapes and has %zu bytes, too many to be part of a plan",
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
    uint64_t start = gale__time_ns();
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
    GALE_GO(gale__prim_reserve(&g, atomic_load(&p->nodes)));
    g.steady = p->options.batch_invariant;
    bool bytes = gale__caps_run_matrix(&p->device->info.caps, GALE_I8), host = p->device->info.caps.host_functions;
    g.integer_products = !p->options.no_paths && !p->options.no_fusion && (host ? gale__cpu_narrow_bytes() : bytes);
    g.row_products = g.phases_apart = host && !p->options.no_fusion;
    g.zero_points_outside = g.integer_products && !host;
    /* Gradients are taken by the values that are there. */
    g.pixel_blocks = !p->options.no_paths && !p->options.no_fusion && !host && !p->graph->n_gradients &&
                     (p->device->info.caps.n_matrix || g.zero_points_outside);
    GALE_GO(gale__opgraph_lower(p->graph, (const int64_t(*)[GALE_MAX_RANK])dims, ranks, (const void *const *)k->data,
        p->options.no_paths || p->options.no_fusion ? NULL : p->device, &g, outputs));
    atomic_store(&p->nodes, g.count);
    gale__fusion_options options = {.no_fusion = p->options.no_fusion,
        .layout = p->options.layout,
        .groups = p->device->info.caps.matrix_groups,
        .maps = p->device->info.caps.matrix_maps,
        .matrix = p->device->info.caps.n_matrix > 0 || p->device->info.caps.matrix_emulated,
        .bytes = bytes,
        .f32 = p->device->info.caps.matrix_f32,
        .fast = p->options.fast,
        .steady = p->options.batch_invariant,
        .last = host,
        .wraps = !p->device->info.caps.host_functions,
        .store_operands = p->device->info.caps.host_functions};
    status = gale__plan_make(p->device, &g, outputs, p->graph->n_outputs, &options, out);
    if (status == GALE_OK) {
        (*out)->plan_ns = gale__time_ns() - start;
        gale__context_add(p->device->context, GALE__COUNT_PLANS, 1);
    }
done:
    gale__prim_finish(&g);
    gale__free(outputs);
    return status;
}

gale_status gale__program_plan(gale_program *p, gale_tensor *const *inputs, gale__plan **out)
{
    known k = {0};
    GALE_TRY(gale__program_check_inputs(p, inputs));
    gale_status status = read_known(p, inputs, &k);
    if (status == GALE_OK) status = make_plan(p, inputs, &k, out);
    finish_known(p, &k);
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
    int threads = threads_of(p);
    if (memcmp(at, &threads, sizeof threads)) return false;
    at += sizeof threads;
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
    while (i && (!i->ready || !matches(p, i, inputs))) i = i->next;
    return i;
}

/* --- With the lock held. --- */

static void unlink_instance(gale_program *p, gale__instance *i)
{
    gale__instance **at = &p->instances;
    while (*at != i) at = &(*at)->next;
    *at = i->next;
    p->n_instances--;
}

/* In front, where it is found soonest. */
static void link_instance(gale_program *p, gale__instance *i)
{
    i->next = p->instances;
    p->instances = i;
    p->n_instances++;
}

static gale__instance *use(gale_program *p, gale__instance *i)
{
    i->used = ++p->clock;
    i->running++;
    if (p->instances != i) {
        unlink_instance(p, i);
        link_instance(p, i);
    }
    return i;
}

static uint64_t budget_of(const gale_program *p)
{
    return p->options.plan_memory_bytes ? p->options.plan_memory_bytes
                                        : p->device->info.caps.memory_bytes / BUDGET_SHARE;
}

static uint64_t bytes_of(const gale__instance *i)
{
    uint64_t bytes = i->bytes;
    for (const gale__run_context *c = i->idle; c; c = c->next) bytes += c->bytes;
    return bytes;
}

static gale__instance *oldest_idle(const gale_program *p)
{
    gale__instance *oldest = NULL;
    for (gale__instance *i = p->instances; i; i = i->next)
        if (i->ready && !i->running && i->used != p->clock && (!oldest || i->used < oldest->used)) oldest = i;
    return oldest;
}

/* Takes away what goes beyond the budget, to be destroyed without the lock. */
static gale__instance *over_budget(gale_program *p)
{
    gale__instance *gone = NULL, *i;
    uint64_t total = 0, budget = budget_of(p);
    p->grown = false;
    for (i = p->instances; i; i = i->next)
        if (i->ready) total += bytes_of(i);
    while (total > budget && (i = oldest_idle(p))) {
        total -= bytes_of(i);
        unlink_instance(p, i);
        i->next = gone;
        gone = i;
    }
    return gone;
}

/* --- Without it. --- */

static void destroy_all(const gale_program *p, gale__instance *list)
{
    for (gale__instance *next; list; list = next) {
        next = list->next;
        gale__instance_destroy(p, list);
    }
}

/* What the plan takes for itself must be within the program's limit. */
static gale_status check_memory(const gale_program *p, const gale__plan *plan)
{
    uint64_t work = 0, constants = plan->const_bytes + plan->weight_bytes, limit = p->options.memory_limit_bytes;
    for (int i = 0; i < plan->n_slabs; i++) work += plan->slabs[i];
    if (!limit || work + constants <= limit) return GALE_OK;
    char a[32], b[32], c[32];
    return gale__fail(GALE_NO_MEMORY,
        "these shapes need %s for intermediate values and %s for constants, more than the program's limit of %s",
        gale__bytes_text(work, a), gale__bytes_text(constants, b), gale__bytes_text(limit, c));
}

static gale_status new_instance(const known *k, uint64_t hash, gale__instance **out)
{
    gale__instance *i = gale__calloc(1, sizeof *i);
    if (i) i->signature = gale__alloc(k->text.length + 1);
    if (!i || !i->signature) return gale__free(i), GALE_NO_MEMORY;
    i->hash = hash;
    i->signature_size = k->text.length;
    if (k->text.length) memcpy(i->signature, k->text.text, k->text.length);
    *out = i;
    return GALE_OK;
}

static gale_status plan_instance(gale_program *p, gale_tensor *const *inputs, const known *k, gale__instance *i)
{
    GALE_TRY(make_plan(p, inputs, k, &i->plan));
    GALE_TRY(check_memory(p, i->plan));
    GALE_TRY(gale__instance_prepare(p, i));
    gale__plan_settle(i->plan);
    i->bytes = sizeof *i + i->signature_size + i->plan->arena.total_bytes + i->plan->const_bytes +
               (uint64_t)i->plan->n_steps * STEP_BYTES;
    return GALE_OK;
}

/* The thread that reserved the entry creates the plan and wakes those that wait; after a failure one of them takes
 * over. */
static gale_status fill_place(gale_program *p, gale_tensor *const *inputs, const known *k, gale__instance *i)
{
    gale_status status = plan_instance(p, inputs, k, i);
    gale__mutex_lock(&p->lock);
    i->ready = status == GALE_OK;
    p->n_planned += i->ready;
    if (!i->ready) unlink_instance(p, i);
    gale__instance *gone = over_budget(p);
    gale__cond_broadcast(&p->planned);
    gale__mutex_unlock(&p->lock);
    destroy_all(p, gone);
    if (status != GALE_OK) gale__instance_destroy(p, i);
    return status;
}

static gale_status find_or_make(gale_program *p, gale_tensor *const *inputs, const known *k, gale__instance **out)
{
    uint64_t hash = gale__hash(gale__str_text(&k->text), k->text.length, 7);
    gale__instance *i, *place = NULL;
    gale_status status = GALE_OK;
    gale__mutex_lock(&p->lock);
    while ((i = find_instance(p, &k->text, hash)) && !i->ready && status == GALE_OK)
        status = gale__limits_wait(&p->planned, &p->lock);
    if (status == GALE_OK && !i) status = new_instance(k, hash, &place);
    if (place) link_instance(p, place);
    if (status == GALE_OK) i = use(p, place ? place : i);
    gale__mutex_unlock(&p->lock);
    if (place) status = fill_place(p, inputs, k, place);
    if (status == GALE_OK) *out = i;
    return status;
}

gale_status gale__program_instance(gale_program *p, gale_tensor *const *inputs, gale__instance **out)
{
    known k = {0};
    GALE_TRY(gale__program_check_inputs(p, inputs));
    gale__mutex_lock(&p->lock);
    gale__instance *i = find_ready(p, inputs);
    if (i) use(p, i);
    gale__mutex_unlock(&p->lock);
    if (i) return *out = i, GALE_OK;
    gale_status status = read_known(p, inputs, &k);
    if (status == GALE_OK) status = find_or_make(p, inputs, &k, out);
    finish_known(p, &k);
    return status;
}

void gale__instance_release(gale_program *p, gale__instance *i)
{
    gale__mutex_lock(&p->lock);
    i->running--;
    gale__instance *gone = p->grown ? over_budget(p) : NULL;
    gale__mutex_unlock(&p->lock);
    destroy_all(p, gone);
}

bool gale__program_shed(gale_program *p)
{
    bool any = false;
    gale__instance *gone = NULL;
    gale__mutex_lock(&p->lock);
    for (gale__instance *i = p->instances, *next; i; i = next) {
        next = i->next;
        if (!i->ready) continue;
        if (i->running || i->used == p->clock) { /* the latest keeps a context: the one that asks for room */
            any |= destroy_contexts(p, i, i->running || !i->idle ? &i->idle : &i->idle->next);
            continue;
        }
        unlink_instance(p, i);
        i->next = gone;
        gone = i;
        any = true;
    }
    gale__mutex_unlock(&p->lock);
    destroy_all(p, gone);
    return any;
}

bool gale__program_shed_idle(gale_program *p)
{
    bool any = false;
    gale__mutex_lock(&p->lock);
    for (gale__instance *i = p->instances; i; i = i->next) any |= i->ready && destroy_contexts(p, i, &i->idle);
    gale__mutex_unlock(&p->lock);
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

gale_status gale_program_output_shape(
    gale_program *p, gale_tensor *const *inputs, int index, gale_type *type, int *rank, int64_t *dims)
{
    gale__instance *i = NULL;
    GALE__NEED({"program", p}, {"type", type}, {"rank", rank}, {"dims", dims});
    GALE__NEED({"inputs", !p->graph->n_inputs || inputs});
    GALE__WITHIN(p->device->context);
    if (index < 0 || index >= p->graph->n_outputs)
        return gale__fail(
            GALE_INVALID, "the program has %d outputs: there is no output %d", p->graph->n_outputs, index);
    GALE_TRY(gale__program_instance(p, inputs, &i));
    const gale__plan_result *r = &i->plan->results[index];
    *type = r->type;
    *rank = r->rank;
    memcpy(dims, r->dims, sizeof r->dims);
    gale__instance_release(p, i);
    return GALE_OK;
}
