/* The HTML report of gale embed.  Everything is drawn as SVG inside the page, and nothing is fetched.  The map shows
 * the first two principal components of a sample of vectors, found by power iteration: enough to see clusters. */
#include "cli/embed_page.h"
#include "base/file.h"
#include "cli/html.h"
#include "gale/search.h"
#include "jobs/search/row_texts.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SAMPLE = 1500, STEPS = 40, WIDTH = 760, HEIGHT = 220, MAP = 620, TITLE = 120 };

gale_status gale__embed_page_note(gale__embed_page *p, const gale_embed_report *now)
{
    uint64_t texts = now->texts - now->resumed;
    if (p->count ? p->points[p->count - 1].texts == texts : !texts) return GALE_OK; /* texts come by windows */
    GALE_TRY(gale__grow((void **)&p->points, &p->capacity, p->count + 1, sizeof *p->points));
    p->points[p->count++] = (gale__embed_point){now->seconds, texts, now->tokens};
    return GALE_OK;
}

void gale__embed_page_finish(gale__embed_page *p) { gale__free(p->points); }

/* --- Charts. --- */

static void begin_chart(gale__str *out, const char *title, int width, int height)
{
    gale__str_addf(
        out, "<h2>%s</h2><svg viewBox='0 0 %d %d' width='%d' height='%d'>\n", title, width, height, width, height);
}

/* Texts a second between notes, over at most 200 spans. */
static void add_rates(gale__str *out, const gale__embed_page *p)
{
    double end = p->report->seconds > 0 ? p->report->seconds : 1, most = 1;
    size_t spans = p->count < 200 ? p->count : 200;
    float rates[200] = {0}, at[200] = {0};
    gale__embed_point last = {0};
    for (size_t i = 0; i < spans; i++) {
        gale__embed_point now = p->points[(i + 1) * p->count / spans - 1];
        double seconds = now.seconds - last.seconds;
        rates[i] = (float)(seconds > 0 ? (double)(now.texts - last.texts) / seconds : 0);
        at[i] = (float)(now.seconds / end);
        if (rates[i] > most) most = rates[i];
        last = now;
    }
    begin_chart(out, "Texts a second", WIDTH, HEIGHT);
    gale__str_addf(out, "<polyline fill='none' stroke='#2563eb' stroke-width='2' points='10,%.1f ",
        HEIGHT - 20 - (spans ? (double)rates[0] : 0) / most * (HEIGHT - 40));
    for (size_t i = 0; i < spans; i++)
        gale__str_addf(out, "%.1f,%.1f ", 10 + (double)at[i] * (WIDTH - 20),
            HEIGHT - 20 - (double)rates[i] / most * (HEIGHT - 40));
    gale__str_addf(out,
        "'/><text x='10' y='14'>%.0f</text><text x='10' y='%d'>0 s</text><text x='%d' y='%d' "
        "text-anchor='end'>%.1f s</text></svg>\n",
        most, HEIGHT - 4, WIDTH - 10, HEIGHT - 4, end);
}

static void add_bars(
    gale__str *out, const char *title, const char *const *names, const double *values, int n, const char *unit)
{
    double most = 1e-12;
    for (int i = 0; i < n; i++)
        if (values[i] > most) most = values[i];
    begin_chart(out, title, WIDTH, 24 * n + 4);
    for (int i = 0; i < n; i++)
        gale__str_addf(out,
            "<text x='0' y='%d'>%s</text><rect x='110' y='%d' width='%.1f' height='16' fill='#2563eb'/><text x='%.1f' "
            "y='%d'>%.*f%s</text>\n",
            24 * i + 16, names[i], 24 * i + 3, values[i] / most * (WIDTH - 240), 116 + values[i] / most * (WIDTH - 240),
            24 * i + 16, *unit ? 3 : 0, values[i], unit); /* seconds, or counts */
    gale__str_add(out, "</svg>\n");
}

static void add_lengths(gale__str *out, const gale_embed_report *r)
{
    char labels[16][24];
    const char *names[16];
    double values[16];
    int n = 0;
    for (int i = 0; i < 16; i++) {
        snprintf(labels[i], sizeof labels[i], i < 15 ? "up to %d" : "more", 4 << i);
        names[i] = labels[i];
        values[i] = (double)r->lengths[i];
        if (r->lengths[i]) n = i + 1;
    }
    add_bars(out, "Tokens of a text", names, values, n, "");
}

static void add_times(gale__str *out, const gale_embed_report *r)
{
    static const char *const names[] = {"read", "tokenize", "model", "write", "all"};
    double lanes = r->lanes > 0 ? r->lanes : 1;
    const double values[] = {r->read_s, r->tokenize_s, r->compute_s / lanes, r->write_s, r->seconds};
    add_bars(out, "Where time went (the first four run side by side)", names, values, 5, " s");
}

