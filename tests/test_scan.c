/* Scans whose bodies only the host can run: strings, choices, extents and shapes that depend on data.  Values are those
 * of onnx's reference and of ONNX Runtime, which tests/scan.py asks again where they are to be had. */
#include "onnx_make.h"
#include "gale/model.h"
#include "object_text.h"
#include "onnx/run/session.h"

enum { F32 = 1, I64 = 7, STRING = 8, BOOL = 9 };
typedef struct row {
    const char *name, *in, *out; /* values, separated by ';' */
    int device_steps;            /* of the main graph */
    void (*make)(maker *m);
} row;

static gale__pb_node *scan(maker *m, const char *inputs, const char *outputs, int scanned)
{
    gale__pb_node *n = make_node(m, "Scan", inputs, outputs);
    make_attr_i(m, n, "num_scan_inputs", scanned);
    return n;
}

/* The state and what is stacked: along the last axis, both ways round. */
static void make_strings(maker *m)
{
    make_input(m, "s", STRING, "2"), make_input(m, "x", STRING, "n,2"), make_input(m, "suffix", STRING, "1");
    make_output(m, "last", STRING, "2"), make_output(m, "all", STRING, "2,n");
    gale__pb_node *n = scan(m, "s,x", "last,all", 1);
    make_attr_ints(m, n, "scan_input_directions", (const int64_t[]){1}, 1);
    make_attr_ints(m, n, "scan_output_directions", (const int64_t[]){1}, 1);
    make_attr_ints(m, n, "scan_output_axes", (const int64_t[]){-1}, 1);
    gale__pb_graph *outer = make_enter(m, n, "body");
    make_input(m, "st", STRING, "2"), make_input(m, "e", STRING, "2");
    make_output(m, "ns", STRING, "2"), make_output(m, "y", STRING, "2");
    make_node(m, "StringConcat", "st,e", "ns");
    make_node(m, "StringConcat", "e,suffix", "y");
    make_leave(m, outer);
}

/* How many elements are left depends on data. */
static void make_compress(maker *m)
{
    make_input(m, "s", F32, "1"), make_input(m, "x", F32, "4,n"), make_input(m, "k", BOOL, "m,4");
    make_output(m, "sum", F32, "1"), make_output(m, "sums", F32, "n");
    gale__pb_node *n = scan(m, "s,x,k", "sum,sums", 2);
    make_attr_ints(m, n, "scan_input_axes", (const int64_t[]){1, 0}, 2);
    gale__pb_graph *outer = make_enter(m, n, "body");
    make_input(m, "s1", F32, "1"), make_input(m, "e", F32, "4"), make_input(m, "c", BOOL, "4");
    make_output(m, "s2", F32, "1"), make_output(m, "r", F32, "");
    make_attr_i(m, make_node(m, "Compress", "e,c", "kept"), "axis", 0);
    make_attr_i(m, make_node(m, "ReduceSum", "kept", "r"), "keepdims", 0);
    make_node(m, "Add", "s1,r", "s2");
    make_leave(m, outer);
}

/* A slice says the shape of what comes from outside; `shape` of the whole is made of data just before. */
static void make_reshape(maker *m)
{
    make_input(m, "s", I64, "n,2"), make_input(m, "x", F32, "4"), make_input(m, "f", F32, "2");
    make_output(m, "y", F32, "n,2,2");
    make_attr_i(m, make_node(m, "Cast", "f", "shape"), "to", I64);
    gale__pb_graph *outer = make_enter(m, scan(m, "s", "y", 1), "body");
    make_input(m, "e", I64, "2");
    make_output(m, "r", F32, "2,2");
    make_node(m, "Reshape", "x,e", "q");
    make_node(m, "Transpose", "q", "t");
    make_node(m, "Reshape", "t,shape", "r");
    make_leave(m, outer);
}

/* A loop of the device, in a segment after the one that makes the shape. */
static void make_captured_shape(maker *m)
{
    make_input(m, "x", F32, "n,4"), make_input(m, "f", F32, "2");
    make_output(m, "y", F32, "n,2,2");
    make_attr_i(m, make_node(m, "Cast", "f", "shape"), "to", I64);
    gale__pb_graph *outer = make_enter(m, scan(m, "x", "y", 1), "body");
    make_input(m, "e", F32, "4");
    make_output(m, "r", F32, "2,2");
    make_node(m, "Reshape", "e,shape", "r");
    make_leave(m, outer);
}

