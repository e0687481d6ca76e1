/* The device's table of built kernels, keyed by shape class, and the builds that fill it. */
#include "kernel/kernels.h"
#include "base/hash.h"
#include "base/hash_table.h"
#include "kernel/ir/join.h"
#include "kernel/print/print.h"
#include "kernel/tuning.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct key {
    uint64_t a, b;
} key;
typedef struct entry {
    key key;
    gale_kernel *kernel;
} entry;
typedef struct kernels {
    entry *entries;
    size_t count, capacity;
    gale__hash_table table; /* entries by key */
    gale_module **modules;  /* each once */
    size_t n_modules, modules_capacity;
    gale__tuning tuning;
} kernels;

static key key_of(const void *data, size_t size) { return (key){gale__hash(data, size, 1), gale__hash(data, size, 2)}; }

static entry *entry_of(const kernels *t, key k)
{
    gale__hash_table_probe probe = gale__hash_table_look(k.a);
    for (int64_t i; (i = gale__hash_table_next(&t->table, &probe)) >= 0;)
        if (t->entries[i].key.a == k.a && t->entries[i].key.b == k.b) return &t->entries[i];
    return NULL;
}

static gale_status add_entry(kernels *t, entry e)
{
    GALE_TRY(gale__grow((void **)&t->entries, &t->capacity, t->count + 1, sizeof *t->entries));
    GALE_TRY(gale__hash_table_add(&t->table, e.key.a, (uint32_t)t->count));
    t->entries[t->count++] = e;
    return GALE_OK;
}

static void finish_kernels(void *state)
{
    kernels *t = state;
    for (size_t i = 0; i < t->count; i++) gale_kernel_destroy(&t->entries[i].kernel);
    for (size_t i = 0; i < t->n_modules; i++) gale_module_destroy(&t->modules[i]);
    gale__free(t->modules);
    gale__free(t->entries);
    gale__hash_table_finish(&t->table);
    gale__tuning_finish(&t->tuning);
    gale__free(t);
}

/* Called with device->lock held. */
static kernels *kernels_of(gale_device *device)
{
    if (!device->kernel_state) {
        device->kernel_state = gale__calloc(1, sizeof(kernels));
        device->kernel_state_finish = device->kernel_state ? finish_kernels : NULL;
    }
    return device->kernel_state;
}

gale__tuning *gale__kernels_tuning(gale_device *device)
{
    kernels *t = kernels_of(device);
    return t ? &t->tuning : NULL;
}

static gale_kernel *find(gale_device *device, key k)
{
    gale__mutex_lock(&device->lock);
    kernels *t = kernels_of(device);
    entry *e = t ? entry_of(t, k) : NULL;
    gale_kernel *found = e ? e->kernel : NULL;
    gale__mutex_unlock(&device->lock);
    return found;
}

/* Takes the kernel; one that came in meanwhile stays, and *kernel becomes it. */
static gale_status insert(gale_device *device, key k, gale_kernel **kernel)
{
    gale__mutex_lock(&device->lock);
    kernels *t = kernels_of(device);
    entry *known = t ? entry_of(t, k) : NULL;
    gale_status status = known ? GALE_OK : t ? add_entry(t, (entry){k, *kernel}) : GALE_NO_MEMORY;
    if (known || status != GALE_OK) gale_kernel_destroy(kernel);
    if (known) *kernel = known->kernel;
    gale__mutex_unlock(&device->lock);
    return status;
}

static gale_status keep_module(gale_device *device, gale_module *module)
{
    gale__mutex_lock(&device->lock);
    kernels *t = kernels_of(device);
    gale_status status =
        t ? gale__grow((void **)&t->modules, &t->modules_capacity, t->n_modules + 1, sizeof *t->modules)
          : GALE_NO_MEMORY;
    if (status == GALE_OK) t->modules[t->n_modules++] = module;
    gale__mutex_unlock(&device->lock);
    return status;
}

