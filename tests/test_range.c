/* Networks without a manifest: the values they take for black and white are found by what comes back, and a manifest's
 * word is never doubted. */
#include "network_make.h"
#include <math.h>

static char said[1000];
static int warnings;
static void hear(void *user, int level, const char *line)
{
    (void)user;
    snprintf(said, sizeof said, "%s", line);
    warnings += level == GALE__WARN;
}

static void constant(maker *m, const char *name, float v) { make_initializer(m, make_floats(m, name, "", &v, 1)); }

/* a x + b, then no less than `low` and no more than `high`; type: 1 float, 10 half, 2 bytes. */
typedef struct kind {
    const char *name;
    float a, b, low, high;
    int type, channels;
    const char *manifest;
    int in, out;
    bool warns;
} kind;

static void make_net(maker *m, const kind *k)
{
    const char *dims = k->channels == 1 ? "n,1,h,w" : "n,3,h,w";
    bool cast = k->type != 1;
    make_begin(m, 13);
    make_input(m, "x", k->type, dims);
    make_output(m, "y", k->type, dims);
    constant(m, "a", k->a), constant(m, "b", k->b), constant(m, "low", k->low), constant(m, "high", k->high);
    if (cast) make_attr_i(m, make_node(m, "Cast", "x", "f"), "to", 1);
    make_node(m, "Mul", cast ? "f,a" : "x,a", "p");
    make_node(m, "Add", "p,b", "q");
    make_node(m, "Clip", "q,low,high", cast ? "g" : "y");
    if (cast) make_attr_i(m, make_node(m, "Cast", "g", "y"), "to", k->type);
}

#define FAR 1e9f
TEST(found)
{
    static const double ranges[3][2] = {{0, 1}, {0, 255}, {-1, 1}};
    static const kind kinds[] = {
        {"anything goes", 1, 0, -FAR, FAR, 1, 3, "{}", 0, 0, false},
        {"ends at 0 and 1", 1, 0, 0, 1, 1, 3, "{}", 0, 0, false},
        {"ends at 0 and 255", 1, 0, 0, 255, 1, 3, "{}", 1, 1, true},
        {"ends at -1 and 1", 1, 0, -1, 1, 1, 3, "{}", 2, 2, true},
        {"a constant for 0..255", 1, 0, 4, FAR, 1, 3, "{}", 1, 1, true},
        {"a constant for 0..1", 1, 0, 0.02f, FAR, 1, 3, "{}", 0, 0, false},
        {"-1..1 to 0..1", 0.5f, 0.5f, -FAR, FAR, 1, 3, "{}", 2, 0, true},
        {"0..1 to -1..1", 2, -1, -FAR, FAR, 1, 3, "{}", 0, 2, true},
        {"0..255 to 0..1", 1 / 255.0f, 0, 0, 1, 1, 3, "{}", 1, 0, true},
        {"-1..1 to 0..255", 127.5f, 127.5f, 0, 255, 1, 3, "{}", 2, 1, true},
        {"a negative", -1, 1, -FAR, FAR, 1, 3, "{}", 0, 0, true},
        {"luma", 1, 0, 0, 255, 1, 1, "{}", 1, 1, true},
        {"half", 1, 0, 0, 255, 10, 3, "{}", 1, 1, true},
        {"bytes", 1, 0, 0, 255, 2, 3, "{}", 1, 1, false},
        {"bytes with a manifest", 1, 0, 0, 255, 2, 3, "name: a", 1, 1, false},
        {"bytes that cannot be negative", 1, 0, 0, 255, 2, 3, "params: {range: [-1, 1]}", 1, 1, false},
        {"a manifest without a range", 1, 0, 0, 255, 1, 3, "name: a", 0, 0, false},
        {"a manifest with one", 1, 0, 0, 1, 1, 3, "params: {range: [0, 255]}", 1, 1, false},
        {"a manifest with two", 1, 0, 0, 1, 1, 3, "params: {range: [-1, 1], range_out: [0, 255]}", 2, 1, false},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const kind *k = &kinds[i];
        maker m;
        gale__manifest man;
        gale__network n;
        make_net(&m, k);
        warnings = 0;
        gale_log_set(hear, NULL, GALE__WARN);
        bool good = CHECK_OK(probe(&m, k->manifest, &man, &n));
        gale_log_set(NULL, NULL, GALE__WARN);
        if (!good) continue;
        if (memcmp(n.range[0], ranges[k->in], sizeof ranges[0]) ||
            memcmp(n.range[1], ranges[k->out], sizeof ranges[0]) || warnings != k->warns)
            printf("FAIL %s: %g %g to %g %g, %d warnings: %s\n", k->name, n.range[0][0], n.range[0][1], n.range[1][0],
                n.range[1][1], warnings, said),
                test_bad++;
        finish(&man, &n);
    }
}

