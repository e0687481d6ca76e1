/* Attention in one kernel: many shapes, masks and layouts, built for each device that is here with its own matrix
 * instructions or written for plain threads; run, and compared with a model in double precision.  The form with CUDA's
 * instructions goes through NVRTC, the one with Vulkan's as far through spirv-val as that knows them. */
#include "base/num.h"
#include "base/thread.h"
#include "gale_built.h"
#include "graph/run/program.h"
#include "ir_run.h"
#include "kernel/print/print.h"
#include "kernel/routines/routine.h"
#include "op_graph.h"
#include "provider_device.h"
#include <math.h>

typedef enum layout {
    APART,    /* q, k, v: [batch, heads, rows, size] */
    TOGETHER, /* slices of [batch, rows, 3, heads, size] */
    TURNED,   /* k: [batch, heads, size, keys] */
    ODD       /* as APART, from the third element on, rows one element longer */
} layout;
typedef enum masks {
    NO_MASK,
    BIAS = 1,  /* [heads, m, n], f32 */
    KEYS = 2,  /* [batch, 1, 1, n], of the operands' type; some -inf or large */
    HIDES = 4, /* [batch, 1, m, n]: bytes, hidden where 1, fill -inf */
    KEEPS = 8, /* the same, hidden where 0, fill finite */
    CAUSAL = 16,
    NOTHING_SEEN = 32, /* the first row of each head sees no key */
    OTHERS = 64        /* [batch, n], i32: rows see keys of their own number, fill finite */
} masks;

typedef struct example {
    const char *name;
    gale_type type;
    int64_t batch, heads, groups, m, n, d, c; /* groups: heads of k and v */
    layout layout;
    int masks;
} example;

static const example examples[] = {
    {"window", GALE_F16, 3, 2, 2, 64, 64, 32, 32, TOGETHER, BIAS},
    {"sentence", GALE_F16, 2, 3, 3, 20, 20, 32, 32, TOGETHER, KEYS},
    {"one row too many", GALE_F16, 1, 2, 2, 33, 17, 16, 16, APART, NO_MASK},
    {"odd everywhere", GALE_F16, 2, 1, 1, 19, 37, 21, 13, APART, BIAS},
    {"odd start", GALE_F16, 1, 2, 2, 24, 40, 24, 40, ODD, NO_MASK},
    {"keys turned", GALE_F16, 2, 2, 2, 16, 48, 32, 16, TURNED, KEYS},
    {"long", GALE_F16, 1, 2, 2, 40, 200, 32, 32, APART, NO_MASK},
    {"long, causal", GALE_F16, 1, 2, 2, 150, 150, 16, 16, APART, CAUSAL},
    {"causal, more keys than rows", GALE_F16, 1, 1, 1, 30, 90, 16, 16, APART, CAUSAL},
    {"groups", GALE_F16, 2, 4, 2, 24, 80, 16, 24, APART, CAUSAL},
    {"wide heads", GALE_F16, 1, 1, 1, 18, 70, 128, 128, APART, NO_MASK},
    {"value wider than key", GALE_F16, 1, 2, 2, 16, 16, 16, 96, APART, NO_MASK},
    {"hidden", GALE_F16, 2, 2, 2, 20, 70, 16, 16, APART, HIDES},
    {"kept", GALE_F16, 2, 2, 2, 20, 33, 16, 16, APART, KEEPS | NOTHING_SEEN},
    {"nothing seen", GALE_F16, 1, 2, 2, 17, 66, 16, 16, APART, HIDES | NOTHING_SEEN},
    {"bias and hidden", GALE_F16, 1, 2, 2, 16, 64, 24, 24, APART, BIAS | HIDES},
    {"bf16", GALE_BF16, 2, 2, 2, 49, 49, 32, 32, TOGETHER, BIAS},
    {"bf16, long, keys masked", GALE_BF16, 1, 2, 2, 20, 129, 40, 40, APART, KEYS},
    {"bf16, odd", GALE_BF16, 1, 3, 1, 9, 70, 10, 12, ODD, CAUSAL | KEYS},
    {"bf16, causal", GALE_BF16, 1, 1, 1, 34, 41, 32, 20, APART, CAUSAL},
    {"bf16, hidden", GALE_BF16, 1, 2, 2, 17, 33, 32, 40, APART, HIDES},
    {"packed", GALE_F16, 3, 2, 2, 64, 64, 32, 32, TOGETHER, KEYS | OTHERS},
    {"packed, odd", GALE_F16, 2, 2, 2, 37, 37, 16, 16, APART, OTHERS},
    {"bf16, packed, long", GALE_BF16, 2, 2, 2, 132, 132, 16, 16, APART, OTHERS},
};
enum { EXAMPLES = sizeof examples / sizeof *examples };