static gale_status print_text(const gale__ir *const *irs, int n, const gale_device_caps *caps, gale__str *out)
{
    gale__dialect dialect;
    GALE_TRY(gale__dialect_find(caps->dialect, &dialect));
    return gale__ir_print_c(irs, n, dialect, caps, out);
}

static gale_status build_module(gale_device *device, const gale__ir *const *irs, int n, gale_module **out)
{
    gale__str text = {0};
    gale__ir_words words = {0};
    gale_status status;
    gale__source source = {.options = "", .ours = true, .waits = true, .in_device = true};
    if (device->info.caps.spirv) {
        status = gale__ir_print_spirv(irs[0], &device->info.caps, &words);
        source.code = GALE__CODE_SPIRV;
        source.data = words.words;
        source.size = words.count * sizeof *words.words;
    } else {
        status = print_text(irs, n, &device->info.caps, &text);
        source.code = GALE__CODE_TEXT;
        source.data = gale__str_text(&text);
        source.size = text.length;
    }
    if (status == GALE_OK) status = gale__module_build(device, &source, out);
    gale__str_finish(&text);
    gale__ir_words_finish(&words);
    return status;
}

static gale_status kernel_of(gale_device *device, gale_module *module, const gale__ir *ir, key k, gale_kernel **out)
{
    uint32_t block = 8u * (uint32_t)ir->n_pointers + 4u * (uint32_t)ir->n_words;
    GALE_TRY(gale__kernel_create(module, ir->name, ir->group, block, gale__ir_launch_bytes(ir), out));
    (*out)->together = gale__ir_is_together(ir);
    return insert(device, k, out);
}

gale_kernel *gale__kernel_known(gale_device *device, const char *text)
{
    return find(device, key_of(text, strlen(text)));
}

bool gale__kernel_is_new(const gale__kernel_wants *w, const char *text)
{
    for (size_t i = 0; i < w->n; i++)
        if (!strcmp(w->irs[i].name, text)) return false;
    return !gale__kernel_known(w->device, text);
}

gale_status gale__kernel_want(gale__kernel_wants *w, gale__ir *ir)
{
    gale_status status = gale__ir_check(ir);
    if (status == GALE_OK) status = gale__grow((void **)&w->irs, &w->capacity, w->n + 1, sizeof *w->irs);
    if (status == GALE_OK) w->irs[w->n++] = *ir;
    else gale__ir_finish(ir);
    return status;
}

void gale__kernel_wants_finish(gale__kernel_wants *w)
{
    for (size_t i = 0; i < w->n; i++) gale__ir_finish(&w->irs[i]);
    gale__free(w->irs);
    *w = (gale__kernel_wants){0};
}

/* Nests on their way to kernels. */
typedef struct batch {
    gale_device *device;
    gale__arena *arena;
    const gale__nest *const *nests;
    const bool *follows;
    int n;
    const gale__schedule *as;  /* by nest; NULL: to be chosen */
    gale__schedule *schedules; /* by nest, as all below */
    key *keys;
    int *wait; /* place in the list of kernels to build, or -1 */
    gale__runnable *out;
} batch;
/* One kernel that has to be built: of nest `first`, and of those after it that are joined to it; or of IR. */
typedef struct missing {
    key key;
    int first, parts;
    const gale__ir *ir; /* its own, or one that was given; NULL: not built yet */
    gale__ir own;
    gale_kernel *kernel;
} missing;
enum { MODULE_KERNELS = 64, MODULE_CODE = 1000 }; /* most kernels, and most instructions of several if fewer */
typedef struct builder builder;
struct builder {
    const batch *batch;
    missing *list, **order; /* order: those with much code first */
    int count, *first;      /* first: by module, place in order; one more at the end */
    gale_status (*make)(builder *b, size_t i);
    gale_status *status; /* by item */
    char *message;       /* of the first failure */
    gale__mutex lock;
};