/* What is found is what runs go by. */
TEST(goes_by_it)
{
    maker m;
    gale__manifest man;
    gale__network n;
    float in[3 * 16], out[3 * 16];
    make_net(&m, &(kind){"", 127.5f, 127.5f, 0, 255, 1, 3});
    if (!CHECK_OK(probe(&m, "{}", &man, &n))) return;
    for (int i = 0; i < 48; i++) in[i] = (float)i / 47;
    CHECK_OK(run_network(&n, in, 1, 4, 4, NULL, out));
    for (int i = 0; i < 48; i++) CHECK(fabsf(out[i] - in[i]) < 1e-5f);
    finish(&man, &n);
}

/* Each allocation up to the `most`-th fails once: an error, or the right range. */
static void fail_each(uint64_t most)
{
    static const kind k = {"", 1, 0, 0, 255, 1, 3};
    maker m;
    gale__manifest man;
    gale__network n;
    make_net(&m, &k);
    if (!CHECK_OK(probe(&m, "name: a", &man, &n))) return;
    CHECK_OK(gale__network_find_range(&n, 16, 16));
    for (uint64_t at = 1; at <= most; at += test_light() ? 5 : 1) {
        gale__alloc_fail_at(at);
        gale_status status = gale__network_find_range(&n, 16, 16);
        bool reached = gale__alloc_count() >= at;
        gale__alloc_fail_at(0);
        if (status != GALE_OK) CHECK_EQ(status, GALE_NO_MEMORY);
        CHECK(n.range[0][1] == 255 && n.range[1][1] == 255);
        if (!reached) break;
    }
    finish(&man, &n);
}

TEST(faults)
{
    fail_each(0); /* the device keeps something from its first use */
    int64_t live = gale__alloc_live();
    fail_each(UINT64_MAX);
    CHECK_EQ(gale__alloc_live(), live);
}

/* The real ones are for 0..1, and are found to be. */
TEST(real_ones)
{
    static const char *const names[] = {
        "esrgan-slim-x2", "esrgan-slim-x4", "esrgan-medium-x2", "zoom2x-ctrl", "scunet"};
    int there = 0;
    for (int i = 0; i < (test_light() ? 1 : 5); i++) {
        char path[1024];
        gale__manifest man;
        gale__network n;
        gale_model *model = NULL;
        snprintf(path, sizeof path, "%s/models/%s.onnx", test_data(), names[i]);
        FILE *file = fopen(path, "rb");
        if (!file) continue;
        fclose(file);
        there++;
        if (!CHECK_OK(gale_model_open(path, the_device(), NULL, &model))) continue;
        warnings = 0;
        CHECK_OK(gale__manifest_parse("{}", 2, names[i], &man));
        gale_log_set(hear, NULL, GALE__INFO);
        CHECK_OK(gale__network_probe(model, &man, 0, &n));
        gale_log_set(NULL, NULL, GALE__WARN);
        if (warnings || n.range[0][0] != 0 || n.range[0][1] != 1 || n.range[1][0] != 0 || n.range[1][1] != 1)
            printf("FAIL %s\n", said), test_bad++;
        else printf("%s\n", said);
        finish(&man, &n);
    }
    if (!there) SKIP("no models in %s", test_data());
}

TEST(last)
{
    gale_device_close(&network_device);
    CHECK(!network_device);
}

TESTS(ROW(found), ROW(goes_by_it), ROW(faults), ROW(real_ones), ROW(last))
