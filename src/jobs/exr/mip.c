/* A file with levels: the planes of a part, their levels by one program, and the tiles that are written. */
#include "base/mem.h"
#include "base/num.h"
#include "device/device.h"
#include "gale/exr.h"
#include "graph/run/tensor.h"
#include "jobs/exr/mip.h"
#include <string.h>

typedef struct chain {
    gale_exr *f;
    int part;
    const gale_exr_part *about;
    const gale_exr_mip_options *options;
    gale__mip_plan plan; /* its type is half where all channels are */
    int nx, ny;
    char *planes; /* [channels][height][width] */
    gale_tensor *outputs[GALE__MIP_LEVELS_MOST * GALE__MIP_LEVELS_MOST];
} chain;

static gale_status run(gale_device *device, chain *c)
{
    gale_program *program = NULL;
    gale_tensor *in = NULL;
    gale_status status;
    const int64_t dims[3] = {c->plan.channels, c->plan.height, c->plan.width};
    if (c->nx == 1 && c->ny == 1) return GALE_OK; /* one pixel */
    GALE_GO(gale__mip_program(&c->plan, device, &program));
    GALE_GO(gale__tensor_borrow(c->plan.type, 3, dims, c->planes, NULL, NULL, &in));
    GALE_GO(gale_program_run(program, &in, c->outputs, GALE_RUN_ON_HOST));
done:
    gale_tensor_destroy(&in);
    gale_program_destroy(&program);
    return status;
}

static const void *level_of(void *user, int x, int y, int channel)
{
    const chain *c = user;
    size_t n = (size_t)(gale__mip_halved(&c->plan, c->plan.width, x) * gale__mip_halved(&c->plan, c->plan.height, y)) *
               gale_type_size(c->plan.type);
    return (const char *)gale__mip_level(&c->plan, c->outputs, c->nx, x, y) + (size_t)channel * n;
}

static void *plane_of(const chain *c, int channel)
{
    return c->planes + (size_t)channel * (size_t)(c->plan.width * c->plan.height) * gale_type_size(c->plan.type);
}

/* For computing, or with `own` as the file has them, exactly. */
static gale_status read_planes(chain *c, bool own)
{
    gale_exr_target *t = gale__calloc((size_t)c->plan.channels, sizeof *t);
    if (!c->planes)
        c->planes = gale__calloc(
            (size_t)(c->plan.width * c->plan.height), (size_t)c->plan.channels * gale_type_size(c->plan.type));
    gale_status status = t && c->planes ? GALE_OK : GALE_NO_MEMORY;
    for (int i = 0; i < c->plan.channels && status == GALE_OK; i++) {
        const gale_exr_channel *ch = &c->about->channels[i];
        t[i] = (gale_exr_target){ch->name, own ? ch->type : c->plan.type, plane_of(c, i), 0, 0};
        if (ch->x_sampling > 1 || ch->y_sampling > 1)
            status =
                gale__fail(GALE_UNSUPPORTED, "EXR: channel %s is subsampled, which tiles do not support", ch->name);
    }
    if (status == GALE_OK) status = gale_exr_read(c->f, c->part, 0, 0, t, c->plan.channels);
    gale__free(t);
    return status;
}

/* Numbers of f32 as those of another type, which are no longer, in the same place. */
static void narrow(float *from, gale_type type, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float v = from[i];
        uint32_t whole = v > 0 ? v < 4294967040.f ? (uint32_t)(v + 0.5f) : UINT32_MAX : 0;
        if (type == GALE_U32) memcpy(from + i, &whole, sizeof whole);
        else gale__store_f64(type, (char *)from + i * gale_type_size(type), (double)v);
    }
}

/* Channels keep their types where not all are halves, which are computed in f32. */
static gale_status restore_types(chain *c)
{
    bool differs = false;
    for (int i = 0; i < c->plan.channels; i++) differs = differs || c->about->channels[i].type != c->plan.type;
    if (!differs) return GALE_OK;
    for (int y = 0; y < c->ny; y++)
        for (int x = 0; x < c->nx; x++) {
            size_t n =
                (size_t)(gale__mip_halved(&c->plan, c->plan.width, x) * gale__mip_halved(&c->plan, c->plan.height, y));
            for (int i = 0; i < c->plan.channels && (x || y) && (c->plan.rip || x == y); i++)
                if (c->about->channels[i].type != GALE_F32)
                    narrow((float *)(uintptr_t)level_of(c, x, y, i), c->about->channels[i].type, n);
        }
    return read_planes(c, true);
}

static gale_status write_file(chain *c, const char *path)
{
    int tile = c->options->tile ? c->options->tile : 64;
    gale_exr_source *s = gale__calloc((size_t)c->plan.channels, sizeof *s);
    if (!s) return GALE_NO_MEMORY;
    for (int i = 0; i < c->plan.channels; i++)
        s[i] = (gale_exr_source){c->about->channels[i].name, c->about->channels[i].type, plane_of(c, i)};
    gale_exr_new_part p = {.name = c->about->name,
        .data = c->about->data,
        .display = c->about->display,
        .compression = c->options->compression,
        .tile_width = tile,
        .tile_height = tile,
        .round_up = c->options->round_up,
        .levels = c->plan.rip ? GALE_EXR_RIPMAP : GALE_EXR_MIPMAP,
        .channels = s,
        .channel_count = c->plan.channels,
        .level = level_of,
        .user = c,
        .like = c->f,
        .like_part = c->part};
    gale_status status = gale_exr_write(path, &p, 1);
    gale__free(s);
    return status;
}

gale_status gale_exr_mip(
    gale_device *device, gale_exr *f, int part, const gale_exr_mip_options *options, const char *path)
{
    GALE__NEED({"device", device}, {"file", f}, {"path", path});
    GALE__OPTIONS(options);
    GALE__WITHIN(device->context);
    static const gale_exr_mip_options usual = {0};
    chain *c = gale__calloc(1, sizeof *c);
    gale_status status;
    if (!options) options = &usual;
    if (!c) return GALE_NO_MEMORY;
    *c = (chain){.f = f, .part = part, .options = options, .about = gale_exr_part_get(f, part)};
    gale__mip_plan *p = &c->plan;
    *p = (gale__mip_plan){.type = GALE_F16, .round_up = options->round_up, .reduce = options->reduce};
    GALE_GO(gale_exr_level_size(f, part, 0, 0, &p->width, &p->height));
    p->rip = options->levels == GALE_EXR_RIPMAP;
    p->channels = c->about->channel_count;
    for (int i = 0; i < p->channels; i++)
        if (c->about->channels[i].type != GALE_F16) p->type = GALE_F32;
    gale__mip_count(p, &c->nx, &c->ny);
    GALE_GO(read_planes(c, false));
    GALE_GO(run(device, c));
    GALE_GO(restore_types(c));
    GALE_GO(write_file(c, path));
done:
    for (int i = 0; i < GALE__MIP_LEVELS_MOST * GALE__MIP_LEVELS_MOST; i++) gale_tensor_destroy(&c->outputs[i]);
    gale__free(c->planes);
    gale__free(c);
    return status;
}