static gale_status build_joined(const batch *b, const missing *m, const char *name, gale__ir *out)
{
    gale__ir parts[GALE__JOIN_PARTS];
    const gale__ir *each[GALE__JOIN_PARTS];
    gale_status status = GALE_OK;
    int made = 0;
    for (; made < m->parts && status == GALE_OK; made += status == GALE_OK) {
        each[made] = &parts[made];
        status = gale__schedule_build(b->nests[m->first + made], &b->schedules[m->first + made], name, &parts[made]);
    }
    if (status == GALE_OK) status = gale__ir_join(each, made, name, b->device->info.caps.group_max, out);
    for (int i = 0; i < made; i++) gale__ir_finish(&parts[i]);
    return status;
}

static gale_status build_ir(builder *builds, size_t i)
{
    const batch *b = builds->batch;
    missing *m = &builds->list[i];
    char name[64];
    if (m->ir) return GALE_OK;
    snprintf(name, sizeof name, "gale_%s_%016llx",
        m->parts > 1 ? b->out[m->first].name : gale__schedule_name(&b->schedules[m->first]),
        (unsigned long long)m->key.a);
    if (m->parts > 1) GALE_TRY(build_joined(b, m, name, &m->own));
    else GALE_TRY(gale__schedule_build(b->nests[m->first], &b->schedules[m->first], name, &m->own));
    m->ir = &m->own;
    return GALE_OK;
}

static gale_status build_part(builder *b, size_t part)
{
    gale_device *device = b->batch->device;
    missing **list = b->order + b->first[part];
    int n = b->first[part + 1] - b->first[part];
    const gale__ir *irs[MODULE_KERNELS];
    gale_module *module = NULL;
    for (int i = 0; i < n; i++) irs[i] = list[i]->ir;
    GALE_TRY(build_module(device, irs, n, &module));
    gale_status status = keep_module(device, module);
    if (status != GALE_OK) return gale_module_destroy(&module), status;
    for (int i = 0; i < n; i++) GALE_TRY(kernel_of(device, module, irs[i], list[i]->key, &list[i]->kernel));
    return GALE_OK;
}

static void make_one(void *arg, size_t i, int worker)
{
    builder *b = arg;
    (void)worker;
    b->status[i] = b->make(b, i);
    if (b->status[i] == GALE_OK) return;
    gale__mutex_lock(&b->lock); /* the message lives in this thread's slot: carry it over */
    if (!b->message) b->message = gale__strdup(gale_error());
    gale__mutex_unlock(&b->lock);
}

/* make(b, i) for all i < n, on all cores. */
static gale_status make_each(builder *b, int n, gale_status (*make)(builder *b, size_t i))
{
    b->make = make;
    gale__parallel((size_t)n, make_one, b);
    for (int i = 0; i < n; i++)
        if (b->status[i] != GALE_OK) return gale__fail(b->status[i], "%s", b->message ? b->message : "out of memory");
    return GALE_OK;
}

static int by_code(const void *a, const void *b)
{
    const missing *x = *(missing *const *)a, *y = *(missing *const *)b;
    return x->ir->count != y->ir->count ? (x->ir->count < y->ir->count ? 1 : -1) : x < y ? -1 : x > y;
}

/* Assigns kernels to modules; returns the number of modules.  A compiler has a start-up cost per module: a fifth of
 * NVRTC's time for 16 short kernels.  But it compiles the kernels of a module one after another, so long kernels get
 * modules of their own.  A SPIR-V module holds one kernel. */
