/* The models that fuzzing starts from: one function each, all of our own making. */
#ifndef GALE_FUZZ_SEEDS_H
#define GALE_FUZZ_SEEDS_H
#include "../tests/onnx_make.h"

typedef struct seed {
    const char *name;
    void (*make)(maker *m);
} seed;

static void seed_relu(maker *m)
{
    make_begin(m, 21);
    make_input(m, "x", 1, "2,n");
    make_output(m, "y", 1, "2,n");
    make_node(m, "Relu", "x", "y");
}

static void seed_gemm(maker *m)
{
    static const float w[] = {1, 2, 3, 4, 5, 6}, b[] = {0.5f, -0.5f};
    make_begin(m, 13);
    make_input(m, "x", 1, "n,3");
    make_output(m, "y", 1, "n,2");
    make_initializer(m, make_floats(m, "w", "3,2", w, 6));
    make_initializer(m, make_floats(m, "b", "2", b, 2));
    make_attr(m, make_node(m, "Gemm", "x,w,b", "y"), "alpha", GALE__PB_FLOAT)->f = 2;
}

static void seed_conv(maker *m)
{
    static const float w[8] = {1, -1, 2, -2, 0.5f, 0.25f, 4, 8};
    static const int64_t pads[] = {0, 0, 1, 1}, strides[] = {2, 1};
    make_begin(m, 11);
    make_input(m, "x", 1, "1,1,5,5");
    make_output(m, "y", 1, NULL);
    make_initializer(m, make_floats(m, "w", "2,1,2,2", w, 8));
    gale__pb_node *n = make_node(m, "Conv", "x,w", "c");
    make_attr_ints(m, n, "pads", pads, 4);
    make_attr_ints(m, n, "strides", strides, 2);
    make_attr(m, n, "auto_pad", GALE__PB_STRING)->s = make_text(m, "NOTSET");
    make_node(m, "GlobalAveragePool", "c", "p");
    make_attr_i(m, make_node(m, "Flatten", "p", "f"), "axis", 1);
    make_attr_i(m, make_node(m, "Softmax", "f", "y"), "axis", -1);
}

static void seed_shapes(maker *m)
{
    static const int64_t minus[] = {-1};
    make_begin(m, 14);
    make_input(m, "x", 1, "a,b,2");
    make_output(m, "y", 1, "?");
    make_output(m, "s", 7, "3");
    make_initializer(m, make_ints(m, "flat", "1", minus, 1));
    make_node(m, "Shape", "x", "s");
    make_node(m, "Reshape", "x,flat", "r");
    make_node(m, "Abs", "r", "y");
}

static void seed_attention(maker *m)
{
    make_begin(m, 17);
    make_input(m, "q", 1, "1,2,4,8");
    make_input(m, "k", 1, "1,2,4,8");
    make_input(m, "v", 1, "1,2,4,8");
    make_output(m, "y", 1, "1,2,4,8");
    static const int64_t perm[] = {0, 1, 3, 2};
    static const float scale[] = {0.35355339f};
    make_initializer(m, make_floats(m, "scale", "", scale, 1));
    make_attr_ints(m, make_node(m, "Transpose", "k", "kt"), "perm", perm, 4);
    make_node(m, "MatMul", "q,kt", "qk");
    make_node(m, "Mul", "qk,scale", "scaled");
    make_attr_i(m, make_node(m, "Softmax", "scaled", "p"), "axis", -1);
    make_node(m, "MatMul", "p,v", "y");
}

static void seed_if(maker *m)
{
    make_begin(m, 16);
    make_input(m, "c", 9, "");
    make_input(m, "x", 1, "3");
    make_output(m, "y", 1, "3");
    gale__pb_node *n = make_node(m, "If", "c", "y");
    gale__pb_graph *outer = make_enter(m, n, "then_branch");
    make_node(m, "Neg", "x", "t");
    make_output(m, "t", 1, "3");
    make_leave(m, outer);
    make_enter(m, n, "else_branch");
    make_node(m, "Exp", "x", "e");
    make_output(m, "e", 1, "3");
    make_leave(m, outer);
}