/* --- The map. --- */

typedef struct cloud {
    float *rows; /* [count, dims], with the mean taken away */
    int64_t *numbers;
    size_t count, dims;
    float (*places)[2];
} cloud;

static void multiply(const cloud *c, const float *v, float *out)
{
    memset(out, 0, c->dims * sizeof *out);
    for (size_t r = 0; r < c->count; r++) {
        const float *row = c->rows + r * c->dims;
        float dot = 0;
        for (size_t i = 0; i < c->dims; i++) dot += row[i] * v[i];
        for (size_t i = 0; i < c->dims; i++) out[i] += dot * row[i];
    }
}

/* One component; `other` (may be NULL) is at right angles to it. */
static void find_component(const cloud *c, const float *other, float *v, float *scratch)
{
    for (size_t i = 0; i < c->dims; i++) v[i] = (float)((i * 2654435761u >> 7) % 1000) / 500 - 1;
    for (int step = 0; step < STEPS; step++) {
        float dot = 0, sum = 0;
        multiply(c, v, scratch);
        for (size_t i = 0; other && i < c->dims; i++) dot += scratch[i] * other[i];
        for (size_t i = 0; other && i < c->dims; i++) scratch[i] -= dot * other[i];
        for (size_t i = 0; i < c->dims; i++) sum += scratch[i] * scratch[i];
        for (size_t i = 0; i < c->dims; i++) v[i] = sum > 0 ? scratch[i] / sqrtf(sum) : 0;
    }
}

static void take_mean(cloud *c)
{
    for (size_t i = 0; i < c->dims; i++) {
        double mean = 0;
        for (size_t r = 0; r < c->count; r++) mean += c->rows[r * c->dims + i];
        for (size_t r = 0; r < c->count; r++) c->rows[r * c->dims + i] -= (float)(mean / (double)c->count);
    }
}

static gale_status place(cloud *c)
{
    float *work = gale__alloc(3 * c->dims * sizeof *work);
    if (!work) return GALE_NO_MEMORY;
    take_mean(c);
    find_component(c, NULL, work, work + 2 * c->dims);
    find_component(c, work, work + c->dims, work + 2 * c->dims);
    for (size_t r = 0; r < c->count; r++)
        for (int k = 0; k < 2; k++) {
            c->places[r][k] = 0;
            for (size_t i = 0; i < c->dims; i++)
                c->places[r][k] += c->rows[r * c->dims + i] * work[(size_t)k * c->dims + i];
        }
    gale__free(work);
    return GALE_OK;
}

static gale_status read_sample(gale_index *x, int64_t rows, cloud *c)
{
    c->count = rows < SAMPLE ? (size_t)rows : SAMPLE;
    c->rows = gale__alloc((c->count * c->dims + 1) * sizeof *c->rows);
    c->numbers = gale__alloc((c->count + 1) * sizeof *c->numbers);
    c->places = gale__calloc(c->count + 1, sizeof *c->places);
    if (!c->rows || !c->numbers || !c->places) return GALE_NO_MEMORY;
    for (size_t i = 0; i < c->count; i++) {
        c->numbers[i] = (int64_t)i * rows / (int64_t)c->count;
        GALE_TRY(gale_index_vector(x, c->numbers[i], c->rows + i * c->dims));
    }
    return c->count ? place(c) : GALE_OK;
}

/* The texts of the sample, where the files can be read again. */
static gale_status find_texts(const gale__embed_page *p, const cloud *c, gale__row_text **texts, size_t *n)
{
    const gale_embed_options *o = p->options;
    gale__records_options source = {o->files, o->file_count, (gale__record_kind)o->kind, o->field};
    for (size_t i = 0; i < o->file_count; i++)
        if (!strcmp(o->files[i], "-") || gale__file_is_stream(o->files[i]) || o->shards) return GALE_OK;
    gale_hit *hits = gale__alloc((c->count + 1) * sizeof *hits);
    if (!hits) return GALE_NO_MEMORY;
    for (size_t i = 0; i < c->count; i++) hits[i] = (gale_hit){c->numbers[i], 0};
    int64_t rows = c->count ? c->numbers[c->count - 1] + 1 : 0;
    gale_status status = gale__row_texts_find(&source, rows, hits, c->count, texts, n);
    gale__free(hits);
    return status;
}

