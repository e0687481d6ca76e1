/* The sum of a run in its three shapes.  The page holds everything in itself: pictures are data in it, and nothing is
 * fetched. */
#include "cli/upscale_report.h"
#include "base/json.h"
#include "cli/html.h"
#include <string.h>

static double rate(const gale__upscale_sum *s) { return s->run_seconds > 0 ? (double)s->tiles / s->run_seconds : 0; }

static void add_where(const gale__upscale_where *w, gale__str *out)
{
    gale__str_addf(out, "%s %d (%s)", w->provider, w->index, w->device);
}
static bool same_place(const gale__upscale_where *a, const gale__upscale_where *b)
{
    return a->index == b->index && !strcmp(a->provider, b->provider);
}

/* The devices that did something, in their order: mostly one, and more where a job stepped down the chain. */
static void add_devices(const gale__upscale_sum *s, gale__str *out)
{
    const gale__upscale_where *last = NULL;
    for (size_t i = 0; i < s->count; i++) {
        const gale__upscale_row *r = &s->rows[i];
        if (r->error || (last && same_place(last, &r->where))) continue;
        gale__str_add(out, last ? ", then " : "");
        add_where(last = &r->where, out);
    }
    if (!last) add_where(&s->where, out);
}

static void add_ignored(const gale__ignored *g, gale__str *out)
{
    bool one = g->count == 1;
    gale__str_addf(out, "%zu %s%s%s%s left out: %s; %s %s\n", g->count, *g->extension ? "." : "", g->extension,
        *g->extension ? " file" : "file", one ? "" : "s",
        g->irregular    ? "not regular files"
        : *g->extension ? "no format of pictures that is read here"
                        : "no extension, so give it by its own name if it is a picture",
        one ? "it is" : "the first is", g->example);
}

void gale__upscale_line(const gale__upscale_sum *s, gale__str *out)
{
    if (s->left_out) gale__str_addf(out, "%zu left out: results of others\n", s->left_out);
    for (size_t i = 0; i < s->ignored_count; i++) add_ignored(&s->ignored[i], out);
    gale__str_addf(out, "%d done, %d failed, %d skipped in %.2f s: %s %dx, %llu tile%s, %.2f tiles/s on ", s->done,
        s->failed, s->skipped, s->seconds, s->info.name, s->info.scale, (unsigned long long)s->tiles,
        s->tiles == 1 ? "" : "s", rate(s));
    add_devices(s, out);
    gale__str_addf(out, ", %s\n", s->info.precision);
}

static void key_text(gale__json_out *j, const char *key, const char *text)
{
    gale__json_key(j, key);
    gale__json_string(j, text);
}

static void key_number(gale__json_out *j, const char *key, int64_t v)
{
    gale__json_key(j, key);
    gale__json_i64(j, v);
}

static void key_real(gale__json_out *j, const char *key, double v)
{
    gale__json_key(j, key);
    gale__json_f64(j, v);
}

static void row_json(gale__json_out *j, const gale__upscale_row *r)
{
    gale__json_object(j);
    key_text(j, "input", r->input);
    key_text(j, "output", r->output ? r->output : "-");
    if (r->error) key_text(j, "error", r->error);
    else {
        key_text(j, "provider", r->where.provider);
        key_text(j, "device", r->where.device);
        key_number(j, "width", r->size[2]);
        key_number(j, "height", r->size[3]);
        key_number(j, "tiles", r->report.tiles);
        key_number(j, "tile", r->report.tile_width);
        key_number(j, "batch", r->report.batch);
        key_number(j, "lanes", r->report.lanes);
        gale__json_key(j, "by_memory"), gale__json_bool(j, r->report.by_memory);
        key_real(j, "seconds", r->seconds);
        key_real(j, "network_seconds", r->report.network_seconds);
        key_real(j, "read_seconds", r->read_seconds);
        key_real(j, "write_seconds", r->write_seconds);
    }
    gale__json_close(j, '}');
}

