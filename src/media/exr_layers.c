/* Selects the channels of an OpenEXR file that make up the picture.  A file may have parts, and a part layers
 * ("diffuse.R"): users expect the main colours, as viewers show them, and want to know what was ignored. */
#include "media/exr.h"
#include <string.h>

enum { CHANNELS_MOST = 4096, NAMED_MOST = 12 };
typedef struct layer {
    const exr_attr_chlist_t *list;
    int part;
    const char *part_name, *prefix;
    const char *view; /* of channels without a prefix; NULL: none is named */
    size_t length;    /* of the prefix, with its dot */
    bool deep;
} layer;

/* The prefix of a channel's name, with its dot. */
static size_t prefix_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) + 1 : 0;
}

/* The layer's channel of that name, small letters as good as capitals. */
static const exr_attr_chlist_entry_t *channel(const layer *l, const char *name)
{
    for (int i = 0; i < l->list->num_channels; i++) {
        const char *full = l->list->entries[i].name.str;
        if (prefix_of(full) == l->length && !memcmp(full, l->prefix, l->length) &&
            gale__text_equal_nocase(full + l->length, name))
            return &l->list->entries[i];
    }
    return NULL;
}

/* Takes all of the names; false, and nothing is taken, where one is missing. */
static bool take(const layer *l, const char *const *names, int count, gale__exr_choice *c)
{
    const exr_attr_chlist_entry_t *found[4];
    for (int i = 0; i < count; i++)
        if (!(found[i] = channel(l, names[i]))) return false;
    for (int i = 0; i < count; i++) c->names[c->channels++] = found[i]->name.str;
    return true;
}

/* What the layer shows, and how much it is what is wanted when nothing is said: the lower the better, negative for
 * none. */
static int show(const layer *l, gale__exr_choice *c)
{
    static const char *const rgb[] = {"R", "G", "B"}, *const ycc[] = {"Y", "RY", "BY"}, *const alpha[] = {"A"},
                             *const usual[] = {"beauty.", "combined.", "rgba.", "rgb."};
    *c = (gale__exr_choice){.part = l->part};
    int rank = take(l, rgb, 3, c) ? 0 : take(l, ycc, 3, c) ? 1 : take(l, ycc, 1, c) ? 2 : -1;
    if (rank < 0) return rank;
    c->chroma = rank == 1;
    take(l, alpha, 1, c);
    if (!l->length) return rank;
    for (int i = 0; i < 4; i++) {
        size_t n = strlen(usual[i]);
        char last[16] = "";
        if (l->length >= n && (l->length == n || l->prefix[l->length - n - 1] == '.'))
            memcpy(last, l->prefix + l->length - n, n);
        if (gale__text_equal_nocase(last, usual[i])) return rank + 10;
    }
    return rank + 20;
}

/* Whether the layer, or its part, is the requested one. */
static bool is_wanted(const layer *l, const char *wanted)
{
    size_t n = strlen(wanted), part = strlen(l->part_name), own = l->length ? l->length - 1 : 0;
    if (n == part && !strcmp(wanted, l->part_name)) return true;
    if (!own && l->view && !strcmp(wanted, l->view)) return true;
    if (own && n == own && !memcmp(wanted, l->prefix, own)) return true;
    return own && n == part + 1 + own && !memcmp(wanted, l->part_name, part) && wanted[part] == '.' &&
           !memcmp(wanted + part + 1, l->prefix, own);
}

/* The best of a part's layers and of what was found before. */
static void look_at(layer *l, const char *wanted, int *best, gale__exr_choice *out)
{
    for (int i = 0; i < l->list->num_channels; i++) {
        const char *name = l->list->entries[i].name.str;
        l->prefix = name;
        l->length = prefix_of(name);
        const char *own = name + l->length;
        gale__exr_choice c;
        int rank = -1;
        if (gale__text_equal_nocase(own, "R") || gale__text_equal_nocase(own, "Y"))
            rank = wanted && !is_wanted(l, wanted) ? -1 : show(l, &c); /* each layer is met once or twice */
        if (rank < 0 && (l->list->num_channels == 1 ? !wanted || is_wanted(l, wanted) || !strcmp(name, wanted)
                                                    : wanted && !strcmp(name, wanted))) {
            c = (gale__exr_choice){.part = l->part, .channels = 1, .names = {name}};
            rank = 30;
        }
        if (rank >= 0 && l->deep) rank += 100; /* flat ones first */
        if (rank < 0 || (*best >= 0 && rank >= *best)) continue;
        *best = rank;
        *out = c;
    }
}

static bool is_deep(exr_const_context_t file, int part)
{
    exr_storage_t s = EXR_STORAGE_SCANLINE;
    return exr_get_storage(file, part, &s) != EXR_ERR_SUCCESS || (s != EXR_STORAGE_SCANLINE && s != EXR_STORAGE_TILED);
}

/* That of the part, or the first of several in one part. */
static const char *find_view(exr_const_context_t file, int part)
{
    const exr_attribute_t *a = NULL;
    if (exr_get_attribute_by_name(file, part, "view", &a) == EXR_ERR_SUCCESS && a->type == EXR_ATTR_STRING)
        return a->string->str;
    if (exr_get_attribute_by_name(file, part, "multiView", &a) == EXR_ERR_SUCCESS &&
        a->type == EXR_ATTR_STRING_VECTOR && a->stringvector->n_strings > 0)
        return a->stringvector->strings[0].str;
    return NULL;
}

