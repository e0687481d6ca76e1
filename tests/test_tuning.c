/* Tuning: names of schedules, classes of contractions, the record on disk, what planning makes of it, and the job that
 * measures.  Candidates of NVIDIA's cards are built and compiled without one. */
#include "device/null/null.h"
#include "device/record.h"
#include "device/registry.h"
#include "gale/model_jobs.h"
#include "gale_built.h"
#include "job_suite.h"
#include "jobs/tune/tune_bench.h"
#include "kernel/kernels.h"
#include "kernel/print/print.h"
#include "kernel/tuning.h"
#include "nest_random.h"
#include "nvidia_caps.h"
#include <stdlib.h>
#ifdef GALE_HAVE_CUDA
#include "device/cuda/nvrtc.h"
#endif

static char network[100], cache[100]; /* x [batch, 256] by a weight [256, 192], Relu, by [192, 256] */

static const float *waves(size_t n)
{
    static float data[256 * 192];
    for (size_t i = 0; i < n; i++) data[i] = (float)((double)((i * 2654435761u >> 7) & 1023) / 512 - 1) / 16;
    return data;
}

static void make_network(void)
{
    maker m;
    make_begin(&m, 17);
    make_input(&m, "x", 1, "batch,256");
    make_output(&m, "y", 1, "batch,256");
    make_initializer(&m, make_floats(&m, "w1", "256,192", waves(256 * 192), 256 * 192));
    make_initializer(&m, make_floats(&m, "w2", "192,256", waves(256 * 192), 256 * 192));
    make_node(&m, "MatMul", "x,w1", "g");
    make_node(&m, "Relu", "g", "r");
    make_node(&m, "MatMul", "r,w2", "y");
    snprintf(network, sizeof network, "%s", make_saved(&m, "network.onnx"));
}

/* turned: the second factor lies as [n][k]. */
static void product(nest_case *c, gale_type type, int64_t m, int64_t n, int64_t k, bool turned)
{
    nr_axis x[2] = {nr_plain(0, m), nr_plain(2, k)}, y[2] = {nr_plain(2, k), nr_plain(1, n)};
    int order[2] = {1, 0};
    nr_init(c, "product", 2, 1, (int64_t[]){m, n, k});
    int p = nr_load(c, nr_access(c, type, x, 2, NULL, 0, 0)),
        q = nr_load(c, nr_access(c, type, y, 2, turned ? order : NULL, 0, 0));
    int r = nr_reduce(c, GALE__SUM, nr_op(c, GALE__MUL, type, p, q, 0));
    c->code[r].acc = GALE_F32;
    nr_store(c, r);
    gale__nest_canonicalize(&c->nest);
}

static bool key_of(int64_t m, int64_t n, int64_t k, char out[GALE__TUNING_KEY])
{
    nest_case c;
    product(&c, GALE_F16, m, n, k, true);
    bool made = gale__tuning_key(&c.nest, out);
    nr_finish(&c);
    return made;
}

TEST(names)
{
    char text[GALE__WANT_TEXT];
    int n = 0;
    for (const gale__schedule_want *w; (w = gale__schedule_want_at(n)); n++) {
        gale__schedule_want_text(w, text);
        CHECK(gale__schedule_want_find(text) == w); /* each has a name of its own */
    }
    CHECK(n > 20 && n < GALE__TUNE_CANDIDATES);
    static const char *const wrong[] = {"", "tile", "tile 128x127", "tile 128x128 ", "groups 128X96", "team 128x2560"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) CHECK(!gale__schedule_want_find(wrong[i]));
}

TEST(classes)
{
    char a[GALE__TUNING_KEY], b[GALE__TUNING_KEY];
    CHECK(key_of(257, 768, 512, a) && key_of(512, 768, 512, b));
    CHECK_TEXT(a, b); /* the class of rows is the same */
    CHECK_TEXT(a, "f16 f16 512x768x512 by 1 along 11 wide 44");
    CHECK(key_of(513, 768, 512, b) && strcmp(a, b));
    CHECK(key_of(512, 776, 512, b) && strcmp(a, b));
    CHECK(key_of(512, 768, 520, b) && strcmp(a, b));
    nest_case c;
    product(&c, GALE_F16, 512, 768, 512, true);
    c.nest.steady = true; /* batch_invariant */
    CHECK(!gale__tuning_key(&c.nest, a));
    nr_finish(&c);
}