static void seed_loop(maker *m)
{
    static const int64_t trips[] = {3};
    make_begin(m, 16);
    make_input(m, "x", 1, "2");
    make_output(m, "y", 1, "2");
    make_output(m, "all", 1, "?,2");
    make_initializer(m, make_ints(m, "trips", "", trips, 1));
    gale__pb_node *n = make_node(m, "Loop", "trips,,x", "y,all");
    gale__pb_graph *outer = make_enter(m, n, "body");
    make_input(m, "i", 7, "");
    make_input(m, "go", 9, "");
    make_input(m, "s", 1, "2");
    make_node(m, "Identity", "go", "goes");
    make_node(m, "Add", "s,x", "next");
    make_node(m, "Identity", "next", "row");
    make_output(m, "goes", 9, "");
    make_output(m, "next", 1, "2");
    make_output(m, "row", 1, "2");
    make_leave(m, outer);
}

static void seed_scan(maker *m)
{
    make_begin(m, 16);
    make_input(m, "s", 1, "2");
    make_input(m, "x", 1, "3,2");
    make_output(m, "last", 1, "2");
    make_output(m, "y", 1, "3,2");
    gale__pb_node *n = make_node(m, "Scan", "s,x", "last,y");
    gale__pb_graph *outer = make_enter(m, n, "body");
    make_input(m, "a", 1, "2");
    make_input(m, "b", 1, "2");
    make_node(m, "Add", "a,b", "sum");
    make_node(m, "Identity", "sum", "row");
    make_output(m, "sum", 1, "2");
    make_output(m, "row", 1, "2");
    make_leave(m, outer);
    make_attr_i(m, n, "num_scan_inputs", 1);
}

static void seed_function(maker *m)
{
    make_begin(m, 18);
    gale__pb_opset *o = MAKE_ADD(m, m->model.opset_import);
    o->domain = make_text(m, "ours");
    o->version = 1;
    make_input(m, "x", 1, "4");
    make_output(m, "y", 1, "4");
    make_attr(m, make_call(m, "Leak", "x", "y"), "slope", GALE__PB_FLOAT)->f = 0.125f;
    gale__pb_graph *outer;
    make_names(m, "slope", &make_function(m, "Leak", "a", "b", &outer)->attribute);
    make_attr(m, make_node(m, "LeakyRelu", "a", "b"), "alpha", GALE__PB_FLOAT)->ref_attr_name = make_text(m, "slope");
    make_function_end(m, outer);
}

static void seed_strings(maker *m)
{
    make_begin(m, 20);
    make_input(m, "x", 8, "2");
    make_output(m, "y", 8, "2");
    gale__pb_tensor *t = make_tensor(m, "tail", 8, "2");
    make_names(m, "s,\xc3\xa9t\xc3\xa9", &t->string_data);
    make_initializer(m, t);
    make_node(m, "StringConcat", "x,tail", "y");
}

static void seed_sequence(maker *m)
{
    make_begin(m, 17);
    make_input(m, "a", 1, "2");
    make_input(m, "b", 1, "3");
    gale__pb_type *list = make_room(m, sizeof *list);
    list->sequence_type = make_room(m, sizeof *list->sequence_type);
    list->sequence_type->elem_type = make_tensor_type(m, 1, "?");
    *MAKE_ADD(m, m->graph->output) = make_info(m, "l", list);
    make_output(m, "y", 1, "5");
    make_node(m, "SequenceConstruct", "a,b", "l");
    make_attr_i(m, make_node(m, "ConcatFromSequence", "l", "y"), "axis", 0);
}

static void seed_types(maker *m)
{
    make_begin(m, 17);
    gale__pb_type *map = make_room(m, sizeof *map), *maybe = make_room(m, sizeof *maybe),
                  *sparse = make_tensor_type(m, 1, "3,3");
    map->map_type = make_room(m, sizeof *map->map_type);
    map->map_type->key_type = 8;
    map->map_type->value_type = make_tensor_type(m, 1, "");
    maybe->optional_type = make_room(m, sizeof *maybe->optional_type);
    maybe->optional_type->elem_type = make_tensor_type(m, 1, "n");
    maybe->denotation = make_text(m, "MAYBE");
    sparse->sparse_tensor_type = sparse->tensor_type;
    sparse->tensor_type = NULL;
    *MAKE_ADD(m, m->graph->input) = make_info(m, "m", map);
    *MAKE_ADD(m, m->graph->input) = make_info(m, "o", maybe);
    *MAKE_ADD(m, m->graph->value_info) = make_info(m, "s", sparse);
    make_output(m, "has", 9, "");
    make_node(m, "OptionalHasElement", "o", "has");
}

