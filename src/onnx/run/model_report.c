/* Reports of a model: its steps, where they ran and why, and the report of every program. */
#include "base/json.h"
#include "graph/run/program.h"
#include "onnx/run/session.h"
#include <string.h>

static const char *reason(gale__onnx_runner runner)
{
    switch (runner) {
    case GALE__RUNS_ON_DEVICE: return "numbers";
    case GALE__RUNS_ON_HOST: return "strings, sequences or pictures: run on the host";
    default: return "depends on data: its bodies run as separate nets";
    }
}

static gale_status add_programs(const gale__onnx_segment *g, bool json, gale__str *text)
{
    for (const gale__onnx_variant *v = g->variants; v; v = v->next) {
        char *report = NULL;
        GALE_TRY(gale_program_report(v->program, json ? GALE_REPORT_JSON : 0, &report));
        if (json && v != g->variants) gale__str_add(text, ",");
        gale__str_add(text, report);
        gale_free(report);
    }
    return GALE_OK;
}

static gale_status add_text(gale__onnx_session *s, gale__onnx_net *net, int indent, gale__str *text)
{
    const gale__onnx_exec *e = net->exec;
    for (int i = 0; i < e->n_steps; i++) {
        const gale__onnx_exec_step *step = &e->steps[i];
        const gale__onnx_net_node *n = step->segment ? NULL : &net->nodes[step->node];
        if (!n) {
            gale__str_addf(text, "%*sstep %d: %d nodes on %s %d (%s)\n", indent, "", i, step->segment->n_nodes,
                gale_device_get_info(s->device)->backend, gale_device_get_info(s->device)->index,
                gale_device_get_info(s->device)->name);
            GALE_TRY(add_programs(step->segment, false, text));
            continue;
        }
        gale__str_addf(text, "%*sstep %d: %s: %s\n", indent, "", i, n->where, reason((gale__onnx_runner)step->runner));
        for (int b = 0; b < n->n_bodies; b++) GALE_TRY(add_text(s, n->bodies[b].net, indent + 2, text));
    }
    return GALE_OK;
}

static gale_status add_json(gale__onnx_session *s, gale__onnx_net *net, gale__str *text)
{
    const gale__onnx_exec *e = net->exec;
    gale__str_add(text, "[");
    for (int i = 0; i < e->n_steps; i++) {
        const gale__onnx_exec_step *step = &e->steps[i];
        const gale__onnx_net_node *n = step->segment ? NULL : &net->nodes[step->node];
        gale__str_addf(text, "%s{\"step\": %d, \"where\": \"%s\", ", i ? ",\n" : "", i,
            n ? "host" : gale_device_get_info(s->device)->backend);
        if (!n) {
            gale__str_addf(text, "\"nodes\": %d, \"programs\": [", step->segment->n_nodes);
            GALE_TRY(add_programs(step->segment, true, text));
            gale__str_add(text, "]}");
            continue;
        }
        gale__str_addf(text, "\"operator\": \"%s\", \"reason\": \"%s\", \"bodies\": [", n->op,
            reason((gale__onnx_runner)step->runner));
        for (int b = 0; b < n->n_bodies; b++) {
            if (b) gale__str_add(text, ",");
            GALE_TRY(add_json(s, n->bodies[b].net, text));
        }
        gale__str_add(text, "]}");
    }
    gale__str_add(text, "]");
    return GALE_OK;
}

gale_status gale_model_report(gale_model *model, gale_flags flags, char **out)
{
    GALE__NEED({"model", model}, {"text", out});
    GALE__FLAGS(flags, GALE_REPORT_JSON);
    bool json = flags & GALE_REPORT_JSON;
    gale__onnx_session *s = gale__onnx_model_session(model);
    gale__str text = {0};
    gale__mutex_lock(&s->lock);
    gale_status status = json ? add_json(s, s->net, &text) : add_text(s, s->net, 0, &text);
    gale__mutex_unlock(&s->lock);
    if (json) gale__str_add(&text, "\n");
    if (status == GALE_OK) status = gale__str_check(&text);
    if (status == GALE_OK) *out = text.text ? text.text : gale__strdup("");
    else gale__str_finish(&text);
    return status;
}
