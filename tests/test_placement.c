/* The choice between devices, with ceilings made up here: predictions follow them, and a run goes where it is predicted
 * to be over first. */
#include "gale/model_jobs.h"
#include "gale/upscale.h"
#include "graph/run/forecast.h"
#include "job_suite.h"
#include "onnx_made.h"
#include <math.h>

static gale_device *cpu, *card; /* card: the null device, with the rates of a graphics card */
static char *small, *large, *open_shapes;

/* n products of [side, side], with or without a string on the way. */
static char *make_chain(const char *name, int n, const char *shape)
{
    maker m;
    char from[16] = "x", to[16];
    make_begin(&m, 21);
    make_input(&m, "x", 1, shape), make_output(&m, "y", 1, shape);
    for (int i = 0; i < n; i++) {
        char pair[40];
        snprintf(pair, sizeof pair, "%s,x", from);
        snprintf(to, sizeof to, i == n - 1 ? "y" : "t%d", i);
        make_node(&m, "MatMul", pair, to);
        memcpy(from, to, sizeof from);
    }
    return strdup(make_saved(&m, name));
}

/* As many rows as the input has elements other than 0, and their products. */
static char *make_open(void)
{
    maker m;
    make_begin(&m, 21);
    make_input(&m, "x", 1, "4,4"), make_output(&m, "y", 7, "n,2"), make_output(&m, "z", 1, "n,n");
    make_node(&m, "NonZero", "x", "a");
    make_node(&m, "Transpose", "a", "y");
    make_attr_i(&m, make_node(&m, "Cast", "y", "f"), "to", 1);
    make_node(&m, "Transpose", "f", "t");
    make_node(&m, "MatMul", "f,t", "z");
    return strdup(make_saved(&m, "open.onnx"));
}

static gale_device_ceilings rates(double gbps, double gflops, double link_gbps, double trip_us)
{
    return (gale_device_ceilings){.copy_gbps = gbps,
        .f32_gflops = gflops,
        .upload_gbps = link_gbps,
        .download_gbps = link_gbps,
        .launch_us = 1,
        .round_trip_us = trip_us,
        .efficiency = 0.5,
        .small_us = 1};
}

static gale_object *square(int64_t side)
{
    gale_tensor *t = NULL;
    gale_object *o = NULL;
    if (CHECK_OK(gale_tensor_create(NULL, GALE_F32, 2, (int64_t[]){side, side}, &t))) {
        memset(gale_tensor_data(t), 0, gale_tensor_size_bytes(t));
        CHECK_OK(gale_object_tensor(t, &o));
    }
    gale_tensor_destroy(&t);
    return o;
}

static bool forecast(const char *path, int64_t side, double times[2])
{
    gale_model *m = NULL;
    gale_object *x = square(side);
    gale_device *devices[2] = {cpu, card};
    bool ok = CHECK_OK(gale_model_open(path, cpu, NULL, &m)) && CHECK_OK(gale_model_forecast(m, &x, devices, 2, times));
    gale_object_destroy(&x);
    gale_model_close(&m);
    return ok;
}

TEST(predictions_follow_the_ceilings)
{
    double t[2], far[2];
    cpu->info.ceilings = rates(20, 50, 20, 1);
    card->info.ceilings = rates(1000, 20000, 10, 50);
    if (!forecast(small, 8, t)) return;
    CHECK(t[0] > 0 && t[0] < t[1] && t[1] > 50); /* too little to be worth the way */
    if (!forecast(large, 256, t)) return;
    double work = 8 * 2 * 256.0 * 256 * 256 / (50 * 1e3) / 0.5, way = 2 * 4 * 256.0 * 256 / (10 * 1e3) + 50;
    CHECK(fabs(t[0] - work) < work * 0.2 && t[1] > way && t[1] < t[0]);
    card->info.ceilings = rates(1000, 20000, 0.01, 50); /* a slow link */
    if (forecast(large, 256, far)) CHECK(far[0] == t[0] && far[1] > far[0]);
    card->info.ceilings.efficiency = 0;
    if (forecast(large, 256, t)) CHECK(t[0] > 0 && t[1] < 0); /* not measured */
}

