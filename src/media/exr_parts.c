/* The headers of an OpenEXR file as plain structs: parts, channels, windows, levels, attributes as text. */
#include "media/exr.h"
#include <string.h>

enum { CHANNELS_MOST = 4096, TEXT_MOST = 65536, VALUES_MOST = 64 };

const char *const gale__exr_compressions[EXR_COMPRESSION_LAST_TYPE] = {
    "none", "rle", "zips", "zip", "piz", "pxr24", "b44", "b44a", "dwaa", "dwab"};
static const char *const line_orders[] = {"increasing", "decreasing", "random"};

gale_status gale__exr_type(exr_pixel_type_t type, gale_type *out)
{
    static const gale_type types[] = {GALE_U32, GALE_F16, GALE_F32};
    if ((unsigned)type > 2) return gale__fail(GALE_FORMAT, "EXR: unknown channel type %d", (int)type);
    *out = types[type];
    return GALE_OK;
}

/* Numbers in a row; a file with a thousand of them is not read by people. */
static void add_floats(gale__str *s, const float *v, int n)
{
    char text[32];
    for (int i = 0; i < n && i < VALUES_MOST; i++)
        gale__str_addf(s, "%s%s", i ? " " : "", gale__f64_to_text((double)v[i], text));
    if (n > VALUES_MOST) gale__str_addf(s, " ... (%d)", n);
}

static void add_doubles(gale__str *s, const double *v, int n)
{
    char text[32];
    for (int i = 0; i < n; i++) gale__str_addf(s, "%s%s", i ? " " : "", gale__f64_to_text(v[i], text));
}

static void add_ints(gale__str *s, const int32_t *v, int n)
{
    for (int i = 0; i < n; i++) gale__str_addf(s, "%s%d", i ? " " : "", v[i]);
}

static void add_text(gale__str *s, const exr_attr_string_t *t)
{
    if (t->str && t->length > 0)
        gale__str_add_n(s, t->str, strnlen(t->str, (size_t)(t->length < TEXT_MOST ? t->length : TEXT_MOST)));
}

static void add_time(gale__str *s, const exr_attr_timecode_t *t)
{
    uint32_t v = t->time_and_flags;
    gale__str_addf(s, "%u%u:%u%u:%u%u:%u%u", v >> 28 & 3, v >> 24 & 15, v >> 20 & 7, v >> 16 & 15, v >> 12 & 7,
        v >> 8 & 15, v >> 4 & 3, v & 15);
}

/* Structs of floats alone are arrays of them in memory; they are packed, so their members are copied out first. */
static void add_packed(gale__str *s, const exr_attribute_t *a)
{
    float f[16];
    double d[16];
    int32_t i[8];
    switch (a->type) {
#define FLOATS(TYPE, n)                                          \
    case EXR_ATTR_##TYPE:                                        \
        memcpy(f, a->rawptr, sizeof *f *n), add_floats(s, f, n); \
        break
#define DOUBLES(TYPE, n)                                          \
    case EXR_ATTR_##TYPE:                                         \
        memcpy(d, a->rawptr, sizeof *d *n), add_doubles(s, d, n); \
        break
#define INTS(TYPE, n) \
    case EXR_ATTR_##TYPE: memcpy(i, a->rawptr, sizeof *i *n), add_ints(s, i, n); break
        FLOATS(CHROMATICITIES, 8);
        FLOATS(BOX2F, 4);
        FLOATS(V2F, 2);
        FLOATS(V3F, 3);
        FLOATS(M33F, 9);
        FLOATS(M44F, 16);
        DOUBLES(V2D, 2);
        DOUBLES(V3D, 3);
        DOUBLES(M33D, 9);
        DOUBLES(M44D, 16);
        INTS(BOX2I, 4);
        INTS(V2I, 2);
        INTS(V3I, 3);
        INTS(KEYCODE, 7);
#undef FLOATS
#undef DOUBLES
#undef INTS
    default: gale__str_addf(s, "(%s)", a->type_name);
    }
}

