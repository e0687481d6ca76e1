/* gale exr info: the headers, as text or JSON. */
#include "cli/cmd_exr.h"
#include "base/json.h"
#include <string.h>

static const char *const storages[] = {"scan lines", "tiles", "deep scan lines", "deep tiles"};
static const char *const levels[] = {"one", "mip", "rip"};

static void text_box(gale__str *s, const char *name, const gale_exr_box *b)
{
    gale__str_addf(s, "  %-14s (%d, %d) to (%d, %d): %lld x %lld\n", name, b->x0, b->y0, b->x1, b->y1,
        (long long)b->x1 - b->x0 + 1, (long long)b->y1 - b->y0 + 1);
}

static void text_part(gale__str *s, const gale_exr_part *p, int i, int count)
{
    if (count > 1) gale__str_addf(s, " part %d%s%s\n", i, *p->name ? ": " : "", p->name);
    if (*p->view) gale__str_addf(s, "  %-14s %s\n", "view", p->view);
    gale__str_addf(s, "  %-14s %s, %s", "stored as", storages[p->storage], p->compression);
    if (p->tile_width) gale__str_addf(s, ", tiles of %d x %d", p->tile_width, p->tile_height);
    if (p->levels == GALE_EXR_MIPMAP) gale__str_addf(s, ", %d mip levels", p->levels_x);
    if (p->levels == GALE_EXR_RIPMAP) gale__str_addf(s, ", %d x %d rip levels", p->levels_x, p->levels_y);
    gale__str_add(s, "\n");
    text_box(s, "data window", &p->data);
    if (memcmp(&p->data, &p->display, sizeof p->data)) text_box(s, "display window", &p->display);
    gale__str_addf(s, "  %-14s", "channels");
    for (int c = 0; c < p->channel_count; c++) {
        const gale_exr_channel *ch = &p->channels[c];
        gale__str_addf(s, "%s%s %s", c ? ", " : " ", ch->name, gale_type_name(ch->type));
        if (ch->x_sampling > 1 || ch->y_sampling > 1)
            gale__str_addf(s, " (1 of %d x %d)", ch->x_sampling, ch->y_sampling);
    }
    gale__str_add(s, "\n");
    for (int k = 0; k < p->attribute_count; k++) {
        const gale_exr_attribute *at = &p->attributes[k];
        static const char *const said[] = {
            "channels", "compression", "dataWindow", "displayWindow", "tiles", "name", "type", "view", "chunkCount"};
        bool again = false;
        for (size_t n = 0; n < sizeof said / sizeof *said; n++) again = again || !strcmp(at->name, said[n]);
        if (!again) gale__str_addf(s, "  %-14s %s\n", at->name, at->text);
    }
}

static void json_box(gale__json_out *j, const char *key, const gale_exr_box *b)
{
    const int32_t v[4] = {b->x0, b->y0, b->x1, b->y1};
    gale__json_open(j, key, '[');
    for (int i = 0; i < 4; i++) gale__json_i64(j, v[i]);
    gale__json_close(j, ']');
}

static void json_channels(gale__json_out *j, const gale_exr_part *p)
{
    gale__json_open(j, "channels", '[');
    for (int c = 0; c < p->channel_count; c++) {
        gale__json_object(j);
        gale__json_put_text(j, "name", p->channels[c].name);
        gale__json_put_text(j, "type", gale_type_name(p->channels[c].type));
        gale__json_put_i64(j, "x_sampling", p->channels[c].x_sampling);
        gale__json_put_i64(j, "y_sampling", p->channels[c].y_sampling);
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
}

static void json_part(gale__json_out *j, const gale_exr_part *p)
{
    gale__json_object(j);
    gale__json_put_text(j, "name", p->name);
    gale__json_put_text(j, "view", p->view);
    gale__json_put_text(j, "storage", storages[p->storage]);
    gale__json_put_bool(j, "deep", p->storage >= GALE_EXR_DEEP_SCANLINE);
    gale__json_put_text(j, "compression", p->compression);
    gale__json_put_text(j, "line_order", p->line_order);
    json_box(j, "data_window", &p->data);
    json_box(j, "display_window", &p->display);
    gale__json_put_f64(j, "pixel_aspect", p->pixel_aspect);
    gale__json_put_i64(j, "tile_width", p->tile_width);
    gale__json_put_i64(j, "tile_height", p->tile_height);
    gale__json_put_text(j, "levels", levels[p->levels]);
    gale__json_put_i64(j, "levels_x", p->levels_x);
    gale__json_put_i64(j, "levels_y", p->levels_y);
    json_channels(j, p);
    gale__json_open(j, "attributes", '{');
    for (int k = 0; k < p->attribute_count; k++) gale__json_put_text(j, p->attributes[k].name, p->attributes[k].text);
    gale__json_close(j, '}');
    gale__json_close(j, '}');
}

static gale_status describe(const char *path, gale__str *text, gale__json_out *j)
{
    gale_exr *f = NULL;
    char size[32];
    GALE_TRY(gale_exr_open(path, NULL, &f));
    int count = gale_exr_part_count(f);
    if (j) {
        gale__json_object(j);
        gale__json_put_text(j, "file", path);
        gale__json_put_i64(j, "size_bytes", (int64_t)gale_exr_size_bytes(f));
        gale__json_open(j, "parts", '[');
        for (int i = 0; i < count; i++) json_part(j, gale_exr_part_get(f, i));
        gale__json_close(j, ']');
        gale__json_close(j, '}');
    } else {
        gale__str_addf(text, "%s: %s, %d part%s\n", path, gale__bytes_text(gale_exr_size_bytes(f), size), count,
            count == 1 ? "" : "s");
        size_t begin = text->length;
        for (int i = 0; i < count; i++) text_part(text, gale_exr_part_get(f, i), i, count);
        if (text->text) gale__text_make_plain(text->text + begin, text->length - begin, "\n\t");
    }
    gale_exr_close(&f);
    return GALE_OK;
}

int gale__exr_info(const gale__args *a)
{
    gale__inputs in = {0};
    gale__str text = {0};
    gale__json_out j;
    bool json = gale__args_flag(a, "json");
    size_t failed = 0;
    gale_status status = gale__exr_inputs(a, &in, &failed);
    if (json) gale__json_begin(&j, &text), gale__json_array(&j);
    for (size_t i = 0; i < in.count && status == GALE_OK; i++) {
        gale_status one = describe(in.list[i].path, &text, json ? &j : NULL);
        if (one != GALE_OK) gale__report(one), failed++;
    }
    if (json) gale__json_close(&j, ']');
    gale__inputs_finish(&in);
    if (status != GALE_OK) {
        gale__str_finish(&text);
        return gale__report(status);
    }
    int code = gale__print(&text);
    return failed ? GALE__EXIT_FAILED : code;
}
