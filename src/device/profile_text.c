/* Output of the profiler: groups as a table and as JSON, and every record as a trace for chrome://tracing and
 * Perfetto. */
#include "device/profiler.h"
#include "base/file.h"
#include "base/json.h"
#include <stdlib.h>
#include <string.h>

typedef struct group {
    gale__profiler_span_kind kind;
    const char *op, *name;
    uint64_t calls;
    double total_us, min_us, max_us, bytes, operations;
    double known_us, filled_us; /* where the occupancy is known, and its sum over that time */
} group;
typedef struct groups {
    group *items;
    size_t count, capacity;
    double total_us;
} groups;

static void add_to(group *g, const gale__profiler_record *r)
{
    if (!g->calls || r->time_us < g->min_us) g->min_us = r->time_us;
    if (!g->calls || r->time_us > g->max_us) g->max_us = r->time_us;
    g->calls++;
    g->total_us += r->time_us;
    g->bytes += r->bytes;
    if (r->occupancy >= 0) g->known_us += r->time_us, g->filled_us += r->time_us * r->occupancy;
    g->operations += r->operations;
}

static int by_time(const void *a, const void *b)
{
    double x = ((const group *)a)->total_us, y = ((const group *)b)->total_us;
    return (x < y) - (x > y);
}

/* Groups by kind, operator and name, or by operator alone (kernels only).  Ranges overlap the rest, so the total leaves
 * them out. */
static gale_status collect(const gale_profiler *p, bool operators, groups *out)
{
    for (size_t i = 0; i < p->count; i++) {
        const gale__profiler_record *r = &p->records[i];
        if (r->time_us < 0 || (operators && r->kind != GALE__SPAN_KERNEL)) continue;
        const char *name = operators ? "" : r->name;
        size_t at = 0;
        while (at < out->count) {
            const group *g = &out->items[at];
            if (g->kind == r->kind && g->op == r->op && (operators || g->name == name)) break;
            at++;
        }
        if (at == out->count) {
            GALE_TRY(gale__grow((void **)&out->items, &out->capacity, at + 1, sizeof *out->items));
            out->items[out->count++] = (group){.kind = r->kind, .op = r->op, .name = name};
        }
        add_to(&out->items[at], r);
        if (r->kind != GALE__SPAN_RANGE) out->total_us += r->time_us;
    }
    if (out->count) qsort(out->items, out->count, sizeof *out->items, by_time);
    return GALE_OK;
}

static double rate(double amount, double time_us) { return time_us > 0 ? amount / time_us / 1e3 : 0; }

static double ratio(double value, double ceiling) { return ceiling > 0 ? value / ceiling : 0; }

/* The share of the ceiling that binds: bytes or operations, whichever is nearer to its own. */
static double share(
    const gale_device_ceilings *c, gale__profiler_span_kind kind, double bytes, double operations, double time_us)
{
    double gbps = rate(bytes, time_us);
    if (kind == GALE__SPAN_UPLOAD) return ratio(gbps, c->upload_gbps);
    if (kind == GALE__SPAN_DOWNLOAD) return ratio(gbps, c->download_gbps);
    double memory = ratio(gbps, c->copy_gbps), arithmetic = ratio(rate(operations, time_us), c->f32_gflops);
    return memory > arithmetic ? memory : arithmetic;
}

static void table_row(gale__str *s, const gale_profiler *p, const group *g, double total_us)
{
    double part = share(&p->device->info.ceilings, g->kind, g->bytes, g->operations, g->total_us);
    const char *op = *g->op ? g->op : gale__profiler_span_kind_name(g->kind);
    gale__str_addf(s, "%-24.24s %-28.28s %8llu %11.3f %6.1f%% %11.2f %9.1f %10.1f ", op, g->name,
        (unsigned long long)g->calls, g->total_us / 1e3,
        g->kind == GALE__SPAN_RANGE ? 0 : 100 * ratio(g->total_us, total_us), g->total_us / (double)g->calls,
        rate(g->bytes, g->total_us), rate(g->operations, g->total_us));
    const double last[] = {part, ratio(g->filled_us, g->known_us)};
    for (int i = 0; i < 2; i++)
        if (last[i] > 0) gale__str_addf(s, "%7.1f%%%s", 100 * last[i], i ? "\n" : " ");
        else gale__str_addf(s, "      --%s", i ? "\n" : " ");
}