/* --- candidates --- */

static void add_kernel(gale__str *text, const gale__nest *nest, const gale__schedule *s, const gale_device_caps *caps)
{
    gale__ir ir;
    const gale__ir *list = &ir;
    uint32_t group[3];
    char name[32];
    static int number;
    snprintf(name, sizeof name, "k%d", number++);
    gale__schedule_group(s, group);
    CHECK(group[0] <= caps->group_max);
    if (!CHECK_OK(gale__schedule_build(nest, s, name, &ir))) return;
    CHECK_OK(gale__ir_validate(&ir));
    CHECK(gale__ir_launch_bytes(&ir) <= caps->shared_most_bytes);
    text->length = 0;
    CHECK_OK(gale__ir_print_c(&list, 1, GALE__DIALECT_CUDA, caps, text));
    gale__ir_finish(&ir);
}

/* Builds every candidate, compiles one in `every`, and returns how many there are. */
static int candidates(gale_type type, int64_t m, int64_t n, int64_t k, bool turned, uint32_t arch, int every)
{
    gale_device_caps caps = nvidia;
    nest_case c;
    gale__schedule s;
    gale__str text = {0};
    int count = 0;
    caps.arch = arch;
    if (arch < 90) caps.matrix_groups = caps.matrix_f32 = false;
    caps.shared_most_bytes = arch == 80 || arch == 90 ? arch == 90 ? 227 << 10 : 163 << 10 : 99 << 10;
    product(&c, type, m, n, k, turned);
    for (int i = 0; gale__schedule_want_at(i); i++) {
        if (!gale__schedule_choose_as(&c.nest, &caps, gale__schedule_want_at(i), &s)) continue;
        add_kernel(&text, &c.nest, &s, &caps);
#ifdef GALE_HAVE_CUDA
        static const char *const targets[] = {"compute_80", "compute_86", "compute_89", "compute_90a"};
        const char *target = targets[arch == 80 ? 0 : arch == 86 ? 1 : arch == 89 ? 2 : 3];
        gale__bytes code = {0};
        int archs[64], n_archs;
        if (every && count % every == 0 && gale__nvrtc_archs(archs, &n_archs) == GALE_OK)
            CHECK_OK(gale__nvrtc_compile_only(text.text, target, "--fmad=false", &code));
        gale__bytes_finish(&code);
#endif
        count++;
    }
    gale__str_finish(&text);
    nr_finish(&c);
    return count;
}

TEST(candidates)
{
    int every = test_light() ? 0 : test_brief() ? 16 : 6;
    nr_no_data = true;
    CHECK(candidates(GALE_F16, 2048, 768, 768, true, 90, every) > 30);
    CHECK(candidates(GALE_F16, 2048, 768, 768, true, 80, every) > 20);
    CHECK(candidates(GALE_BF16, 128, 1000, 2048, false, 86, every) > 15);
    CHECK(candidates(GALE_F32, 3136, 256, 512, true, 90, every) > 10);
    CHECK(candidates(GALE_F32, 512, 512, 512, true, 89, every) > 10);
    CHECK(candidates(GALE_F16, 16, 3072, 768, true, 90, every) > 20);
    nr_no_data = false;
}

