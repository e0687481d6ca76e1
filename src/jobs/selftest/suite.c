/* Finding the cases of a suite, in a folder or in an archive. */
#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "jobs/selftest/suite.h"
#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 6 };

static gale_status add(gale__suite *s, const gale__suite_case *c)
{
    GALE_TRY(gale__grow((void **)&s->cases, &s->capacity, s->count + 1, sizeof *s->cases));
    gale__suite_case *to = &s->cases[s->count];
    *to = (gale__suite_case){.rtol = c->rtol, .atol = c->atol};
    s->count++;
    to->name = gale__strdup(c->name);
    to->group = gale__strdup(c->group);
    to->folder = gale__strdup(c->folder);
    to->model = gale__strdup(c->model);
    to->light_output = c->light_output ? gale__strdup(c->light_output) : NULL;
    return to->name && to->group && to->folder && to->model && (!c->light_output || to->light_output) ? GALE_OK
                                                                                                      : GALE_NO_MEMORY;
}

/* real/test_X/data.json names light/light_X.onnx, whose output is beside it. */
static gale_status add_light(gale__suite *s, const char *root, const char *folder, const char *group, const char *name)
{
    char path[2048], model[2048], prefix[2048];
    gale__bytes text = {0};
    gale__json *json = NULL;
    gale__arena arena = {0};
    snprintf(path, sizeof path, "%s/data.json", folder);
    GALE_TRY(gale__file_read(path, 1 << 16, &text));
    gale_status status = gale__json_parse(&arena, text.data, text.size, &json);
    const char *base = status == GALE_OK ? strrchr(gale__json_text(json, "url", ""), '/') : NULL;
    if (base) {
        snprintf(model, sizeof model, "%s/light%s", root, base);
        snprintf(prefix, sizeof prefix, "%.*s_output_", (int)(strlen(model) - strlen(".onnx")), model);
        gale__suite_case c = {.name = (char *)name,
            .group = (char *)group,
            .folder = (char *)folder,
            .model = model,
            .light_output = prefix,
            .rtol = gale__json_number(json, "rtol", 1e-3),
            .atol = gale__json_number(json, "atol", 1e-7)};
        status = gale__file_exists(model) ? add(s, &c) : GALE_OK;
    }
    gale__arena_finish(&arena);
    gale__bytes_finish(&text);
    return status;
}

static gale_status find_cases(
    gale__suite *s, const char *root, const char *path, const char *group, const char *name, int depth)
{
    gale__file_info *list = NULL;
    size_t count = 0;
    char child[2048];
    snprintf(child, sizeof child, "%s/model.onnx", path);
    if (gale__file_exists(child)) {
        gale__suite_case c = {.name = (char *)name,
            .group = (char *)group,
            .folder = (char *)path,
            .model = child,
            .rtol = 1e-3,
            .atol = 1e-7};
        return add(s, &c);
    }
    snprintf(child, sizeof child, "%s/data.json", path);
    if (gale__file_exists(child)) return add_light(s, root, path, group, name);
    if (depth > DEPTH_MAX) return GALE_OK;
    GALE_TRY(gale__folder_list(path, &list, &count));
    gale_status status = GALE_OK;
    for (size_t i = 0; status == GALE_OK && i < count; i++) {
        if (!list[i].folder) continue;
        snprintf(child, sizeof child, "%s/%s", path, list[i].name);
        bool is_case = !strncmp(list[i].name, "test_", 5);
        status = find_cases(s, is_case || !strcmp(list[i].name, "data") ? root : path, child,
            is_case ? name : list[i].name, list[i].name, depth + 1);
    }
    gale__folder_list_free(&list, count);
    return status;
}

static gale_status unpack(const char *path, gale__suite *s)
{
    char folder[512];
    gale__str output = {0};
    int code = 0;
    GALE_TRY(gale__temp_folder_make(folder, sizeof folder));
    s->unpacked = gale__strdup(folder);
    if (!s->unpacked) return gale__temp_folder_remove(folder), GALE_NO_MEMORY;
    const char *argv[] = {"tar", "-xf", path, "-C", folder, NULL};
    gale_status status = gale__process_run(argv, &output, &code);
    if (status == GALE_OK && code)
        status = gale__fail(GALE_FORMAT, "%s cannot be unpacked: tar: %.300s", path, gale__str_text(&output));
    gale__str_finish(&output);
    return status;
}

gale_status gale__suite_open(const char *path, gale__suite *out)
{
    gale__suite s = {0};
    gale__file_info *list = NULL;
    size_t count = 0;
    gale_status status = gale__folder_list(path, &list, &count);
    gale__folder_list_free(&list, count);
    if (status != GALE_OK && status != GALE_NO_MEMORY && gale__file_exists(path)) status = unpack(path, &s);
    const char *root = s.unpacked ? s.unpacked : path;
    if (status == GALE_OK) status = find_cases(&s, root, root, "", "", 0);
    if (status == GALE_OK && !s.count)
        status = gale__fail(GALE_NOT_FOUND, "%s contains no folder with a model.onnx", path);
    if (status != GALE_OK) return gale__suite_finish(&s), status;
    *out = s;
    return GALE_OK;
}

void gale__suite_finish(gale__suite *s)
{
    for (size_t i = 0; i < s->count; i++) {
        gale__free(s->cases[i].name);
        gale__free(s->cases[i].group);
        gale__free(s->cases[i].folder);
        gale__free(s->cases[i].model);
        gale__free(s->cases[i].light_output);
    }
    gale__free(s->cases);
    if (s->unpacked) gale__temp_folder_remove(s->unpacked);
    gale__free(s->unpacked);
    *s = (gale__suite){0};
}
