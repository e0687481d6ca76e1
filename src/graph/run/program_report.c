/* Reports of a program as text or JSON. */
#include "base/json.h"
#include "device/registry.h"
#include "graph/run/program.h"
#include <string.h>

typedef struct row {
    const char *op;
    int kernels;
    double bytes, operations;
} row;

static int rows_by_op(const gale__plan *plan, row *rows, int max)
{
    int n = 0;
    for (int i = 0; i < plan->n_steps; i++) {
        const gale__plan_step *s = &plan->steps[i];
        int k = 0;
        if (s->once) continue;
        while (k < n && strcmp(rows[k].op, s->tag.op)) k++;
        if (k == n && n == max) k = max - 1;
        if (k == n) rows[n++] = (row){s->tag.op, 0, 0, 0};
        rows[k].kernels++;
        rows[k].bytes += s->tag.bytes;
        rows[k].operations += s->tag.operations;
    }
    return n;
}

/* How often each name comes: regions that recognisers made, or the routines of fast paths. */
typedef struct tally {
    const char *name, *region;
    int count;
} tally;

static int add_tally(tally *list, int n, int max, const char *name, const char *region)
{
    int i = 0;
    while (i < n && (strcmp(list[i].name, name) || strcmp(list[i].region, region))) i++;
    if (i == max) return n;
    if (i == n) list[n++] = (tally){name, region, 0};
    list[i].count++;
    return n;
}

enum { TALLY_MAX = 64 };

static int tally_recognised(const gale_program *p, tally *list)
{
    int n = 0;
    for (int i = 0; i < p->graph->n_nodes; i++)
        if (p->graph->nodes[i].n_body) n = add_tally(list, n, TALLY_MAX, p->graph->nodes[i].name, "");
    return n;
}

static int tally_routines(const gale__plan *plan, tally *list)
{
    int n = 0;
    for (int i = 0; i < plan->n_steps; i++)
        if (plan->steps[i].routine && !plan->steps[i].once)
            n = add_tally(list, n, TALLY_MAX, plan->steps[i].tag.name, plan->steps[i].tag.op);
    return n;
}

static void regions_text(const gale_program *p, const gale__plan *plan, gale__str *s)
{
    tally list[TALLY_MAX];
    int n = tally_recognised(p, list);
    for (int i = 0; i < n; i++)
        gale__str_addf(s, "%s%d %s%s", i ? ", " : "recognised  ", list[i].count, list[i].name, i == n - 1 ? "\n" : "");
    n = tally_routines(plan, list);
    for (int i = 0; i < n; i++)
        gale__str_addf(
            s, "%s%s: %s (%d)\n", i ? "            " : "fast paths  ", list[i].region, list[i].name, list[i].count);
}

