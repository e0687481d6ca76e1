/* gale inspect --shapes: types and shapes of all values, with symbols for what the inputs leave open. */
#include "cli/inspect.h"
#include "onnx/import/infer.h"
#include <string.h>

static void add_line(const gale__onnx_net_value *v, const gale__onnx_inferred *shape, gale__str *lines)
{
    gale__str_addf(lines, "%-11s", "value");
    gale__add_plain(lines, &(gale__pb_text){v->name, strlen(v->name)});
    gale__str text = {0};
    gale__onnx_inferred_text(shape, &text);
    gale__str_add(lines, "  ");
    gale__add_plain(lines, &(gale__pb_text){gale__str_text(&text), text.length}); /* symbols come from the file too */
    gale__str_add(lines, "\n");
    if (text.failed) lines->failed = true;
    gale__str_finish(&text);
}

static void add_json(const gale__onnx_net_value *v, const gale__onnx_inferred *shape, gale__json_out *json)
{
    gale__json_object(json);
    gale__json_key(json, "name");
    gale__json_string(json, v->name);
    gale__json_key(json, "type");
    if (shape->known) gale__json_string(json, gale_type_name(shape->type));
    else gale__json_null(json);
    if (shape->known) {
        gale__json_key(json, "shape");
        gale__json_array(json);
        for (int d = 0; d < shape->rank; d++) {
            const gale__onnx_extent *e = &shape->dims[d];
            gale__str text = {0};
            gale__onnx_extent_text(e, &text);
            if (!e->known) gale__json_null(json);
            else if (!e->n_names) gale__json_i64(json, e->plus);
            else gale__json_string(json, gale__str_text(&text));
            gale__str_finish(&text);
        }
        gale__json_close(json, ']');
    }
    gale__json_close(json, '}');
}

gale_status gale__inspect_shapes(gale__onnx *file, gale__str *lines, gale__json_out *json)
{
    gale__onnx_net *net = NULL;
    GALE_TRY(gale__onnx_net_import(file, &net));
    gale__onnx_inferred *shapes = gale__calloc((size_t)net->n_values + 1, sizeof *shapes);
    gale_status status = shapes ? gale__onnx_net_infer(net, shapes) : GALE_NO_MEMORY;
    if (json && status == GALE_OK) gale__json_key(json, "values"), gale__json_array(json);
    for (int i = 0; i < net->n_values && status == GALE_OK; i++) {
        if (!*net->values[i].name || net->values[i].constant) continue;
        if (lines) add_line(&net->values[i], &shapes[i], lines);
        if (json) add_json(&net->values[i], &shapes[i], json);
    }
    if (json && status == GALE_OK) gale__json_close(json, ']');
    gale__free(shapes);
    gale__onnx_net_destroy(&net);
    return status;
}
