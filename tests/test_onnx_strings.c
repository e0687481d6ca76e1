/* Models that mix strings, sequences and maps with numbers: what runs on the host and what on the device meet as the
 * graph says.  Values are ONNX Runtime's, or follow from the words of the standard. */
#include "gale/model.h"
#include "host_calls.h"
#include "onnx_make.h"

typedef struct row {
    const char *in, *nodes[8], *out;
} row;

/* Inputs and outputs: a name and a value each, separated by ';'.  Nodes: operator|inputs|outputs|attributes;
 * ai.onnx.ml's have "ml:" in front. */
static const row rows[] = {{"x=f32[2,2] 1 0 0 1",
                               {"ml:LinearClassifier|x|y,z|coefficients=1.0,0.0,0.0,2.0 intercepts=0.0,0.0 "
                                "classlabels_strings='left','right'"},
                               "y=string[2] 'left' 'right'; z=f32[2,2] 1 0 0 2"},
    {"x=f32[1,3] 5 1 9",
        {"ml:ZipMap|x|maps|classlabels_strings='a','b','c'", "SequenceAt|maps,zero|map|",
            "ml:DictVectorizer|map|v|string_vocabulary='c','q','a','b'", "Add|v,v|y|"},
        "y=f32[4] 18 0 10 2"},
    {"x=string[2] 'b,a,b' 'c'",
        {"StringSplit|x|s,n|delimiter=','", "Reshape|s,flat|f|", "Unique|f|u,i,v,c|", "Add|c,c|d|", "Transpose|s|t|"},
        "u=string[4] '' 'a' 'b' 'c'; d=i64[4] 4 2 4 2; n=i64[2] 3 1; t=string[3,2] 'b' 'c' 'a' '' 'b' ''"},
    {"x=string[3] '1.5' '-2' 'inf'", {"Cast|x|f|to=1", "Neg|f|g|", "Cast|g|y|to=8"}, "y=string[3] '-1.5' '2.0' '-inf'"},
    {"x=f32[4,2] 1 2 3 4 5 6 7 8",
        {"Relu|row0|row|", "SplitToSequence|x|s|axis=0 keepdims=0", "SequenceErase|s,zero|e|",
            "SequenceInsert|e,row|i|", "ConcatFromSequence|i|c|axis=0 new_axis=1", "Mul|c,c|y|", "SequenceLength|i|n|"},
        "y=f32[4,2] 9 16 25 36 49 64 0 4; n=i64[] 4"},
    {"x=string[2] 'cat' 'dog'",
        {"ml:LabelEncoder|x|i|keys_strings='dog','cat' values_int64s=5,7", "Mul|i,i|j|",
            "ml:LabelEncoder|j|y|keys_int64s=25,49 values_strings='D','C'", "Equal|x,x|e|", "Where|e,y,x|w|"},
        "w=string[2] 'C' 'D'"},
    {"x=string[2,2] 'a b' 'c' 'd' 'e'",
        {"Identity|x|y|", "Optional|y|o|", "OptionalHasElement|o|h|", "OptionalGetElement|o|g|", "Concat|g,x|c|axis=1",
            "Shape|c|s|"},
        "c=string[2,4] 'a b' 'c' 'a b' 'c' 'd' 'e' 'd' 'e'; h=bool[] 1; s=i64[2] 2 4"}};

static void add_attrs(maker *m, gale__pb_node *n, const char *text)
{
    static const uint8_t kinds[] = {[GALE_ATTR_INT] = GALE__PB_INT,
        [GALE_ATTR_FLOAT] = GALE__PB_FLOAT,
        [GALE_ATTR_STRING] = GALE__PB_STRING,
        [GALE_ATTR_INTS] = GALE__PB_INTS,
        [GALE_ATTR_FLOATS] = GALE__PB_FLOATS,
        [GALE_ATTR_STRINGS] = GALE__PB_STRINGS};
    parsed *p = calloc(1, sizeof *p);
    parse_attrs(p, text);
    for (int i = 0; i < p->n; i++) {
        const gale_attr *a = &p->attrs[i];
        if (a->kind == GALE_ATTR_INT) {
            make_attr_i(m, n, a->name, a->i);
            continue;
        }
        gale__pb_attribute *to = make_attr(m, n, a->name, kinds[a->kind]);
        to->f = (float)a->f;
        if (a->kind == GALE_ATTR_STRING) to->s = make_text(m, a->s);
        for (size_t k = 0; k < a->count; k++) {
            if (a->kind == GALE_ATTR_INTS) *MAKE_ADD(m, to->ints) = a->ints[k];
            if (a->kind == GALE_ATTR_FLOATS) *MAKE_ADD(m, to->floats) = (float)a->floats[k];
            if (a->kind == GALE_ATTR_STRINGS) *MAKE_ADD(m, to->strings) = make_text(m, a->strings[k]);
        }
    }
    forget_attrs(p);
    free(p);
}