static int divide(builder *b)
{
    const gale_device *device = b->batch->device;
    uint32_t most = device->once ? device->once : device->info.caps.kernels_per_module, code = 0;
    int parts = 0;
    most = device->info.caps.spirv || !most ? 1 : most > MODULE_KERNELS ? MODULE_KERNELS : most;
    for (int i = 0; i < b->count; i++) b->order[i] = &b->list[i];
    qsort(b->order, (size_t)b->count, sizeof *b->order, by_code);
    for (int i = 0; i < b->count; i++) {
        code += b->order[i]->ir->count;
        bool small = code <= MODULE_CODE || most == MODULE_KERNELS;
        if (parts > 0 && small && i - b->first[parts - 1] < (int)most) continue;
        b->first[parts++] = i;
        code = b->order[i]->ir->count;
    }
    b->first[parts] = b->count;
    return parts;
}

static gale_status build_all(const batch *whole, gale__arena *arena, missing *list, int count)
{
    size_t n = (size_t)count + 1;
    builder b = {.batch = whole, .list = list, .count = count};
    if (count == 0) return GALE_OK;
    b.status = gale__arena_alloc(arena, n * sizeof *b.status);
    b.order = gale__arena_alloc(arena, n * sizeof *b.order);
    b.first = gale__arena_alloc(arena, n * sizeof *b.first);
    if (!b.status || !b.order || !b.first) return GALE_NO_MEMORY;
    gale__mutex_init(&b.lock);
    gale_status status = make_each(&b, count, build_ir);
    if (status == GALE_OK) status = make_each(&b, divide(&b), build_part);
    for (int i = 0; i < count; i++)
        if (list[i].ir == &list[i].own) gale__ir_finish(&list[i].own);
    gale__mutex_finish(&b.lock);
    gale__free(b.message);
    return status;
}

static int find_missing(const missing *list, int count, key k)
{
    for (int i = 0; i < count; i++)
        if (list[i].key.a == k.a && list[i].key.b == k.b) return i;
    return -1;
}

/* Schedule, key, words and grid of one nest. */
static gale_status prepare(batch *b, int i, gale__str *text)
{
    const gale__nest *nest = b->nests[i];
    gale__schedule *s = &b->schedules[i];
    gale__runnable *r = &b->out[i];
    uint32_t words[GALE__SCHEDULE_WORDS];
    bool tuned = !b->as && gale__tuning_choose(b->device, nest, s);
    if (b->as) *s = b->as[i];
    else if (!tuned) GALE_TRY(gale__schedule_choose(nest, &b->device->info.caps, s));
    if (b->device->once && s->kind == GALE__SCHEDULE_TILE && s->unroll) s->unroll = 2; /* halves the time to compile */
    text->length = 0;
    GALE_TRY(gale__schedule_params(nest, s, text, words, &r->n_words));
    b->keys[i] = key_of(text->text, text->length);
    r->words = gale__arena_copy(b->arena, words, (size_t)r->n_words * sizeof *words);
    if (!r->words) return GALE_NO_MEMORY;
    gale__matrix_map maps[GALE__LAUNCH_MAPS];
    r->n_maps = gale__schedule_maps(nest, s, maps);
    r->maps = gale__arena_copy(b->arena, maps, (size_t)r->n_maps * sizeof *maps);
    if (!r->maps) return GALE_NO_MEMORY;
    gale__schedule_grid(nest, s, r->groups);
    r->name = gale__schedule_describe(s, &b->device->info.caps);
    if (tuned) r->name = gale__arena_printf(b->arena, "%s, tuned", r->name);
    r->parts = 1;
    return r->name ? GALE_OK : GALE_NO_MEMORY;
}

/* How many nests from `first` on become one kernel. */
static int find_chain(const batch *b, int first)
{
    int pointers = 0, words = 0, n = 0;
    if (first + 1 == b->n || !b->follows[first + 1]) return 1;
    for (int i = first; i < b->n && n < GALE__JOIN_PARTS && (i == first || b->follows[i]); i++, n++) {
        pointers += b->nests[i]->n_buffers;
        words += b->out[i].n_words + 4; /* with what joining adds */
        if (pointers > GALE__JOIN_POINTERS || words > GALE__JOIN_WORDS ||
            !gale__ir_join_takes(b->nests[i], &b->schedules[i]))
            break;
    }
    return n > 1 ? n : 1;
}