/* Every element type, in the list that holds it. */
static void seed_lists(maker *m)
{
    static const char *const shapes[] = {"3", "2,2", ""};
    make_begin(m, 24);
    for (int type = 1; type <= 26; type++) {
        char name[8];
        const char *shape = shapes[type % 3];
        int n = type % 3 == 0 ? 3 : type % 3 == 1 ? 4 : 1;
        if (type == 14 || type == 15 || type == 8) continue;
        snprintf(name, sizeof name, "t%d", type);
        gale__pb_tensor *t = make_tensor(m, name, type, shape);
        int per = type == 21 || type == 22 || type == 23 ? 2 : type >= 25 ? 4 : 1;
        for (int i = 0; i < (n + per - 1) / per; i++) {
            if (type == 1) *MAKE_ADD(m, t->float_data) = (float)i - 1;
            else if (type == 7) *MAKE_ADD(m, t->int64_data) = i - 1;
            else if (type == 11) *MAKE_ADD(m, t->double_data) = i - 1;
            else if (type == 12 || type == 13) *MAKE_ADD(m, t->uint64_data) = (uint64_t)i;
            else *MAKE_ADD(m, t->int32_data) = type == 9 ? i % 2 : i;
        }
        make_initializer(m, t);
    }
    make_output(m, "t1", 1, "2,2");
}

static void seed_raw(maker *m)
{
    static const uint8_t sizes[27] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 0, 0, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    static const uint8_t data[32] = {1, 0, 0x3c, 0x80, 0x3f};
    make_begin(m, 24);
    for (int type = 1; type <= 26; type++) {
        char name[8];
        if (!sizes[type]) continue;
        snprintf(name, sizeof name, "r%d", type);
        gale__pb_tensor *t = make_tensor(m, name, type, "2");
        make_raw(m, t, data, type >= 21 && type != 24 ? 1 : 2u * sizes[type]);
        make_initializer(m, t);
    }
    make_initializer(m, make_tensor(m, "nothing", 1, "0,5"));
    make_output(m, "r1", 1, "2");
}

static void seed_sparse(maker *m)
{
    static const float v[] = {1, 2};
    static const int64_t linear[] = {1, 5}, pairs[] = {0, 1, 1, 2};
    make_begin(m, 13);
    for (int k = 0; k < 2; k++) {
        gale__pb_sparse *s = MAKE_ADD(m, m->graph->sparse_initializer);
        s->values = make_floats(m, k ? "pairs" : "linear", "2", v, 2);
        s->indices = k ? make_ints(m, "", "2,2", pairs, 4) : make_ints(m, "", "2", linear, 2);
        *MAKE_ADD(m, s->dims) = 2;
        *MAKE_ADD(m, s->dims) = 3;
    }
    make_output(m, "y", 1, "2,3");
    make_node(m, "Add", "linear,pairs", "y");
}

static void seed_external(maker *m)
{
    static const char *const keys[][2] = {{"location", "w.bin"}, {"offset", "4"}, {"length", "8"},
        {"checksum", "4b7c9fbf58bbaaef455de018bf55ae05e6472bb7"}};
    make_begin(m, 13);
    gale__pb_tensor *t = make_tensor(m, "w", 1, "2");
    t->data_location = 1;
    for (int i = 0; i < 4; i++)
        *MAKE_ADD(m, t->external_data) =
            (gale__pb_entry){.key = make_text(m, keys[i][0]), .value = make_text(m, keys[i][1])};
    make_initializer(m, t);
    make_output(m, "y", 1, "2");
    make_node(m, "Neg", "w", "y");
}