static void ignored_json(gale__json_out *j, const gale__upscale_sum *s)
{
    gale__json_key(j, "ignored");
    gale__json_array(j);
    for (size_t i = 0; i < s->ignored_count; i++) {
        gale__json_object(j);
        key_text(j, "extension", s->ignored[i].extension);
        gale__json_key(j, "regular"), gale__json_bool(j, !s->ignored[i].irregular);
        key_number(j, "count", (int64_t)s->ignored[i].count);
        key_text(j, "example", s->ignored[i].example);
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
}

void gale__upscale_json(const gale__upscale_sum *s, gale__str *out)
{
    gale__json_out j;
    gale__json_begin(&j, out);
    gale__json_object(&j);
    key_text(&j, "model", s->info.name);
    key_number(&j, "scale", s->info.scale);
    key_text(&j, "precision", s->info.precision);
    key_text(&j, "provider", s->where.provider);
    key_text(&j, "device", s->where.device);
    key_number(&j, "done", s->done);
    key_number(&j, "failed", s->failed);
    key_number(&j, "skipped", s->skipped);
    key_number(&j, "cancelled", s->cancelled);
    key_number(&j, "left_out", (int64_t)s->left_out);
    ignored_json(&j, s);
    key_number(&j, "tiles", (int64_t)s->tiles);
    key_real(&j, "seconds", s->seconds);
    key_real(&j, "tiles_per_second", rate(s));
    gale__json_key(&j, "files");
    gale__json_array(&j);
    for (size_t i = 0; i < s->count; i++) row_json(&j, &s->rows[i]);
    gale__json_close(&j, ']');
    gale__json_close(&j, '}');
}

gale_status gale__picture_thumb(const gale_picture *p, int64_t most, gale_picture **out)
{
    gale_picture *full = NULL, *made = NULL;
    GALE_TRY(gale_picture_convert(p, GALE_U8, 3, &full));
    int64_t larger = full->width > full->height ? full->width : full->height, by = (larger + most - 1) / most;
    int64_t width = full->width / by > 0 ? full->width / by : 1, height = full->height / by > 0 ? full->height / by : 1;
    int64_t across = full->width < by ? full->width : by, down = full->height < by ? full->height : by;
    gale_status status = gale_picture_create(width, height, 3, GALE_U8, &made);
    for (int64_t i = 0; status == GALE_OK && i < width * height * 3; i++) {
        int64_t x = i / 3 % width * by, y = i / 3 / width * by, sum = 0;
        for (int64_t k = 0; k < across * down; k++)
            sum += ((uint8_t *)full->data)[((y + k / across) * full->width + x + k % across) * 3 + i % 3];
        ((uint8_t *)made->data)[i] = (uint8_t)((sum + across * down / 2) / (across * down));
    }
    gale_picture_destroy(&full);
    if (status == GALE_OK) *out = made;
    return status;
}

/* JPEG, PNG or BMP: the best that this build writes of what browsers show; BMP is always there. */
static gale_status add_picture(gale__str *out, const char *id, const gale_picture *p)
{
    static const char *const shown[] = {"bmp", "png", "jpeg"};
    gale_picture_write_options o = {.quality = 90};
    const gale_picture_format *f;
    void *data = NULL;
    size_t size = 0;
    for (size_t k = 0; k < sizeof shown / sizeof *shown; k++)
        for (int i = 0; (f = gale_picture_format_get(i)); i++)
            if (f->writes && !strcmp(f->name, shown[k])) o.format = f->name;
    GALE_TRY(gale_picture_to_memory(p, &o, &data, &size));
    gale__str_addf(out, "<img id=%s alt=%s src='data:image/%s;base64,", id, id, o.format);
    gale__html_add_data(out, data, size);
    gale__str_add(out, "'>");
    gale_free(data);
    return GALE_OK;
}

static gale_status add_pictures(const gale__upscale_sum *s, gale__str *out)
{
    gale__str_add(out, "<div class=both style='--at:50%'>");
    GALE_TRY(add_picture(out, "after", s->after));
    GALE_TRY(add_picture(out, "before", s->before));
    gale__str_add(out,
        "</div><label>before <input type=range min=0 max=100 value=50 "
        "oninput=\"document.querySelector('.both').style.setProperty('--at',this.value+'%')\"> after</label>");
    return GALE_OK;
}

static void add_row(const gale__upscale_row *r, gale__str *out)
{
    gale__str_add(out, "<tr><td>");
    gale__html_add(out, r->input);
    gale__str_add(out, "<td>");
    gale__html_add(out, r->error ? r->error : r->output ? r->output : "-");
    if (r->error) {
        gale__str_add(out, "<td class=n>failed<td><td><td><td>");
        return;
    }
    gale__str_addf(out,
        "<td class=n>%lld x %lld<td class=n>%lld x %lld<td class=n>%lld of %lld x %lld%s<td class=n>%.2f s",
        (long long)r->size[0], (long long)r->size[1], (long long)r->size[2], (long long)r->size[3],
        (long long)r->report.tiles, (long long)r->report.tile_width, (long long)r->report.tile_height,
        r->report.by_memory ? " by memory" : "", r->seconds);
    gale__str_add(out, "<td>");
    gale__html_add(out, r->where.device);
}

gale_status gale__upscale_html(const gale__upscale_sum *s, gale__str *out)
{
    gale__str line = {0};
    gale__str_add(out,
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'><title>gale "
        "upscale</title><style>"
        "body{font:14px/1.45 "
        "system-ui,sans-serif;margin:24px;color:#1b2530;background:#fff}h1{font-size:20px}table{border-collapse:"
        "collapse;margin-top:20px}"
        "td,th{padding:2px 10px;text-align:left;border-bottom:1px solid "
        "#e3e8ee}td.n{text-align:right;font-variant-numeric:tabular-nums}.both{position:relative;max-width:1024px}"
        ".both img{width:100%;display:block}#before{position:absolute;inset:0;clip-path:inset(0 calc(100% - var(--at)) "
        "0 0)}label{display:block;max-width:1024px;text-align:center}input{width:60%}"
        "@media(prefers-color-scheme:dark){body{background:#141a21;color:#dde4ec}td,th{border-color:#2b3541}}</"
        "style><h1>gale upscale: ");
    gale__html_add(out, s->info.name);
    gale__str_add(out, "</h1><p>");
    gale__upscale_line(s, &line);
    gale__html_add(out, gale__str_text(&line));
    gale__str_add(out, "</p>");
    out->failed |= line.failed;
    gale__str_finish(&line);
    if (s->before && s->after) GALE_TRY(add_pictures(s, out));
    gale__str_add(out, "<table><tr><th>picture<th>became<th>pixels<th>pixels then<th>tiles<th>time<th>device");
    for (size_t i = 0; i < s->count; i++) add_row(&s->rows[i], out);
    gale__str_add(out, "</table></html>\n");
    return gale__str_check(out);
}