/* --- A case in memory. --- */

typedef struct operand {
    void *data;
    size_t size;
    gale__cpu_view view;
} operand;
typedef struct made {
    gale__attention args;
    operand operands[6]; /* the result first */
    int n_operands;
    double *want;
} made;

static uint64_t seed;
static double random_number(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 40) / (1 << 23) - 1;
}

static uint16_t round_to(gale_type type, double v)
{
    return type == GALE_F16 ? gale__f32_to_f16((float)v) : gale__f32_to_bf16((float)v);
}
static double value_of(gale_type type, uint16_t bits)
{
    return (double)(type == GALE_F16 ? gale__f16_to_f32(bits) : gale__bf16_to_f32(bits));
}

static operand *add_operand(made *t, size_t elements, size_t element)
{
    operand *o = &t->operands[t->n_operands++];
    o->size = elements * element;
    o->data = calloc(elements, element);
    return o;
}

static void fill_narrow(operand *o, gale_type type)
{
    for (size_t i = 0; i < o->size / 2; i++) ((uint16_t *)o->data)[i] = round_to(type, 2 * random_number());
}

static void set_view(gale__cpu_view *v, int64_t offset, int64_t batch, int64_t head, int64_t row, int64_t column)
{
    *v = (gale__cpu_view){.offset = offset, .lead = {0, 0, batch, head}, .row = row, .column = column};
}

static void make_together(const example *e, made *t)
{
    size_t n = (size_t)(e->batch * e->m * 3 * e->heads * e->d);
    gale__cpu_view *views[3] = {&t->args.a.q, &t->args.a.k, &t->args.a.v};
    operand *o = add_operand(t, n, 2);
    fill_narrow(o, e->type);
    for (int i = 0; i < 3; i++) {
        int64_t width = e->heads * e->d;
        if (i) {
            operand *same = add_operand(t, n, 2);
            memcpy(same->data, o->data, o->size);
        }
        set_view(views[i], i * width, e->m * 3 * width, e->d, 3 * width, 1);
    }
}

static void make_apart(const example *e, made *t)
{
    gale__cpu_view *views[3] = {&t->args.a.q, &t->args.a.k, &t->args.a.v};
    for (int i = 0; i < 3; i++) {
        int64_t rows = i ? e->n : e->m, columns = i == 2 ? e->c : e->d, heads = i ? e->groups : e->heads;
        int64_t pad = e->layout == ODD, row = columns + pad, share = e->heads / heads;
        fill_narrow(add_operand(t, (size_t)(e->batch * heads * rows * row + 3), 2), e->type);
        bool turned = i == 1 && e->layout == TURNED;
        set_view(views[i], 3 * pad, heads * rows * row, rows * row, turned ? 1 : row, turned ? rows : 1);
        if (share == 1) continue;
        views[i]->lead[1] = views[i]->lead[2]; /* lead axes: batch, group, heads of a group */
        views[i]->lead[2] = views[i]->lead[3];
        views[i]->lead[3] = 0;
    }
    if (e->heads != e->groups) {
        gale__cpu_view *q = views[0];
        q->lead[1] = q->lead[2], q->lead[2] = q->lead[3] * (e->heads / e->groups);
    }
}

/* Views of masks in the lead axes of the case. */
static void set_mask_view(const example *e, gale__cpu_view *v, int64_t batch, int64_t head, int64_t row)
{
    set_view(v, 0, batch, head, row, 1);
    if (e->heads == e->groups) return;
    v->lead[1] = batch, v->lead[2] = head * (e->heads / e->groups);
}

