/* Products of f16 and bf16 by matrix units, in every tile that is worth a try, for tuning the choice.
 *
 *     build/bench/bench_matrix cuda [f16|bf16|f32] [nn|nt|tn|tt] [SIZE|MxNxK ...] [weights] [wants=TEXT,...] [dump]
 *
 * prints a line per size and tile, TFLOP/s of the best of several runs, and marks the tile that the schedule chooses;
 * `wants=relay,deep` times the schedules of `gale tune` that are named so instead; with `weights` the second operand is
 * another one in each run, as in a network, so it comes from memory, and may be fetched before the run before has
 * ended.  Results that differ from those of the schedule that is chosen are reported; `dump` prints the CUDA text of
 * the chosen kernels instead, on any machine. */
#include "../tests/ir_run.h"
#include "../tests/nest_random.h"
#include "kernel/print/print.h"
#include "kernel/schedule/schedule.h"

static int target = 2;
static gale_device *device;
static gale_stream *stream;
static gale_event *from, *to;
static gale_type type = GALE_F16;
static int turned; /* bit 0: the first operand lies as [k][m]; bit 1: the second as [n][k] */
static bool dump;
static const char *wants; /* parts of the names of those of `gale tune` to time; NULL: none */
static bool weights;

#define MOST_SETS 64
#define SETS_BYTES (256 << 20) /* more than any cache */

typedef struct tile {
    int m, n, k, micro_m, micro_n, stages, groups;
} tile;
static const tile tiles[] = {
    {128, 256, 32, 64, 64, 3},
    {128, 256, 32, 64, 64, 4},
    {256, 128, 32, 64, 64, 3},
    {256, 128, 32, 64, 64, 4},
    {128, 256, 64, 64, 64, 3},
    {128, 128, 32, 64, 32, 3},
    {128, 128, 32, 64, 32, 4},
    {128, 128, 32, 64, 64, 4},
    {128, 128, 32, 32, 64, 4},
    {128, 128, 64, 64, 32, 2},
    {128, 128, 64, 64, 32, 3},
    {128, 128, 64, 64, 64, 3},
    {128, 64, 32, 64, 32, 4},
    {128, 64, 32, 32, 32, 4},
    {128, 64, 64, 64, 32, 3},
    {64, 128, 32, 32, 32, 4},
    {64, 128, 64, 32, 64, 3},
    {64, 64, 32, 32, 32, 4},
    {64, 64, 64, 32, 32, 3},
    {64, 32, 32, 32, 16, 4},
    {32, 64, 32, 16, 32, 4},
    {32, 32, 32, 16, 16, 4},
    {32, 32, 64, 16, 16, 3},
    {128, 128, 64, 16, 128, 3, 1}, /* by wgmma */
    {128, 128, 64, 16, 128, 4, 1},
    {128, 128, 64, 16, 128, 6, 1},
    {128, 96, 64, 16, 96, 3, 1},
    {128, 96, 64, 16, 96, 4, 1},
    {128, 64, 64, 16, 64, 4, 1},
    {128, 64, 64, 16, 64, 6, 1},
    {128, 64, 64, 16, 64, 8, 1},
    {128, 32, 64, 16, 32, 4, 1},
    {64, 128, 64, 16, 128, 4, 1},
    {64, 128, 64, 16, 128, 6, 1},
    {64, 128, 64, 16, 128, 8, 1},
    {64, 96, 64, 16, 96, 4, 1},
    {64, 96, 64, 16, 96, 8, 1},
    {64, 64, 64, 16, 64, 4, 1},
    {64, 64, 64, 16, 64, 6, 1},
    {64, 64, 64, 16, 64, 8, 1},
    {64, 64, 64, 16, 64, 12, 1},
    {64, 32, 64, 16, 32, 6, 1},
    {64, 32, 64, 16, 32, 8, 1},
    {64, 32, 64, 16, 32, 12, 1},
    {64, 16, 64, 16, 16, 8, 1},
    {128, 128, 64, 16, 128, 2, 1}, /* f32 */
    {128, 96, 64, 16, 96, 2, 1},
    {128, 64, 64, 16, 64, 2, 1},
    {64, 128, 64, 16, 128, 2, 1},
    {64, 96, 64, 16, 96, 2, 1},
    {64, 64, 64, 16, 64, 2, 1},
    {128, 32, 64, 16, 32, 2, 1},
};