static gale_status join(batch *b, int first, int parts)
{
    uint32_t words[GALE__JOIN_WORDS];
    gale__runnable *r = &b->out[first];
    int n = 0;
    for (int i = first; i < first + parts; i++)
        n = gale__ir_join_words(words, n, b->out[i].groups[0], b->out[i].words, b->out[i].n_words);
    for (int i = first + 1; i < first + parts; i++) b->out[i].parts = 0;
    *r = (gale__runnable){.groups = {1, 1, 1}, .n_words = n, .name = "chain", .parts = parts};
    r->words = gale__arena_copy(b->arena, words, (size_t)n * sizeof *words);
    b->keys[first] = key_of(&b->keys[first], (size_t)parts * sizeof *b->keys);
    return r->words ? GALE_OK : GALE_NO_MEMORY;
}

/* The kernel of the key, or a place in the list of those to build. */
static void look_up(batch *b, int i, missing *list, int *count)
{
    b->wait[i] = -1;
    b->out[i].kernel = find(b->device, b->keys[i]);
    if (b->out[i].kernel) return;
    b->wait[i] = find_missing(list, *count, b->keys[i]);
    if (b->wait[i] >= 0) return;
    b->wait[i] = (*count)++;
    list[b->wait[i]] = (missing){.key = b->keys[i], .first = i, .parts = b->out[i].parts};
}

/* Parts of a joined kernel exchange data through memory. */
static bool can_join(const batch *b) { return b->follows && b->device->info.caps.memory_model; }

static gale_status make_gpu(batch *b, const gale__kernel_wants *wants)
{
    gale_status status = GALE_NO_MEMORY;
    gale__str text = {0};
    gale__arena arena = {0};
    size_t n = (size_t)b->n + 1;
    int count = 0, parts;
    missing *list = gale__arena_alloc(&arena, (n + wants->n) * sizeof *list);
    b->schedules = gale__arena_alloc(&arena, n * sizeof *b->schedules);
    b->keys = gale__arena_alloc(&arena, n * sizeof *b->keys);
    b->wait = gale__arena_alloc(&arena, n * sizeof *b->wait);
    if (!list || !b->schedules || !b->keys || !b->wait) goto done;
    for (int i = 0; i < b->n; i++) GALE_GO(prepare(b, i, &text));
    for (int i = 0; i < b->n; i += parts) {
        parts = can_join(b) ? find_chain(b, i) : 1;
        if (parts > 1) GALE_GO(join(b, i, parts));
        look_up(b, i, list, &count);
    }
    for (const gale__ir *ir = wants->irs; ir < wants->irs + wants->n; ir++)
        list[count++] = (missing){.key = key_of(ir->name, strlen(ir->name)), .ir = ir};
    GALE_GO(build_all(b, &arena, list, count));
    for (int i = 0; i < b->n; i++)
        if (b->out[i].parts && b->wait[i] >= 0) b->out[i].kernel = list[b->wait[i]].kernel;
done:
    gale__str_finish(&text);
    gale__arena_finish(&arena);
    return status;
}

gale_status gale__runnables_make(gale_device *device, gale__arena *arena, const gale__nest *const *nests,
    const bool *follows, int n, const gale__kernel_wants *wants, gale__runnable *out)
{
    batch b = {
        .device = device, .arena = arena, .nests = nests, .follows = follows, .n = n, .as = wants->as, .out = out};
    memset(out, 0, (size_t)n * sizeof *out);
    bool host = device->info.caps.host_functions;
    gale_status status = host ? gale__runnables_make_cpu(device, nests, n, out) : make_gpu(&b, wants);
    if (status != GALE_OK)
        for (int i = 0; i < n; i++) gale__runnable_finish(&out[i]);
    return status;
}