static void make_masks(const example *e, made *t)
{
    gale__cpu_attention *a = &t->args.a;
    a->masked = (e->masks & (BIAS | KEYS)) != 0;
    a->hides = e->masks & OTHERS ? GALE__HIDES_OTHERS : (e->masks & (HIDES | KEEPS)) != 0;
    a->hidden = (e->masks & HIDES) != 0;
    a->fill = e->masks & (KEEPS | OTHERS) ? -1000 : -INFINITY;
    a->causal = (e->masks & CAUSAL) != 0;
    a->seen = a->causal ? 1 + e->n / 4 : 0;
    t->args.mask_type = e->masks & BIAS ? GALE_F32 : e->type;
    if (e->masks & BIAS) {
        operand *o = add_operand(t, (size_t)(e->heads * e->m * e->n), 4);
        for (size_t i = 0; i < o->size / 4; i++) ((float *)o->data)[i] = (float)random_number();
        set_mask_view(e, &a->mask, 0, e->m * e->n, e->n);
    } else if (e->masks & KEYS) {
        operand *o = add_operand(t, (size_t)(e->batch * e->n), 2);
        for (int64_t i = 0; i < e->batch * e->n; i++)
            ((uint16_t *)o->data)[i] = round_to(e->type, i % 7 == 3   ? -60000
                                                         : i % 5 == 2 ? -INFINITY
                                                                      : random_number());
        set_mask_view(e, &a->mask, e->n, 0, 0);
    }
    if (!a->hides) return;
    if (e->masks & OTHERS) {
        operand *numbers = add_operand(t, (size_t)(e->batch * e->n), 4);
        for (int64_t i = 0; i < e->batch * e->n; i++) ((int32_t *)numbers->data)[i] = (int32_t)(i % e->n / 13) - 1;
        set_mask_view(e, &a->hide, e->n, 0, 1);
        return;
    }
    operand *o = add_operand(t, (size_t)(e->batch * e->m * e->n), 1);
    for (int64_t i = 0; i < e->batch * e->m * e->n; i++) {
        bool none = e->masks & NOTHING_SEEN && i / e->n % e->m == 0;
        ((uint8_t *)o->data)[i] = (none || random_number() > 0.3) == (a->hidden != 0);
    }
    set_mask_view(e, &a->hide, e->m * e->n, 0, e->n);
}

/* --- The model. --- */

static int64_t place(const gale__cpu_attention *a, const gale__cpu_view *v, int64_t head)
{
    int64_t at = v->offset;
    for (int i = GALE__CPU_LEAD - 1; i >= 0; head /= a->lead[i], i--) at += head % a->lead[i] * v->lead[i];
    return at;
}

static double number_at(const made *t, int which, const gale__cpu_view *v, int64_t head, int64_t row, int64_t column)
{
    int64_t at = place(&t->args.a, v, head) + row * v->row + column * v->column;
    const void *data = t->operands[which].data;
    if (v == &t->args.a.hide) return ((const uint8_t *)data)[at];
    if (v == &t->args.a.mask && t->args.mask_type == GALE_F32) return (double)((const float *)data)[at];
    return value_of((gale_type)t->args.type, ((const uint16_t *)data)[at]);
}

/* Whether a key is hidden from a row. */
static bool is_hidden(const made *t, int64_t head, int64_t row, int64_t key)
{
    const gale__cpu_attention *a = &t->args.a;
    int which = 4 + (int)a->masked;
    if (a->hides != GALE__HIDES_OTHERS)
        return a->hides && (number_at(t, which, &a->hide, head, row, key) != 0) == (a->hidden != 0);
    const int32_t *numbers = (const int32_t *)t->operands[which].data + place(a, &a->hide, head);
    return numbers[row] != numbers[key];
}

static void model_row(const made *t, int64_t head, int64_t row, double *out)
{
    const gale__cpu_attention *a = &t->args.a;
    double *s = malloc((size_t)a->n * sizeof *s), most = -INFINITY, sum = 0;
    int64_t n = a->causal && row + a->seen < a->n ? row + a->seen : a->n;
    for (int64_t j = 0; j < n; j++) {
        s[j] = 0;
        for (int64_t i = 0; i < a->d; i++)
            s[j] += number_at(t, 1, &a->q, head, row, i) * number_at(t, 2, &a->k, head, j, i);
        s[j] *= (double)(float)a->scale;
        if (a->masked) s[j] += number_at(t, 4, &a->mask, head, row, j);
        if (is_hidden(t, head, row, j)) s[j] = a->fill;
        most = s[j] > most ? s[j] : most;
    }
    for (int64_t j = 0; j < n; j++) sum += s[j] = exp(s[j] - most);
    for (int64_t i = 0; i < a->c; i++) {
        out[i] = 0;
        for (int64_t j = 0; j < n; j++) out[i] += s[j] / sum * number_at(t, 3, &a->v, head, j, i);
    }
    free(s);
}