static void add_value(gale__str *s, const exr_attribute_t *a)
{
    char text[32];
    switch (a->type) {
    case EXR_ATTR_INT: gale__str_addf(s, "%d", a->i); break;
    case EXR_ATTR_FLOAT: gale__str_add(s, gale__f64_to_text((double)a->f, text)); break;
    case EXR_ATTR_DOUBLE: gale__str_add(s, gale__f64_to_text(a->d, text)); break;
    case EXR_ATTR_COMPRESSION:
        gale__str_add(s, a->uc < EXR_COMPRESSION_LAST_TYPE ? gale__exr_compressions[a->uc] : "?");
        break;
    case EXR_ATTR_LINEORDER: gale__str_add(s, a->uc < 3 ? line_orders[a->uc] : "?"); break;
    case EXR_ATTR_ENVMAP: gale__str_add(s, a->uc == EXR_ENVMAP_CUBE ? "cube" : "latlong"); break;
    case EXR_ATTR_STRING: add_text(s, a->string); break;
    case EXR_ATTR_STRING_VECTOR:
        for (int i = 0; i < a->stringvector->n_strings && i < VALUES_MOST; i++) {
            if (i) gale__str_add(s, ", ");
            add_text(s, &a->stringvector->strings[i]);
        }
        break;
    case EXR_ATTR_FLOAT_VECTOR: add_floats(s, a->floatvector->arr, a->floatvector->length); break;
    case EXR_ATTR_CHLIST: gale__str_addf(s, "%d channels", a->chlist->num_channels); break;
    case EXR_ATTR_PREVIEW: gale__str_addf(s, "%u x %u pixels", a->preview->width, a->preview->height); break;
    case EXR_ATTR_RATIONAL: gale__str_addf(s, "%d/%u", a->rational->num, a->rational->denom); break;
    case EXR_ATTR_TIMECODE: add_time(s, a->timecode); break;
    case EXR_ATTR_TILEDESC:
        gale__str_addf(s, "%u x %u, levels %d", a->tiledesc->x_size, a->tiledesc->y_size,
            (int)EXR_GET_TILE_LEVEL_MODE(*a->tiledesc));
        break;
    case EXR_ATTR_OPAQUE: gale__str_addf(s, "%d bytes", a->opaque->size); break;
    default: add_packed(s, a);
    }
}

/* Names that a terminal could take for commands are nobody's but a hostile file's. */
static gale_status check_name(const char *name)
{
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            return gale__fail(GALE_FORMAT, "EXR: the name %s contains control characters", name);
    return GALE_OK;
}

static gale_status list_attributes(gale_exr *f, int part, gale_exr_part *p)
{
    int32_t count = 0;
    GALE_TRY(gale__exr_said(exr_get_attribute_count(f->file, part, &count)));
    gale_exr_attribute *list = gale__arena_alloc(&f->arena, ((size_t)count + 1) * sizeof *list);
    if (!list) return GALE_NO_MEMORY;
    for (int32_t i = 0; i < count; i++) {
        const exr_attribute_t *a = NULL;
        if (exr_get_attribute_by_index(f->file, part, EXR_ATTR_LIST_FILE_ORDER, i, &a) != EXR_ERR_SUCCESS || !a)
            continue;
        GALE_TRY(check_name(a->name));
        GALE_TRY(check_name(a->type_name));
        gale__str s = {0};
        bool inside = a->type == EXR_ATTR_INT || a->type == EXR_ATTR_FLOAT || a->type == EXR_ATTR_DOUBLE ||
                      a->type == EXR_ATTR_COMPRESSION || a->type == EXR_ATTR_LINEORDER || a->type == EXR_ATTR_ENVMAP;
        if (inside || a->rawptr) add_value(&s, a);
        gale_exr_attribute one = {gale__arena_strdup(&f->arena, a->name), gale__arena_strdup(&f->arena, a->type_name),
            gale__arena_strdup(&f->arena, gale__str_text(&s))};
        gale_status status = gale__str_check(&s);
        gale__str_finish(&s);
        if (status != GALE_OK || !one.name || !one.type || !one.text) return GALE_NO_MEMORY;
        list[p->attribute_count++] = one;
    }
    p->attributes = list;
    return GALE_OK;
}

static gale_status list_channels(gale_exr *f, int part, gale_exr_part *p)
{
    const exr_attr_chlist_t *list = NULL;
    GALE_TRY(gale__exr_said(exr_get_channels(f->file, part, &list)));
    if (!list || list->num_channels < 1) return gale__fail(GALE_FORMAT, "EXR: a part has no channels");
    if (list->num_channels > CHANNELS_MOST) return gale__fail(GALE_LIMIT, "EXR: more than %d channels", CHANNELS_MOST);
    gale_exr_channel *channels = gale__arena_alloc(&f->arena, (size_t)list->num_channels * sizeof *channels);
    if (!channels) return GALE_NO_MEMORY;
    for (int i = 0; i < list->num_channels; i++) {
        const exr_attr_chlist_entry_t *e = &list->entries[i];
        GALE_TRY(check_name(e->name.str));
        if (e->x_sampling < 1 || e->y_sampling < 1)
            return gale__fail(GALE_FORMAT, "EXR: channel %s has an invalid sampling of %d x %d", e->name.str,
                e->x_sampling, e->y_sampling);
        channels[i] = (gale_exr_channel){
            .name = e->name.str, .x_sampling = e->x_sampling, .y_sampling = e->y_sampling, .linear = e->p_linear != 0};
        GALE_TRY(gale__exr_type(e->pixel_type, &channels[i].type));
    }
    p->channels = channels;
    p->channel_count = list->num_channels;
    return GALE_OK;
}

