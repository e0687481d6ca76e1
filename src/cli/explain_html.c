/* The page of `gale explain`: a summary, a bar for every kernel, and the graph of the model drawn in layers. */
#include "cli/explain.h"
#include "cli/html.h"
#include <stdio.h>
#include <string.h>

enum { NODES_MAX = 4000, WIDTH = 132, HEIGHT = 46, BOX_W = 116, BOX_H = 24 };

static void add_head(const gale_explain_result *e, gale__str *out)
{
    gale__str_add(out,
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'><title>gale "
        "explain</title><style>"
        "body{font:14px/1.45 "
        "system-ui,sans-serif;margin:24px;color:#1b2530;background:#fff}h1{font-size:20px}h2{font-size:16px;margin-top:"
        "28px}"
        "table{border-collapse:collapse}td,th{padding:2px 10px;text-align:left;border-bottom:1px solid "
        "#e3e8ee}td.n{text-align:right;font-variant-numeric:tabular-nums}"
        ".bar{height:11px;background:#2f6fb0;border-radius:2px;min-width:1px}.want{height:4px;background:#9fb4c8;"
        "margin-top:1px;min-width:1px}.graph{overflow:auto;max-height:80vh;border:1px solid #e3e8ee}"
        "text{font:11px "
        "system-ui,sans-serif}@media(prefers-color-scheme:dark){body{background:#141a21;color:#dde4ec}td,th,.graph{"
        "border-color:#2b3541}}</style>");
    gale__str_add(out, "<h1>");
    gale__html_add(out, e->model);
    gale__str_addf(out, "</h1><p>%s %d: ", e->backend, e->device_index);
    gale__html_add(out, e->device);
    gale__str_add(out, " (");
    gale__html_add(out, e->driver);
    gale__str_add(out, ")<br>Why this device: ");
    gale__html_add(out, e->why);
    gale__str_addf(out,
        "<br>%zu kernels and copies. Predicted from the device's ceilings: %.1f us. Measured: %.1f us. Reading %.1f "
        "ms, first run %.1f ms.</p>",
        e->n_kernels, e->predicted_us, e->measured_us, e->open_ms, e->first_ms);
}

static void add_bars(const gale_explain_result *e, gale__str *out)
{
    double most = 1e-9;
    for (size_t i = 0; i < e->n_kernels; i++)
        if (e->kernels[i].measured_us > most) most = e->kernels[i].measured_us;
    gale__str_add(out,
        "<h2>Kernels, in the order they ran</h2><p>Thick: measured. Thin: what the ceilings "
        "allow.</p><table><tr><th>#<th>operators<th>kernel<th>MB<th>MFLOP<th>predicted us<th>measured us<th>");
    for (size_t i = 0; i < e->n_kernels && i < NODES_MAX; i++) {
        const gale_explain_kernel *k = &e->kernels[i];
        gale__str_addf(out, "<tr><td class=n>%zu<td>", i);
        gale__html_add(out, *k->operators ? k->operators : k->kind);
        gale__str_add(out, "<td>");
        gale__html_add(out, k->name);
        gale__str_addf(out,
            "<td class=n>%.2f<td class=n>%.1f<td class=n>%.1f<td class=n>%.1f<td><div class=bar "
            "style='width:%.1fpx'></div><div class=want style='width:%.1fpx'></div>",
            k->bytes / 1e6, k->operations / 1e6, k->predicted_us, k->measured_us,
            300 * (k->measured_us > 0 ? k->measured_us : 0) / most, 300 * k->predicted_us / most);
    }
    gale__str_add(out, "</table>");
}

typedef struct place {
    int layer, column;
} place;

/* A node lies one layer below the lowest of those it reads; then it moves down to just above those that read it, which
 * keeps lines short. */