/* What tuning on an H200 has shown, and the built-in choice has taken over. */
TEST(table)
{
    static const struct {
        int64_t m, n, k;
        bool turned;
        uint16_t tile_m, tile_n;
        int tile_k, least_stages, most_stages, split, keep;
    } rows[] = {
        {2048, 768, 768, true, 128, 96, 64, 4, 4, 0},       /* a tile for nearly every unit, as maps */
        {3152, 3072, 768, true, 128, 128, 64, 4, 4, 0},     /* many tiles */
        {128, 3072, 768, true, 64, 64, 64, 10, 12, 1},      /* the same */
        {196, 256, 640, true, 64, 32, 64, 10, 12, 1},       /* few of them */
        {128, 768, 768, true, 64, 32, 64, 10, 12, 1},       /* few, and a long way */
        {197, 768, 3072, true, 128, 128, 64, 6, 6, 8},      /* a longer way: groups share k */
        {50, 512, 4608, true, 64, 64, 64, 9, 9, 8},         /* the same, with the fewest tiles */
        {3136, 256, 32, true, 64, 64, 32, 2, 4, 0},         /* too short for four subgroups together */
        {50176, 256, 64, true, 128, 128, 64, 6, 6, 0, 1},   /* long enough as maps; columns stay */
        {32768, 1536, 384, true, 128, 128, 64, 6, 6, 0, 6}, /* the same in six steps */
        {12608, 768, 768, true, 128, 96, 64, 4, 4, 0},      /* eight groups of columns would leave four units idle */
        {200704, 64, 147, true, 128, 64, 32, 3, 4, 0},      /* through registers: short ones */
    };
    nr_no_data = true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        nest_case c;
        gale__schedule s;
        product(&c, GALE_F16, rows[i].m, rows[i].n, rows[i].k, rows[i].turned);
        CHECK_OK(gale__schedule_choose(&c.nest, &nvidia, &s));
        bool right = CHECK(s.tile_m == rows[i].tile_m && s.tile_n == rows[i].tile_n && s.tile_k == rows[i].tile_k &&
                           s.stages >= rows[i].least_stages && s.stages <= rows[i].most_stages &&
                           s.split == rows[i].split && s.keep == rows[i].keep);
        if (!right)
            printf("  row %zu: %d x %d x %d, %d stages, split %d, keep %d\n", i, s.tile_m, s.tile_n, s.tile_k, s.stages,
                s.split, s.keep);
        nr_finish(&c);
    }
    nr_no_data = false;
}

/* --- the record --- */

static gale_device *open_null(void)
{
    gale_device *null = NULL;
    gale__null_set_caps(&nvidia);
    CHECK_OK(gale__device_open_one(&gale__backend_null, 0, NULL, &null));
    gale__null_set_caps(NULL);
    return null;
}

static bool recorded(gale_device *device, const gale__nest *nest, uint16_t tile_m, uint16_t tile_n)
{
    gale__schedule s;
    return gale__tuning_choose(device, nest, &s) && s.tile_m == tile_m && s.tile_n == tile_n;
}

/* The file is the only one in its folder. */
static void overwrite(const char *text)
{
    char path[300];
    gale__file_info *list = NULL;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/tuning", cache);
    if (!CHECK_OK(gale__folder_list(path, &list, &n)) || !CHECK_EQ(n, 1)) return;
    snprintf(path, sizeof path, "%s/tuning/%s", cache, list[0].name);
    CHECK_OK(gale__file_write(path, text, strlen(text)));
    gale__folder_list_free(&list, n);
}

TEST(record)
{
    gale_device *null = open_null();
    char key[GALE__TUNING_KEY];
    nest_case c, other;
    gale__schedule usual, s;
    nr_no_data = true;
    product(&c, GALE_F16, 500, 768, 512, true);
    product(&other, GALE_F16, 300, 768, 512, true);
    nr_no_data = false;
    CHECK(gale__tuning_key(&c.nest, key));
    CHECK(!gale__tuning_choose(null, &c.nest, &s)); /* nothing yet */
    CHECK_OK(gale__tuning_set(null, key, gale__schedule_want_find("groups 64x96")));
    CHECK(recorded(null, &c.nest, 64, 96) && recorded(null, &other.nest, 64, 96)); /* of the same class */
    c.nest.steady = true;
    CHECK(!gale__tuning_choose(null, &c.nest, &s));
    c.nest.steady = false;
    CHECK_OK(gale__tuning_set(null, key, gale__schedule_want_find("deep 64x64")));
    CHECK_OK(gale__tuning_save(null));
    gale_device_close(&null);
    null = open_null();
    CHECK(recorded(null, &c.nest, 64, 64)); /* from the file */
    CHECK_OK(gale__schedule_choose(&c.nest, &nvidia, &usual));
    CHECK_OK(gale__tuning_set(null, key, gale__schedule_want_find("usual")));
    CHECK(gale__tuning_choose(null, &c.nest, &s) && !memcmp(&s, &usual, sizeof s));
    gale_device_close(&null);
    static const char *const bad[] = {"", "{", "[]", "{\"version\": 2, \"choices\": {}}", "{\"choices\": {}}",
        "{\"version\": 1, \"choices\": [1, \"tile 64x64\"]}", "{\"version\": 1, \"choices\": 7}",
        "{\"version\": 1, \"choices\": {\"f16 f16 512x768x512 by 1 along 11 wide 44\": \"groups 512x512\"}}",
        "{\"version\": 1, \"choices\": {\"f16 f16 512x768x512 by 1 along 11 wide 44\": 3}}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        overwrite(bad[i]);
        null = open_null();
        CHECK(!gale__tuning_choose(null, &c.nest, &s));
        gale_device_close(&null);
    }
    /* Known, but not what this contraction can have. */
    overwrite("{\"version\": 1, \"choices\": {\"f16 f16 512x768x512 by 1 along 11 wide 44\": \"sets 128x64\"}}");
    nest_case half;
    nr_no_data = true;
    product(&half, GALE_F16, 512, 768, 12, true);
    nr_no_data = false;
    null = open_null();
    CHECK(gale__tuning_key(&half.nest, key));
    CHECK_OK(gale__tuning_set(null, key, gale__schedule_want_find("groups 128x128")));
    CHECK(!gale__tuning_choose(null, &half.nest, &s));
    /* What another process has recorded meanwhile stays. */
    CHECK_OK(gale__tuning_save(null));
    gale_device_close(&null);
    null = open_null();
    CHECK(recorded(null, &c.nest, 128, 64));
    gale_device_close(&null);
    nr_finish(&c), nr_finish(&other), nr_finish(&half);
}