TEST(kernels_take_time_beside_their_work)
{
    gale_device_ceilings c = rates(1000, 1000, 10, 50);
    c.small_us = 2, c.large_us = 32, c.step_ns = 50;
    double little = 2.0 * 16 * 16 * 16, much = 512 * little; /* products of sides 16 and 128 */
    CHECK(fabs(gale__forecast_kernel_us(&c, 0, 0, 0) - 2) < 1e-9);
    CHECK(fabs(gale__forecast_kernel_us(&c, 0, little / 10, 0) - 2 - little / 10 / 1e6 / 0.5) < 1e-3);
    CHECK(fabs(gale__forecast_kernel_us(&c, 0, much, 0) - 32 - much / 1e6 / 0.5) < 1e-6);
    CHECK(fabs(gale__forecast_kernel_us(&c, 0, 8 * little, 0) - 2 * cbrt(16) - 8 * little / 1e6 / 0.5) < 1e-6);
    CHECK(fabs(gale__forecast_kernel_us(&c, 0, 1000 * much, 0) - 32 - 1000 * much / 1e6 / 0.5) < 1e-3);
    CHECK(fabs(gale__forecast_kernel_us(&c, 0, 0, 4000) - 2 - 200) < 1e-9); /* long sums wait for memory */
}

TEST(models_that_cannot_be_predicted)
{
    gale_model *model = NULL;
    gale_object *x = square(4);
    double t[1] = {7};
    cpu->info.ceilings = rates(20, 50, 20, 1);
    if (CHECK_OK(gale_model_open(open_shapes, cpu, NULL, &model))) {
        CHECK_FAILS(gale_model_forecast(NULL, &x, &cpu, 1, t), INVALID);
        CHECK_FAILS(gale_model_forecast(model, NULL, &cpu, 1, t), INVALID);
        CHECK_FAILS(gale_model_forecast(model, &x, NULL, 1, t), INVALID);
        CHECK_FAILS(gale_model_forecast(model, &x, &cpu, 1, t), UNSUPPORTED);
        CHECK(t[0] == 7);
    }
    gale_object_destroy(&x);
    gale_model_close(&model);
}

static char said[2048];
static void keep_line(void *user, int level, const char *line)
{
    (void)user, (void)level;
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", line);
}

/* Two devices that compute, told apart by their rates alone. */
TEST(runs_go_where_they_are_predicted_to_be_over_first)
{
    gale_device *other = NULL;
    gale_run_result *r = NULL;
    char *text = NULL;
    if (!CHECK_OK(gale_device_open(&(gale_device_options){.chain = "cpu"}, &other))) return;
    gale_run_options o = {.job = {.inputs = {.random = true}}, .others = &other, .n_others = 1};
    for (int round = 0; round < 3; round++) {
        cpu->info.ceilings = rates(20, 50, 20, 1);
        other->info.ceilings = rates(20, round ? 500 : 5, 20, 1);
        if (round == 2) other->info.ceilings.copy_gbps = 0; /* not measured: the first one keeps it */
        if (!CHECK_OK(gale_model_run_files(large, cpu, &o, &r))) break;
        CHECK(r->n_placements == 2 && r->n_outputs == 1 && r->took_us > 0);
        CHECK(r->placements[0].chosen == (round != 1) && r->placements[1].chosen == (round == 1));
        CHECK((r->placements[1].predicted_us < 0) == (round == 2));
        CHECK_JSON(gale_run_result_json(r, &text), text, "\"placement\": [", "\"predicted_us\": ", "\"took_us\": ");
        gale_run_result_destroy(&r);
    }
    gale_device *none = NULL;
    o.others = &none;
    CHECK_FAILS(gale_model_run_files(large, cpu, &o, &r), INVALID);
    o.n_others = -1;
    CHECK_FAILS(gale_model_run_files(large, cpu, &o, &r), INVALID);
    gale_device_close(&other);
}

