/* Header attributes other than pixels (comments, chromaticities, camera, time and so on): kept as bytes with the
 * picture and written back to EXR. */
#include "media/exr.h"
#include <string.h>

enum { NOTES_MOST = 1 << 20 };

/* Types whose values are plain bytes; those up to 8 are in the attribute itself. */
static const struct {
    exr_attribute_type_t type;
    uint32_t size;
    bool inside;
} plain[] = {
    {EXR_ATTR_INT, 4, true},
    {EXR_ATTR_FLOAT, 4, true},
    {EXR_ATTR_DOUBLE, 8, true},
    {EXR_ATTR_CHROMATICITIES, sizeof(exr_attr_chromaticities_t)},
    {EXR_ATTR_KEYCODE, sizeof(exr_attr_keycode_t)},
    {EXR_ATTR_TIMECODE, sizeof(exr_attr_timecode_t)},
    {EXR_ATTR_RATIONAL, sizeof(exr_attr_rational_t)},
    {EXR_ATTR_V2I, sizeof(exr_attr_v2i_t)},
    {EXR_ATTR_V2F, sizeof(exr_attr_v2f_t)},
    {EXR_ATTR_V2D, sizeof(exr_attr_v2d_t)},
    {EXR_ATTR_V3I, sizeof(exr_attr_v3i_t)},
    {EXR_ATTR_V3F, sizeof(exr_attr_v3f_t)},
    {EXR_ATTR_V3D, sizeof(exr_attr_v3d_t)},
    {EXR_ATTR_M33F, sizeof(exr_attr_m33f_t)},
    {EXR_ATTR_M33D, sizeof(exr_attr_m33d_t)},
    {EXR_ATTR_M44F, sizeof(exr_attr_m44f_t)},
    {EXR_ATTR_M44D, sizeof(exr_attr_m44d_t)},
};
enum { PLAIN = sizeof plain / sizeof *plain };

