/* gale exr sheet: a contact sheet as a picture, or as a page with names and sizes. */
#include "cli/cmd_exr.h"
#include "cli/html.h"
#include "base/file.h"
#include "gale/graph.h"
#include <string.h>

typedef struct sheet {
    const gale__args *a;
    gale__inputs inputs;
    size_t failed;
    gale_exr_batch *batch;
} sheet;

static bool on_file(void *user, const gale_exr_progress *p, const gale_exr_item *item)
{
    (void)user, (void)p;
    if (item->status != GALE_OK) gale__report(gale__fail(item->status, "%s", item->message));
    return !gale__ending;
}

static gale_status make_small(sheet *s, gale_device *device)
{
    gale_exr_batch_options o = {
        .keep = true, .progress = on_file, .user = s, .jobs = (int)gale__args_int(s->a, "jobs")};
    const char **paths = gale__calloc(s->inputs.count + 1, sizeof *paths);
    if (!paths) return GALE_NO_MEMORY;
    gale_status status = gale__exr_look_args(s->a, &o.look);
    o.look.bits = 8;
    o.look.no_alpha = true;
    o.look.width = o.look.height = 0;
    if (!o.look.side) o.look.side = 256;
    for (size_t i = 0; i < s->inputs.count; i++) paths[i] = s->inputs.list[i].path;
    if (status == GALE_OK) status = gale_exr_batch_run(device, paths, NULL, s->inputs.count, &o, &s->batch);
    gale__free(paths);
    return status;
}

static gale_status add_item(gale__str *page, const gale_exr_item *i)
{
    const gale_picture_write_options o = {.format = "png"};
    const char *slash = strrchr(i->input, '/');
    void *data = NULL;
    size_t size = 0;
    gale__str_add(page, "<figure>");
    if (i->picture) {
        GALE_TRY(gale_picture_to_memory(i->picture, &o, &data, &size));
        gale__str_add(page, "<div><img alt='' src='data:image/png;base64,");
        gale__html_add_data(page, data, size);
        gale__str_add(page, "'></div>");
        gale_free(data);
    }
    gale__str_add(page, "<figcaption>");
    gale__html_add(page, slash ? slash + 1 : i->input);
    if (i->picture)
        gale__str_addf(page, "<br><small>%lld x %lld, %.1f MB</small>", (long long)i->report.width,
            (long long)i->report.height, (double)i->report.file_bytes / 1e6);
    else {
        gale__str_add(page, "<br><small>");
        gale__html_add(page, i->message);
        gale__str_add(page, "</small>");
    }
    gale__str_add(page, "</figcaption></figure>");
    return GALE_OK;
}

static gale_status write_page(const sheet *s, const char *path)
{
    gale__str page = {0};
    gale_status status = GALE_OK;
    gale__str_add(&page,
        "<!DOCTYPE html><meta charset=utf-8><title>contact sheet</title><style>body{background:#202020;"
        "color:#ddd;font:14px system-ui,sans-serif;display:flex;flex-wrap:wrap;gap:16px;padding:16px}"
        "figure{margin:0;width:260px}figure div{height:256px;display:flex;align-items:center;"
        "justify-content:center}img{max-width:256px;max-height:256px}figcaption{overflow-wrap:anywhere}"
        "small{color:#999}</style>");
    for (size_t i = 0; i < s->batch->count && status == GALE_OK; i++) status = add_item(&page, &s->batch->items[i]);
    if (status == GALE_OK) status = gale__str_check(&page);
    if (status == GALE_OK) status = gale__file_write(path, page.text, page.length);
    gale__str_finish(&page);
    return status;
}

static gale_status write_picture(const sheet *s, const char *path)
{
    gale_picture *made = NULL;
    int64_t cell = gale__args_int(s->a, "size");
    const gale_picture **list = gale__calloc(s->batch->count + 1, sizeof *list);
    if (!list) return GALE_NO_MEMORY;
    for (size_t i = 0; i < s->batch->count; i++) list[i] = s->batch->items[i].picture;
    gale_status status =
        gale_exr_sheet(list, s->batch->count, (int)gale__args_int(s->a, "columns"), cell ? cell : 256, &made);
    if (status == GALE_OK) status = gale_picture_write(made, path, NULL);
    gale_picture_destroy(&made);
    gale__free(list);
    return status;
}

int gale__exr_contact_sheet(const gale__args *a)
{
    sheet s = {.a = a};
    gale_device *device = NULL;
    const char *path = gale__args_text(a, "output"), *dot = path ? strrchr(path, '.') : NULL;
    gale_status status;
    int code = GALE__EXIT_OK;
    if (!path) return gale__usage("exr", "sheet needs --output with a picture, or a page ending in .html");
    GALE_GO(gale__exr_inputs(a, &s.inputs, &s.failed));
    if (!s.inputs.count) code = GALE__EXIT_FAILED; /* why has been said */
    if (!s.inputs.count) goto done;
    GALE_GO(gale_device_open(NULL, &device));
    GALE_GO(make_small(&s, device));
    if (dot && (!strcmp(dot, ".html") || !strcmp(dot, ".htm"))) GALE_GO(write_page(&s, path));
    else GALE_GO(write_picture(&s, path));
    GALE_GO(gale__exr_tell_made(a, path, NULL));
    if (s.failed || s.batch->total.failed) code = GALE__EXIT_FAILED;
done:
    if (status != GALE_OK) code = gale__report(status);
    gale_exr_batch_destroy(&s.batch);
    gale_device_close(&device);
    gale__inputs_finish(&s.inputs);
    return code;
}