static void make_product(nest_case *c, int64_t m, int64_t n, int64_t k)
{
    nr_axis x[2] = {nr_plain(0, m), nr_plain(2, k)}, y[2] = {nr_plain(2, k), nr_plain(1, n)};
    int order[2] = {1, 0};
    nr_init(c, "product", 2, 1, (int64_t[]){m, n, k});
    int p = nr_load(c, nr_access(c, type, x, 2, turned & 1 ? order : NULL, 0, 0)),
        q = nr_load(c, nr_access(c, type, y, 2, turned & 2 ? order : NULL, 0, 0));
    int r = nr_reduce(c, GALE__SUM, nr_op(c, GALE__MUL, type, p, q, 0));
    c->code[r].acc = GALE_F32;
    nr_store(c, r);
    gale__nest_canonicalize(&c->nest);
}

static void fill(gale_buffer *buffer, size_t size)
{
    static char block[1 << 20];
    size_t element = gale_type_size(type);
    for (size_t i = 0; i < sizeof block; i += element) gale__store_f64(type, block + i, nr_unit() * 2 - 1);
    for (size_t at = 0; at < size; at += sizeof block)
        CHECK_OK(gale_upload(stream, buffer, at, block, size - at < sizeof block ? size - at : sizeof block));
}

/* What a kernel is run with: the second operand has several sets. */
typedef struct operands {
    gale_buffer *buffers[NR_BUFFERS], *sets[MOST_SETS];
    int n_sets;
    void *results, *expected; /* of the first schedule */
    size_t size;
} operands;

static gale_status launch_next(gale_kernel *kernel, gale__launch *launch, gale__ref *refs, const operands *o)
{
    static int next;
    if (o->n_sets) refs[1] = gale__buffer_ref(o->sets[next = (next + 1) % o->n_sets], 0);
    return gale__launch_run(stream, kernel, launch);
}

static double time_launches(gale_kernel *kernel, gale__launch *launch, gale__ref *refs, const operands *o)
{
    double best = 1e30, us = 0;
    int rounds = 1;
    for (int r = 0; r < 6; r++) {
        CHECK_OK(gale_event_record(from, stream));
        for (int i = 0; i < rounds; i++) CHECK_OK(launch_next(kernel, launch, refs, o));
        CHECK_OK(gale_event_record(to, stream));
        CHECK_OK(gale_event_wait(to));
        CHECK_OK(gale_event_elapsed(from, to, &us));
        us /= rounds;
        if (r && us < best) best = us;
        rounds = us > 5000 ? 1 : (int)(5000 / (us > 1 ? us : 1)) + 1;
        if (us > 1e6) break;
    }
    return best < 1e30 ? best : us;
}

/* What the kernel gives for the same operands, beside what the first kernel gave. */
static void compare_results(gale_kernel *kernel, gale__launch *launch, gale__ref *refs, operands *o)
{
    static const uint32_t unwritten = UINT32_MAX;
    double sum = 0, wrong = 0;
    size_t element = gale_type_size(type);
    refs[1] = gale__buffer_ref(o->buffers[1], 0);
    void *got_at = o->expected ? o->results : (o->expected = gale__alloc(o->size));
    CHECK_OK(gale_fill(stream, o->buffers[2], 0, o->size, &unwritten, element < 4 ? element : 4));
    CHECK_OK(gale__launch_run(stream, kernel, launch));
    CHECK_OK(gale_download(stream, o->buffers[2], 0, got_at, o->size));
    CHECK_OK(gale_stream_sync(stream));
    for (size_t at = 0; at < o->size; at += element) {
        double want = gale__load_f64(type, (char *)o->expected + at), got = gale__load_f64(type, (char *)got_at + at);
        sum += want * want;
        wrong += (want - got) * (want - got);
    }
    if (!(wrong <= 1e-5 * sum)) printf("    WRONG, relative error %.1e\n", sqrt(wrong / sum));
}

static double run_kernel(const nest_case *c, const gale__schedule *s, operands *o)
{
    gale__ir ir;
    gale_module *module = NULL;
    gale_kernel *kernel = NULL;
    gale__ref refs[NR_BUFFERS];
    uint32_t words[GALE__SCHEDULE_WORDS];
    int n_words;
    double us = 0;
    if (!CHECK_OK(gale__schedule_build(&c->nest, s, "product", &ir))) return 0;
    gale_status status = ir_build(device, &ir, ir_targets[target].dialect, &module);
    if (status == GALE_OK)
        status = gale__kernel_create(module, ir.name, ir.group, (uint32_t)(8 * ir.n_pointers + 4 * ir.n_words),
            gale__ir_launch_bytes(&ir), &kernel);
    if (status == GALE_OK && gale__schedule_params(&c->nest, s, NULL, words, &n_words) == GALE_OK) {
        for (int b = 0; b < c->nest.n_buffers; b++) refs[b] = gale__buffer_ref(o->buffers[b], 0);
        gale__matrix_map maps[GALE__LAUNCH_MAPS];
        gale__launch launch = {.n_refs = ir.n_pointers, .n_words = n_words, .refs = refs, .words = words};
        launch.n_maps = gale__schedule_maps(&c->nest, s, maps);
        launch.maps = maps;
        gale__schedule_grid(&c->nest, s, launch.groups);
        memcpy(launch.group, ir.group, sizeof launch.group);
        us = time_launches(kernel, &launch, refs, o);
        compare_results(kernel, &launch, refs, o);
    } else printf("    not built: %s\n", gale_error());
    gale_kernel_destroy(&kernel);
    gale_module_destroy(&module);
    gale__ir_finish(&ir);
    return us;
}

