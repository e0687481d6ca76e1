/* Tensor data in files beside the model.  The names come from the model, so the files must be in the model's folder;
 * each is opened once and stays open as long as the model.  If the model has a checksum for a file, it is verified
 * when the data is first needed. */
#include "base/hash.h"
#include "base/path.h"
#include "onnx/wire/model_file.h"
#include <string.h>

typedef struct where {
    const char *location;
    int64_t offset, length; /* length -1: to the end */
    char sha1[41];
} where;

bool gale__pb_is_external(const gale__pb_tensor *tensor) { return tensor->data_location == 1; }

static gale_status number_of(const gale__pb_entry *entry, int64_t *out)
{
    if (strlen(entry->value.at) == entry->value.size && gale__text_to_i64(entry->value.at, out) && *out >= 0)
        return GALE_OK;
    return gale__fail(GALE_FORMAT, "%s '%s' of external data is not a number of bytes", entry->key.at, entry->value.at);
}

static gale_status find_where(const gale__pb_tensor *tensor, where *out)
{
    *out = (where){.length = -1};
    for (size_t i = 0; i < tensor->external_data.n; i++) {
        const gale__pb_entry *e = &tensor->external_data.at[i];
        if (!e->key.size || !e->value.size) continue;
        if (!strcmp(e->key.at, "location")) {
            if (strlen(e->value.at) != e->value.size)
                return gale__fail(GALE_FORMAT, "the location of external data contains a zero byte");
            out->location = e->value.at;
        } else if (!strcmp(e->key.at, "offset")) GALE_TRY(number_of(e, &out->offset));
        else if (!strcmp(e->key.at, "length")) GALE_TRY(number_of(e, &out->length));
        else if (!strcmp(e->key.at, "checksum") && !gale__hex_read(e->value.at, 40, out->sha1))
            return gale__fail(GALE_FORMAT, "the checksum of its external data is not a SHA-1 of 40 hexadecimal digits");
    }
    return out->location ? GALE_OK : gale__fail(GALE_FORMAT, "has external data without a location");
}

static void free_outside(gale__pb_outside *outside)
{
    gale__file_map_close(&outside->source.map);
    gale__mutex_finish(&outside->lock);
    gale__free(outside->location);
    gale__free(outside->tensor);
    gale__free(outside);
}

static gale_status open_outside(gale__onnx *file, const char *location, gale__pb_outside **out)
{
    gale__str path = {0};
    gale__pb_outside *o = gale__calloc(1, sizeof *o);
    if (!o) return GALE_NO_MEMORY;
    o->source.map.fd = -1;
    gale__mutex_init(&o->lock);
    o->location = gale__strdup(location);
    gale_status status = o->location ? gale__path_inside(file->folder, location, &path) : GALE_NO_MEMORY;
    if (status == GALE_OK) status = gale__file_map_open(path.text, &o->source.map);
    gale__str_finish(&path);
    if (status != GALE_OK) return free_outside(o), status;
    o->source.name = o->location;
    o->source.size = o->source.map.size;
    o->next = file->outside;
    *out = file->outside = o;
    return GALE_OK;
}

/* The whole file is read once for it, which is what the standard's checksum is of. */
static gale_status check_sha1(void *user)
{
    gale__pb_outside *o = user;
    gale_status status = GALE_OK;
    gale__sha s;
    gale__mutex_lock(&o->lock);
    gale__sha1_init(&s);
    if (!*o->found) status = gale__file_map_hash(&o->source.map, &s, o->found);
    gale__mutex_unlock(&o->lock);
    if (status != GALE_OK || !strcmp(o->found, o->wanted)) return status;
    return gale__fail(GALE_MISMATCH,
        "tensor '%s': the SHA-1 of its data file %s is %s instead of %s: the file is damaged, or belongs to another "
        "model",
        o->tensor, o->source.map.path, o->found, o->wanted);
}

/* The first tensor that has a checksum speaks for the file. */
static gale_status expect_sha1(gale__pb_outside *o, const where *w, const char *tensor)
{
    if (!*w->sha1 || !strcmp(o->wanted, w->sha1)) return GALE_OK;
    if (*o->wanted)
        return gale__fail(GALE_FORMAT, "has a different checksum for '%s' than tensor '%s'", o->location, o->tensor);
    if (!(o->tensor = gale__strdup(tensor ? tensor : ""))) return GALE_NO_MEMORY;
    memcpy(o->wanted, w->sha1, sizeof o->wanted);
    o->source.map.user = o;
    o->source.map.check = check_sha1;
    return GALE_OK;
}

static gale_status find_outside(gale__onnx *file, const where *w, const char *tensor, gale__pb_outside **out)
{
    gale_status status = GALE_OK;
    if (file->base) file = file->base;
    gale__mutex_lock(&file->lock);
    gale__pb_outside *o = file->outside;
    while (o && strcmp(o->location, w->location)) o = o->next;
    if (!o) status = open_outside(file, w->location, &o);
    if (status == GALE_OK) status = expect_sha1(o, w, tensor);
    if (status == GALE_OK) *out = o;
    gale__mutex_unlock(&file->lock);
    return status;
}

gale_status gale__onnx_place_outside(gale__onnx *file, const gale__pb_tensor *tensor, gale__pb_place *out)
{
    where w;
    gale__pb_outside *o = NULL;
    GALE_TRY(find_where(tensor, &w));
    if (!file->folder)
        return gale__fail(
            GALE_UNSUPPORTED, "its data is in the file '%s', which cannot be found for a model in memory", w.location);
    GALE_TRY(find_outside(file, &w, tensor->name.at, &o));
    uint64_t size = o->source.size, offset = (uint64_t)w.offset;
    if (offset > size || (w.length >= 0 && (uint64_t)w.length > size - offset))
        return gale__fail(GALE_FORMAT, "its data is declared as %lld bytes at offset %lld of '%s', which has %llu",
            (long long)w.length, (long long)w.offset, w.location, (unsigned long long)size);
    *out = (gale__pb_place){.source = &o->source, .offset = offset, .size = (uint64_t)w.length};
    if (w.length < 0) { /* as much as the tensor needs, when that is there */
        size_t need = 0;
        GALE_TRY(gale__pb_raw_bytes(tensor, &need));
        out->size = need < size - offset ? need : size - offset;
    }
    return GALE_OK;
}

gale_status gale__onnx_check_outside(gale__onnx *file, const char *path)
{
    bool used = false;
    if (file->base) file = file->base;
    gale__mutex_lock(&file->lock);
    for (gale__pb_outside *o = file->outside; o && !used; o = o->next)
        used = o->source.map.path && gale__file_same(path, o->source.map.path);
    gale__mutex_unlock(&file->lock);
    if (!used) return GALE_OK;
    return gale__fail(GALE_INVALID, "%s contains data of %s, which would be overwritten; choose another name", path,
        gale__onnx_path(file));
}

void gale__onnx_close_outside(gale__onnx *file)
{
    for (gale__pb_outside *o = file->outside, *next; o; o = next) {
        next = o->next;
        free_outside(o);
    }
    file->outside = NULL;
}