/* --- plans and the job --- */

static gale_tune_options options_for(const char *const *dims, gale_precision precision)
{
    return (gale_tune_options){.job = {.model = {.allow_nonfinite = true, .program = {.precision = precision}},
                                   .inputs = {.dims = dims, .n_dims = 1}}};
}

static int tuned_kernels(gale_device *device, const char *const *dims, bool steady)
{
    gale_tune_options o = options_for(dims, GALE_PRECISION_F16);
    gale_explain_result *e = NULL;
    int count = 0;
    o.job.model.program.batch_invariant = steady;
    if (!CHECK_OK(gale_model_explain(network, device, &o.job, &e))) return -1;
    for (size_t i = 0; i < e->n_kernels; i++) count += strstr(e->kernels[i].name, ", tuned") != NULL;
    gale_explain_result_destroy(&e);
    return count;
}

/* Times on the null device mean nothing, but all is planned, built and recorded. */
TEST(plans)
{
    static const char *const dims[] = {"batch=200"}, *const near[] = {"batch=256"}, *const far[] = {"batch=257"};
    gale_device *null = open_null();
    gale_tune_options o = options_for(dims, GALE_PRECISION_F16);
    gale_tune_result *r = NULL;
    char *text = NULL;
    CHECK_EQ(tuned_kernels(null, dims, false), 0);
    if (CHECK_OK(gale_model_tune(network, null, &o, &r)) && CHECK_EQ(r->n_kernels, 2)) {
        CHECK_EQ(r->n_left, 0);
        CHECK(r->kernels[0].uses == 1 && r->kernels[0].n_candidates > 5 && !r->kernels[0].wrong);
        CHECK(gale__schedule_want_find(r->kernels[0].best.name) && gale__schedule_want_find(r->kernels[0].usual.name));
        CHECK(!strncmp(r->kernels[0].key, "f16 f16 256x", 12));
        CHECK_JSON(gale_tune_result_json(r, &text), text, "\"left\": 0", "\"uses\": 1", "\"candidates_us\": {");
    }
    gale_tune_result_destroy(&r);
    gale_tune_result_destroy(NULL);
    gale_device_close(&null);
    null = open_null();
    CHECK_EQ(tuned_kernels(null, dims, false), 2);
    CHECK_EQ(tuned_kernels(null, near, false), 2);
    CHECK_EQ(tuned_kernels(null, far, false), 0);
    CHECK_EQ(tuned_kernels(null, dims, true), 0); /* batch_invariant */
    volatile int stop = 1;
    o.job.control.cancel = &stop;
    CHECK_FAILS(gale_model_tune(network, null, &o, &r), CANCELLED);
    CHECK_FAILS(gale_model_tune(network, NULL, &o, &r), INVALID);
    o = (gale_tune_options){.reserved = {1}};
    CHECK_FAILS(gale_model_tune(network, null, &o, &r), INVALID);
    o = options_for(dims, GALE_PRECISION_F16);
    o.seconds = 1e-9;
    if (CHECK_OK(gale_model_tune(network, null, &o, &r))) CHECK(r->n_kernels == 0 && r->n_left == 2);
    gale_tune_result_destroy(&r);
    gale_device_close(&null);
}