static void make_choice(maker *m)
{
    make_input(m, "x", F32, "n"), make_input(m, "c", F32, "1");
    make_output(m, "y", F32, "n,1");
    gale__pb_graph *outer = make_enter(m, scan(m, "x", "y", 1), "body");
    make_input(m, "e", F32, "");
    make_output(m, "r", F32, "1");
    make_node(m, "Sign", "e", "sign");
    make_attr_i(m, make_node(m, "Cast", "sign", "up"), "to", BOOL);
    gale__pb_node *n = make_node(m, "If", "up", "r");
    gale__pb_graph *body = make_enter(m, n, "then_branch");
    make_output(m, "a", F32, "1");
    make_node(m, "Mul", "e,c", "a");
    make_leave(m, body);
    body = make_enter(m, n, "else_branch");
    make_output(m, "b", F32, "1");
    make_node(m, "Add", "e,c", "b");
    make_leave(m, body);
    make_leave(m, outer);
}

/* A Loop stacks strings as a Scan does. */
static void make_loop(maker *m)
{
    make_input(m, "n", I64, ""), make_input(m, "go", BOOL, ""), make_input(m, "s", STRING, "2");
    make_output(m, "last", STRING, "2"), make_output(m, "all", STRING, "n,2");
    gale__pb_graph *outer = make_enter(m, make_node(m, "Loop", "n,go,s", "last,all"), "body");
    make_input(m, "i", I64, ""), make_input(m, "c", BOOL, ""), make_input(m, "st", STRING, "2");
    make_output(m, "c2", BOOL, ""), make_output(m, "ns", STRING, "2"), make_output(m, "y", STRING, "2");
    make_node(m, "Identity", "c", "c2");
    make_node(m, "StringConcat", "st,st", "ns");
    make_node(m, "Identity", "st", "y");
    make_leave(m, outer);
}

static const row rows[] = {
    {"strings", "string[2] '>' '<'; string[3,2] 'a' 'b' 'c' 'd' 'e' 'f'; string[1] '!'",
        "string[2] '>eca' '<fdb'; string[2,3] 'a!' 'c!' 'e!' 'b!' 'd!' 'f!'", 0, make_strings},
    {"no strings", "string[2] '>' '<'; string[0,2]; string[1] '!'", "string[2] '>' '<'; string[2,0]", 0, make_strings},
    {"compress", "f32[1] 100; f32[4,3] 0 4 8 1 5 9 2 6 10 3 7 11; bool[3,4] 1 0 0 1 0 0 0 0 1 1 1 1",
        "f32[1] 141; f32[3] 3 0 38", 0, make_compress},
    {"compress nothing", "f32[1] 100; f32[4,0]; bool[0,4]", "f32[1] 100; f32[0]", 0, make_compress},
    {"reshape", "i64[2,2] 2 2 4 1; f32[4] 1 2 3 4; f32[2] 2 2", "f32[2,2,2] 1 3 2 4 1 2 3 4", 1, make_reshape},
    {"captured shape", "f32[2,4] 1 2 3 4 5 6 7 8; f32[2] 2 2", "f32[2,2,2] 1 2 3 4 5 6 7 8", 2, make_captured_shape},
    {"choice", "f32[3] 2 0 3; f32[1] 10", "f32[3,1] 20 10 30", 0, make_choice},
    {"loop", "i64[] 3; bool[] 1; string[2] 'a' 'bc'",
        "string[2] 'aaaaaaaa' 'bcbcbcbcbcbcbcbc'; string[3,2] 'a' 'bc' 'aa' 'bcbc' 'aaaa' 'bcbcbcbc'", 0, make_loop},
};

static gale_device *the_device(void)
{
    static gale_device *device;
    if (!device)
        CHECK_OK(gale_device_open(&(gale_device_options){.chain = "cpu", .index = -1, .strict = true}, &device));
    return device;
}

static gale_status encode(const row *r, gale__str *bytes)
{
    maker m;
    make_begin(&m, 21);
    r->make(&m);
    gale_status status = make_encode(&m, bytes);
    make_end(&m);
    return status;
}

