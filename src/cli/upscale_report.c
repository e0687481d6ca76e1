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

static void cleaned_json(gale__json_out *j, const gale_upscale_report *r)
{
    char reason[64] = "";
    gale__json_put_f64(j, "cleaned", r->cleaned);
    if (!r->examined) return;
    gale__cleaning_reason(&r->found, reason, sizeof reason);
    gale__json_put_text(j, "reason", reason);
    gale__json_put_i64(j, "jpeg_quality", r->found.jpeg_quality);
    gale__json_put_f64(j, "noise", r->found.noise);
    gale__json_put_f64(j, "blocks", r->found.blocks);
}

static void row_json(gale__json_out *j, const gale__upscale_row *r)
{
    gale__json_object(j);
    gale__json_put_text(j, "input", r->input);
    gale__json_put_text(j, "output", r->output ? r->output : "-");
    if (r->error) gale__json_put_text(j, "error", r->error);
    else {
        gale__json_put_text(j, "provider", r->where.provider);
        gale__json_put_text(j, "device", r->where.device);
        gale__json_put_i64(j, "width", r->size[2]);
        gale__json_put_i64(j, "height", r->size[3]);
        if (r->frames) gale__json_put_i64(j, "frames", r->frames);
        gale__json_put_i64(j, "tiles", r->report.tiles);
        gale__json_put_i64(j, "tile", r->report.tile_width);
        gale__json_put_i64(j, "batch", r->report.batch);
        gale__json_put_i64(j, "lanes", r->report.lanes);
        gale__json_put_bool(j, "by_memory", r->report.by_memory);
        cleaned_json(j, &r->report);
        gale__json_put_f64(j, "seconds", r->seconds);
        gale__json_put_f64(j, "network_seconds", r->report.network_seconds);
        gale__json_put_f64(j, "read_seconds", r->read_seconds);
        gale__json_put_f64(j, "write_seconds", r->write_seconds);
    }
    gale__json_close(j, '}');
}

static void ignored_json(gale__json_out *j, const gale__upscale_sum *s)
{
    gale__json_open(j, "ignored", '[');
    for (size_t i = 0; i < s->ignored_count; i++) {
        gale__json_object(j);
        gale__json_put_text(j, "extension", s->ignored[i].extension);
        gale__json_put_bool(j, "regular", !s->ignored[i].irregular);
        gale__json_put_i64(j, "count", (int64_t)s->ignored[i].count);
        gale__json_put_text(j, "example", s->ignored[i].example);
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
}

void gale__upscale_json(const gale__upscale_sum *s, gale__str *out)
{
    gale__json_out j;
    gale__json_begin(&j, out);
    gale__json_object(&j);
    gale__json_put_text(&j, "model", s->info.name);
    gale__json_put_i64(&j, "scale", s->info.scale);
    gale__json_put_bool(&j, "automatic", s->automatic);
    gale__json_put_i64(&j, "cleaned", s->cleaned);
    gale__json_put_text(&j, "precision", s->info.precision);
    gale__json_put_text(&j, "provider", s->where.provider);
    gale__json_put_text(&j, "device", s->where.device);
    gale__json_put_i64(&j, "done", s->done);
    gale__json_put_i64(&j, "failed", s->failed);
    gale__json_put_i64(&j, "skipped", s->skipped);
    gale__json_put_i64(&j, "cancelled", s->cancelled);
    gale__json_put_i64(&j, "left_out", (int64_t)s->left_out);
    ignored_json(&j, s);
    gale__json_put_i64(&j, "tiles", (int64_t)s->tiles);
    gale__json_put_f64(&j, "seconds", s->seconds);
    gale__json_put_f64(&j, "tiles_per_second", rate(s));
    gale__json_open(&j, "files", '[');
    for (size_t i = 0; i < s->count; i++) row_json(&j, &s->rows[i]);
    gale__json_close(&j, ']');
    gale__json_close(&j, '}');
}