static void regions_json(const gale_program *p, const gale__plan *plan, gale__json_out *j)
{
    tally list[TALLY_MAX];
    int n = tally_recognised(p, list);
    gale__json_open(j, "recognised", '{');
    for (int i = 0; i < n; i++) gale__json_put_i64(j, list[i].name, list[i].count);
    gale__json_close(j, '}');
    n = tally_routines(plan, list);
    gale__json_open(j, "fast_paths", '[');
    for (int i = 0; i < n; i++) {
        gale__json_object(j);
        gale__json_put_text(j, "region", list[i].region);
        gale__json_put_text(j, "routine", list[i].name);
        gale__json_put_i64(j, "kernels", list[i].count);
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
}

static void report_text(gale_program *p, const gale__plan *plan, const row *rows, int n, gale__str *s)
{
    const gale_device_info *d = &p->device->info;
    gale__str_addf(s, "device      %s %d: %s (%s)\n", d->backend, d->index, d->name, d->driver);
    gale__str_addf(s, "why         %s\n", gale_device_why(p->device));
    gale__str_addf(s, "kernels     %d%s\n", p->last.kernels, p->last.replayed ? ", replayed from a capture" : "");
    regions_text(p, plan, s);
    gale__str_addf(s, "memory      %.1f MB of intermediate values, %.1f MB of constants\n",
        (double)p->last.work_bytes / 1e6, (double)p->last.const_bytes / 1e6);
    gale__str_addf(s, "host copies %llu up, %llu down\n", (unsigned long long)p->last.uploads,
        (unsigned long long)p->last.downloads);
    gale__str_addf(s, "planned in  %.0f us\n", p->last.plan_us);
    if (p->last.predicted_us > 0) gale__str_addf(s, "predicted   %.1f us\n", p->last.predicted_us);
    else gale__str_add(s, "predicted   nothing: the device's rates have not been measured (gale devices --measure)\n");
    gale__str_addf(
        s, "took        %.1f us\n\n%-40s %8s %10s %10s\n", p->last.run_us, "operators", "kernels", "MB", "MFLOP");
    for (int i = 0; i < n; i++)
        gale__str_addf(
            s, "%-40s %8d %10.2f %10.2f\n", rows[i].op, rows[i].kernels, rows[i].bytes / 1e6, rows[i].operations / 1e6);
}

static void report_json(gale_program *p, const gale__plan *plan, const row *rows, int n, gale__str *s)
{
    const gale_device_info *d = &p->device->info;
    gale__json_out j;
    gale__json_begin(&j, s);
    gale__json_object(&j);
    gale__json_put_text(&j, "backend", d->backend);
    gale__json_put_text(&j, "device", d->name);
    gale__json_put_text(&j, "driver", d->driver);
    gale__json_put_text(&j, "why", gale_device_why(p->device));
    gale__json_put_i64(&j, "kernels", p->last.kernels);
    gale__json_put_bool(&j, "replayed", p->last.replayed);
    regions_json(p, plan, &j);
    gale__json_put_i64(&j, "work_bytes", (int64_t)p->last.work_bytes);
    gale__json_put_i64(&j, "constant_bytes", (int64_t)p->last.const_bytes);
    gale__json_put_i64(&j, "uploads", (int64_t)p->last.uploads);
    gale__json_put_i64(&j, "downloads", (int64_t)p->last.downloads);
    gale__json_put_f64(&j, "plan_us", p->last.plan_us);
    gale__json_put_f64(&j, "predicted_us", p->last.predicted_us);
    gale__json_put_f64(&j, "run_us", p->last.run_us);
    gale__json_open(&j, "operators", '[');
    for (int i = 0; i < n; i++) {
        gale__json_object(&j);
        gale__json_put_text(&j, "operators", rows[i].op);
        gale__json_put_i64(&j, "kernels", rows[i].kernels);
        gale__json_put_f64(&j, "bytes", rows[i].bytes);
        gale__json_put_f64(&j, "operations", rows[i].operations);
        gale__json_close(&j, '}');
    }
    gale__json_close(&j, ']');
    gale__json_close(&j, '}');
}

/* The instance used last. */
static gale__instance *latest(gale_program *p)
{
    gale__instance *best = NULL;
    for (gale__instance *i = p->instances; i; i = i->next)
        if (i->ready && (!best || i->used > best->used)) best = i;
    return best;
}

gale_status gale_program_report(gale_program *p, gale_flags flags, char **text)
{
    GALE__NEED({"program", p}, {"text", text});
    GALE__FLAGS(flags, GALE_REPORT_JSON);
    enum { MAX_ROWS = 256 };
    gale__str s = {0};
    gale__mutex_lock(&p->lock);
    gale__instance *i = latest(p);
    row *rows = i ? gale__calloc(MAX_ROWS, sizeof *rows) : NULL;
    gale_status status = i ? GALE_NO_MEMORY : gale__fail(GALE_INVALID, "the program has not run yet");
    if (rows) {
        int n = rows_by_op(i->plan, rows, MAX_ROWS);
        (flags & GALE_REPORT_JSON ? report_json : report_text)(p, i->plan, rows, n, &s);
        status = gale__str_check(&s);
    }
    gale__mutex_unlock(&p->lock);
    gale__free(rows);
    if (status != GALE_OK) return gale__str_finish(&s), status;
    *text = s.text;
    return GALE_OK;
}
