/* Small kernels made one: results against the scalar reference on every GPU that is there, how many launches are left,
 * and the IR itself. */
#include "device/registry.h"
#include "graph_run.h"
#include "kernel/ir/join.h"
#include "kernel/print/print.h"

static gale_device *device;

/* Averages of 2 x 2 down to one, an odd edge repeated. */
static int pyramid(gr_graph *t, int64_t h, int64_t w, gale__node *out)
{
    gale__prim_graph *g = &t->g;
    gale__node x = GR_INPUT(t, h, w, 4);
    int n = 0;
    while (h > 1 || w > 1) {
        int64_t rows = (h + 1) / 2, columns = (w + 1) / 2;
        gale__node row = gale__prim_binary(g, GALE__MIN, gale__prim_iota(g, 1, (const int64_t[]){2 * rows}, 0),
            gale__prim_scalar(g, GALE_I64, (double)(h - 1)));
        gale__node column = gale__prim_binary(g, GALE__MIN, gale__prim_iota(g, 1, (const int64_t[]){2 * columns}, 0),
            gale__prim_scalar(g, GALE_I64, (double)(w - 1)));
        x = gale__prim_gather(g, gale__prim_gather(g, x, row, 0), column, 1);
        x = gale__prim_reduce(g, GALE__SUM, gale__prim_reshape(g, x, 5, (const int64_t[]){rows, 2, columns, 2, 4}),
            1u << 1 | 1u << 3, false);
        out[n++] = x = gale__prim_mul(g, x, gale__prim_scalar(g, GALE_F32, 0.25));
        h = rows, w = columns;
    }
    return n;
}

static void levels(void)
{
    gr_graph t;
    gr_result r;
    gale__node out[8];
    gr_begin(&t);
    int n = pyramid(&t, 37, 59, out);
    if (gr_run(&t, device, out, n, NULL, &r)) {
        if (!CHECK(r.kernels <= 8))
            printf("  %d launches, and fusion leaves two for each of %d levels\n", r.kernels, n);
        if (!CHECK(r.difference <= 1e-6)) printf("  difference %g\n", r.difference);
    }
    gr_end(&t);
}

/* Values that share memory: what a part reads is written over two parts later.  Sums of pairs along one axis and the
 * other do not fuse. */
static void memory_used_again(void)
{
    gr_graph t;
    gr_result r;
    gr_begin(&t);
    gale__node x = GR_INPUT(&t, 24, 24);
    for (int i = 0; i < 12; i++) {
        gale__node pairs = gale__prim_reshape(&t.g, x, 3, (const int64_t[]){12, 2, 24});
        gale__node sum = gale__prim_mul(
            &t.g, gale__prim_reduce(&t.g, GALE__SUM, pairs, 1u << 1, true), gale__prim_scalar(&t.g, GALE_F32, 0.25));
        x = gale__prim_reshape(&t.g,
            gale__prim_sub(&t.g, pairs, gale__prim_expand(&t.g, sum, 3, (const int64_t[]){12, 2, 24})), 2,
            (const int64_t[]){24, 24});
        x = gale__prim_permute(&t.g, x, (const int[]){1, 0});
    }
    if (gr_run(&t, device, &x, 1, NULL, &r)) {
        if (!CHECK(r.kernels <= 6)) printf("  %d launches\n", r.kernels);
        if (!CHECK(r.difference <= 1e-5)) printf("  difference %g\n", r.difference);
    }
    gr_end(&t);
}

/* Who asks for no fusion sees every kernel by itself. */
static void not_without_fusion(void)
{
    gr_graph t;
    gr_result r;
    gale__node out[8];
    gale__fusion_options options = {.no_fusion = true};
    gr_begin(&t);
    int n = pyramid(&t, 9, 5, out);
    if (gr_run(&t, device, out, n, &options, &r)) CHECK(r.kernels >= n && r.difference <= 1e-6);
    gr_end(&t);
}