static gale_status write_table(const gale_profiler *p, gale__str *s)
{
    groups all = {0}, operators = {0};
    gale_status status = collect(p, false, &all);
    if (status == GALE_OK) status = collect(p, true, &operators);
    if (status == GALE_OK) {
        gale__str_addf(s, "%s:%d %s: %.3f ms on the device\n\n", p->device->info.backend, p->device->info.index,
            p->device->info.name, all.total_us / 1e3);
        gale__str_addf(s, "%-24s %-28s %8s %11s %7s %11s %9s %10s %8s %8s\n", "operator", "kernel or transfer", "calls",
            "total ms", "share", "mean us", "GB/s", "GFLOP/s", "ceiling", "occup.");
        for (size_t i = 0; i < all.count; i++) table_row(s, p, &all.items[i], all.total_us);
        if (operators.count > 1) gale__str_add(s, "\nby operator\n");
        for (size_t i = 0; operators.count > 1 && i < operators.count; i++)
            table_row(s, p, &operators.items[i], all.total_us);
        if (p->lost) gale__str_addf(s, "\n%llu records were lost: out of memory\n", (unsigned long long)p->lost);
    }
    gale__free(all.items);
    gale__free(operators.items);
    return status;
}

static void json_groups(gale__json_out *j, const gale_profiler *p, const char *key, const groups *all, double total_us)
{
    gale__json_open(j, key, '[');
    for (size_t i = 0; i < all->count; i++) {
        const group *g = &all->items[i];
        gale__json_object(j);
        gale__json_put_text(j, "kind", gale__profiler_span_kind_name(g->kind));
        gale__json_put_text(j, "operator", g->op);
        if (*g->name) gale__json_put_text(j, "name", g->name);
        gale__json_put_i64(j, "calls", (int64_t)g->calls);
        gale__json_put_f64(j, "total_us", g->total_us);
        gale__json_put_f64(j, "mean_us", g->total_us / (double)g->calls);
        gale__json_put_f64(j, "min_us", g->min_us);
        gale__json_put_f64(j, "max_us", g->max_us);
        if (g->kind != GALE__SPAN_RANGE) gale__json_put_f64(j, "share", ratio(g->total_us, total_us));
        gale__json_put_f64(j, "bytes", g->bytes);
        gale__json_put_f64(j, "operations", g->operations);
        gale__json_put_f64(j, "gbps", rate(g->bytes, g->total_us));
        gale__json_put_f64(j, "gflops", rate(g->operations, g->total_us));
        gale__json_put_f64(
            j, "ceiling_share", share(&p->device->info.ceilings, g->kind, g->bytes, g->operations, g->total_us));
        if (g->known_us > 0) gale__json_put_f64(j, "occupancy", ratio(g->filled_us, g->known_us));
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
}

static void json_device(gale__json_out *j, const gale_device_info *info)
{
    gale__json_open(j, "device", '{');
    gale__json_put_text(j, "backend", info->backend);
    gale__json_put_i64(j, "index", info->index);
    gale__json_put_text(j, "name", info->name);
    gale__json_put_text(j, "driver", info->driver);
    gale__json_close(j, '}');
}

static gale_status write_json(const gale_profiler *p, gale__str *s)
{
    groups all = {0}, operators = {0};
    gale__json_out j;
    gale_status status = collect(p, false, &all);
    if (status == GALE_OK) status = collect(p, true, &operators);
    if (status == GALE_OK) {
        gale__json_begin(&j, s);
        gale__json_object(&j);
        json_device(&j, &p->device->info);
        gale__json_put_f64(&j, "total_us", all.total_us);
        gale__json_put_i64(&j, "lost", (int64_t)p->lost);
        json_groups(&j, p, "groups", &all, all.total_us);
        json_groups(&j, p, "operators", &operators, all.total_us);
        gale__json_close(&j, '}');
    }
    gale__free(all.items);
    gale__free(operators.items);
    return status;
}

/* Ranges get lanes of their own, so that they stand above what they cover. */
static int trace_lane(const gale__profiler_record *r) { return r->kind == GALE__SPAN_RANGE ? 1000 + r->lane : r->lane; }

static void trace_name(gale__json_out *j, const char *what, int lane, const char *name)
{
    gale__json_object(j);
    gale__json_put_text(j, "name", what);
    gale__json_put_text(j, "ph", "M");
    gale__json_put_i64(j, "pid", 1);
    gale__json_put_i64(j, "tid", lane);
    gale__json_open(j, "args", '{');
    gale__json_put_text(j, "name", name);
    gale__json_close(j, '}');
    gale__json_close(j, '}');
}

static void trace_record(gale__json_out *j, const gale_profiler *p, const gale__profiler_record *r)
{
    gale__json_object(j);
    gale__json_put_text(j, "name", r->name);
    gale__json_put_text(j, "cat", gale__profiler_span_kind_name(r->kind));
    gale__json_put_text(j, "ph", "X");
    gale__json_put_i64(j, "pid", 1);
    gale__json_put_i64(j, "tid", trace_lane(r));
    gale__json_put_f64(j, "ts", r->start_us);
    gale__json_put_f64(j, "dur", r->time_us);
    gale__json_open(j, "args", '{');
    if (*r->op) gale__json_put_text(j, "operator", r->op);
    if (*r->nodes) gale__json_put_text(j, "nodes", r->nodes);
    gale__json_put_f64(j, "bytes", r->bytes);
    gale__json_put_f64(j, "operations", r->operations);
    gale__json_put_f64(j, "GB/s", rate(r->bytes, r->time_us));
    gale__json_put_f64(
        j, "ceiling_share", share(&p->device->info.ceilings, r->kind, r->bytes, r->operations, r->time_us));
    if (r->occupancy >= 0) gale__json_put_f64(j, "occupancy", r->occupancy);
    gale__json_close(j, '}');
    gale__json_close(j, '}');
}

static gale_status write_trace(const gale_profiler *p, gale__str *s)
{
    gale__json_out j;
    gale__json_begin(&j, s);
    gale__json_object(&j);
    gale__json_open(&j, "traceEvents", '[');
    trace_name(&j, "process_name", 0, p->device->info.name);
    for (int i = 0; i < p->n_lanes; i++) {
        gale__str name = {0};
        gale__str_addf(&name, "stream %d", i);
        trace_name(&j, "thread_name", i, gale__str_text(&name));
        gale__str_addf(&name, " ranges");
        trace_name(&j, "thread_name", 1000 + i, gale__str_text(&name));
        gale__str_finish(&name);
    }
    for (size_t i = 0; i < p->count; i++)
        if (p->records[i].time_us >= 0) trace_record(&j, p, &p->records[i]);
    gale__json_close(&j, ']');
    gale__json_put_text(&j, "displayTimeUnit", "ns");
    gale__json_close(&j, '}');
    return GALE_OK;
}

static gale_status make_text(const gale_profiler *p, const char *format, gale__str *s)
{
    gale_status status;
    if (!strcmp(format, "table")) status = write_table(p, s);
    else if (!strcmp(format, "json")) status = write_json(p, s);
    else if (!strcmp(format, "trace")) status = write_trace(p, s);
    else
        status = gale__fail(GALE_INVALID, "unknown profile format \"%s\"; supported are table, json and trace", format);
    return status == GALE_OK ? gale__str_check(s) : status;
}

gale_status gale_profiler_to_text(const gale_profiler *p, const char *format, char **out)
{
    GALE__NEED({"profiler", p}, {"format", format}, {"out", out});
    gale__str s = {0};
    gale_status status = make_text(p, format, &s);
    if (status == GALE_OK) *out = s.text;
    else gale__str_finish(&s);
    return status;
}

gale_status gale_profiler_write(const gale_profiler *p, const char *format, const char *path)
{
    GALE__NEED({"profiler", p}, {"format", format}, {"path", path});
    gale__str s = {0};
    gale_status status = make_text(p, format, &s);
    if (status == GALE_OK) status = gale__file_write(path, s.text, s.length);
    gale__str_finish(&s);
    return status;
}