static void make_case(int i, bool joins, made *t)
{
    const example *e = &examples[i];
    gale__cpu_attention *a = &t->args.a;
    int64_t heads = e->batch * e->heads, share = e->heads / e->groups;
    memset(t, 0, sizeof *t);
    seed = (uint64_t)i + 1;
    *a = (gale__cpu_attention){.m = e->m, .n = e->n, .d = e->d, .c = e->c, .scale = 1 / sqrt((double)e->d)};
    a->lead[0] = 1, a->lead[1] = share > 1 ? e->batch : 1;
    a->lead[2] = share > 1 ? e->groups : e->batch, a->lead[3] = share > 1 ? share : e->heads;
    t->args.type = e->type;
    t->args.beside = joins && i % 2 && a->lead[3] > 1 ? a->lead[3] : 0;
    int64_t beside = t->args.beside ? t->args.beside : 1;
    add_operand(t, (size_t)(heads * e->m * e->c), 2);
    if (e->layout == TOGETHER) make_together(e, t);
    else make_apart(e, t);
    make_masks(e, t);
    t->want = malloc((size_t)(heads * e->m * e->c) * sizeof *t->want);
    for (int64_t h = 0; h < heads; h++)
        for (int64_t r = 0; r < e->m; r++)
            model_row(t, h, r, t->want + ((h / beside * e->m + r) * beside + h % beside) * e->c);
}

static void free_case(made *t)
{
    for (int i = 0; i < t->n_operands; i++) free(t->operands[i].data);
    free(t->want);
}

/* --- Kernels. --- */

static gale_device_caps caps_of(const gale_device_caps *caps)
{
    gale_device_caps c = *caps;
    if (!c.n_matrix) c.matrix_emulated = true;
    return c;
}

static bool build_case(int i, const made *t, const gale_device_caps *caps, gale__routine_launch *launch, gale__ir *ir)
{
    if (!CHECK(gale__attention_kernels.describe(&t->args, caps, 0, launch)))
        return printf("  %s\n", examples[i].name), false;
    gale__routine_launch again;
    CHECK(!gale__attention_kernels.describe(&t->args, caps, 1, &again));
    gale__ir_init(ir, launch->key);
    ir->n_pointers = launch->n_refs, ir->n_words = launch->n_words;
    gale__attention_kernels.build(&t->args, caps, 0, ir);
    if (CHECK_OK(gale__ir_check(ir)) && CHECK_OK(gale__ir_validate(ir))) return true;
    printf("  %s, %s\n", examples[i].name, launch->key);
    gale__ir_finish(ir);
    return false;
}

/* Relative L2; infinite where one is NaN and the other is not. */
static double distance(const made *t, const uint16_t *have, size_t n)
{
    double off = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        double w = t->want[i], h = value_of((gale_type)t->args.type, have[i]);
        if (isnan(w) != isnan(h)) return INFINITY;
        if (!isnan(w)) off += (w - h) * (w - h), all += w * w;
    }
    return sqrt(off / (all > 0 ? all : 1));
}

static void run_case(gale_device *device, const gale_device_caps *caps, int dialect, int i)
{
    made t;
    gale__routine_launch launch;
    gale__ir ir;
    gale_module *module = NULL;
    make_case(i, true, &t);
    if (build_case(i, &t, caps, &launch, &ir)) {
        ir_job job = {.ir = &ir};
        void *results[8] = {malloc(t.operands[0].size)};
        memcpy(job.words, launch.words, sizeof launch.words);
        memcpy(job.groups, launch.groups, sizeof job.groups);
        for (int b = 0; b < t.n_operands; b++) job.buffers[b] = (ir_buffer){t.operands[b].data, t.operands[b].size};
        CHECK_EQ(t.n_operands, launch.n_refs);
        if (CHECK_OK(ir_build_for(device, caps, &ir, dialect, &module)) &&
            CHECK_OK(ir_launch(device, module, &job, results))) {
            double d = distance(&t, results[0], t.operands[0].size / 2);
            if (!CHECK(d < (t.args.type == GALE_F16 ? 1e-3 : 8e-3)))
                printf("  %s, %s: relative L2 %g\n", examples[i].name, launch.key, d);
        }
        gale_module_destroy(&module);
        free(results[0]);
        gale__ir_finish(&ir);
    }
    free_case(&t);
}