/* The beginning of a text, cut between characters. */
static void add_title(gale__str *out, int64_t number, const gale__row_text *text)
{
    char cut[160];
    size_t size = text ? text->size : 0;
    if (size > TITLE) {
        size = TITLE;
        while (size && ((unsigned char)text->text[size] & 0xc0) == 0x80) size--;
    }
    snprintf(cut, sizeof cut, "%lld: %.*s", (long long)number, (int)size, text ? text->text : "");
    gale__html_add(out, cut);
}

static void draw_map(gale__str *out, const cloud *c, const gale__row_text *texts, size_t n)
{
    float low[2] = {0, 0}, high[2] = {1e-6f, 1e-6f};
    for (size_t r = 0; r < c->count; r++)
        for (int k = 0; k < 2; k++) {
            low[k] = fminf(low[k], c->places[r][k]);
            high[k] = fmaxf(high[k], c->places[r][k]);
        }
    begin_chart(out, "Map of a sample (two principal components; point at one to read it)", MAP, MAP);
    for (size_t r = 0; r < c->count; r++) {
        const gale__row_text *text = gale__row_texts_get(texts, n, c->numbers[r]);
        gale__str_addf(out, "<circle cx='%.1f' cy='%.1f' r='3' fill='#2563eb' fill-opacity='.5'><title>",
            10 + (double)((c->places[r][0] - low[0]) / (high[0] - low[0])) * (MAP - 20),
            10 + (double)((c->places[r][1] - low[1]) / (high[1] - low[1])) * (MAP - 20));
        add_title(out, c->numbers[r], text);
        gale__str_add(out, "</title></circle>\n");
    }
    gale__str_add(out, "</svg>\n");
}

static gale_status add_map(gale__str *out, const gale__embed_page *p)
{
    gale_index *x = NULL;
    gale_index_info info;
    gale_index_options o = {.format = p->options->format, .dims = p->info->dims, .type = p->options->type};
    cloud c = {.dims = (size_t)p->info->dims};
    gale__row_text *texts = NULL;
    size_t n = 0;
    if (gale_index_open(p->options->output, &o, &x) != GALE_OK) { /* text formats have no map */
        gale__error_clear();
        return GALE_OK;
    }
    gale_index_get_info(x, &info);
    gale_status status = read_sample(x, info.rows, &c);
    if (status == GALE_OK) status = find_texts(p, &c, &texts, &n);
    if (status == GALE_OK && c.count) draw_map(out, &c, texts, n);
    gale__row_texts_finish(&texts, n);
    gale__free(c.rows);
    gale__free(c.numbers);
    gale__free(c.places);
    gale_index_close(&x);
    return status;
}

static void add_head(gale__str *out, const gale__embed_page *p)
{
    const gale_embed_report *r = p->report;
    double rate = r->seconds > 0 ? (double)(r->texts - r->resumed) / r->seconds : 0,
           all = (double)(r->tokens + r->padding);
    gale__str_add(out, "<!doctype html><meta charset=utf-8><title>gale embed</title><style>body{font:14px "
                       "sans-serif;max-width:800px;margin:2em auto;color:#222}h2{font-size:16px;margin-top:2em}svg "
                       "text{font:12px sans-serif}td{padding:2px 12px 2px 0}</style><h1>gale embed</h1><table>");
    gale__str_add(out, "<tr><td>output<td>");
    gale__html_add(out, p->options->output);
    gale__str_add(out, "<tr><td>model<td>");
    gale__html_add(out, p->info->model);
    gale__str_add(out, "<tr><td>device<td>");
    gale__html_add(out, p->device);
    gale__str_addf(out,
        "<tr><td>texts<td>%llu (%llu from the previous run, %llu from the cache)<tr><td>vectors<td>%lld numbers, "
        "pooling "
        "%s<tr><td>rate<td>%.0f texts/s, %.0f tokens/s<tr><td>padding<td>%.1f %%<tr><td>runs of the model<td>%llu in "
        "%d lanes on %d device%s</table>\n",
        (unsigned long long)r->texts, (unsigned long long)r->resumed, (unsigned long long)r->cached,
        (long long)p->info->dims, gale_pooling_name(p->info->pooling), rate,
        r->seconds > 0 ? (double)r->tokens / r->seconds : 0, all > 0 ? 100 * (double)r->padding / all : 0,
        (unsigned long long)r->batches, r->lanes, r->devices, r->devices == 1 ? "" : "s");
}

gale_status gale__embed_page_write(const gale__embed_page *p, const char *path)
{
    gale__str out = {0};
    add_head(&out, p);
    add_rates(&out, p);
    add_times(&out, p->report);
    add_lengths(&out, p->report);
    gale_status status = add_map(&out, p);
    if (status == GALE_OK) status = gale__str_check(&out);
    if (status == GALE_OK) status = gale__file_write(path, out.text, out.length);
    gale__str_finish(&out);
    return status;
}