/* What cannot be predicted is run on each device once; after that the stored times decide.  `broken` has no memory. */
TEST(runs_that_cannot_be_predicted_are_tried)
{
    gale_device *other = NULL, *broken = NULL;
    gale_run_result *r = NULL;
    double first[2] = {0};
    if (!CHECK_OK(gale_device_open(&(gale_device_options){.chain = "cpu"}, &other)) ||
        !CHECK_OK(gale_device_open(&(gale_device_options){.chain = "cpu", .pool_limit_bytes = 1}, &broken)))
        return;
    snprintf(other->info.name, sizeof other->info.name, "another");
    snprintf(broken->info.name, sizeof broken->info.name, "broken");
    cpu->info.ceilings = other->info.ceilings = broken->info.ceilings = rates(20, 50, 20, 1);
    gale_run_options o = {.job = {.inputs = {.random = true}}, .others = &other, .n_others = 1};
    gale_log_set(keep_line, NULL, 1);
    for (int round = 0; round < 3; round++) {
        said[0] = 0;
        if (round == 2) o.job.model.program.threads = 1; /* another kind of run */
        if (!CHECK_OK(gale_model_run_files(open_shapes, cpu, &o, &r))) break;
        const gale_placement *p = r->placements;
        CHECK(r->n_placements == 2 && p[0].predicted_us > 0 && p[1].predicted_us > 0 && r->took_us > 0);
        CHECK(p[0].chosen == (p[0].predicted_us <= p[1].predicted_us) && p[1].chosen == !p[0].chosen);
        CHECK(strstr(said, "a run takes") && strstr(said, "and is chosen") && strstr(said, "a run took "));
        bool same = p[0].predicted_us == first[0] && p[1].predicted_us == first[1];
        CHECK_EQ(same, round == 1);
        for (int i = 0; i < 2; i++) first[i] = p[i].predicted_us;
        gale_run_result_destroy(&r);
    }
    o.others = &cpu;
    if (CHECK_OK(gale_model_run_files(open_shapes, broken, &o, &r)))
        CHECK(r->placements[0].predicted_us < 0 && r->placements[1].chosen);
    gale_run_result_destroy(&r);
    job_counter counter = {.until = 3}; /* with the second device */
    o.job.control = (gale_job_control){.progress = job_count, .user = &counter};
    o.job.model.program.threads = 2;
    CHECK_FAILS(gale_model_run_files(open_shapes, other, &o, &r), CANCELLED);
    CHECK(counter.done == 1 && counter.total == 2);
    gale_log_set(NULL, NULL, 2);
    gale_device_close(&other);
    gale_device_close(&broken);
}

/* The library's own choice does the same, for a model in memory, too. */
TEST(place_tries_what_cannot_be_predicted)
{
    gale_device *devices[2] = {cpu};
    gale_model *m = NULL;
    gale_object *x = square(4);
    gale__bytes file = {0};
    double t[2], before[2] = {0};
    volatile int cancel = 0;
    int chosen = 7;
    if (!CHECK_OK(gale_device_open(&(gale_device_options){.chain = "cpu"}, &devices[1])) ||
        !CHECK_OK(gale__file_read(open_shapes, 0, &file)))
        return;
    snprintf(devices[1]->info.name, sizeof devices[1]->info.name, "one more");
    cpu->info.ceilings = devices[1]->info.ceilings = rates(20, 50, 20, 1);
    for (int round = 0; round < 3; round++) {
        gale_model_options o = {.program.threads = 1, .cancel = &cancel};
        if (!CHECK_OK(round == 1 ? gale_model_from_memory(file.data, file.size, 0, cpu, &o, &m)
                                 : gale_model_open(open_shapes, cpu, &o, &m)))
            break;
        if (round == 2) devices[1]->info.ceilings.efficiency = 0; /* not measured, and so not tried */
        CHECK_OK(gale_model_place(m, &x, devices, 2, t, &chosen));
        CHECK_EQ(chosen, round < 2 && t[1] < t[0]);
        CHECK((t[0] > 0 && t[1] > 0) == (round < 2) && (t[0] == before[0] && t[1] == before[1]) == (round == 1));
        for (int i = 0; i < 2; i++) before[i] = t[i];
        gale_model_close(&m);
    }
    devices[1]->info.ceilings = cpu->info.ceilings;
    gale_model_options o = {.program.threads = 3, .cancel = &cancel};
    cancel = 1;
    chosen = 7;
    if (CHECK_OK(gale_model_open(open_shapes, cpu, &o, &m)))
        CHECK_FAILS(gale_model_place(m, &x, devices, 2, t, &chosen), CANCELLED);
    CHECK(chosen == 7 && t[0] == before[0]);
    gale_model_close(&m);
    gale_object_destroy(&x);
    gale_device_close(&devices[1]);
    gale__bytes_finish(&file);
}