static gale_status describe_tiles(gale_exr *f, int part, gale_exr_part *p)
{
    uint32_t w = 0, h = 0;
    exr_tile_level_mode_t mode = EXR_TILE_ONE_LEVEL;
    exr_tile_round_mode_t round = EXR_TILE_ROUND_DOWN;
    p->levels_x = p->levels_y = 1;
    if (p->storage != GALE_EXR_TILED && p->storage != GALE_EXR_DEEP_TILED) return GALE_OK;
    GALE_TRY(gale__exr_said(exr_get_tile_descriptor(f->file, part, &w, &h, &mode, &round)));
    GALE_TRY(gale__exr_said(exr_get_tile_levels(f->file, part, &p->levels_x, &p->levels_y)));
    p->tile_width = (int)w;
    p->tile_height = (int)h;
    p->levels = mode == EXR_TILE_RIPMAP_LEVELS   ? GALE_EXR_RIPMAP
                : mode == EXR_TILE_MIPMAP_LEVELS ? GALE_EXR_MIPMAP
                                                 : GALE_EXR_ONE_LEVEL;
    p->round_up = round == EXR_TILE_ROUND_UP;
    return GALE_OK;
}

/* What a header may lack. */
static void describe_colour(gale_exr *f, int part, gale_exr_part *p)
{
    exr_attr_chromaticities_t c;
    const char *view = NULL;
    float v[8];
    p->has_chromaticities = exr_attr_get_chromaticities(f->file, part, "chromaticities", &c) == EXR_ERR_SUCCESS;
    memcpy(v, &c, sizeof v);
    for (int i = 0; i < 8 && p->has_chromaticities; i++) p->chromaticities[i] = (double)v[i];
    float aspect = 1;
    p->pixel_aspect =
        exr_get_pixel_aspect_ratio(f->file, part, &aspect) == EXR_ERR_SUCCESS && aspect > 0.01f && aspect < 100
            ? (double)aspect
            : 1;
    if (exr_get_name(f->file, part, &p->name) != EXR_ERR_SUCCESS || !p->name) p->name = "";
    if (exr_attr_get_string(f->file, part, "view", NULL, &view) == EXR_ERR_SUCCESS && view) p->view = view;
    else p->view = "";
}

static gale_status describe_part(gale_exr *f, int part, gale_exr_part *p)
{
    exr_storage_t storage = EXR_STORAGE_SCANLINE;
    exr_compression_t how = EXR_COMPRESSION_NONE;
    exr_lineorder_t order = EXR_LINEORDER_INCREASING_Y;
    exr_attr_box2i_t data, display;
    GALE_TRY(gale__exr_said(exr_get_storage(f->file, part, &storage)));
    GALE_TRY(gale__exr_said(exr_get_compression(f->file, part, &how)));
    GALE_TRY(gale__exr_said(exr_get_data_window(f->file, part, &data)));
    if (exr_get_display_window(f->file, part, &display) != EXR_ERR_SUCCESS) display = data;
    if (exr_get_lineorder(f->file, part, &order) != EXR_ERR_SUCCESS) order = EXR_LINEORDER_INCREASING_Y;
    p->storage = (gale_exr_storage)storage;
    p->compression = (unsigned)how < EXR_COMPRESSION_LAST_TYPE ? gale__exr_compressions[how] : "?";
    p->line_order = (unsigned)order < 3 ? line_orders[order] : "?";
    p->data = (gale_exr_box){data.min.x, data.min.y, data.max.x, data.max.y};
    p->display = (gale_exr_box){display.min.x, display.min.y, display.max.x, display.max.y};
    describe_colour(f, part, p);
    GALE_TRY(list_channels(f, part, p));
    GALE_TRY(describe_tiles(f, part, p));
    return list_attributes(f, part, p);
}

gale_status gale__exr_describe(gale_exr *f)
{
    GALE_TRY(gale__exr_said(exr_get_count(f->file, &f->count)));
    f->parts = gale__arena_alloc(&f->arena, ((size_t)f->count + 1) * sizeof *f->parts);
    if (!f->parts) return GALE_NO_MEMORY;
    for (int i = 0; i < f->count; i++) GALE_TRY(describe_part(f, i, &f->parts[i]));
    gale__exr_hush(); /* attributes that are looked for in vain complain too */
    return GALE_OK;
}