/* With scores in work-group memory, and in registers where the device says who holds what or has no say in it.
 * Compilers of C on the CPU take seconds a kernel, so they get some of the cases, not the same in both forms. */
static void run_target(int target)
{
    gale_device *device = ir_device(target);
    if (!device) return;
    for (int quads = 0; quads < 2; quads++) {
        gale_device_caps caps = caps_of(&gale_device_get_info(device)->caps);
        if (quads && !caps.matrix_quads && !caps.matrix_emulated) continue;
        bool slow = caps.software && ir_targets[target].dialect >= 0;
        bool few = caps.software && test_brief(); /* from the third on: their heads are small, and so are the kernels */
        int every = few ? (slow ? 20 : 10) : test_light() ? 4 : slow ? 2 : 1;
        caps.matrix_quads = quads;
        for (int i = 0; i < EXAMPLES; i++)
            if (i % every == (2 * few + quads) % every) run_case(device, &caps, ir_targets[target].dialect, i);
    }
}

/* The CPU's routine, but for masks of the operands' type and numbers, which it does not take. */
TEST(host)
{
    for (int i = 0; i < EXAMPLES; i++) {
        made t;
        void *buffers[6];
        if (examples[i].masks & (BIAS | KEYS | OTHERS)) continue;
        make_case(i, false, &t);
        t.args.a.type = examples[i].type;
        size_t bytes = gale__cpu_attention_scratch(&t.args.a);
        gale__cpu_scratch_space scratch = {aligned_alloc(64, bytes * (size_t)gale__parallel_width()), bytes};
        for (int b = 0; b < t.n_operands; b++) buffers[b] = t.operands[b].data;
        gale__cpu_attention_run(&t.args.a, buffers, scratch);
        double d = distance(&t, buffers[0], t.operands[0].size / 2);
        if (!CHECK(d < (examples[i].type == GALE_F16 ? 1e-3 : 8e-3)))
            printf("  %s: relative L2 %g\n", examples[i].name, d);
        free(scratch.memory);
        free_case(&t);
    }
}

TEST(opencl) { run_target(0); }
TEST(vulkan) { run_target(1); }
TEST(cuda) { run_target(2); }

/* --- Printing. --- */

static gale_device_caps with_units(void)
{
    gale_device_caps caps = ir_full_caps;
    caps.dialect = "cuda";
    caps.arch = 80, caps.compute_units = 1, caps.shared_most_bytes = 160 << 10, caps.memory_model = true;
    caps.matrix[0] = (gale_matrix_shape){16, 16, 16, GALE_F16, GALE_F32};
    caps.matrix[1] = (gale_matrix_shape){16, 16, 16, GALE_BF16, GALE_F32};
    caps.n_matrix = 2;
    return caps;
}

static void compile(const char *text, const char *target)
{
#ifdef GALE_HAVE_CUDA
    gale__bytes code = {0};
    if (!CHECK_OK(gale__nvrtc_compile_only(text, target, "--fmad=false", &code)))
        printf("%s: %s\n", target, gale_error());
    gale__bytes_finish(&code);
#else
    (void)text, (void)target;
#endif
}

/* With mma.sync, ldmatrix and cp.async. */
static void compile_all(bool quads)
{
    gale_device_caps caps = with_units();
    gale__str text = {0};
    gale__ir irs[EXAMPLES];
    const gale__ir *list[EXAMPLES];
    int n = 0;
    bool few = test_brief(); /* half of them in each form, for one card */
    caps.matrix_quads = quads;
    for (int i = few && quads; i < EXAMPLES; i += few ? 2 : 1) {
        made t;
        gale__routine_launch launch;
        make_case(i, true, &t);
        if (build_case(i, &t, &caps, &launch, &irs[n])) list[n] = &irs[n], n++;
        CHECK(launch.unit && strstr(launch.unit, "mma.sync"));
        free_case(&t);
    }
    if (CHECK_OK(gale__ir_print_c(list, n, GALE__DIALECT_CUDA, &caps, &text))) {
        CHECK(strstr(text.text, "sums_add_f16(&v") && strstr(text.text, "copy_16(&v"));
        CHECK(strstr(text.text, quads ? "=matrix_of_bf16(&v" : "__syncwarp") != NULL);
        if (!few || !quads) compile(text.text, "sm_80");
        if (!few || quads) compile(text.text, "sm_90");
    }
    if (getenv("GALE_TEST_KEEP")) printf("%s", text.text);
    for (int i = 0; i < n; i++) gale__ir_finish(&irs[i]);
    gale__str_finish(&text);
}