/* An attribute of each kind, on an operator nobody knows. */
static void seed_attributes(maker *m)
{
    static const float v[] = {1, 2};
    static const int64_t ints[] = {-1, 0, 1ll << 40};
    make_begin(m, 21);
    make_input(m, "x", 1, "2");
    make_output(m, "y", 1, "2");
    gale__pb_node *n = make_node(m, "Everything", "x", "y");
    n->name = make_text(m, "all of them");
    n->domain = make_text(m, "nobody");
    n->overload = make_text(m, "o");
    n->doc_string = make_text(m, "has one attribute of each kind");
    *MAKE_ADD(m, n->metadata_props) = (gale__pb_entry){.key = make_text(m, "k"), .value = make_text(m, "v")};
    make_attr(m, n, "f", GALE__PB_FLOAT)->f = -0.0f;
    make_attr_i(m, n, "i", INT64_MIN);
    make_attr(m, n, "s", GALE__PB_STRING)->s = make_text(m, "");
    make_attr(m, n, "t", GALE__PB_TENSOR)->t = make_floats(m, "inner", "2", v, 2);
    make_attr_ints(m, n, "ints", ints, 3);
    gale__pb_attribute *a = make_attr(m, n, "floats", GALE__PB_FLOATS);
    *MAKE_ADD(m, a->floats) = 1.5f;
    make_names(m, "p,q", &make_attr(m, n, "strings", GALE__PB_STRINGS)->strings);
    a = make_attr(m, n, "tensors", GALE__PB_TENSORS);
    *MAKE_ADD(m, a->tensors) = *make_floats(m, "one", "1", v, 1);
    a = make_attr(m, n, "graphs", GALE__PB_GRAPHS);
    MAKE_ADD(m, a->graphs)->name = make_text(m, "empty");
    make_attr(m, n, "tp", GALE__PB_TYPE)->tp = make_tensor_type(m, 1, "n");
    a = make_attr(m, n, "types", GALE__PB_TYPES);
    *MAKE_ADD(m, a->type_protos) = *make_tensor_type(m, 7, NULL);
    gale__pb_sparse *s = make_room(m, sizeof *s);
    s->values = make_floats(m, "", "1", v, 1);
    s->indices = make_ints(m, "", "1", ints + 1, 1);
    *MAKE_ADD(m, s->dims) = 4;
    make_attr(m, n, "sparse", GALE__PB_SPARSE)->sparse_tensor = s;
    a = make_attr(m, n, "sparses", GALE__PB_SPARSES);
    *MAKE_ADD(m, a->sparse_tensors) = *s;
}

/* As the first exporters wrote: no opset, no kind of attribute, initialisers among the inputs. */
static void seed_old(maker *m)
{
    static const float w[] = {1, 2};
    make_begin(m, 1);
    m->model.ir_version = 1;
    m->model.opset_import.n = 0;
    make_input(m, "x", 1, "1,2");
    make_input(m, "w", 1, "1,2");
    make_output(m, "y", 1, "1,2");
    make_initializer(m, make_floats(m, "w", "1,2", w, 2));
    gale__pb_node *n = make_node(m, "Add", "x,w", "s");
    make_attr_i(m, n, "broadcast", 1);
    n->attribute.at[0].type = 0;
    n = make_node(m, "Elu", "s", "y");
    make_attr(m, n, "alpha", 0)->f = 2;
}

static void seed_quantised(maker *m)
{
    static const float scale[] = {0.5f};
    static const uint8_t zero[] = {128};
    make_begin(m, 19);
    make_input(m, "x", 1, "2,2");
    make_output(m, "y", 1, "2,2");
    make_initializer(m, make_floats(m, "scale", "", scale, 1));
    gale__pb_tensor *z = make_tensor(m, "zero", 2, "");
    make_raw(m, z, zero, 1);
    make_initializer(m, z);
    make_node(m, "QuantizeLinear", "x,scale,zero", "q");
    make_node(m, "DequantizeLinear", "q,scale,zero", "y");
}

static void seed_unknown(maker *m)
{
    static const char bytes[] = "\xa2\x06\x03"
                                "abc";
    seed_relu(m);
    *MAKE_ADD(m, m->model.head.unknown) = (gale__pb_text){bytes, 6};
    *MAKE_ADD(m, m->graph->head.unknown) = (gale__pb_text){bytes, 6};
    *MAKE_ADD(m, m->model.metadata_props) =
        (gale__pb_entry){.key = make_text(m, "author"), .value = make_text(m, "us")};
}

