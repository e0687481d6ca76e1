/* Depth as a picture: a channel stretched between two percentiles, near is bright.  NaN, infinity, and the largest
 * half, which renderers write for empty pixels, are black. */
#include "device/device.h"
#include "gale/exr.h"
#include "graph/run/tensor.h"
#include "jobs/exr/maker.h"
#include <string.h>

/* The channel, of the first part that has it. */
static gale_status find_channel(const gale_exr *f, const char *wanted, int *part, const char **name)
{
    static const char *const usual[] = {"Z", "depth.Z", "Depth", "depth"};
    for (int k = 0; k < (wanted ? 1 : 4); k++)
        for (int i = 0; i < gale_exr_part_count(f); i++) {
            const gale_exr_part *p = gale_exr_part_get(f, i);
            for (int c = 0; c < p->channel_count; c++)
                if (!strcmp(p->channels[c].name, wanted ? wanted : usual[k])) {
                    *part = i, *name = p->channels[c].name;
                    return GALE_OK;
                }
        }
    return gale__fail(
        GALE_NOT_FOUND, "EXR: no channel \"%s\"; `gale exr layers` lists the channels", wanted ? wanted : "Z");
}

/* 255 (far - z) / (far - near), rounded. */
static gale_status build(const int64_t dims[3], double nearest, double farthest, gale_graph **out)
{
    gale__maker m = {0};
    gale_value x = GALE_NONE;
    double scale = farthest > nearest ? 255 / (farthest - nearest) : 0;
    GALE_TRY(gale_graph_create(&m.graph));
    m.status = gale_graph_input(m.graph, "depth", GALE_F32, 3, dims, NULL, &x);
    gale_value v = gale__make_1(&m, "Floor", gale__make_affine(&m, x, -scale, farthest * scale + 0.5));
    v = gale__make_op(&m, "Clip", (gale_value[]){v, gale__make_number(&m, 0), gale__make_number(&m, 255)}, 3, NULL, 0);
    gale_value good = gale__make_2(&m, "Less", gale__make_1(&m, "Abs", x), gale__make_number(&m, 1e30));
    v = gale__make_cast(&m, gale__make_select(&m, good, v, gale__make_number(&m, 0)), GALE_U8);
    if (m.status == GALE_OK) m.status = gale_graph_output(m.graph, "grey", v);
    if (m.status == GALE_OK) *out = m.graph;
    else gale_graph_destroy(&m.graph);
    return m.status;
}

static gale_status shade(
    gale_device *device, const float *z, int64_t w, int64_t h, const gale_exr_stats *s, gale_picture *p)
{
    const int64_t dims[3] = {1, h, w};
    gale_graph *graph = NULL;
    gale_program *program = NULL;
    gale_tensor *in = NULL, *out = NULL;
    gale_status status;
    GALE_GO(build(dims, s->percentiles[1], s->percentiles[7], &graph));
    GALE_GO(gale_program_create(graph, device, NULL, &program));
    GALE_GO(gale__tensor_borrow(GALE_F32, 3, dims, z, NULL, NULL, &in));
    GALE_GO(gale_program_run(program, &in, &out, GALE_RUN_ON_HOST));
    GALE_GO(gale_tensor_to_cpu(out, p->data, (size_t)(w * h)));
done:
    gale_tensor_destroy(&in);
    gale_tensor_destroy(&out);
    gale_program_destroy(&program);
    gale_graph_destroy(&graph);
    return status;
}

gale_status gale_exr_depth(gale_device *device, gale_exr *f, const char *channel, gale_picture **out)
{
    GALE__NEED({"device", device}, {"file", f}, {"out", out});
    GALE__WITHIN(device->context);
    int part = 0, count = 0;
    const char *name = NULL;
    int64_t w = 0, h = 0;
    gale_exr_stats *s = NULL;
    gale_picture *p = NULL;
    float *z = NULL;
    gale_status status;
    GALE_TRY(find_channel(f, channel, &part, &name));
    GALE_GO(gale_exr_channel_size(f, part, 0, 0, name, &w, &h));
    GALE_GO(gale_exr_measure(device, f, part, &name, 1, 0, &s, &count));
    GALE_GO(gale_picture_create(w, h, 1, GALE_U8, &p));
    z = gale__alloc((size_t)(w * h) * sizeof *z + 1);
    if (!z) status = GALE_NO_MEMORY;
    if (status == GALE_OK) status = gale_exr_read(f, part, 0, 0, &(gale_exr_target){name, GALE_F32, z, 0, 0}, 1);
    if (status == GALE_OK) status = shade(device, z, w, h, s, p);
done:
    gale__free(z);
    gale__free(s);
    if (status == GALE_OK) *out = p;
    else gale_picture_destroy(&p);
    return status;
}
