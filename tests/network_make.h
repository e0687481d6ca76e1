/* Small networks from picture to picture, and what opens them. */
#ifndef GALE_TEST_NETWORK_MAKE_H
#define GALE_TEST_NETWORK_MAKE_H
#include "jobs/upscale/feed.h"
#include "onnx_make.h"
#include "test.h"

static gale_device *network_device;

static inline gale_device *the_device(void)
{
    gale_device_options o = GALE_DEVICE_OPTIONS;
    o.chain = "cpu";
    if (!network_device) CHECK_OK(gale_device_open(&o, &network_device));
    return network_device;
}

static inline gale_model *open_model(maker *m)
{
    gale__str bytes = {0};
    gale_model *model = NULL;
    CHECK_OK(make_encode(m, &bytes));
    CHECK_OK(gale_model_from_memory(bytes.text, bytes.length, GALE_MODEL_COPY, the_device(), NULL, &model));
    gale__str_finish(&bytes);
    make_end(m);
    return model;
}

/* Begins a network from a picture x of such extents to one, y. */
static inline void picture_net(maker *m, const char *in, const char *out)
{
    make_begin(m, 13);
    make_input(m, "x", 1, in);
    make_output(m, "y", 1, out);
}

/* Each pixel becomes two by two. */
static inline void twice(maker *m, const char *from, const char *to)
{
    float w[12 * 3] = {0};
    for (int k = 0; k < 4; k++)
        for (int c = 0; c < 3; c++) w[(k * 3 + c) * 3 + c] = 1;
    make_initializer(m, make_floats(m, "w", "12,3,1,1", w, 36));
    char names[64];
    snprintf(names, sizeof names, "%s,w", from);
    make_node(m, "Conv", names, "wide");
    make_attr_i(m, make_node(m, "DepthToSpace", "wide", to), "blocksize", 2);
}

/* A network that does no more than that, for pictures of three channels. */
static inline void repeating(maker *m)
{
    picture_net(m, "n,3,h,w", "n,3,a,b");
    twice(m, "x", "y");
}

/* What takes only sides that are multiples of `block`, and gives the picture back. */
static inline void in_blocks(maker *m, int64_t block)
{
    picture_net(m, "n,3,h,w", NULL);
    make_attr_i(m, make_node(m, "SpaceToDepth", "x", "deep"), "blocksize", block);
    make_attr_i(m, make_node(m, "DepthToSpace", "deep", "y"), "blocksize", block);
}

static inline gale_status probe(maker *m, const char *manifest, gale__manifest *man, gale__network *n)
{
    gale_model *model = open_model(m);
    if (!model) return GALE_INTERNAL;
    CHECK_OK(gale__manifest_parse(manifest, strlen(manifest), "net", man));
    gale_status status = gale__network_probe(model, man, 0, n);
    if (status != GALE_OK) {
        gale_model_close(&model);
        gale__manifest_finish(man);
    }
    return status;
}

/* `batch` tiles [batch][channels_in][height][width] of values 0..1 in RGB; results
 * [batch][channels_out][height*scale][width*scale] likewise. */
static inline gale_status run_network(const gale__network *n, const float *tiles, int64_t batch, int64_t width,
    int64_t height, const float *control, float *results)
{
    gale__feed f = {0};
    int64_t wide = width * n->scale, high = height * n->scale;
    gale_status status = gale__feed_make(n, batch, width, height, control, &f);
    for (int64_t i = 0; i < batch * n->channels_in * height && status == GALE_OK; i++) {
        int64_t tile = i / height / n->channels_in, plane = i / height % n->channels_in;
        float *row = gale__feed_row(&f, tile, plane, i % height, results); /* room enough for a row */
        memcpy(row, tiles + i * width, (size_t)width * sizeof *row);
        gale__feed_put(&f, tile, plane, i % height, row);
    }
    if (status == GALE_OK) status = gale__feed_run(&f);
    for (int64_t i = 0; i < batch * n->channels_out * high && status == GALE_OK; i++) {
        float *to = results + i * wide;
        const float *row = gale__feed_get(&f, i / high / n->channels_out, i / high % n->channels_out, i % high, to);
        if (row != to) memcpy(to, row, (size_t)wide * sizeof *to);
    }
    gale__feed_finish(&f);
    return status;
}

static inline void finish(gale__manifest *man, gale__network *n)
{
    gale_model_close(&n->model);
    gale__manifest_finish(man);
}
#endif