static gale_device *cpu;
static gale_device *shared_null;
static gale_status tune_null(void)
{
    static const char *const dims[] = {"batch=200"};
    gale_tune_options o = options_for(dims, GALE_PRECISION_AS_IT_IS);
    gale_tune_result *r = NULL;
    char *text = NULL;
    gale_status status = gale_model_tune(network, shared_null, &o, &r);
    if (status == GALE_OK) status = gale_tune_result_json(r, &text);
    gale_free(text);
    gale_tune_result_destroy(&r);
    return status;
}

TEST(cpu_has_no_choice)
{
    static const char *const dims[] = {"batch=20"};
    gale_tune_options o = options_for(dims, GALE_PRECISION_AS_IT_IS);
    gale_tune_result *r = NULL;
    if (CHECK_OK(gale_model_tune(network, cpu, &o, &r))) CHECK(r->n_kernels == 0 && r->n_left == 0);
    gale_tune_result_destroy(&r);
}

/* Timed for real, with the schedules of matrix units done by ordinary threads: all results must agree. */
static void tune_on(const char *provider, gale_precision precision)
{
    static const char *const dims[] = {"batch=40"};
    gale_device *device = NULL;
    gale_tune_options o = options_for(dims, precision);
    gale_tune_result *r = NULL;
    setenv("GALE_MATRIX", "emulate", 0);
    if (gale_device_open(&(gale_device_options){.chain = provider, .strict = true}, &device) != GALE_OK) {
        SKIP("%s: %s", provider, gale_error());
        return;
    }
    if (CHECK_OK(gale_model_tune(network, device, &o, &r)) && CHECK(r->n_kernels == 2)) {
        for (size_t i = 0; i < r->n_kernels; i++) {
            const gale_tune_kernel *k = &r->kernels[i];
            CHECK(k->n_candidates >= 1 && k->usual.us > 0 && k->best.us <= k->usual.us);
            if (!CHECK_EQ(k->wrong, 0)) printf("  %s, %s\n", provider, k->key);
        }
        gale_verify_options v = {.model = o.job.model, .inputs = o.job.inputs};
        gale_verify_result *verified = NULL; /* with what was recorded */
        if (CHECK_OK(gale_model_verify(network, device, &v, &verified))) CHECK_EQ(verified->exceeding, 0);
        gale_verify_result_destroy(&verified);
    }
    gale_tune_result_destroy(&r);
    gale_device_close(&device);
    unsetenv("GALE_MATRIX");
}

TEST(opencl) { tune_on("opencl", GALE_PRECISION_F16); }
TEST(opencl_f32) { tune_on("opencl", GALE_PRECISION_AS_IT_IS); }
TEST(vulkan) { tune_on("vulkan", GALE_PRECISION_F16); }
TEST(cuda) { tune_on("cuda", GALE_PRECISION_F16); }

TEST(faults)
{
    shared_null = open_null();
    job_faults(shared_null, tune_null, 40, true);
    gale_device_close(&shared_null);
}

static const test_row rows[] = {ROW(names), ROW(classes), ROW(candidates), ROW(table), ROW(record), ROW(plans),
    ROW(cpu_has_no_choice), ROW(opencl), ROW(opencl_f32), ROW(vulkan), ROW(cuda), ROW(faults)};
int main(int argc, char **argv)
{
    make_network();
    snprintf(cache, sizeof cache, "%s", in_folder("cache"));
    setenv("GALE_CACHE", cache, 1);
    if (gale_device_open(&(gale_device_options){.chain = "cpu"}, &cpu) != GALE_OK) return 1;
    int code = test_main(rows, sizeof rows / sizeof *rows, argc, argv);
    gale_device_close(&cpu);
    gale__temp_folder_remove(job_folder);
    return code;
}
