/* Writes a model to a file.  External data is included or, if a name is given, all large initialisers are written to
 * one file beside the model; the tree itself is not changed.  Both files appear completely or not at all, the data
 * first. */
#include "onnx/wire/write.h"
#include <stdlib.h>
#include <string.h>

enum { OUTSIDE_LEAST = 1 << 10, ALIGN_SMALL = 64, ALIGN_LARGE = 4096, LARGE = 1 << 20 };
static const uint64_t most_bytes = INT32_MAX; /* other readers take no more */

typedef struct plan {
    gale__onnx *file;
    const char *location; /* of data that goes out; NULL: none goes */
    gale__arena arena;
    gale__pb_swap *swaps;
    size_t n, capacity;
    uint64_t size; /* of the data file */
} plan;

static gale_status add_entry(gale__pb_tensor *as, const char *key, const char *value)
{
    if (!value) return GALE_NO_MEMORY;
    as->external_data.at[as->external_data.n++] =
        (gale__pb_entry){.key = {key, strlen(key)}, .value = {value, strlen(value)}};
    return GALE_OK;
}

/* Leaves a hole so that the data can be used in place. */
static gale_status move_out(plan *p, gale__pb_swap *s)
{
    uint64_t align = s->place.size >= LARGE ? ALIGN_LARGE : ALIGN_SMALL;
    p->size += (align - p->size % align) % align;
    s->as.raw_data = (gale__pb_text){0};
    s->as.data_location = 1;
    s->as.external_data.n = 0;
    s->as.external_data.at = gale__arena_alloc(&p->arena, 3 * sizeof *s->as.external_data.at);
    if (!s->as.external_data.at) return GALE_NO_MEMORY;
    GALE_TRY(add_entry(&s->as, "location", p->location));
    GALE_TRY(add_entry(&s->as, "offset", gale__arena_printf(&p->arena, "%llu", (unsigned long long)p->size)));
    GALE_TRY(add_entry(&s->as, "length", gale__arena_printf(&p->arena, "%llu", (unsigned long long)s->place.size)));
    p->size += s->place.size;
    return GALE_OK;
}

static void move_in(gale__pb_swap *s)
{
    s->as.raw_data = (gale__pb_text){NULL, (size_t)s->place.size};
    s->as.data_location = 0;
    s->as.external_data.n = 0;
}

static gale_status look_at_tensor(plan *p, const gale__pb_tensor *tensor, bool initializer)
{
    bool external = gale__pb_is_external(tensor), out = p->location && initializer;
    if (!external && (!out || !tensor->raw_data.size)) return GALE_OK;
    gale__pb_swap s = {.of = tensor, .as = *tensor};
    gale_status status = gale__onnx_place(p->file, tensor, &s.place);
    if (status != GALE_OK)
        return gale__fail_within(
            status, "%s: tensor '%s'", gale__onnx_path(p->file), tensor->name.size ? tensor->name.at : "");
    out = out && s.place.size > OUTSIDE_LEAST;
    if (!external && !out) return GALE_OK;
    s.as.head.present =
        0; /* what has a value is written, and nothing else: the scalars of a tensor have no meaning when zero */
    if (out) GALE_TRY(move_out(p, &s));
    else move_in(&s);
    GALE_TRY(gale__grow((void **)&p->swaps, &p->capacity, p->n + 1, sizeof *p->swaps));
    p->swaps[p->n++] = s;
    return GALE_OK;
}

/* Every tensor of the tree, in the order of the file. */
static gale_status look_at(plan *p, gale__pb_which which, const void *message, bool initializer)
{
    const gale__pb_table *t = &gale__pb_tables[which];
    if (which == GALE__PB_IS_tensor) return look_at_tensor(p, message, initializer);
    for (int i = 0; i < t->n_fields; i++) {
        const gale__pb_field *f = &t->fields[i];
        const char *at = (const char *)message + f->offset;
        if (f->kind != GALE__PB_MESSAGE) continue;
        gale__pb_list l = {.n = 1};
        if (f->list) memcpy(&l, at, sizeof l);
        else memcpy(&l.at, at, sizeof l.at);
        for (size_t k = 0; l.at && k < l.n; k++)
            GALE_TRY(look_at(p, f->message, (const char *)l.at + k * gale__pb_item_bytes(f),
                which == GALE__PB_IS_graph && f->offset == offsetof(gale__pb_graph, initializer)));
    }
    return GALE_OK;
}