TEST(nvrtc)
{
#ifdef GALE_HAVE_CUDA
    int archs[64], count = 64;
    if (test_sanitized()) SKIP("what the sanitizer would look at is NVRTC");
    if (gale__nvrtc_archs(archs, &count) != GALE_OK) SKIP("%s", gale_error());
#else
    SKIP("built without CUDA");
#endif
    compile_all(false);
    compile_all(true);
}

/* With cooperative matrices; and what plain threads get, which every spirv-val knows. */
TEST(spirv)
{
    for (int i = 0; i < 2 * EXAMPLES; i++) {
        gale_device_caps caps = with_units();
        made t;
        gale__routine_launch launch;
        gale__ir ir;
        gale__ir_words words = {0};
        caps.arch = 0, caps.shared_most_bytes = 0, caps.matrix_emulated = i >= EXAMPLES;
        if (caps.matrix_emulated) caps.n_matrix = 0;
        make_case(i % EXAMPLES, true, &t);
        if (build_case(i % EXAMPLES, &t, &caps, &launch, &ir)) {
            if (CHECK_OK(gale__ir_print_spirv(&ir, &caps, &words)) && caps.matrix_emulated)
                ir_spirv_val(&words, launch.key);
            gale__ir_finish(&ir);
        }
        gale__ir_words_finish(&words);
        free_case(&t);
    }
}

/* --- Programs. --- */

typedef struct chain {
    const char *name;
    int64_t b, h, m, n, d;
    int form; /* 0 a chain of products with a mask, 1 the same with a boolean mask, 2 the operator, causal, 3 packed */
} chain;

/* Queries, keys and values come from products, as they do in networks: so they are narrow. */
static gale_value heads(og *t, int64_t b, int64_t rows, int64_t h, int64_t d, bool turned)
{
    const int64_t dims[2] = {h * d, h * d}, shape[4] = {b, rows, h, d};
    float *w = malloc((size_t)(h * d * h * d) * sizeof *w);
    for (int64_t i = 0; i < h * d * h * d; i++) w[i] = (float)random_number() / sqrtf((float)(h * d));
    gale_value x = og_op2(t, "MatMul", OG_INPUT(t, b, rows, h * d), og_constant(t, 2, dims, w));
    free(w);
    x = og_reshape(t, x, og_ints(t, 4, shape));
    return turned ? OG_TRANSPOSE(t, x, 0, 2, 3, 1) : OG_TRANSPOSE(t, x, 0, 2, 1, 3);
}

static void write_chain(og *t, const chain *c)
{
    gale_value q = heads(t, c->b, c->m, c->h, c->d, false), k = heads(t, c->b, c->n, c->h, c->d, c->form != 2),
               v = heads(t, c->b, c->n, c->h, c->d, false);
    if (c->form == 2) {
        gale_value in[3] = {q, k, v};
        og_output(t, og_op(t, "Attention", in, 3, (gale_attr[]){GALE_INT("is_causal", 1)}, 1));
        return;
    }
    gale_value s = og_op2(t, "Div", og_op2(t, "MatMul", q, k), og_number(t, sqrtf((float)c->d)));
    gale_value mask = OG_INPUT(t, c->b, 1, 1, c->n);
    if (c->form == 0) s = og_op2(t, "Add", s, mask);
    else if (c->form == 3) {
        gale_attr to = GALE_INT("to", 6); /* texts of two kinds: i32 */
        gale_value number = og_op(t, "Cast", (gale_value[]){og_op2(t, "Mul", mask, og_number(t, 1.9f))}, 1, &to, 1);
        gale_value same = og_op2(t, "Equal", OG_TRANSPOSE(t, number, 0, 1, 3, 2), number);
        s = og_op(t, "Where", (gale_value[]){same, s, og_number(t, -1e4f)}, 3, NULL, 0);
    } else {
        gale_value in[3] = {og_op2(t, "Greater", mask, og_number(t, 0.4f)), og_number(t, -1e9f), s};
        s = og_op(t, "Where", in, 3, NULL, 0);
    }
    og_output(t, og_op2(t, "MatMul", og_softmax(t, s, -1), v));
}