static bool open_part(exr_const_context_t file, int part, layer *l)
{
    *l = (layer){.part = part, .part_name = ""};
    if (exr_get_name(file, part, &l->part_name) != EXR_ERR_SUCCESS || !l->part_name) l->part_name = "";
    l->view = find_view(file, part);
    return exr_get_channels(file, part, &l->list) == EXR_ERR_SUCCESS && l->list;
}

static void add_name(gale__str *text, int *count, const char *kind, const char *name, size_t length)
{
    if ((*count)++ < NAMED_MOST)
        gale__str_addf(text, "%s%s%.*s", *count > 1 ? ", " : "", kind, (int)(length < 100 ? length : 100), name);
}

/* What a part has beside the channels of `c` (may be NULL): layers by name, channels without one by theirs. */
static void list_layers(const layer *l, const gale__exr_choice *c, gale__str *text, int *count)
{
    const char *before = NULL;
    for (int i = 0; i < l->list->num_channels; i++) {
        const char *name = l->list->entries[i].name.str;
        size_t n = prefix_of(name);
        bool used = false;
        for (int k = 0; c && k < c->channels; k++) used |= !strcmp(c->names[k], name);
        if (used || (n && before && prefix_of(before) == n && !memcmp(before, name, n))) continue;
        add_name(text, count, "", name, n ? n - 1 : strlen(name));
        before = name;
    }
}

/* Names of all that is not in `c`; with NULL of all. */
static void list_rest(exr_const_context_t file, int parts, const gale__exr_choice *c, gale__str *text)
{
    int count = 0;
    layer l;
    for (int i = 0; i < parts && i < NAMED_MOST * 100; i++) {
        if (!open_part(file, i, &l)) continue;
        if (parts == 1 || (c && c->part == i)) list_layers(&l, c, text, &count);
        else if (*l.part_name)
            add_name(text, &count, is_deep(file, i) ? "deep part " : "part ", l.part_name, strlen(l.part_name));
        else add_name(text, &count, "an unnamed part", "", 0);
    }
    if (count > NAMED_MOST) gale__str_addf(text, " and %d more", count - NAMED_MOST);
}

/* The type that holds all. */
static gale_status find_type(exr_const_context_t file, gale__exr_choice *c)
{
    layer l;
    c->type = GALE_F16;
    if (!open_part(file, c->part, &l)) return gale__fail(GALE_FORMAT, "EXR: a part has no channels");
    for (int i = 0; i < l.list->num_channels; i++)
        for (int k = 0; k < c->channels; k++) {
            const exr_attr_chlist_entry_t *e = &l.list->entries[i];
            if (strcmp(e->name.str, c->names[k])) continue;
            if (e->pixel_type != EXR_PIXEL_HALF) c->type = GALE_F32;
        }
    return GALE_OK;
}

static gale_status refuse(exr_const_context_t file, int parts, const char *wanted)
{
    gale__str all = {0};
    list_rest(file, parts, NULL, &all);
    gale_status status;
    if (wanted)
        status = gale__fail(GALE_NOT_FOUND, "EXR: no part, layer or channel \"%s\" with a picture; available are: %s",
            wanted, gale__str_text(&all));
    else
        status = gale__fail(
            GALE_UNSUPPORTED, "EXR: neither R, G and B nor Y are among its channels: %s", gale__str_text(&all));
    gale__str_finish(&all);
    return status;
}

gale_status gale__exr_choose(exr_const_context_t file, const char *wanted, gale__exr_choice *out)
{
    int parts = 0, best = -1, channels = 0;
    layer l;
    if (exr_get_count(file, &parts) != EXR_ERR_SUCCESS) parts = 1;
    for (int i = 0; i < parts; i++) {
        if (!open_part(file, i, &l)) continue;
        if (l.list->num_channels > CHANNELS_MOST - channels)
            return gale__fail(GALE_LIMIT, "EXR: more than %d channels", CHANNELS_MOST);
        channels += l.list->num_channels;
        l.deep = is_deep(file, i);
        look_at(&l, wanted, &best, out);
    }
    if (best < 0) return refuse(file, parts, wanted);
    return find_type(file, out);
}

void gale__exr_tell_rest(exr_const_context_t file, const gale__exr_choice *out)
{
    int parts = 0;
    layer l;
    if (exr_get_count(file, &parts) != EXR_ERR_SUCCESS) parts = 1;
    gale__str rest = {0}, used = {0};
    list_rest(file, parts, out, &rest);
    for (int i = 0; i < out->channels; i++) gale__str_addf(&used, "%s%s", i ? ", " : "", out->names[i]);
    if (rest.length && open_part(file, out->part, &l))
        gale__log(GALE__WARN, "EXR: the picture is %s%s%s; ignored: %s", gale__str_text(&used),
            *l.part_name ? " of part " : "", l.part_name, gale__str_text(&rest));
    gale__str_finish(&rest);
    gale__str_finish(&used);
}