static void lay_out(const gale_explain_node *nodes, place *places, int n, int *layers, int *columns)
{
    *layers = *columns = 0;
    for (int i = 0; i < n; i++) {
        const gale_explain_node *node = &nodes[i];
        for (int k = 0; k < node->n_reads; k++) {
            int from = node->reads[k];
            if (from < n && places[from].layer + 1 > places[i].layer) places[i].layer = places[from].layer + 1;
        }
        if (places[i].layer + 1 > *layers) *layers = places[i].layer + 1;
    }
    for (int i = 0; i < n; i++) places[i].column = *layers; /* the highest reader, until columns are given out */
    for (int i = n - 1; i >= 0; i--) {
        const gale_explain_node *node = &nodes[i];
        if (places[i].column < *layers) places[i].layer = places[i].column - 1;
        for (int k = 0; k < node->n_reads; k++) {
            int from = node->reads[k];
            if (from < n && places[i].layer < places[from].column) places[from].column = places[i].layer;
        }
    }
}

static void add_edges(const gale_explain_node *nodes, const place *places, int n, gale__str *out)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < nodes[i].n_reads; k++) {
            int from = nodes[i].reads[k];
            if (from >= n) continue;
            int x0 = places[from].column * WIDTH + BOX_W / 2, y0 = places[from].layer * HEIGHT + BOX_H,
                x1 = places[i].column * WIDTH + BOX_W / 2, y1 = places[i].layer * HEIGHT;
            gale__str_addf(out, "<path d='M%d %dC%d %d %d %d %d %d' fill=none stroke='#9fb4c8'/>", x0, y0, x0, y0 + 14,
                x1, y1 - 14, x1, y1);
        }
}

static void add_boxes(const gale_explain_node *nodes, const place *places, int n, gale__str *out)
{
    static const char *const colours[] = {"#d7e8f7", "#fbe3c0", "#e6d9f5", "#f5c8c8"};
    for (int i = 0; i < n; i++) {
        const gale_explain_node *node = &nodes[i];
        int x = places[i].column * WIDTH, y = places[i].layer * HEIGHT;
        gale__str_addf(out, "<g><title>");
        gale__html_add(out, node->where);
        gale__str_addf(out,
            "</title><rect x='%d' y='%d' width='%d' height='%d' rx='4' fill='%s' stroke='#5b7083'/><text x='%d' y='%d' "
            "text-anchor=middle fill='#1b2530'>",
            x, y, BOX_W, BOX_H, colours[node->place], x + BOX_W / 2, y + 16);
        char name[20];
        snprintf(name, sizeof name, "%s", node->op);
        gale__html_add(out, name);
        gale__str_add(out, "</text></g>");
    }
}

static void add_graph(const gale_explain_result *e, gale__str *out)
{
    int n = e->n_nodes < NODES_MAX ? (int)e->n_nodes : NODES_MAX, layers, columns;
    place *places = gale__calloc((size_t)n + 1, sizeof *places);
    int *width = places ? gale__calloc((size_t)n + 1, sizeof *width) : NULL;
    if (!width) {
        out->failed = true;
        gale__free(places);
        return;
    }
    lay_out(e->nodes, places, n, &layers, &columns);
    for (int i = 0; i < n; i++) {
        places[i].column = width[places[i].layer]++;
        if (width[places[i].layer] > columns) columns = width[places[i].layer];
    }
    gale__str_addf(out,
        "<h2>Graph</h2><p>%zu nodes%s. Blue: computed on the device; orange: by the host (strings, sequences, "
        "pictures); violet: control flow over data.</p><div class=graph><svg xmlns='http://www.w3.org/2000/svg' "
        "width='%d' height='%d' viewBox='-8 -8 %d %d'>",
        e->n_nodes, e->n_nodes > (size_t)n ? ", the first 4,000 drawn" : "", columns * WIDTH + 16, layers * HEIGHT + 16,
        columns * WIDTH + 16, layers * HEIGHT + 16);
    add_edges(e->nodes, places, n, out);
    add_boxes(e->nodes, places, n, out);
    gale__str_add(out, "</svg></div>");
    gale__free(places);
    gale__free(width);
}

void gale__explain_html(const gale_explain_result *e, gale__str *out)
{
    add_head(e, out);
    add_graph(e, out);
    add_bars(e, out);
    gale__str_add(out, "</html>\n");
}