/* A device that was chosen automatically: where the CPU may take its place, jobs ask for predictions themselves. */
static gale_device *with_other(double gflops, double other_gflops)
{
    gale_device *d = NULL;
    if (!CHECK_OK(gale_device_open(&(gale_device_options){.chain = "cpu"}, &d))) return NULL;
    d->other = gale__device_hold(cpu);
    d->info.ceilings = rates(20, gflops, 20, 1);
    cpu->info.ceilings = rates(20, other_gflops, 20, 1);
    return d;
}

TEST(jobs_choose_by_themselves)
{
    for (int round = 0; round < 2; round++) {
        gale_device *d = with_other(round ? 500 : 5, 50);
        gale_bench_result *bench = NULL;
        gale_verify_result *verify = NULL;
        gale_run_result *run = NULL;
        said[0] = 0;
        gale_log_set(keep_line, NULL, 1);
        if (d && CHECK_OK(gale_model_bench(large, d, &(gale_bench_options){.repeats = 3}, &bench)))
            CHECK(bench->n_placements == 2 && bench->placements[!round].chosen &&
                  bench->placements[round].predicted_us > 0);
        if (d && CHECK_OK(gale_model_verify(large, d, NULL, &verify)))
            CHECK(verify->n_placements == 2 && verify->placements[!round].chosen && !verify->exceeding);
        gale_run_options o = {.job = {.inputs = {.random = true}}};
        if (d && CHECK_OK(gale_model_run_files(large, d, &o, &run)))
            CHECK(run->n_placements == 2 && run->placements[!round].chosen);
        gale_log_set(NULL, NULL, 2);
        CHECK(strstr(said, "and is chosen") && strstr(said, "a run took ") && strstr(said, "; predicted: "));
        gale_bench_result_destroy(&bench);
        gale_verify_result_destroy(&verify);
        gale_run_result_destroy(&run);
        gale_device_close(&d);
    }
}

TEST(upscaling_chooses_by_a_tile)
{
    for (int round = 0; round < 2; round++) {
        gale_device *d = with_other(round ? 500 : 5, 50);
        gale_upscaler *u = NULL;
        gale_picture *in = NULL, *out = NULL;
        said[0] = 0;
        gale_log_set(keep_line, NULL, 1);
        CHECK_OK(gale_picture_create(40, 30, 3, GALE_U8, &in));
        if (d && in && CHECK_OK(gale_upscaler_open(NULL, d, NULL, &u))) {
            CHECK(gale_upscaler_device(u) == (round ? d : cpu));
            memset(in->data, 99, 40 * 30 * 3);
            CHECK_OK(gale_upscale(u, in, &(gale_upscale_options){.no_check = true}, NULL, &out));
        }
        gale_log_set(NULL, NULL, 2);
        CHECK(strstr(said, "and is chosen") && strstr(said, "a tile took "));
        gale_picture_destroy(&in);
        gale_picture_destroy(&out);
        gale_upscaler_close(&u);
        gale_device_close(&d);
    }
}

/* Nothing is predicted, and so nothing is opened for it, where a device is not measured. */
TEST(devices_that_are_not_measured)
{
    gale_device *d = with_other(5, 50);
    gale_bench_result *bench = NULL;
    gale_upscaler *u = NULL;
    if (!d) return;
    d->info.ceilings.efficiency = 0;
    if (CHECK_OK(gale_model_bench(large, d, &(gale_bench_options){.repeats = 3}, &bench))) CHECK(!bench->n_placements);
    if (CHECK_OK(gale_upscaler_open(NULL, d, NULL, &u))) CHECK(gale_upscaler_device(u) == d);
    gale_bench_result_destroy(&bench);
    gale_upscaler_close(&u);
    gale_device_close(&d);
}

