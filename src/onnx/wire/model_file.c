/* An opened file: reference-counted, with its messages in one arena, and the data of large tensors left in the file.
 * */
#include "onnx/wire/model_file.h"
#include <stdatomic.h>
#include <string.h>

gale_status gale__pb_source_read(const gale__pb_source *source, uint64_t offset, size_t size, void *to)
{
    if (offset > source->size || size > source->size - offset)
        return gale__fail(GALE_IO, "%s: has %llu bytes; cannot read %zu bytes at offset %llu", source->name,
            (unsigned long long)source->size, size, (unsigned long long)offset);
    if (!source->memory) return gale__file_map_read(&source->map, offset, size, to);
    if (size) memcpy(to, source->memory + offset, size);
    return GALE_OK;
}

gale_status gale__pb_place_read(const gale__pb_place *place, uint64_t offset, size_t size, void *to)
{
    if (!place->memory) return gale__pb_source_read(place->source, place->offset + offset, size, to);
    if (size) memcpy(to, (const char *)place->memory + offset, size);
    return GALE_OK;
}

gale_status gale__onnx_place(gale__onnx *file, const gale__pb_tensor *tensor, gale__pb_place *out)
{
    if (gale__pb_is_external(tensor)) return gale__onnx_place_outside(file, tensor, out);
    *out = (gale__pb_place){.size = tensor->raw_data.size};
    if (tensor->raw_data.at || !tensor->raw_data.size) {
        out->memory = tensor->raw_data.size ? tensor->raw_data.at : "";
    } else if (file->source.memory) {
        out->memory = file->source.memory + tensor->raw_offset;
    } else {
        out->source = &file->source;
        out->offset = tensor->raw_offset;
    }
    return GALE_OK;
}

static gale_status create(
    const char *path, const char *folder, size_t folder_size, gale__pb_kind kind, gale__onnx **out)
{
    gale__onnx *file = gale__calloc(1, sizeof *file);
    if (!file) return GALE_NO_MEMORY;
    atomic_init(&file->refs, 1);
    gale__mutex_init(&file->lock);
    file->kind = kind;
    file->source.map.fd = -1;
    file->path = gale__strdup(path);
    if (folder && file->path) {
        file->folder = gale__alloc(folder_size + 1);
        if (file->folder) {
            memcpy(file->folder, folder, folder_size);
            file->folder[folder_size] = 0;
        }
    }
    if (!file->path || (folder && !file->folder)) return gale__onnx_close(&file), GALE_NO_MEMORY;
    file->source.name = file->path;
    *out = file;
    return GALE_OK;
}

gale_status gale__onnx_open(const char *path, gale__pb_kind kind, gale__onnx **out)
{
    gale__onnx *file = NULL;
    const char *slash = strrchr(path, '/');
    GALE_TRY(create(path, slash ? path : ".", slash ? (size_t)(slash - path) + 1 : 1, kind, &file));
    gale_status status = gale__file_map_open(path, &file->source.map);
    if (status == GALE_OK) {
        file->source.size = file->source.map.size;
        status = gale__pb_read(&file->source, gale__pb_of_kind(kind), &file->arena, &file->root);
    }
    if (status != GALE_OK) return gale__onnx_close(&file), status;
    *out = file;
    return GALE_OK;
}

gale_status gale__onnx_parse(
    const void *data, size_t size, bool copy, const char *folder, gale__pb_kind kind, gale__onnx **out)
{
    gale__onnx *file = NULL;
    gale_status status = GALE_OK;
    GALE_TRY(create("(memory)", folder, folder ? strlen(folder) : 0, kind, &file));
    if (copy && size) {
        file->copy = gale__alloc(size);
        if (file->copy) memcpy(file->copy, data, size);
        else status = GALE_NO_MEMORY;
        data = file->copy;
    }
    file->source.memory = size ? data : "";
    file->source.size = size;
    if (status == GALE_OK) status = gale__pb_read(&file->source, gale__pb_of_kind(kind), &file->arena, &file->root);
    if (status != GALE_OK) return gale__onnx_close(&file), status;
    *out = file;
    return GALE_OK;
}

gale_status gale__onnx_again(gale__onnx *file, gale__onnx **out)
{
    gale__onnx *again = NULL;
    gale__onnx *base = file->base ? file->base : file;
    GALE_TRY(create(base->path, base->folder, base->folder ? strlen(base->folder) : 0, base->kind, &again));
    const char *name = again->source.name;
    gale__onnx_hold(base);
    again->base = base;
    again->source = base->source;
    again->source.name = name;
    gale_status status = gale__pb_read(&again->source, gale__pb_of_kind(again->kind), &again->arena, &again->root);
    if (status != GALE_OK) return gale__onnx_close(&again), status;
    *out = again;
    return GALE_OK;
}

gale_status gale__onnx_sample(const gale__onnx *file, gale__sha *sha)
{
    return gale__file_map_sample(&file->source.map, file->source.memory, file->source.size, sha);
}

void gale__onnx_hold(gale__onnx *file) { atomic_fetch_add(&file->refs, 1); }

void gale__onnx_close(gale__onnx **file)
{
    if (!file || !*file) return;
    gale__onnx *f = *file;
    *file = NULL;
    if (atomic_fetch_sub(&f->refs, 1) != 1) return;
    gale__onnx_close_outside(f);
    if (!f->base) gale__file_map_close(&f->source.map);
    gale__onnx_close(&f->base);
    gale__mutex_finish(&f->lock);
    gale__arena_finish(&f->arena);
    gale__free(f->copy);
    gale__free(f->path);
    gale__free(f->folder);
    gale__free(f);
}

void *gale__onnx_root(gale__onnx *file) { return file->root; }
gale__arena *gale__onnx_arena(gale__onnx *file) { return &file->arena; }
const char *gale__onnx_path(const gale__onnx *file) { return file->path; }