static bool run_program(og *t, gale_device *device, const gale_program_options *options, gale_tensor **y, int *routines)
{
    gale_program *p = NULL;
    gale__instance *instance = NULL;
    bool ok = CHECK_OK(gale_program_create(t->graph, device, options, &p)) &&
              CHECK_OK(gale_program_run(p, t->inputs, y, GALE_RUN_ON_HOST)) &&
              CHECK_OK(gale__program_instance(p, t->inputs, &instance));
    *routines = 0;
    for (int i = 0; ok && i < instance->plan->n_steps; i++)
        *routines += !strncmp(instance->plan->steps[i].tag.name, "attention in one kernel", 23);
    if (instance) gale__instance_release(p, instance);
    gale_program_destroy(&p);
    return ok;
}

static double difference(gale_tensor *want, gale_tensor *have)
{
    size_t n = gale_tensor_size_bytes(want) / sizeof(float);
    float *x = malloc(2 * n * sizeof *x), *y = x + n;
    double off = 0, all = 0;
    CHECK_OK(gale_tensor_to_cpu(want, x, n * sizeof *x));
    CHECK_OK(gale_tensor_to_cpu(have, y, n * sizeof *x));
    for (size_t i = 0; i < n; i++) off += ((double)x[i] - y[i]) * ((double)x[i] - y[i]), all += (double)x[i] * x[i];
    free(x);
    return sqrt(off / all);
}

/* Whole programs claim it, and give what f32 on the CPU gives. */
static void run_programs(const char *provider)
{
    static const chain chains[] = {{"mask", 2, 2, 20, 20, 16, 0}, {"long, boolean mask", 1, 2, 24, 80, 24, 1},
        {"operator, causal", 1, 2, 40, 40, 16, 2}, {"packed", 2, 2, 24, 24, 16, 3}, {"packed", 2, 2, 24, 24, 16, 3}};
    gale_device_options options = {provider, -1, true, false, 0}, host = {"cpu", -1, true, false, 0};
    gale_device *device = NULL, *cpu = NULL;
    if (gale_device_open(&options, &device) != GALE_OK) {
        printf("SKIP on %s: %s\n", provider, gale_error());
        return;
    }
    CHECK_OK(gale_device_open(&host, &cpu));
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        og t;
        gale_tensor *y[2] = {0};
        int routines = 0, none = 0;
        bool mine = device->info.caps.spirv ? i == 0 || i == 2 : i == 3; /* two software drivers share a brief run's */
        if (test_brief() && device->info.caps.software && !mine) continue;
        seed = i + 1;
        og_begin(&t);
        write_chain(&t, &chains[i]);
        const gale_program_options half = {.precision = i % 2 ? GALE_PRECISION_BF16 : GALE_PRECISION_F16};
        if (CHECK_OK(t.status) && CHECK_OK(og_tensors(&t, NULL)) && run_program(&t, cpu, NULL, &y[0], &none) &&
            run_program(&t, device, &half, &y[1], &routines)) {
            CHECK_EQ(none, 0);
            double d = difference(y[0], y[1]);
            if (!CHECK_EQ(routines, 1) || !CHECK(d < (i % 2 ? 2e-2 : 2e-3)))
                printf("  %s on %s: relative L2 %g\n", chains[i].name, provider, d);
        }
        gale_tensor_destroy(&y[0]), gale_tensor_destroy(&y[1]);
        og_end(&t);
    }
    gale_device_close(&device), gale_device_close(&cpu);
}

TEST(programs)
{
    setenv("GALE_MATRIX", "emulate", 1);
    run_programs("opencl");
    run_programs("vulkan");
    unsetenv("GALE_MATRIX");
}

TEST(close) { ir_close_devices(); }

TESTS(ROW(host), ROW(nvrtc), ROW(spirv), ROW(opencl), ROW(vulkan), ROW(cuda), ROW(programs), ROW(close))