/* Devices that are named, and those that are the CPU already, have no other. */
TEST(only_automatic_choices_have_another)
{
    gale_device *d = NULL;
    if (CHECK_OK(gale_device_open(&(gale_device_options){.chain = "null", .place = true}, &d))) CHECK(!d->other);
    gale_device_close(&d);
    if (CHECK_OK(gale_device_open(&(gale_device_options){.chain = "cpu", .place = true}, &d))) CHECK(!d->other);
    gale_device_close(&d);
}

TEST(place_refuses)
{
    gale_model *m = NULL;
    gale_object *x = square(8);
    gale_device *none = NULL;
    double t[1];
    int chosen = 7;
    if (CHECK_OK(gale_model_open(small, cpu, NULL, &m))) {
        CHECK_FAILS(gale_model_place(NULL, &x, &cpu, 1, t, &chosen), INVALID);
        CHECK_FAILS(gale_model_place(m, &x, &cpu, 0, t, &chosen), INVALID);
        CHECK_FAILS(gale_model_place(m, &x, &none, 1, t, &chosen), INVALID);
        CHECK_FAILS(gale_model_place(m, &x, &cpu, 1, NULL, &chosen), INVALID);
        CHECK_EQ(chosen, 7);
        CHECK_OK(gale_model_place(m, &x, &cpu, 1, t, &chosen));
        CHECK_EQ(chosen, 0);
    }
    gale_object_destroy(&x);
    gale_model_close(&m);
}

static gale_status placed_once(void)
{
    gale_run_result *r = NULL;
    gale_run_options o = {.job = {.inputs = {.random = true}}, .others = &card, .n_others = 1};
    gale_status status = gale_model_run_files(small, cpu, &o, &r);
    gale_run_result_destroy(&r);
    return status;
}

static gale_device *automatic;
/* Nothing can be stored, so each one is a trial. */
static gale_status tried_once(void)
{
    gale_run_result *r = NULL;
    gale_run_options o = {.job = {.inputs = {.random = true}}, .others = &automatic, .n_others = 1};
    gale_status status = gale_model_run_files(open_shapes, cpu, &o, &r);
    gale_run_result_destroy(&r);
    gale_memory_trim(automatic);
    return status;
}

static gale_status upscaler_placed_once(void)
{
    gale_upscaler *u = NULL;
    gale_status status = gale_upscaler_open(NULL, automatic, NULL, &u);
    gale_upscaler_close(&u);
    return status;
}

TEST(placement_faults)
{
    if ((automatic = with_other(5, 50))) {
        job_faults(cpu, upscaler_placed_once, 60, false);
        setenv("GALE_CACHE", "/dev/null/none", 1);
        job_faults(cpu, tried_once, 200, true);
        setenv("GALE_CACHE", in_folder("cache"), 1);
    }
    gale_device_close(&automatic);
    cpu->info.ceilings = rates(20, 50, 20, 1);
    card->info.ceilings = rates(1000, 20000, 10, 50);
    job_faults(cpu, placed_once, 60, false);
}

static const test_row rows[] = {ROW(predictions_follow_the_ceilings), ROW(kernels_take_time_beside_their_work),
    ROW(models_that_cannot_be_predicted), ROW(runs_go_where_they_are_predicted_to_be_over_first),
    ROW(runs_that_cannot_be_predicted_are_tried), ROW(place_tries_what_cannot_be_predicted),
    ROW(jobs_choose_by_themselves), ROW(upscaling_chooses_by_a_tile), ROW(devices_that_are_not_measured),
    ROW(only_automatic_choices_have_another), ROW(place_refuses), ROW(placement_faults)};

int main(int argc, char **argv)
{
    setenv("GALE_CACHE", in_folder("cache"), 1);
    if (gale_device_open(&(gale_device_options){.chain = "cpu"}, &cpu) != GALE_OK ||
        gale_device_open(&(gale_device_options){.chain = "null"}, &card) != GALE_OK)
        return 2;
    card->info.caps.in_place = false; /* memory of its own, as it would be */
    small = make_chain("small.onnx", 1, "8,8");
    large = make_chain("large.onnx", 8, "256,256");
    open_shapes = make_open();
    int code = test_main(rows, sizeof rows / sizeof *rows, argc, argv);
    gale__temp_folder_remove(job_folder);
    free(small), free(large), free(open_shapes);
    gale_device_close(&cpu);
    gale_device_close(&card);
    return code;
}
