/* Reads a Dense layer.  Weights come from safetensors only: a length of 8 bytes, JSON with types, shapes and places,
 * and the numbers.  PyTorch's own files are programs for Python, which nothing should run to read numbers. */
#include "jobs/embed/encoder_dense.h"
#include "base/file.h"
#include "base/num.h"
#include <stdio.h>
#include <string.h>

enum { WIDTH_MOST = 1 << 16, FILE_MOST = 1 << 30 };

static const char *activation_of(const char *class_name)
{
    static const char *const names[][2] = {
        {"Identity", ""}, {"Tanh", "Tanh"}, {"ReLU", "Relu"}, {"Sigmoid", "Sigmoid"}, {NULL, NULL}};
    const char *dot = strrchr(class_name, '.'), *name = dot ? dot + 1 : class_name;
    for (int i = 0; names[i][0]; i++)
        if (!strcmp(names[i][0], name)) return names[i][1];
    return NULL;
}

static bool type_of(const char *name, gale_type *out)
{
    static const struct {
        const char *name;
        gale_type type;
    } types[] = {{"F32", GALE_F32}, {"F16", GALE_F16}, {"BF16", GALE_BF16}, {"F64", GALE_F64}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].name, name)) return *out = types[i].type, true;
    return false;
}

/* At least `least` and less than 2^53. */
static bool whole(const gale__json *v, double least, uint64_t *out)
{
    if (!v || v->kind != GALE__JSON_NUMBER || !(v->number >= least && v->number < 9e15)) return false;
    *out = (uint64_t)v->number;
    return (double)*out == v->number;
}

static bool has_shape(const gale__json *tensor, const int64_t *dims, int rank)
{
    const gale__json *shape = gale__json_get(tensor, "shape"), *d = shape ? shape->child : NULL;
    uint64_t extent;
    for (int i = 0; i < rank; i++, d = d->next)
        if (!whole(d, 0, &extent) || extent != (uint64_t)dims[i]) return false;
    return !d;
}

/* A tensor of this shape as f32, from the file's numbers. */
static gale_status take(gale__arena *arena, const gale__json *header, const char *name, const int64_t *dims, int rank,
    const char *data, size_t size, const float **out)
{
    const gale__json *tensor = gale__json_get(header, name), *place = gale__json_get(tensor, "data_offsets");
    size_t count = (size_t)dims[0] * (rank > 1 ? (size_t)dims[1] : 1);
    uint64_t begin, end;
    gale_type type;
    if (!tensor || !has_shape(tensor, dims, rank))
        return gale__fail(GALE_FORMAT, "there is no tensor %s of the shape in config.json", name);
    if (!type_of(gale__json_text(tensor, "dtype", ""), &type))
        return gale__fail(GALE_UNSUPPORTED, "%s is of type %s; supported are F32, F16, BF16 and F64", name,
            gale__json_text(tensor, "dtype", "?"));
    bool placed = place && whole(place->child, 0, &begin) && whole(place->child->next, 0, &end);
    if (!placed || begin > end || end > size || end - begin != count * gale_type_size(type))
        return gale__fail(GALE_FORMAT, "the numbers of %s are not where the header says, or the file is cut", name);
    float *v = gale__arena_alloc(arena, count * sizeof *v);
    if (!v) return GALE_NO_MEMORY;
    for (size_t i = 0; i < count; i++) v[i] = (float)gale__load_f64(type, data + begin + i * gale_type_size(type));
    *out = v;
    return GALE_OK;
}

static gale_status read_tensors(gale__arena *arena, const gale__bytes *file, bool biased, gale__dense *d)
{
    const unsigned char *p = file->data;
    uint64_t length = 0;
    gale__json *header;
    if (file->size < 8) return gale__fail(GALE_FORMAT, "the file is cut");
    for (int i = 7; i >= 0; i--) length = length << 8 | p[i];
    if (length > file->size - 8) return gale__fail(GALE_FORMAT, "not a safetensors file, or it is cut");
    const char *data = (const char *)p + 8 + length;
    size_t size = file->size - 8 - (size_t)length;
    GALE_TRY(gale__json_parse(arena, (const char *)p + 8, (size_t)length, &header));
    const int64_t dims[2] = {d->out, d->in};
    GALE_TRY(take(arena, header, "linear.weight", dims, 2, data, size, &d->weight));
    if (biased) return take(arena, header, "linear.bias", dims, 1, data, size, &d->bias);
    d->bias = gale__arena_alloc(arena, (size_t)d->out * sizeof *d->bias); /* zero */
    return d->bias ? GALE_OK : GALE_NO_MEMORY;
}

static gale_status read_config(const char *folder, const gale__json *config, gale__dense *d, bool *biased)
{
    uint64_t in, out;
    if (!config)
        return gale__fail(GALE_NOT_FOUND, "%s/config.json: not found, but modules.json names this Dense layer", folder);
    const gale__json *bias = gale__json_get(config, "bias");
    const char *function = gale__json_text(config, "activation_function", "torch.nn.modules.activation.Tanh");
    const char *input = gale__json_text(config, "module_input_name", "sentence_embedding");
    if (!whole(gale__json_get(config, "in_features"), 1, &in) ||
        !whole(gale__json_get(config, "out_features"), 1, &out) || in > WIDTH_MOST || out > WIDTH_MOST)
        return gale__fail(
            GALE_FORMAT, "%s/config.json: in_features and out_features of 1 to %d are expected", folder, WIDTH_MOST);
    d->in = (int64_t)in, d->out = (int64_t)out;
    *biased = !bias || bias->kind != GALE__JSON_BOOL || bias->boolean;
    d->activation = activation_of(function);
    if (!d->activation)
        return gale__fail(GALE_UNSUPPORTED,
            "%s/config.json: activation %s is not supported; supported are Identity, Tanh, ReLU and Sigmoid", folder,
            function);
    if (strcmp(input, "sentence_embedding"))
        return gale__fail(GALE_UNSUPPORTED,
            "%s/config.json: a Dense layer of %s is not supported, only of sentence_embedding", folder, input);
    return GALE_OK;
}

gale_status gale__dense_read(gale__arena *arena, const char *folder, const gale__json *config, gale__dense *out)
{
    gale__dense d = {0};
    gale__bytes file = {0};
    bool biased = true;
    GALE_TRY(read_config(folder, config, &d, &biased));
    d.file = gale__arena_printf(arena, "%s/model.safetensors", folder);
    if (!d.file) return GALE_NO_MEMORY;
    if (!gale__file_exists(d.file))
        return gale__fail(GALE_NOT_FOUND,
            "%s: not found; where there is a pytorch_model.bin, save the encoder again with sentence-transformers, "
            "which writes safetensors",
            d.file);
    GALE_TRY(gale__file_read(d.file, FILE_MOST, &file));
    gale_status status = read_tensors(arena, &file, biased, &d);
    gale__bytes_finish(&file);
    if (status != GALE_OK) return gale__fail_within(status, "%s", d.file);
    *out = d;
    return GALE_OK;
}