static void add_node(maker *m, const char *text)
{
    char part[4][200] = {{0}};
    bool ml = !strncmp(text, "ml:", 3);
    text += ml ? 3 : 0;
    for (int i = 0; i < 4; i++) {
        read_word(&text, i < 3 ? "|" : "", part[i], sizeof part[i]);
        text += *text == '|';
    }
    gale__pb_node *n = make_node(m, part[0], part[1], part[2]);
    if (ml) n->domain = make_text(m, "ai.onnx.ml");
    add_attrs(m, n, part[3]);
}

/* "name=value; ..." */
static int read_named(const char *text, char names[][16], gale_object **values)
{
    int n = 0;
    for (skip_blanks(&text); *text; skip_blanks(&text), n++) {
        read_word(&text, "=", names[n], 16);
        text++;
        values[n] = read_value(&text);
        skip_blanks(&text);
        text += *text == ';';
    }
    return n;
}

static bool check_model(const row *r, gale_device *device)
{
    char in_names[8][16], out_names[8][16];
    gale_object *in[8] = {0}, *want[8] = {0}, *out[8] = {0};
    gale__str bytes = {0};
    gale_model *model = NULL;
    maker m;
    int n_in = read_named(r->in, in_names, in), n_out = read_named(r->out, out_names, want);
    make_begin(&m, 21);
    *MAKE_ADD(&m, m.model.opset_import) = (gale__pb_opset){.domain = make_text(&m, "ai.onnx.ml"), .version = 4};
    for (int i = 0; i < n_in; i++) make_input(&m, in_names[i], gale__onnx_type_number(in[i]->tensor->type), NULL);
    for (int i = 0; i < n_out; i++) make_output(&m, out_names[i], gale__onnx_type_number(want[i]->tensor->type), NULL);
    make_initializer(&m, make_ints(&m, "zero", "", (int64_t[]){0}, 1));
    make_initializer(&m, make_ints(&m, "flat", "1", (int64_t[]){-1}, 1));
    make_initializer(&m, make_floats(&m, "row0", "2", (float[]){-3, 2}, 2));
    for (int i = 0; i < 8 && r->nodes[i]; i++) add_node(&m, r->nodes[i]);
    gale_status status = make_encode(&m, &bytes);
    if (status == GALE_OK)
        status = gale_model_from_memory(bytes.text, bytes.length, GALE_MODEL_COPY, device, NULL, &model);
    if (status == GALE_OK) status = gale_model_run(model, in, out, GALE_RUN_ON_HOST);
    bool ok = CHECK_OK(status);
    for (int i = 0; i < n_out && ok; i++)
        if (!CHECK(same_object(out[i], want[i]))) printf("    output %s\n", out_names[i]), ok = false;
    gale_model_close(&model);
    gale__str_finish(&bytes);
    make_end(&m);
    for (int i = 0; i < 8; i++) {
        gale_object_destroy(&in[i]);
        gale_object_destroy(&want[i]);
        gale_object_destroy(&out[i]);
    }
    return ok;
}

/* What is made once and kept for good is made by the first row. */
TEST(models)
{
    int64_t live = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gale_device *device = NULL;
        if (!CHECK_OK(gale_device_open(&(gale_device_options){.chain = "cpu", .index = -1, .strict = true}, &device)))
            return;
        if (!check_model(&rows[i], device)) printf("    %s: %s\n", rows[i].in, rows[i].nodes[0]);
        gale_device_close(&device);
        if (i) CHECK_EQ(gale__alloc_live(), live);
        live = gale__alloc_live();
    }
}

TESTS(ROW(models))
