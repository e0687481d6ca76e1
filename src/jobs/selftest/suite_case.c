/* One case of a suite: open the model, run every set of data, compare.  A case passes on a device only when every
 * number was computed there: host operators that make numbers of numbers count against it. */
#include "jobs/selftest/suite.h"
#include "base/file.h"
#include "onnx/run/session.h"
#include <stdio.h>
#include <string.h>

typedef struct set {
    gale_object **in, **out, **expected;
    int n_in, n_out;
} set;

static bool is_random(const gale__onnx_net *net)
{
    static const char *const names[] = {
        "Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial"};
    for (int i = 0; i < net->n_nodes; i++) {
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (!strcmp(net->nodes[i].op, names[k])) return true;
        for (int b = 0; b < net->nodes[i].n_bodies; b++)
            if (is_random(net->nodes[i].bodies[b].net)) return true;
    }
    return false;
}

/* What a light model is fed: a ramp from 0 to 1 over the declared shape. */
static gale_status make_ramp(const gale_model_value *want, gale_object **out)
{
    int64_t dims[GALE_MAX_RANK], n = 1;
    gale_tensor *t = NULL;
    for (int i = 0; i < want->rank; i++) n *= dims[i] = want->dims[i] < 0 ? 1 : want->dims[i];
    if (want->type != GALE_F32) return gale__fail(GALE_UNSUPPORTED, "light models have f32 inputs");
    GALE_TRY(gale_tensor_create(NULL, GALE_F32, want->rank, dims, &t));
    float *data = gale_tensor_data(t);
    for (int64_t i = 0; i < n; i++) data[i] = (float)((double)i / (double)n);
    return gale__onnx_object_take(&t, out);
}

static gale_status read_set(const gale__suite_case *c, gale_model *m, int number, set *s)
{
    char path[2300];
    gale_model_value want;
    for (int i = 0; i < s->n_in; i++) {
        GALE_TRY(gale_model_input(m, i, &want));
        if (c->light_output) {
            GALE_TRY(make_ramp(&want, &s->in[i]));
            continue;
        }
        snprintf(path, sizeof path, "%s/test_data_set_%d/input_%d.pb", c->folder, number, i);
        if (!gale__file_exists(path)) continue;
        GALE_TRY(gale__onnx_object_read(path, &want, &s->in[i]));
    }
    for (int i = 0; i < s->n_out; i++) {
        GALE_TRY(gale_model_output(m, i, &want));
        if (c->light_output) snprintf(path, sizeof path, "%s%d.pb", c->light_output, i);
        else snprintf(path, sizeof path, "%s/test_data_set_%d/output_%d.pb", c->folder, number, i);
        if (gale__file_exists(path)) GALE_TRY(gale__onnx_object_read(path, &want, &s->expected[i]));
    }
    return GALE_OK;
}

static gale_status compare_set(const gale__suite_case *c, gale_model *m, const set *s, bool random)
{
    int compared = 0;
    for (int i = 0; i < s->n_out; i++) {
        gale_model_value want;
        if (!s->expected[i]) continue;
        compared++;
        gale_status status = gale__object_compare(s->out[i], s->expected[i], c->rtol, c->atol, random);
        GALE_TRY(gale_model_output(m, i, &want));
        if (status != GALE_OK) return gale__fail_within(status, "output %s", want.name);
    }
    return compared ? GALE_OK : gale__fail(GALE_NOT_FOUND, "the case has no file with an expected output");
}

static void finish_set(set *s)
{
    for (int i = 0; s->in && i < s->n_in; i++) gale_object_destroy(&s->in[i]);
    for (int i = 0; s->out && i < s->n_out; i++) gale_object_destroy(&s->out[i]);
    for (int i = 0; s->expected && i < s->n_out; i++) gale_object_destroy(&s->expected[i]);
    gale__free(s->in);
    gale__free(s->out);
    gale__free(s->expected);
}

static gale_status run_set(const gale__suite_case *c, gale_model *m, int number, bool random)
{
    set s = {.n_in = gale_model_inputs(m), .n_out = gale_model_outputs(m)};
    gale_status status = GALE_NO_MEMORY;
    s.in = gale__calloc((size_t)s.n_in + 1, sizeof *s.in);
    s.out = gale__calloc((size_t)s.n_out + 1, sizeof *s.out);
    s.expected = gale__calloc((size_t)s.n_out + 1, sizeof *s.expected);
    if (!s.in || !s.out || !s.expected) goto done;
    GALE_GO(read_set(c, m, number, &s));
    GALE_GO(gale_model_run(m, s.in, s.out, GALE_RUN_ON_HOST));
    status = compare_set(c, m, &s, random);
done:
    finish_set(&s);
    return status;
}

static gale_status run_sets(const gale__suite_case *c, gale_model *m, bool random)
{
    char path[2300];
    int sets = 0;
    for (int i = 0;; i++, sets++) {
        snprintf(path, sizeof path, "%s/test_data_set_%d", c->folder, i);
        if (!c->light_output && !gale__file_exists(path)) break;
        GALE_TRY(run_set(c, m, i, random));
        if (c->light_output) return GALE_OK;
    }
    return sets ? GALE_OK : gale__fail(GALE_NOT_FOUND, "the case has no folder test_data_set_0");
}

/* The operator a case is about, for the table: that of its first node that is not a constant. */
static void name_op(const gale__pb_model *m, char *op, size_t size)
{
    for (size_t i = 0; m->graph && i < m->graph->node.n; i++) {
        const char *name = m->graph->node.at[i].op_type.at;
        if (!name || !strcmp(name, "Constant")) continue;
        snprintf(op, size, "%s", name);
        break;
    }
}

void gale__suite_run(const gale__suite_case *c, gale_device *device, gale__suite_result *out)
{
    gale_model_options options = {.allow_nonfinite = true};
    gale__onnx *file = NULL;
    gale_model *m = NULL;
    *out = (gale__suite_result){.outcome = GALE_CASE_FAILED};
    gale_status status = gale__onnx_open(c->model, GALE__PB_KIND_MODEL, &file);
    if (status == GALE_OK) name_op(gale__onnx_root(file), out->op, sizeof out->op);
    if (status == GALE_OK) status = gale__onnx_model_from_file(&file, device, &options, &m);
    if (status == GALE_OK) {
        out->random = is_random(gale__onnx_model_session(m)->net);
        status = run_sets(c, m, out->random);
    }
    if (status != GALE_OK) snprintf(out->reason, sizeof out->reason, "%s", gale_error());
    const gale__onnx_session_counts *counts = m ? &gale__onnx_model_session(m)->counts : NULL;
    bool host = gale_device_get_info(device)->caps.host_functions;
    if (status == GALE_OK) out->outcome = GALE_CASE_PASSED;
    if (status == GALE_OK && !host && counts->host_numbers) {
        out->outcome = GALE_CASE_SKIPPED;
        snprintf(out->reason, sizeof out->reason, "correct, but %s ran on the host", counts->host_number_op);
    }
    gale_model_close(&m);
}