static void on_each(void (*test)(void))
{
    static const char *const names[] = {"cuda", "hip", "opencl", "vulkan"};
    int ran = 0;
    for (int i = 0; i < 4; i++) {
        gale_device_options options = GALE_DEVICE_OPTIONS;
        options.chain = names[i];
        options.strict = true;
        if (gale_device_open(&options, &device) != GALE_OK) continue;
        test();
        gale_device_close(&device);
        ran++;
    }
    if (!ran) SKIP("no GPU and no driver that stands for one");
}
TEST(levels_of_a_pyramid) { on_each(levels); }
TEST(parts_use_memory_again) { on_each(memory_used_again); }
TEST(no_fusion_no_joining) { on_each(not_without_fusion); }

/* y[i] = x[i] + word, by groups of `size`. */
static void add_word(gale__ir *ir, uint32_t size)
{
    gale__ir_init(ir, "part");
    ir->group[0] = size;
    ir->n_pointers = 2;
    ir->n_words = 3;
    ir->readonly = 1;
    gale__ir_val group = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_GROUP_ID, .type = GALE_U32});
    gale__ir_val local = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_LOCAL_ID, .type = GALE_U32});
    gale__ir_val i = gale__ir_op2(
        ir, GALE__ADD, GALE_U32, gale__ir_op2(ir, GALE__MUL, GALE_U32, group, gale__ir_u32(ir, size)), local);
    gale__ir_val add = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_WORD, .type = GALE_U32, .imm = 2});
    gale__ir_store(
        ir, 1, GALE_U32, 1, i, gale__ir_op2(ir, GALE__ADD, GALE_U32, gale__ir_load(ir, 0, GALE_U32, 1, i), add));
}

/* Whether a module uses Vulkan's own memory model, in which a barrier shows threads what others wrote, and its barriers
 * do. */
static void check_spirv(const gale__ir *ir, bool hands)
{
    enum { MEMORY_MODEL = 14, CONSTANT = 43, CONTROL_BARRIER = 224, VULKAN = 3, SHOWN = 0x8 | 0x40 | 0x2000 | 0x4000 };
    gale_device_caps caps = {.push_bytes = 128, .i64 = true, .exact_division = true, .memory_model = true};
    gale__ir_words out = {0};
    int barriers = 0;
    if (gale__ir_print_spirv(ir, &caps, &out) == GALE_UNSUPPORTED) return; /* built without SPIR-V */
    uint32_t semantics = 0;
    for (size_t i = 5; i < out.count && out.words[i] >> 16; i += out.words[i] >> 16) {
        uint32_t op = out.words[i] & 0xffff;
        if (op == MEMORY_MODEL) CHECK_EQ(out.words[i + 2] == VULKAN, hands);
        if (op == CONSTANT && out.words[i + 3] >= 0x4000)
            semantics = out.words[i + 2] * (uint32_t)((out.words[i + 3] & SHOWN) == SHOWN);
        if (op == CONTROL_BARRIER) barriers += semantics && out.words[i + 3] == semantics;
    }
    CHECK_EQ(barriers, hands);
    gale__ir_words_finish(&out);
}

TEST(joined_kernels_are_sound)
{
    gale__ir part[2], whole;
    uint32_t words[64];
    for (int i = 0; i < 2; i++) add_word(&part[i], i ? 64 : 32);
    if (CHECK_OK(gale__ir_join((const gale__ir *const[]){&part[0], &part[1]}, 2, "whole", 128, &whole))) {
        CHECK_OK(gale__ir_validate(&whole));
        CHECK(whole.group[0] == 128 && whole.n_pointers == 4 && whole.readonly == 0);
        int n = gale__ir_join_words(words, 0, 5, (const uint32_t[]){1, 2, 3}, 3);
        CHECK_EQ(gale__ir_join_words(words, n, 6, (const uint32_t[]){7, 8, 9}, 3), whole.n_words);
        CHECK(words[0] == 5 && words[4] == 3 && words[6] == 6 && words[10] == 9);
        check_spirv(&whole, true);
        gale__ir_finish(&whole);
    }
    check_spirv(&part[0], false);
    gale__ir_add(&part[1], (gale__ir_instr){.op = GALE__IR_BARRIER});
    CHECK_EQ(gale__ir_join((const gale__ir *const[]){&part[0], &part[1]}, 2, "whole", 128, &whole), GALE_INVALID);
    for (int i = 0; i < 2; i++) gale__ir_finish(&part[i]);
}

TESTS(ROW(joined_kernels_are_sound), ROW(levels_of_a_pyramid), ROW(parts_use_memory_again), ROW(no_fusion_no_joining))