static void report(const int64_t *size, const gale__schedule *s, double us, const char *mark)
{
    double flop = 2.0 * (double)size[0] * (double)size[1] * (double)size[2];
    printf("%5d x %5d x %5d %s %4d x %3d x %2d, subgroups %3d x %2d, %2d stages, async %d | %10.1f us %7.1f TFLOP/s "
           "%s%s\n",
        (int)size[0], (int)size[1], (int)size[2], gale_type_name(type), s->tile_m, s->tile_n, s->tile_k, s->micro_m,
        s->micro_n, s->stages, s->async, us, us > 0 ? flop / us / 1e6 : 0,
        s->groups ? s->maps ? "wgmma, maps " : "wgmma " : "", mark);
    fflush(stdout);
}

static bool fits(const gale__schedule *s, const gale_device_caps *caps)
{
    uint32_t parts, results, group[3], most = caps->shared_most_bytes ? caps->shared_most_bytes : caps->shared_bytes;
    gale__schedule_matrix_shared(s, &parts, &results);
    gale__schedule_group(s, group);
    if (!caps->shared_most_bytes) parts += results;
    return (parts > results ? parts : results) <= most && group[0] <= caps->group_max;
}

static void create(const nest_case *c, operands *o)
{
    o->size = (size_t)c->buffers[2].elements * gale_type_size(type);
    o->results = gale__alloc(o->size);
    for (int b = 0; b < c->nest.n_buffers; b++) {
        size_t size = (size_t)c->buffers[b].elements * gale_type_size(type);
        if (CHECK_OK(gale_buffer_create(device, size, &o->buffers[b]))) fill(o->buffers[b], size);
        for (int i = 0; weights && b == 1 && i < MOST_SETS && (size_t)i * size < SETS_BYTES; i++, o->n_sets++)
            if (CHECK_OK(gale_buffer_create(device, size, &o->sets[i]))) fill(o->sets[i], size);
    }
}

static bool is_wanted(const char *name)
{
    char list[256];
    snprintf(list, sizeof list, "%s", wants);
    for (char *part = strtok(list, ","); part; part = strtok(NULL, ","))
        if (strstr(name, part)) return true;
    return false;
}

static void bench_size(const int64_t *n)
{
    nest_case c;
    gale__schedule s;
    operands o = {0};
    const gale_device_caps *caps = &gale_device_get_info(device)->caps;
    make_product(&c, n[0], n[1], n[2]);
    c.nest.buffers[1].settled = weights;
    if (!CHECK_OK(gale__schedule_choose(&c.nest, caps, &s))) return;
    create(&c, &o);
    report(n, &s, run_kernel(&c, &s, &o), s.kind == GALE__SCHEDULE_MATRIX ? "chosen" : "chosen: no matrix units");
    const gale__schedule_want *want;
    for (int i = 0; wants && (want = gale__schedule_want_at(i)); i++) {
        char text[GALE__WANT_TEXT];
        gale__schedule t;
        gale__schedule_want_text(want, text);
        if (is_wanted(text) && gale__schedule_choose_as(&c.nest, caps, want, &t))
            report(n, &t, run_kernel(&c, &t, &o), text);
    }
    for (size_t i = 0; !wants && s.kind == GALE__SCHEDULE_MATRIX && i < sizeof tiles / sizeof *tiles; i++) {
        gale__schedule t = s;
        t.tile_m = (uint16_t)tiles[i].m, t.tile_n = (uint16_t)tiles[i].n, t.tile_k = (uint8_t)tiles[i].k;
        t.micro_m = (uint8_t)tiles[i].micro_m, t.micro_n = (uint16_t)tiles[i].micro_n;
        t.stages = (uint8_t)tiles[i].stages, t.exact = n[2] % t.tile_k == 0;
        bool wide = type == GALE_F32, copied = t.async == 3 || wide;
        if (tiles[i].groups && (!caps->matrix_groups || !copied || !t.fast[0] || !t.fast[1])) continue;
        t.maps = t.split = 0;
        if (tiles[i].groups && wide) t.relay = caps->compute_units, t.team = 1;
        else t.relay = t.team = 0;
        if (wide && tiles[i].groups && (t.stages != 2 || t.tile_m != 128)) continue;
        t.groups = (uint8_t)tiles[i].groups, t.slice = 16, t.steps = 1;
        if (wide && t.groups) t.direct = 1, t.vector = 8, t.steps = 2;
        else t.direct = 0, t.vector = s.direct ? 4 : s.vector;
        if (wide && !t.groups) continue;
        if (fits(&t, caps)) report(n, &t, run_kernel(&c, &t, &o), "");
    }
    for (int b = 0; b < c.nest.n_buffers; b++) gale_buffer_destroy(&o.buffers[b]);
    for (int i = 0; i < MOST_SETS; i++) gale_buffer_destroy(&o.sets[i]);
    gale__free(o.results);
    gale__free(o.expected);
    nr_finish(&c);
}