/* Those that are about this very file's pixels. */
static bool is_of_the_file(const char *name)
{
    static const char *const names[] = {"chunkCount", "name", "type", "version", "view", "xDensity",
        "maxSamplesPerPixel", "dwaCompressionLevel", "deepImageState"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

static int plain_of(exr_attribute_type_t type)
{
    for (int i = 0; i < PLAIN; i++)
        if (plain[i].type == type) return i;
    return -1;
}

/* One note: type, length of the name, of the value; both with a zero after them. */
static void add_note(gale__str *s, exr_attribute_type_t type, const char *name, const void *value, uint32_t size)
{
    uint32_t head[3] = {(uint32_t)type, (uint32_t)strlen(name), size};
    gale__str_add_n(s, (const char *)head, sizeof head);
    gale__str_add_n(s, name, head[1] + 1);
    gale__str_add_n(s, value, size);
    gale__str_add_n(s, "", 1);
}

gale_status gale__exr_notes_read(exr_const_context_t file, int part, gale_picture_bytes *out)
{
    int32_t count = 0;
    gale__str s = {0};
    if (exr_get_attribute_count(file, part, &count) != EXR_ERR_SUCCESS) return GALE_OK;
    for (int32_t i = 0; i < count && s.length < NOTES_MOST; i++) {
        const exr_attribute_t *a = NULL;
        if (exr_get_attribute_by_index(file, part, EXR_ATTR_LIST_FILE_ORDER, i, &a) != EXR_ERR_SUCCESS ||
            is_of_the_file(a->name))
            continue;
        int k = plain_of(a->type);
        if (k >= 0 && (plain[k].inside || a->rawptr))
            add_note(&s, a->type, a->name, plain[k].inside ? (const void *)&a->uc : a->rawptr, plain[k].size);
        else if (a->type == EXR_ATTR_STRING && a->string && a->string->length >= 0 && a->string->length < NOTES_MOST)
            add_note(&s, a->type, a->name, a->string->str, (uint32_t)a->string->length);
    }
    gale_status status = gale__str_check(&s);
    if (status == GALE_OK) status = gale__picture_bytes_set(out, s.text, s.length);
    gale__str_finish(&s);
    return status;
}

static exr_result_t write_note(
    exr_context_t file, int part, exr_attribute_type_t type, const char *name, const char *value, uint32_t size)
{
    exr_attribute_t *a = NULL;
    int k = plain_of(type);
    if (type == EXR_ATTR_STRING) return exr_attr_set_string(file, part, name, value);
    if (k < 0 || size != plain[k].size) return EXR_ERR_SUCCESS;
    if (type == EXR_ATTR_FLOAT) { /* of which there are some already */
        float v;
        memcpy(&v, value, sizeof v);
        return exr_attr_set_float(file, part, name, v);
    }
    if (type == EXR_ATTR_V2F) {
        exr_attr_v2f_t v;
        memcpy(&v, value, sizeof v);
        return exr_attr_set_v2f(file, part, name, &v);
    }
    exr_result_t r = exr_attr_declare(file, part, name, type, &a);
    if (r == EXR_ERR_SUCCESS) memcpy(plain[k].inside ? (void *)&a->uc : a->rawptr, value, size);
    return r;
}

exr_result_t gale__exr_notes_write(exr_context_t file, int part, const gale_picture_bytes *notes)
{
    const char *at = notes->data;
    for (size_t left = notes->size; left;) {
        uint32_t head[3];
        if (left < sizeof head) break;
        memcpy(head, at, sizeof head);
        uint64_t whole = sizeof head + (uint64_t)head[1] + 1 + head[2] + 1;
        const char *name = at + sizeof head, *value = name + head[1] + 1;
        if (whole > left || name[head[1]] || value[head[2]]) break; /* none of ours */
        exr_result_t r = write_note(file, part, (exr_attribute_type_t)head[0], name, value, head[2]);
        if (r == EXR_ERR_OUT_OF_MEMORY) return r;
        if (r != EXR_ERR_SUCCESS) gale__log(GALE__DEBUG, "EXR: attribute %s is dropped", name);
        at += whole;
        left -= (size_t)whole;
    }
    return EXR_ERR_SUCCESS;
}

/* Strings of a list, as the library wants them. */
static exr_result_t set_strings(exr_context_t file, int part, const char *name, const exr_attr_string_vector_t *v)
{
    const char **texts = gale__calloc((size_t)v->n_strings + 1, sizeof *texts);
    if (!texts) return EXR_ERR_OUT_OF_MEMORY;
    for (int32_t i = 0; i < v->n_strings; i++) texts[i] = v->strings[i].str;
    exr_result_t r = exr_attr_set_string_vector(file, part, name, v->n_strings, texts);
    gale__free(texts);
    return r;
}

exr_result_t gale__exr_marks_copy(exr_const_context_t from, int from_part, exr_context_t to, int part)
{
    static const char *const names[] = {"view", "multiView", "envmap", "xDensity"};
    exr_result_t r = EXR_ERR_SUCCESS;
    for (int i = 0; i < 4 && r != EXR_ERR_OUT_OF_MEMORY; i++) {
        const exr_attribute_t *a = NULL;
        if (exr_get_attribute_by_name(from, from_part, names[i], &a) != EXR_ERR_SUCCESS) continue;
        if (a->type == EXR_ATTR_STRING) r = exr_attr_set_string(to, part, names[i], a->string->str);
        else if (a->type == EXR_ATTR_STRING_VECTOR) r = set_strings(to, part, names[i], a->stringvector);
        else if (a->type == EXR_ATTR_ENVMAP) r = exr_attr_set_envmap(to, part, names[i], (exr_envmap_t)a->uc);
        else if (a->type == EXR_ATTR_FLOAT) r = exr_attr_set_float(to, part, names[i], a->f);
    }
    return r == EXR_ERR_OUT_OF_MEMORY ? r : EXR_ERR_SUCCESS;
}