static void seed_large(maker *m)
{
    make_begin(m, 13);
    make_output(m, "y", 2, "5000");
    gale__pb_tensor *t = make_tensor(m, "w", 2, "5000");
    uint8_t *data = make_room(m, 5000);
    for (int i = 0; i < 5000; i++) data[i] = (uint8_t)(i * 7);
    make_raw(m, t, data, 5000);
    make_initializer(m, t);
    make_node(m, "Identity", "w", "y");
}

/* Enlarges pictures. */
static void seed_twice(maker *m)
{
    static const float scales[] = {1, 1, 2, 2};
    make_begin(m, 9);
    make_input(m, "x", 1, "n,3,h,w");
    make_output(m, "y", 1, NULL);
    make_initializer(m, make_floats(m, "scales", "4", scales, 4));
    make_node(m, "Upsample", "x,scales", "y");
}

/* A scan that the host runs, since extents in its body depend on data. */
static void seed_scan_host(maker *m)
{
    make_begin(m, 21);
    make_input(m, "x", 1, "n,3");
    make_output(m, "y", 1, "3,n");
    gale__pb_node *n = make_node(m, "Scan", "x", "y");
    make_attr_i(m, n, "num_scan_inputs", 1);
    make_attr_ints(m, n, "scan_output_axes", (const int64_t[]){-1}, 1);
    gale__pb_graph *outer = make_enter(m, n, "body");
    make_input(m, "e", 1, "3");
    make_output(m, "r", 1, "3");
    make_node(m, "Unique", "e", "u");
    make_node(m, "ReduceMax", "u", "most");
    make_node(m, "Add", "e,most", "r");
    make_leave(m, outer);
}

/* Inputs that have a value, one of them a shape. */
static void seed_default(maker *m)
{
    static const float w[] = {1, 2, 3, 4, 5, 6};
    static const int64_t flat[] = {-1};
    make_begin(m, 13);
    make_input(m, "w", 1, "3,2");
    make_input(m, "x", 1, "n,3");
    make_input(m, "s", 7, "rank");
    make_output(m, "y", 1, NULL);
    make_initializer(m, make_floats(m, "w", "3,2", w, 6));
    make_initializer(m, make_ints(m, "s", "1", flat, 1));
    make_node(m, "MatMul", "x,w", "p");
    make_node(m, "Reshape", "p,s", "y");
}

/* One operator on one input of f32 [2,3]: many small steps into what runs. */
#define SEED_UNARY(lower, Op, opset)   \
    static void seed_##lower(maker *m) \
    {                                  \
        make_begin(m, opset);          \
        make_input(m, "x", 1, "2,3");  \
        make_output(m, "y", 1, NULL);  \
        make_node(m, #Op, "x", "y");   \
    }
SEED_UNARY(erf, Erf, 13)
SEED_UNARY(transpose, Transpose, 13)
SEED_UNARY(nonzero, NonZero, 13)
SEED_UNARY(unique, Unique, 11)
SEED_UNARY(size, Size, 13)
SEED_UNARY(sum, ReduceSum, 13)
SEED_UNARY(argmax, ArgMax, 13)
SEED_UNARY(dropout, Dropout, 7)
SEED_UNARY(split, Split, 11)
SEED_UNARY(flatten, Flatten, 13)

static const seed seeds[] = {
#define S(name)            \
    {                      \
#name, seed_##name \
    }
    S(relu),
    S(gemm),
    S(conv),
    S(shapes),
    S(attention),
    S(if),
    S(loop),
    S(scan),
    S(function),
    S(strings),
    S(sequence),
    S(types),
    S(lists),
    S(raw),
    S(sparse),
    S(external),
    S(attributes),
    S(old),
    S(quantised),
    S(unknown),
    S(large),
    S(twice),
    S(default),
    S(scan_host),
    S(erf),
    S(transpose),
    S(nonzero),
    S(unique),
    S(size),
    S(sum),
    S(argmax),
    S(dropout),
    S(split),
    S(flatten),
#undef S
};
enum { SEEDS = sizeof seeds / sizeof *seeds };
#endif
