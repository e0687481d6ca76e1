/* The record of measured schedules.  It names schedules and does not contain them: what a name means for a nest is
 * chosen and checked like any schedule, so a damaged or foreign file can at worst choose a slow one. */
#include "kernel/tuning.h"
#include "base/hash.h"
#include "device/record.h"
#include "kernel/kernels.h"
#include "kernel/schedule/schedule_emit.h"
#include <stdio.h>
#include <string.h>

enum { VERSION = 1, ENTRIES_MOST = 4096 };

static int64_t class_of(int64_t n)
{
    int64_t power = 1;
    while (power < n && power < INT64_MAX / 2) power *= 2;
    return power;
}

bool gale__tuning_key(const gale__nest *nest, char out[GALE__TUNING_KEY])
{
    gale__contraction c;
    gale__schedule s = {0};
    int guards = 0;
    if (nest->steady || !gale__nest_contraction(nest, &c)) return false;
    for (int i = 0; i < nest->n_code; i++)
        if (nest->code[i].op == GALE__NEST_TAKE) return false; /* indices cannot be made up for measuring */
    s.swap = c.kind[nest->n_outer - 1] == 'M';
    for (int w = 0; w < 2; w++) gale__schedule_choose_operand(nest, &c, &s, w);
    for (int i = 0; i < nest->n_accesses; i++) guards += nest->accesses[i].n_guards;
    int n = snprintf(out, GALE__TUNING_KEY, "%s %s %lldx%lldx%lld by %lld along %d%d wide %d%d%s%s%s",
        gale_type_name((gale_type)nest->code[gale__schedule_matrix_core(nest, c.a)].type),
        gale_type_name((gale_type)nest->code[gale__schedule_matrix_core(nest, c.b)].type), (long long)class_of(c.m),
        (long long)c.n, (long long)c.k, (long long)class_of(c.b_count), s.fast[0], s.fast[1], s.wide[0], s.wide[1],
        s.swap ? " turned" : "", nest->n_inner > 1 ? " windows" : "", guards ? " guarded" : "");
    return n > 0 && n < GALE__TUNING_KEY;
}

/* The record is of all such devices, whatever their driver. */
static gale_device_info identity(const gale_device *device)
{
    gale_device_info info = device->info;
    info.id[0] = 0;
    snprintf(info.driver, sizeof info.driver, info.caps.arch ? "sm_%u" : "any", (unsigned)info.caps.arch);
    return info;
}

static gale__tuning_entry *find(const gale__tuning *t, const char *key)
{
    uint64_t hash = gale__hash(key, strlen(key), 1);
    for (size_t i = 0; i < t->count; i++)
        if (t->entries[i].hash == hash && !strcmp(t->entries[i].key, key)) return &t->entries[i];
    return NULL;
}

static gale_status add(gale__tuning *t, const char *key, const gale__schedule_want *want)
{
    GALE_TRY(gale__grow((void **)&t->entries, &t->capacity, t->count + 1, sizeof *t->entries));
    gale__tuning_entry *e = &t->entries[t->count++];
    *e = (gale__tuning_entry){.hash = gale__hash(key, strlen(key), 1), .want = want};
    snprintf(e->key, sizeof e->key, "%s", key);
    return GALE_OK;
}

/* Adds what the file has and `t` does not. */
static gale_status load(const gale_device *device, gale__tuning *t)
{
    gale_device_info info = identity(device);
    gale__arena arena = {0};
    gale__json *root;
    gale_status status = GALE_OK;
    t->loaded = true;
    gale__record_read(&info, "tuning", "", &arena, &root);
    if (root && gale__json_number(root, "version", 0) != VERSION)
        gale__log(GALE__WARN, "tuning of %s is not used: version %g, this gale reads %d; run gale tune again",
            info.name, gale__json_number(root, "version", 0), VERSION);
    else if (root) {
        const gale__json *choices = gale__json_get(root, "choices");
        const gale__json *j = choices && choices->kind == GALE__JSON_OBJECT ? choices->child : NULL;
        for (; j && status == GALE_OK && t->count < ENTRIES_MOST; j = j->next) {
            const gale__schedule_want *want = j->kind == GALE__JSON_STRING ? gale__schedule_want_find(j->string) : NULL;
            if (want && j->key_size < GALE__TUNING_KEY && !find(t, j->key)) status = add(t, j->key, want);
        }
    }
    gale__arena_finish(&arena);
    return status;
}

/* With the device's lock held; NULL: no memory. */
static gale__tuning *tuning_of(gale_device *device)
{
    gale__tuning *t = gale__kernels_tuning(device);
    return t && (t->loaded || load(device, t) == GALE_OK) ? t : NULL;
}

bool gale__tuning_choose(gale_device *device, const gale__nest *nest, gale__schedule *out)
{
    char key[GALE__TUNING_KEY];
    const gale__tuning_entry *e = NULL;
    gale__mutex_lock(&device->lock);
    gale__tuning *t = tuning_of(device);
    if (t && (t->count || t->watch) && gale__tuning_key(nest, key)) {
        if (t->watch) t->watch(t->user, nest);
        e = find(t, key);
    }
    const gale__schedule_want *want = e ? e->want : NULL;
    gale__mutex_unlock(&device->lock);
    return want && gale__schedule_choose_as(nest, &device->info.caps, want, out);
}

gale_status gale__tuning_follow(gale_device *device, gale__tuning_watch *watch, void *user)
{
    gale__mutex_lock(&device->lock);
    gale__tuning *t = tuning_of(device);
    if (t) t->watch = watch, t->user = user;
    gale__mutex_unlock(&device->lock);
    return t ? GALE_OK : GALE_NO_MEMORY;
}

gale_status gale__tuning_set(gale_device *device, const char *key, const gale__schedule_want *want)
{
    gale__mutex_lock(&device->lock);
    gale__tuning *t = tuning_of(device);
    gale__tuning_entry *e = t ? find(t, key) : NULL;
    if (e) e->want = want;
    gale_status status = e ? GALE_OK : !t ? GALE_NO_MEMORY : add(t, key, want);
    gale__mutex_unlock(&device->lock);
    return status;
}

static void write_choices(gale__json_out *j, const void *user)
{
    const gale__tuning *t = user;
    size_t from = t->count > ENTRIES_MOST ? t->count - ENTRIES_MOST : 0;
    gale__json_put_i64(j, "version", VERSION);
    gale__json_open(j, "choices", '{');
    for (size_t i = from; i < t->count; i++) {
        char text[GALE__WANT_TEXT];
        gale__schedule_want_text(t->entries[i].want, text);
        gale__json_put_text(j, t->entries[i].key, text);
    }
    gale__json_close(j, '}');
}

gale_status gale__tuning_save(gale_device *device)
{
    gale_device_info info = identity(device);
    gale__mutex_lock(&device->lock);
    gale__tuning *t = tuning_of(device);
    gale_status status = t ? load(device, t) : GALE_NO_MEMORY;
    if (status == GALE_OK) status = gale__record_write(&info, "tuning", "", write_choices, t);
    gale__mutex_unlock(&device->lock);
    return status;
}

void gale__tuning_finish(gale__tuning *t)
{
    gale__free(t->entries);
    *t = (gale__tuning){0};
}
