/* The summary of a run as a line and as JSON. */
#include "cli/upscale_report.h"
#include "base/json.h"
#include "jobs/upscale/cleaning.h"
#include <stdio.h>
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
    gale__str_addf(out, "%zu %s%s%s%s skipped: %s; %s %s\n", g->count, *g->extension ? "." : "", g->extension,
        *g->extension ? " file" : "file", one ? "" : "s",
        g->irregular    ? "not regular files"
        : *g->extension ? "unsupported picture format"
                        : "no extension; name the file explicitly if it is a picture",
        one ? "it is" : "the first is", g->example);
}

void gale__upscale_cleaned(const gale__upscale_row *r, char *out, size_t size)
{
    const gale_upscale_report *p = &r->report;
    char reason[64] = "", share[32] = "";
    *out = 0;
    if (p->cleaned <= 0) return;
    if (p->examined) gale__cleaning_reason(&p->found, reason, sizeof reason);
    if (p->cleaned < 1) snprintf(share, sizeof share, " by %.2f", p->cleaned);
    snprintf(out, size, ", cleaned%s%s%s%s", share, *reason ? " (" : "", reason, *reason ? ")" : "");
}

void gale__upscale_line(const gale__upscale_sum *s, gale__str *out)
{
    if (s->left_out) gale__str_addf(out, "%zu skipped: results of other pictures\n", s->left_out);
    for (size_t i = 0; i < s->ignored_count; i++) add_ignored(&s->ignored[i], out);
    gale__str_addf(out, "%d done, %d failed, %d skipped in %.2f s: %s %dx, ", s->done, s->failed, s->skipped,
        s->seconds, s->info.name, s->info.scale);
    if (s->automatic) gale__str_addf(out, "%d cleaned, ", s->cleaned);
    gale__str_addf(
        out, "%llu tile%s, %.2f tiles/s on ", (unsigned long long)s->tiles, s->tiles == 1 ? "" : "s", rate(s));
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

static void cleaned_json(gale__json_out *j, const gale_upscale_report *r)
{
    char reason[64] = "";
    key_real(j, "cleaned", r->cleaned);
    if (!r->examined) return;
    gale__cleaning_reason(&r->found, reason, sizeof reason);
    key_text(j, "reason", reason);
    key_number(j, "jpeg_quality", r->found.jpeg_quality);
    key_real(j, "noise", r->found.noise);
    key_real(j, "blocks", r->found.blocks);
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
        if (r->frames) key_number(j, "frames", r->frames);
        key_number(j, "tiles", r->report.tiles);
        key_number(j, "tile", r->report.tile_width);
        key_number(j, "batch", r->report.batch);
        key_number(j, "lanes", r->report.lanes);
        gale__json_key(j, "by_memory"), gale__json_bool(j, r->report.by_memory);
        cleaned_json(j, &r->report);
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
    gale__json_key(&j, "automatic"), gale__json_bool(&j, s->automatic);
    key_number(&j, "cleaned", s->cleaned);
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