static int device_steps(gale_model *model)
{
    const gale__onnx_exec *e = gale__onnx_model_session(model)->net->exec;
    int n = 0;
    for (int i = 0; i < e->n_steps; i++) n += e->steps[i].segment != NULL;
    return n;
}

/* Opens and runs; what comes out is compared unless `in` are other values than the row's. */
static gale_status run(const row *r, const gale__str *bytes, const char *in)
{
    gale_object *given[4] = {0}, *want[4] = {0}, *out[4] = {0};
    gale_model *model = NULL;
    int n_in = read_values(in, given), n_out = read_values(r->out, want);
    gale_status status = gale_model_from_memory(bytes->text, bytes->length, 0, the_device(), NULL, &model);
    if (status == GALE_OK) status = gale_model_run(model, given, out, GALE_RUN_ON_HOST);
    for (int i = 0; i < n_out && status == GALE_OK && in == r->in; i++)
        if (!CHECK(same_object(out[i], want[i]))) printf("    %s: output %d\n", r->name, i);
    if (status == GALE_OK) CHECK_EQ(device_steps(model), r->device_steps);
    gale_model_close(&model);
    for (int i = 0; i < 4; i++) gale_object_destroy(&out[i]);
    for (int i = 0; i < n_in; i++) gale_object_destroy(&given[i]);
    for (int i = 0; i < n_out; i++) gale_object_destroy(&want[i]);
    return status;
}

TEST(bodies_on_the_host)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gale__str bytes = {0};
        if (CHECK_OK(encode(&rows[i], &bytes)) && !CHECK_OK(run(&rows[i], &bytes, rows[i].in)))
            printf("    %s\n", rows[i].name);
        gale__str_finish(&bytes);
    }
}

TEST(mistakes)
{
    static const struct {
        int row;
        const char *in, *error;
        gale_status status;
    } bad[] = {
        {2, "f32[1] 0; f32[4,3] 0 4 8 1 5 9 2 6 10 3 7 11; bool[2,4] 1 0 0 1 0 0 0 0", "differ in length",
            GALE_INVALID},
        {4, "i64[2,2] 2 2 3 1; f32[4] 1 2 3 4; f32[2] 2 2", "Reshape", GALE_INVALID},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gale__str bytes = {0};
        CHECK_OK(encode(&rows[bad[i].row], &bytes));
        CHECK_EQ(run(&rows[bad[i].row], &bytes, bad[i].in), bad[i].status);
        if (!CHECK(strstr(gale_error(), bad[i].error) != NULL)) printf("    %s\n", gale_error());
        gale__str_finish(&bytes);
    }
}

TEST(every_allocation_fails)
{
    for (int i = 0; i < 3; i += 2) {
        gale__str bytes = {0};
        if (!CHECK_OK(encode(&rows[i], &bytes)) || !CHECK_OK(run(&rows[i], &bytes, rows[i].in))) continue;
        gale_memory_trim(the_device());
        int64_t live = gale__alloc_live();
        gale_object *in[4] = {0};
        int n = read_values(rows[i].in, in);
        gale_status status = GALE_NO_MEMORY;
        for (uint64_t k = 1; status != GALE_OK && k < 20000; k += test_light() ? 37 : 3) {
            gale_object *out[4] = {0};
            gale_model *model = NULL;
            gale__alloc_fail_at(k);
            status = gale_model_from_memory(bytes.text, bytes.length, 0, the_device(), NULL, &model);
            if (status == GALE_OK) status = gale_model_run(model, in, out, GALE_RUN_ON_HOST);
            gale__alloc_fail_at(0);
            if (status != GALE_OK) CHECK_EQ(status, GALE_NO_MEMORY);
            for (int o = 0; o < 4; o++) gale_object_destroy(&out[o]);
            gale_model_close(&model);
        }
        CHECK_OK(status);
        for (int k = 0; k < n; k++) gale_object_destroy(&in[k]);
        gale_memory_trim(the_device());
        CHECK_EQ(gale__alloc_live(), live);
        gale__str_finish(&bytes);
    }
}

TESTS(ROW(bodies_on_the_host), ROW(mistakes), ROW(every_allocation_fails))
