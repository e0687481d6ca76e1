/* ONNX Runtime through Python, which is how most people have it installed.  Values are exchanged as .npy files in a
 * temporary folder, so nothing has to be linked or loaded. */
#include "jobs/model/engine.h"
#include "base/env.h"
#include "base/file.h"
#include "base/process.h"
#include "engine_files.h"
#include "jobs/model/data_file.h"
#include <stdio.h>
#include <string.h>

typedef struct call {
    const char *path;
    gale_model *model;
    int n_in, n_out;
    char folder[512];
    const char **argv;
    size_t n;
} call;

static const char *python(void)
{
    const char *given = gale__env_get(GALE__ENV_PYTHON);
    return *given ? given : "python3";
}

static gale_status write_inputs(call *c, gale_object *const *inputs)
{
    for (int i = 0; i < c->n_in; i++) {
        gale_model_value v;
        char path[600];
        GALE_TRY(gale_model_input(c->model, i, &v));
        if (!inputs[i] || gale_object_get_kind(inputs[i]) != GALE_OBJECT_TENSOR)
            return gale__fail(
                GALE_UNSUPPORTED, "input %s is not a tensor; only tensors can be passed to another engine", v.name);
        snprintf(path, sizeof path, "%s/in%d.npy", c->folder, i);
        GALE_TRY(gale__data_write(path, inputs[i]));
        c->argv[c->n++] = v.name;
    }
    return GALE_OK;
}

static gale_status name_outputs(call *c)
{
    c->argv[c->n++] = "--";
    for (int i = 0; i < c->n_out; i++) {
        gale_model_value v;
        GALE_TRY(gale_model_output(c->model, i, &v));
        c->argv[c->n++] = v.name;
    }
    return GALE_OK;
}

static gale_status read_outputs(const call *c, gale_object **outputs)
{
    for (int i = 0; i < c->n_out; i++) {
        gale_model_value v;
        char path[600];
        GALE_TRY(gale_model_output(c->model, i, &v));
        snprintf(path, sizeof path, "%s/out%d.npy", c->folder, i);
        if (gale__file_exists(path)) GALE_TRY(gale__data_read(path, &v, &outputs[i]));
    }
    return GALE_OK;
}

static void trim(gale__str *text)
{
    while (text->length && text->text[text->length - 1] == '\n') text->text[--text->length] = 0;
}

/* What was printed last is what matters: the version, or the reason. */
static const char *last_line(const gale__str *text)
{
    const char *all = gale__str_text(text), *line = strrchr(all, '\n');
    return line ? line + 1 : all;
}

static gale_status start(const call *c, char version[64])
{
    gale__str said = {0};
    int code = 0;
    gale_status status = gale__process_run(c->argv, &said, &code);
    if (status == GALE_OK) status = gale__str_check(&said);
    trim(&said);
    if (status == GALE_NOT_FOUND)
        gale__fail(status = GALE_UNSUPPORTED,
            "%s was not found, but is needed to run ONNX Runtime; install python3, or set GALE_PYTHON", python());
    else if (status == GALE_OK && code == 3)
        status = gale__fail(GALE_UNSUPPORTED,
            "ONNX Runtime is not installed for %s (%s); run `%s -m pip install onnxruntime`, or set GALE_PYTHON to a "
            "Python that has it",
            python(), last_line(&said), python());
    else if (status == GALE_OK && code)
        status = gale__fail(GALE_UNSUPPORTED, "onnxruntime does not run %s: %s", c->path, last_line(&said));
    if (status == GALE_OK) snprintf(version, 64, "%.63s", last_line(&said));
    gale__str_finish(&said);
    return status;
}

gale_status gale__engine_run(const char *engine, const char *path, gale_model *model, gale_object *const *inputs,
    gale_object **outputs, char version[64])
{
    call c = {.path = path, .model = model, .n_in = gale_model_inputs(model), .n_out = gale_model_outputs(model)};
    if (strcmp(engine, "onnxruntime"))
        return gale__fail(GALE_INVALID, "unknown engine \"%s\"; supported is onnxruntime", engine);
    c.argv = gale__calloc((size_t)c.n_in + (size_t)c.n_out + 8, sizeof *c.argv);
    if (!c.argv) return GALE_NO_MEMORY;
    gale_status status = gale__temp_folder_make(c.folder, sizeof c.folder);
    if (status == GALE_OK) {
        const char *head[] = {python(), "-c", gale__text_engine_onnxruntime_py, path, c.folder};
        memcpy(c.argv, head, sizeof head);
        c.n = sizeof head / sizeof *head;
        status = write_inputs(&c, inputs);
        if (status == GALE_OK) status = name_outputs(&c);
        if (status == GALE_OK) status = start(&c, version);
        if (status == GALE_OK) status = read_outputs(&c, outputs);
        gale__temp_folder_remove(c.folder);
    }
    gale__free(c.argv);
    return status;
}
