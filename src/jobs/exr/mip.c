/* Levels of a picture, all of them in one program: each is the mean, the largest or the least of two neighbours along
 * the axes that are halved. */
#include "base/mem.h"
#include "gale/exr.h"
#include "graph/run/tensor.h"
#include "jobs/exr/maker.h"
#include <string.h>

enum { LEVELS_MOST = 32 };

typedef struct chain {
    gale_exr *f;
    int part;
    const gale_exr_part *about;
    const gale_exr_mip_options *options;
    bool rip;
    int nx, ny;
    int64_t width, height;
    int channels;
    gale_type type; /* half where all channels are */
    char *planes;   /* [channels][height][width] */
    gale_tensor *levels[LEVELS_MOST * LEVELS_MOST];
} chain;

static int64_t halved(const chain *c, int64_t n, int times)
{
    n = (n + (c->options->round_up ? ((int64_t)1 << times) - 1 : 0)) >> times;
    return n < 1 ? 1 : n;
}

static int index_of(const chain *c, int x, int y) { return c->rip ? y * c->nx + x : x; }

/* An odd axis made even by its last pixel. */
static gale_value clamped(gale__maker *m, gale_value v, int64_t axis)
{
    const gale_attr edge = GALE_STRING_ATTR("mode", "edge");
    int64_t pads[6] = {0};
    pads[3 + axis] = 1;
    return gale__make_op(m, "Pad", (gale_value[]){v, gale__make_ints(m, 6, pads)}, 2, &edge, 1);
}

/* Half of an axis: pixels 2 i and 2 i + 1; an axis of one pixel stays. */
static gale_value halve(gale__maker *m, const chain *c, gale_value v, int64_t axis, int64_t n)
{
    if (n < 2) return v;
    if (n % 2 && c->options->round_up) v = clamped(m, v, axis), n++;
    int64_t end = n / 2 * 2;
    gale_value in[5] = {v, gale__make_ints(m, 1, &(int64_t){0}), gale__make_ints(m, 1, &end),
        gale__make_ints(m, 1, &axis), gale__make_ints(m, 1, &(int64_t){2})};
    gale_value even = gale__make_op(m, "Slice", in, 5, NULL, 0);
    in[1] = gale__make_ints(m, 1, &(int64_t){1});
    gale_value odd = gale__make_op(m, "Slice", in, 5, NULL, 0);
    if (c->options->reduce == GALE_EXR_BRIGHTEST) return gale__make_2(m, "Max", even, odd);
    if (c->options->reduce == GALE_EXR_DARKEST) return gale__make_2(m, "Min", even, odd);
    return gale__make_affine(m, gale__make_2(m, "Add", even, odd), 0.5, 0);
}

static gale_status build(const chain *c, gale_graph **out)
{
    gale__maker m = {0};
    const int64_t dims[3] = {c->channels, c->height, c->width};
    gale_value v[LEVELS_MOST * LEVELS_MOST];
    GALE_TRY(gale_graph_create(&m.graph));
    m.status = gale_graph_input(m.graph, "planes", c->type, 3, dims, NULL, &v[0]);
    v[0] = gale__make_cast(&m, v[0], GALE_F32);
    for (int y = 0; y < c->ny; y++)
        for (int x = c->rip ? 0 : y; x < (c->rip ? c->nx : y + 1); x++) {
            int i = index_of(c, x, y);
            if (!i) continue;
            if (c->rip)
                v[i] = x ? halve(&m, c, v[i - 1], 2, halved(c, c->width, x - 1))
                         : halve(&m, c, v[i - c->nx], 1, halved(c, c->height, y - 1));
            else
                v[i] =
                    halve(&m, c, halve(&m, c, v[i - 1], 1, halved(c, c->height, y - 1)), 2, halved(c, c->width, x - 1));
            gale_value stored = gale__make_cast(&m, v[i], c->type); /* the next one is made of what is not rounded */
            if (m.status == GALE_OK) m.status = gale_graph_output(m.graph, "level", stored);
        }
    if (m.status == GALE_OK) *out = m.graph;
    else gale_graph_destroy(&m.graph);
    return m.status;
}