static gale_status add_piece(void *user, const void *data, size_t size) { return gale__file_add(user, data, size); }

static gale_status write_data(const plan *p, gale__file_out *out)
{
    static const char zeros[ALIGN_LARGE];
    uint64_t at = 0;
    for (size_t i = 0; i < p->n; i++) { /* in the order of their offsets: not yet sorted */
        const gale__pb_swap *s = &p->swaps[i];
        int64_t offset = 0;
        if (!gale__pb_is_external(&s->as)) continue;
        gale__text_to_i64(s->as.external_data.at[1].value.at, &offset);
        GALE_TRY(gale__file_add(out, zeros, (size_t)((uint64_t)offset - at)));
        GALE_TRY(gale__pb_place_copy(&s->place, add_piece, out));
        at = (uint64_t)offset + s->place.size;
    }
    return GALE_OK;
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const gale__pb_swap *)a)->of, y = (uintptr_t)((const gale__pb_swap *)b)->of;
    return (x > y) - (x < y);
}

static gale_status begin_data(const plan *p, const char *path, gale__file_out *out)
{
    gale__str name = {0};
    const char *slash = strrchr(path, '/');
    if (slash) gale__str_add_n(&name, path, (size_t)(slash - path) + 1);
    gale__str_add(&name, p->location);
    gale_status status = gale__str_check(&name);
    if (status == GALE_OK && !strcmp(name.text, path))
        status = gale__fail(GALE_INVALID, "%s: the model and its data cannot be the same file", path);
    if (status == GALE_OK && gale__file_same(name.text, gale__onnx_path(p->file)))
        status = gale__fail(GALE_INVALID,
            "%s: is the model being read, so its data cannot be written there; choose another name", name.text);
    if (status == GALE_OK) status = gale__onnx_check_outside(p->file, name.text);
    if (status == GALE_OK) status = gale__file_begin(name.text, out);
    gale__str_finish(&name);
    return status;
}

static gale_status check_size(const plan *p, const gale__pb_model *model, const char *path)
{
    uint64_t size = gale__pb_size(p->file, GALE__PB_IS_model, model, p->swaps, p->n);
    if (size <= most_bytes) return GALE_OK;
    return gale__fail(GALE_LIMIT,
        "%s: would have %llu bytes, but the format is limited to %llu; store its data in a separate file", path,
        (unsigned long long)size, (unsigned long long)most_bytes);
}

static gale_status write_both(
    plan *p, const gale__pb_model *model, const char *path, gale__file_out *data, gale__file_out *out)
{
    if (p->size) {
        GALE_TRY(begin_data(p, path, data));
        GALE_TRY(write_data(p, data));
    }
    if (p->n) qsort(p->swaps, p->n, sizeof *p->swaps, by_address);
    GALE_TRY(check_size(p, model, path));
    GALE_TRY(gale__onnx_check_outside(p->file, path));
    GALE_TRY(gale__file_begin(path, out));
    GALE_TRY(gale__pb_write(p->file, GALE__PB_IS_model, model, p->swaps, p->n, NULL, out));
    if (p->size) GALE_TRY(gale__file_end(data));
    return gale__file_end(out);
}

gale_status gale__onnx_write(gale__onnx *file, const gale__pb_model *model, const char *path, const char *external_path)
{
    plan p = {.file = file, .location = external_path};
    gale__file_out data = {.fd = -1}, out = {.fd = -1};
    if (external_path && (!*external_path || strchr(external_path, '/')))
        return gale__fail(
            GALE_INVALID, "'%s': data is stored beside the model, so give a name without a folder", external_path);
    gale_status status = look_at(&p, GALE__PB_IS_model, model, false);
    if (status == GALE_OK) status = write_both(&p, model, path, &data, &out);
    gale__file_drop(&data);
    gale__file_drop(&out);
    gale__free(p.swaps);
    gale__arena_finish(&p.arena);
    return status;
}

gale_status gale__onnx_pack(gale__onnx *file, const gale__pb_model *model, gale__str *out)
{
    plan p = {.file = file};
    gale_status status = look_at(&p, GALE__PB_IS_model, model, false);
    if (p.n) qsort(p.swaps, p.n, sizeof *p.swaps, by_address);
    if (status == GALE_OK) status = check_size(&p, model, gale__onnx_path(file));
    if (status == GALE_OK) status = gale__pb_write(file, GALE__PB_IS_model, model, p.swaps, p.n, out, NULL);
    gale__free(p.swaps);
    gale__arena_finish(&p.arena);
    return status;
}