static void dump_size(const int64_t *n)
{
    gale_device_caps caps = ir_full_caps;
    gale__schedule s;
    nest_case c;
    gale__ir ir;
    const gale__ir *list = &ir;
    gale__str text = {0};
    caps.dialect = "cuda", caps.arch = 90, caps.compute_units = 132, caps.shared_most_bytes = 227 << 10,
    caps.n_matrix = 1;
    caps.matrix[0] = (gale_matrix_shape){16, 16, 16, (uint8_t)(type == GALE_F32 ? GALE_BF16 : type), GALE_F32};
    caps.matrix_groups = caps.matrix_maps = caps.matrix_quads = caps.matrix_f32 = caps.begins_early = true;
    make_product(&c, n[0], n[1], n[2]);
    c.nest.buffers[1].settled = weights;
    if (CHECK_OK(gale__schedule_choose(&c.nest, &caps, &s)) &&
        CHECK_OK(gale__schedule_build(&c.nest, &s, "product", &ir))) {
        if (CHECK_OK(gale__ir_print_c(&list, 1, GALE__DIALECT_CUDA, &caps, &text))) printf("%s", text.text);
        gale__ir_finish(&ir);
    }
    gale__str_finish(&text);
    nr_finish(&c);
}

int main(int argc, char **argv)
{
    int64_t only = 0, sizes[32][3];
    int n_sizes = 0, side[3];
    test_at = "bench";
    nr_no_data = true;
    for (int i = 1; i < argc; i++) {
        for (int t = 0; t < IR_TARGETS; t++)
            if (!strcmp(argv[i], ir_targets[t].provider)) target = t;
        if (!strcmp(argv[i], "bf16")) type = GALE_BF16;
        else if (!strcmp(argv[i], "f32")) type = GALE_F32;
        else if (!strcmp(argv[i], "dump")) dump = true;
        else if (!strcmp(argv[i], "weights")) weights = true;
        else if (!strncmp(argv[i], "wants=", 6)) wants = argv[i] + 6;
        else if (!strcmp(argv[i], "nt")) turned = 2;
        else if (!strcmp(argv[i], "tn")) turned = 1;
        else if (!strcmp(argv[i], "tt")) turned = 3;
        else if (n_sizes < 32 && sscanf(argv[i], "%dx%dx%d", &side[0], &side[1], &side[2]) == 3) {
            for (int d = 0; d < 3; d++) sizes[n_sizes][d] = side[d];
            n_sizes++;
        } else if (atoi(argv[i])) only = atoi(argv[i]);
    }
    if (dump) {
        int64_t cube = only ? only : 4096;
        if (!n_sizes) dump_size((int64_t[]){cube, cube, cube});
        for (int i = 0; i < n_sizes; i++) dump_size(sizes[i]);
        return test_bad != 0;
    }
    device = ir_device(target);
    if (!device || gale_stream_create(device, &stream) || gale_event_create(device, &from) ||
        gale_event_create(device, &to))
        return 1;
    printf("%s, %s\n", gale_device_get_info(device)->name, gale_device_get_info(device)->driver);
    for (int i = 0; i < n_sizes; i++) bench_size(sizes[i]);
    for (int64_t n = only ? only : 512; !n_sizes && n <= (only ? only : 8192); n *= 2) bench_size((int64_t[]){n, n, n});
    gale_event_destroy(&from);
    gale_event_destroy(&to);
    gale_stream_destroy(&stream);
    ir_close_devices();
    return test_bad != 0;
}