static gale_status run(gale_device *device, chain *c)
{
    const int64_t dims[3] = {c->channels, c->height, c->width};
    gale_graph *graph = NULL;
    gale_program *program = NULL;
    gale_tensor *in = NULL;
    gale_status status;
    if (index_of(c, c->nx - 1, c->ny - 1) == 0) return GALE_OK; /* one pixel */
    GALE_GO(build(c, &graph));
    GALE_GO(gale_program_create(graph, device, NULL, &program));
    GALE_GO(gale__tensor_borrow(c->type, 3, dims, c->planes, NULL, NULL, &in));
    GALE_GO(gale_program_run(program, &in, c->levels + 1, true));
done:
    gale_tensor_destroy(&in);
    gale_program_destroy(&program);
    gale_graph_destroy(&graph);
    return status;
}

static const void *level_of(void *user, int x, int y, int channel)
{
    const chain *c = user;
    size_t n = (size_t)(halved(c, c->width, x) * halved(c, c->height, y)) * gale_type_size(c->type);
    return (const char *)gale_tensor_data(c->levels[index_of(c, x, y)]) + (size_t)channel * n;
}

static void *plane_of(const chain *c, int channel)
{
    return c->planes + (size_t)channel * (size_t)(c->width * c->height) * gale_type_size(c->type);
}

static gale_status read_planes(chain *c)
{
    gale_exr_target *t = gale__calloc((size_t)c->channels, sizeof *t);
    c->planes = gale__calloc((size_t)(c->width * c->height), (size_t)c->channels * gale_type_size(c->type));
    gale_status status = t && c->planes ? GALE_OK : GALE_NO_MEMORY;
    for (int i = 0; i < c->channels && status == GALE_OK; i++) {
        const gale_exr_channel *ch = &c->about->channels[i];
        t[i] = (gale_exr_target){ch->name, c->type, plane_of(c, i), 0, 0};
        if (ch->x_sampling > 1 || ch->y_sampling > 1)
            status =
                gale__fail(GALE_UNSUPPORTED, "EXR: channel %s is subsampled, which tiles do not support", ch->name);
    }
    if (status == GALE_OK) status = gale_exr_read(c->f, c->part, 0, 0, t, c->channels);
    gale__free(t);
    return status;
}

static gale_status write_file(chain *c, const char *path)
{
    int tile = c->options->tile ? c->options->tile : 64;
    gale_exr_source *s = gale__calloc((size_t)c->channels, sizeof *s);
    if (!s) return GALE_NO_MEMORY;
    for (int i = 0; i < c->channels; i++) s[i] = (gale_exr_source){c->about->channels[i].name, c->type, plane_of(c, i)};
    gale_exr_new_part p = {.name = c->about->name,
        .data = c->about->data,
        .display = c->about->display,
        .compression = c->options->compression,
        .tile_width = tile,
        .tile_height = tile,
        .round_up = c->options->round_up,
        .levels = c->rip ? GALE_EXR_RIPMAP : GALE_EXR_MIPMAP,
        .channels = s,
        .channel_count = c->channels,
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
    static const gale_exr_mip_options usual = {0};
    chain *c = gale__calloc(1, sizeof *c);
    gale_status status;
    if (!options) options = &usual;
    if (!c) return GALE_NO_MEMORY;
    *c = (chain){.f = f, .part = part, .options = options, .about = gale_exr_part_get(f, part), .nx = 1, .ny = 1};
    GALE_GO(gale_exr_level_size(f, part, 0, 0, &c->width, &c->height));
    c->rip = options->levels == GALE_EXR_RIPMAP;
    c->channels = c->about->channel_count;
    c->type = GALE_F16;
    for (int i = 0; i < c->channels; i++)
        if (c->about->channels[i].type != GALE_F16) c->type = GALE_F32;
    while (halved(c, c->width, c->nx - 1) > 1) c->nx++;
    while (halved(c, c->height, c->ny - 1) > 1) c->ny++;
    if (!c->rip) c->nx = c->ny = c->nx > c->ny ? c->nx : c->ny;
    GALE_GO(read_planes(c));
    GALE_GO(run(device, c));
    GALE_GO(write_file(c, path));
done:
    for (int i = 0; i < LEVELS_MOST * LEVELS_MOST; i++) gale_tensor_destroy(&c->levels[i]);
    gale__free(c->planes);
    gale__free(c);
    return status;
}
