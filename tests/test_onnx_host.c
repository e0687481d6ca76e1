/* Host operators of models: sequences, optionals, strings, maps, look-ups.  Values are ONNX's own examples or were
 * found with NumPy and Python.  What is hostile (positions out of range, wrong kinds, ragged parts) must be refused
 * with a reason, and every allocation may fail. */
#include "base/mem.h"
#include "host_calls.h"
#include "onnx/host/host.h"
#include "test.h"

/* --- Objects. --- */

TEST(objects)
{
    gale_object *none = NULL, *one = NULL, *list = NULL, *map = NULL;
    int64_t live = gale__alloc_live();
    gale_tensor *keys = NULL, *bad = NULL;
    CHECK_OK(gale_object_none(&none));
    CHECK_EQ(gale_object_get_kind(none), GALE_OBJECT_NONE);
    one = numbers("f32[2] 1 2");
    CHECK_OK(gale_object_sequence((gale_object *[]){one, none, one}, 3, &list));
    CHECK_EQ(gale_object_count(list), 3);
    CHECK(gale_object_item(list, 2) == one && gale_object_item(list, 3) == NULL);
    CHECK_FAILS(gale_object_sequence((gale_object *[]){one, NULL}, 2, &map), INVALID);
    CHECK_OK(gale_tensor_from_cpu(NULL, GALE_I64, 1, &(int64_t){2}, (int64_t[]){7, 9}, &keys));
    CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, 1, &(int64_t){1}, (float[]){7}, &bad));
    CHECK_FAILS(gale_object_map(bad, (gale_object *[]){one}, &map), INVALID);
    CHECK_OK(gale_object_map(keys, (gale_object *[]){one, list}, &map));
    gale_tensor_destroy(&keys);
    gale_tensor_destroy(&bad);
    CHECK_EQ(((const int64_t *)gale_tensor_data(gale_object_get_tensor(map)))[1], 9);
    gale_object_destroy(&one);
    gale_object_destroy(&none);
    gale_object_destroy(&list);
    CHECK_EQ(gale_object_count(gale_object_item(map, 1)), 3);
    for (int i = 0; i < GALE__OBJECT_DEPTH; i++) {
        gale_object *around = NULL;
        gale_status status = gale_object_sequence(&map, 1, &around);
        if (i == GALE__OBJECT_DEPTH - 2) CHECK_EQ(status, GALE_LIMIT);
        if (status != GALE_OK) break;
        gale_object_destroy(&map);
        map = around;
    }
    gale_object_destroy(&map);
    CHECK_EQ(gale__alloc_live(), live);
}

/* --- The table. --- */

TEST(table)
{
    const gale__onnx_host_op *rows;
    size_t n = gale__onnx_host_rows(&rows);
    for (size_t i = 0; i < n; i++) {
        CHECK(gale__onnx_host_find(rows[i].domain, rows[i].name) == &rows[i]);
        if (i && !CHECK(strcmp(rows[i - 1].name, rows[i].name) < 0))
            printf("    %s before %s\n", rows[i - 1].name, rows[i].name);
    }
    CHECK(!gale__onnx_host_find("", "LabelEncoder") && !gale__onnx_host_find("ai.onnx.ml", "Gather") &&
          !gale__onnx_host_find("", "Conv"));
    CHECK(gale__onnx_host_find("ai.onnx", "Gather") != NULL);
}

/* What one node's first result is, given the kinds of its inputs. */
static gale__onnx_net_value kind_of(const char *op, const char *domain, const char *attrs, gale__onnx_kind in,
    gale__onnx_kind of, bool optional, bool *wanted)
{
    gale__onnx_net_value values[2] = {{.kind = (uint8_t)in, .of = (uint8_t)of, .optional = optional}};
    gale__onnx_net net = {.values = values, .n_values = 2};
    parsed p = {0};
    parse_attrs(&p, attrs);
    gale__onnx_net_node node = {.op = op,
        .domain = domain,
        .in = &(int32_t){0},
        .n_in = 1,
        .out = &(int32_t){1},
        .n_out = 1,
        .attrs = p.attrs,
        .n_attrs = p.n};
    const gale__onnx_host_op *row = gale__onnx_host_find(domain, op);
    gale__onnx_host_kinds(row, &net, &node);
    if (wanted) *wanted = gale__onnx_host_wanted(row, &net, &node);
    forget_attrs(&p);
    return values[1];
}

TEST(kinds)
{
    bool wanted;
    CHECK_EQ(
        kind_of("SequenceAt", "", "", GALE__KIND_SEQUENCE, GALE__KIND_STRINGS, false, NULL).kind, GALE__KIND_STRINGS);
    CHECK_EQ(kind_of("SplitToSequence", "", "", GALE__KIND_STRINGS, 0, false, NULL).of, GALE__KIND_STRINGS);
    CHECK_EQ(kind_of("SplitToSequence", "", "", GALE__KIND_STRINGS, 0, false, NULL).kind, GALE__KIND_SEQUENCE);
    CHECK(kind_of("Optional", "", "", GALE__KIND_SEQUENCE, GALE__KIND_NUMBERS, false, NULL).optional);
    CHECK(!kind_of("OptionalGetElement", "", "", GALE__KIND_SEQUENCE, GALE__KIND_NUMBERS, true, NULL).optional);
    CHECK(kind_of("Identity", "", "", GALE__KIND_NUMBERS, 0, true, &wanted).optional && wanted);
    kind_of("Identity", "", "", GALE__KIND_NUMBERS, 0, false, &wanted);
    CHECK(!wanted);
    CHECK_EQ(kind_of("Cast", "", "to=8", GALE__KIND_NUMBERS, 0, false, &wanted).kind, GALE__KIND_STRINGS);
    CHECK(wanted);
    CHECK_EQ(kind_of("Cast", "", "to=1", GALE__KIND_STRINGS, 0, false, &wanted).kind, GALE__KIND_NUMBERS);
    CHECK(wanted);
    CHECK_EQ(kind_of("Cast", "", "to=1", GALE__KIND_NUMBERS, 0, false, &wanted).kind, GALE__KIND_NUMBERS);
    CHECK(!wanted);
    CHECK_EQ(kind_of("LabelEncoder", "ai.onnx.ml", "values_strings='a'", GALE__KIND_NUMBERS, 0, false, &wanted).kind,
        GALE__KIND_STRINGS);
    CHECK(wanted);
    CHECK_EQ(kind_of("LabelEncoder", "ai.onnx.ml", "values_int64s=1,", GALE__KIND_STRINGS, 0, false, NULL).kind,
        GALE__KIND_NUMBERS);
    CHECK_EQ(kind_of("CategoryMapper", "ai.onnx.ml", "", GALE__KIND_NUMBERS, 0, false, NULL).kind, GALE__KIND_STRINGS);
    CHECK_EQ(kind_of("ZipMap", "ai.onnx.ml", "", GALE__KIND_NUMBERS, 0, false, NULL).of, GALE__KIND_MAP);
    CHECK_EQ(kind_of("Shape", "", "", GALE__KIND_STRINGS, 0, false, NULL).kind, GALE__KIND_NUMBERS);
    CHECK_EQ(kind_of("Transpose", "", "", GALE__KIND_STRINGS, 0, false, NULL).kind, GALE__KIND_STRINGS);
}

/* --- Operators, by rows: operator, attributes, inputs, results (or "!" and a status). --- */

typedef struct row {
    const char *op, *attrs, *in, *out;
} row;
static const row sequence_rows[] = {{"SequenceEmpty", "", "", "{}"},
    {"SequenceConstruct", "", "f32[2] 1 2; f32[1] 3", "{f32[2] 1 2 & f32[1] 3}"},
    {"SequenceConstruct", "", "f32[2] 1 2; i32[1] 3", "!INVALID"},
    {"SequenceLength", "", "{f32[1] 1 & f32[1] 2}", "i64[] 2"}, {"SequenceLength", "", "f32[1] 1", "!INVALID"},
    {"SequenceAt", "", "{f32[1] 1 & f32[2] 2 3}; i64[] 1", "f32[2] 2 3"},
    {"SequenceAt", "", "{f32[1] 1 & f32[2] 2 3}; i32[] -2", "f32[1] 1"},
    {"SequenceAt", "", "{f32[1] 1 & f32[2] 2 3}; i64[] 2", "!INVALID"},
    {"SequenceAt", "", "{f32[1] 1}; i64[] -2", "!INVALID"},
    {"SequenceAt", "", "{f32[1] 1}; i64[] -9223372036854775808", "!INVALID"},
    {"SequenceAt", "", "{}; i64[] 0", "!INVALID"}, {"SequenceAt", "", "{f32[1] 1}; f32[] 0", "!INVALID"},
    {"SequenceAt", "", "{f32[1] 1}; i64[2] 0 0", "!INVALID"},
    {"SequenceAt", "", "{string[1] 'x'}; i64[] 0", "string[1] 'x'"},
    {"SequenceInsert", "", "{i64[1] 1 & i64[1] 2}; i64[1] 9", "{i64[1] 1 & i64[1] 2 & i64[1] 9}"},
    {"SequenceInsert", "", "{i64[1] 1 & i64[1] 2}; i64[1] 9; i64[] 0", "{i64[1] 9 & i64[1] 1 & i64[1] 2}"},
    {"SequenceInsert", "", "{i64[1] 1 & i64[1] 2}; i64[1] 9; i64[] -1", "{i64[1] 1 & i64[1] 9 & i64[1] 2}"},
    {"SequenceInsert", "", "{i64[1] 1 & i64[1] 2}; i64[1] 9; i64[] 2", "{i64[1] 1 & i64[1] 2 & i64[1] 9}"},
    {"SequenceInsert", "", "{i64[1] 1 & i64[1] 2}; i64[1] 9; i64[] 3", "!INVALID"},
    {"SequenceInsert", "", "{i64[1] 1}; f32[1] 9", "!INVALID"}, {"SequenceInsert", "", "{}; f32[1] 9", "{f32[1] 9}"},
    {"SequenceErase", "", "{i64[1] 1 & i64[1] 2}", "{i64[1] 1}"},
    {"SequenceErase", "", "{i64[1] 1 & i64[1] 2}; i64[] 0", "{i64[1] 2}"},
    {"SequenceErase", "", "{i64[1] 1}; i64[] -1", "{}"}, {"SequenceErase", "", "{}", "!INVALID"},
    {"SplitToSequence", "axis=1 keepdims=0", "f32[2,3] 1 2 3 4 5 6", "{f32[2] 1 4 & f32[2] 2 5 & f32[2] 3 6}"},
    {"SplitToSequence", "axis=-1", "f32[2,3] 1 2 3 4 5 6; i64[] 2", "{f32[2,2] 1 2 4 5 & f32[2,1] 3 6}"},
    {"SplitToSequence", "keepdims=0", "f32[3,1] 1 2 3; i64[2] 1 2", "{f32[1,1] 1 & f32[2,1] 2 3}"},
    {"SplitToSequence", "", "i32[0,2]", "{}"},
    {"SplitToSequence", "", "string[3] 'a' 'b' 'c'; i64[2] 2 1", "{string[2] 'a' 'b' & string[1] 'c'}"},
    {"SplitToSequence", "", "f32[3] 1 2 3; i64[2] 1 1", "!INVALID"},
    {"SplitToSequence", "", "f32[3] 1 2 3; i64[2] 4 -1", "!INVALID"},
    {"SplitToSequence", "", "f32[3] 1 2 3; i64[] 0", "!INVALID"},
    {"SplitToSequence", "axis=1", "f32[3] 1 2 3", "!INVALID"}, {"SplitToSequence", "", "f32[] 1", "!INVALID"},
    {"ConcatFromSequence", "axis=0", "{f32[2] 1 2 & f32[1] 3}", "f32[3] 1 2 3"},
    {"ConcatFromSequence", "axis=-1 new_axis=1", "{f32[2] 1 2 & f32[2] 3 4}", "f32[2,2] 1 3 2 4"},
    {"ConcatFromSequence", "axis=0", "{string[2] 'a' 'b' & string[1] 'c'}", "string[3] 'a' 'b' 'c'"},
    {"ConcatFromSequence", "axis=0", "{}", "!INVALID"}, {"ConcatFromSequence", "axis=2", "{f32[2] 1 2}", "!INVALID"},
    {"ConcatFromSequence", "axis=0", "{f32[2] 1 2 & f32[1,1] 3}", "!INVALID"},
    {"ConcatFromSequence", "", "{f32[2] 1 2}", "!INVALID"}, {"Identity", "", "{f32[1] 1}", "{f32[1] 1}"},
    {"Identity", "", "none", "none"}, {"Optional", "", "f32[1] 1", "f32[1] 1"}, {"Optional", "", "", "none"},
    {"OptionalHasElement", "", "f32[1] 1", "bool[] 1"}, {"OptionalHasElement", "", "none", "bool[] 0"},
    {"OptionalHasElement", "", "", "bool[] 0"}, {"OptionalHasElement", "", "{}", "bool[] 1"},
    {"OptionalGetElement", "", "{f32[1] 1}", "{f32[1] 1}"}, {"OptionalGetElement", "", "none", "!INVALID"}};

static const row string_rows[] = {
    {"StringConcat", "", "string[2] 'abc' 'def'; string[2] '.com' '.net'", "string[2] 'abc.com' 'def.net'"},
    {"StringConcat", "", "string[3] 'cat' 'dog' 'snake'; string[1] 's'", "string[3] 'cats' 'dogs' 'snakes'"},
    {"StringConcat", "", "string[2,1] 'a' 'b'; string[1,3] 'x' 'y' ''", "string[2,3] 'ax' 'ay' 'a' 'bx' 'by' 'b'"},
    {"StringConcat", "", "string[] 'cat'; string[] 's'", "string[] 'cats'"},
    {"StringConcat", "", "string[0,1]; string[1,2] 'a' 'b'", "string[0,2]"},
    {"StringConcat", "", "string[2] 'a' 'b'; string[3] 'a' 'b' 'c'", "!INVALID"},
    {"StringConcat", "", "string[1] 'a'; f32[1] 1", "!INVALID"},
    {"StringSplit", "delimiter='.'", "string[2] 'abc.com' 'def.net'",
        "string[2,2] 'abc' 'com' 'def' 'net'; i64[2] 2 2"},
    {"StringSplit", "maxsplit=2", "string[2,2] 'hello world' 'def.net' 'o n n x' 'the quick brown fox'",
        "string[2,2,3] 'hello' 'world' '' 'def.net' '' '' 'o' 'n' 'n x' 'the' 'quick' 'brown fox'; i64[2,2] 2 1 3 3"},
    {"StringSplit", "delimiter='-'", "string[2] 'o-n-n--x-' 'o-n----nx'",
        "string[2,6] 'o' 'n' 'n' '' 'x' '' 'o' 'n' '' '' '' 'nx'; i64[2] 6 6"},
    {"StringSplit", "delimiter=''", "string[3] ' hello world ' '   ' ''",
        "string[3,2] 'hello' 'world' '' '' '' ''; i64[3] 2 0 0"},
    {"StringSplit", "delimiter=','", "string[2] '' 'a,b'", "string[2,2] '' '' 'a' 'b'; i64[2] 1 2"},
    {"StringSplit", "", "string[0]", "string[0,0]; i64[0]"},
    {"StringSplit", "",
        "string[1] '\xe3\x80\x80 a\xc2\xa0"
        "b'",
        "string[1,2] 'a' 'b'; i64[1] 2"},
    {"StringSplit", "maxsplit=0", "string[1] '  a b '", "string[1,1] 'a b '; i64[1] 1"},
    {"StringSplit", "delimiter='aa'", "string[1] 'xaaaay'", "string[1,3] 'x' '' 'y'; i64[1] 3"},
    {"Tokenizer", "tokenexp='[a-z0-9_]+' pad_value='#' mincharnum=1 mark=0", "string[2] 'this is, a  test.' ''",
        "string[2,4] 'this' 'is' 'a' 'test' '#' '#' '#' '#'"},
    {"Tokenizer", "tokenexp='a|ab|is|th?' pad_value='' mincharnum=2 mark=1", "string[1,2] 'this ab' 'x'",
        "string[1,2,5] '\2' 'th' 'is' 'ab' '\3' '\2' '\3' '' '' ''"},
    {"Tokenizer", "separators=' ','[,;]+' pad_value='#' mincharnum=1", "string[2] 'a,,b; c' ' '",
        "string[2,3] 'a' 'b' 'c' '#' '#' '#'"},
    {"Tokenizer", "separators='is','i' pad_value='#' mincharnum=1", "string[1] 'this simple'",
        "string[1,3] 'th' ' s' 'mple'"},
    {"Tokenizer", "separators='' pad_value='#' mincharnum=1", "string[2] 'x\xc3\xbcy' ''",
        "string[2,3] 'x' '\xc3\xbc' 'y' '#' '#' '#'"},
    {"Tokenizer", "tokenexp='z' pad_value='#' mincharnum=1 mark=1", "string[2] 'ab' ''", "string[2,0]"},
    {"RegexFullMatch", "pattern='www\\.[\\w.-]+\\.\\bcom\\b'",
        "string[3] 'www.google.com' 'www.facebook.com' 'www.bbc.co.uk'", "bool[3] 1 1 0"},
    {"RegexFullMatch", "pattern='('", "string[1] 'a'", "!FORMAT"}, {"RegexFullMatch", "", "string[1] 'a'", "!INVALID"},
    {"RegexFullMatch", "pattern=''", "string[2,0]", "bool[2,0]"},
    {"StringNormalizer", "case_change_action='LOWER' is_case_sensitive=1 stopwords='monday'",
        "string[4] 'monday' 'tuesday' 'wednesday' 'thursday'", "string[3] 'tuesday' 'wednesday' 'thursday'"},
    {"StringNormalizer", "case_change_action='UPPER' is_case_sensitive=1 stopwords='monday'",
        "string[2] 'monday' 'monday'", "string[1] ''"},
    {"StringNormalizer", "case_change_action='UPPER' stopwords='monday'",
        "string[1,6] 'Monday' 'tuesday' 'wednesday' 'Monday' 'tuesday' 'wednesday'",
        "string[1,4] 'TUESDAY' 'WEDNESDAY' 'TUESDAY' 'WEDNESDAY'"},
    {"StringNormalizer", "case_change_action='UPPER'", "string[2] '\xc3\xa9t\xc3\xa9' '\xff!'",
        "string[2] '\xc3\x89T\xc3\x89' '\xff!'"},
    {"StringNormalizer", "case_change_action='UPPER' locale='tr_TR'", "string[1] 'i'", "string[1] '\xc4\xb0'"},
    {"StringNormalizer", "", "string[0]", "string[1] ''"},
    {"StringNormalizer", "case_change_action='TITLE'", "string[1] 'a'", "!INVALID"},
    {"StringNormalizer", "", "string[2,1] 'a' 'b'", "!INVALID"},
    {"Equal", "", "string[2,1] 'a' 'b'; string[2] 'b' 'a'", "bool[2,2] 0 1 1 0"},
    {"Equal", "", "string[1] ''; string[2] 'a' ''", "bool[2] 0 1"},
    {"Cast", "to=8", "f32[9] 0 -0 1 0.1 314.15926 1e16 1e-5 1.5e-7 12345678",
        "string[9] '0.0' '-0.0' '1.0' '0.1' '314.15927' '1e+16' '1e-05' '1.5e-07' '12345678.0'"},
    {"Cast", "to=8", "f32[4] nan inf -inf 3.4028235e38", "string[4] 'nan' 'inf' '-inf' '3.4028235e+38'"},
    {"Cast", "to=8", "f64[4] 0.1 1e22 123456789.125 -0.0001", "string[4] '0.1' '1e+22' '123456789.125' '-0.0001'"},
    {"Cast", "to=8", "f16[3] 0.1 65504 0.33325", "string[3] '0.1' '65500.0' '0.3333'"},
    {"Cast", "to=8", "i64[2] -9223372036854775808 7", "string[2] '-9223372036854775808' '7'"},
    {"Cast", "to=8", "u64[1] 18446744073709551615", "string[1] '18446744073709551615'"},
    {"Cast", "to=8", "bool[2] 0 1", "string[2] 'False' 'True'"},
    {"Cast", "to=1", "string[8] '3.14' ' 1e-5 ' '1E8' '+INF' '-inf' 'NaN' '1e999' '.5'",
        "f32[8] 3.14 1e-5 1e8 inf -inf nan inf 0.5"},
    {"Cast", "to=7", "string[4] '1000' '100.5' '-7' '9223372036854775807'", "i64[4] 1000 100 -7 9223372036854775807"},
    {"Cast", "to=13", "string[1] '18446744073709551615'", "u64[1] 18446744073709551615"},
    {"Cast", "to=9", "string[4] 'True' 'false' '0' '2'", "bool[4] 1 0 0 1"},
    {"Cast", "to=1", "string[1] 'Hello World!'", "!INVALID"}, {"Cast", "to=1", "string[1] ''", "!INVALID"},
    {"Cast", "to=1", "string[1] '0x10'", "!INVALID"}, {"Cast", "to=99", "string[1] '1'", "!UNSUPPORTED"},
    {"CastLike", "", "string[1] '5'; i32[1] 0", "i32[1] 5"},
    {"CastLike", "", "i32[1] 5; string[1] ''", "string[1] '5'"}};

static const row move_rows[] = {
    {"Reshape", "", "string[4] 'a' 'b' 'c' 'd'; i64[2] 2 -1", "string[2,2] 'a' 'b' 'c' 'd'"},
    {"Flatten", "axis=1", "string[1,2,2] 'a' 'b' 'c' 'd'", "string[1,4] 'a' 'b' 'c' 'd'"},
    {"Squeeze", "", "string[1,2] 'a' 'b'", "string[2] 'a' 'b'"},
    {"Unsqueeze", "", "string[2] 'a' 'b'; i64[1] 0", "string[1,2] 'a' 'b'"},
    {"Transpose", "", "string[2,3] 'a' 'b' 'c' 'd' 'e' 'f'", "string[3,2] 'a' 'd' 'b' 'e' 'c' 'f'"},
    {"Expand", "", "string[2,1] 'a' 'b'; i64[2] 1 2", "string[2,2] 'a' 'a' 'b' 'b'"},
    {"Tile", "", "string[2] 'a' 'b'; i64[1] 2", "string[4] 'a' 'b' 'a' 'b'"},
    {"Concat", "axis=0", "string[1] 'a'; string[2] 'b' ''; string[1] 'a'", "string[4] 'a' 'b' '' 'a'"},
    {"Split", "", "string[4] 'a' 'b' 'c' 'd'; i64[2] 1 3", "string[1] 'a'; string[3] 'b' 'c' 'd'"},
    {"Slice", "", "string[4] 'a' 'b' 'c' 'd'; i64[1] -1; i64[1] -5; i64[1] 0; i64[1] -2", "string[2] 'd' 'b'"},
    {"Gather", "", "string[3] 'a' 'b' 'c'; i64[2,2] 2 0 -1 1", "string[2,2] 'c' 'a' 'c' 'b'"},
    {"GatherElements", "axis=1", "string[2,2] 'a' 'b' 'c' 'd'; i64[2,2] 0 0 1 0", "string[2,2] 'a' 'a' 'd' 'c'"},
    {"GatherND", "", "string[2,2] 'a' 'b' 'c' 'd'; i64[2,2] 0 0 1 1", "string[2] 'a' 'd'"},
    {"ScatterElements", "", "string[3] 'a' 'b' 'c'; i64[2] 2 0; string[2] 'x' 'y'", "string[3] 'y' 'b' 'x'"},
    {"ScatterElements", "reduction='add'", "string[1] 'a'; i64[1] 0; string[1] 'x'", "!UNSUPPORTED"},
    {"ScatterND", "", "string[2,2] 'a' 'b' 'c' 'd'; i64[1,1] 1; string[1,2] 'x' 'y'", "string[2,2] 'a' 'b' 'x' 'y'"},
    {"Where", "", "bool[2] 1 0; string[2] 'a' 'b'; string[1] 'z'", "string[2] 'a' 'z'"},
    {"Pad", "", "string[2] 'a' 'b'; i64[2] 1 1", "string[4] '' 'a' 'b' ''"},
    {"Pad", "", "string[2] 'a' 'b'; i64[2] 0 2; string[] 'p'", "string[4] 'a' 'b' 'p' 'p'"},
    {"Pad", "mode='edge'", "string[2] 'a' 'b'; i64[2] 1 0", "string[3] 'a' 'a' 'b'"},
    {"Trilu", "upper=0", "string[2,2] 'a' 'b' 'c' 'd'", "string[2,2] 'a' '' 'c' 'd'"},
    {"ConstantOfShape", "value=string[1]:'v'", "i64[2] 1 2", "string[1,2] 'v' 'v'"},
    {"OneHot", "", "i64[2] 1 0; i64[] 2; string[2] 'off' 'on'", "string[2,2] 'off' 'on' 'on' 'off'"},
    {"OneHot", "", "i64[2] 1 0; f32[] nan; string[2] 'off' 'on'", "!INVALID"},
    {"OneHot", "", "i64[2] 1 0; f32[] inf; string[2] 'off' 'on'", "!INVALID"},
    {"Shape", "", "string[2,3] 'a' 'b' 'c' 'd' 'e' 'f'", "i64[2] 2 3"}, {"Size", "", "string[2,1] 'a' 'b'", "i64[] 2"},
    {"DepthToSpace", "blocksize=2", "string[1,4,1,1] 'a' 'b' 'c' 'd'", "string[1,1,2,2] 'a' 'b' 'c' 'd'"},
    {"SpaceToDepth", "blocksize=2", "string[1,1,2,2] 'a' 'b' 'c' 'd'", "string[1,4,1,1] 'a' 'b' 'c' 'd'"},
    {"Resize", "mode='nearest'", "string[2] 'a' 'b'; ; f32[1] 2", "string[4] 'a' 'a' 'b' 'b'"},
    {"Resize", "mode='linear'", "string[2] 'a' 'b'; ; f32[1] 2", "!UNSUPPORTED"},
    {"Resize", "mode='nearest' coordinate_transformation_mode='tf_crop_and_resize'",
        "string[2] 'a' 'b'; f32[2] nan 1; f32[1] 2", "!INVALID"},
    {"Resize", "mode='nearest' coordinate_transformation_mode='tf_crop_and_resize'",
        "string[2] 'a' 'b'; f32[2] 0 1e30; f32[1] 2", "!INVALID"},
    {"ArrayFeatureExtractor", "", "string[2,3] 'a' 'b' 'c' 'd' 'e' 'f'; i64[2] 2 0", "string[2,2] 'c' 'a' 'f' 'd'"},
    {"Compress", "axis=1", "string[2,2] 'a' 'b' 'c' 'd'; bool[2] 0 1", "string[2,1] 'b' 'd'"},
    {"Compress", "", "string[2,2] 'a' 'b' 'c' 'd'; bool[4] 0 1 0 1", "string[2] 'b' 'd'"},
    {"Compress", "", "string[2] 'a' 'b'; bool[2] 0 0", "string[0]"},
    {"NonZero", "", "string[2,2] 'a' '' '' 'd'", "i64[2,2] 0 1 0 1"},
    {"Unique", "", "string[5] 'b' 'a' '' 'b' 'a'",
        "string[3] '' 'a' 'b'; i64[3] 2 1 0; i64[5] 2 1 0 2 1; i64[3] 1 2 2"},
    {"Unique", "sorted=0", "string[4] 'b' 'a' 'b' 'c'",
        "string[3] 'b' 'a' 'c'; i64[3] 0 1 3; i64[4] 0 1 0 2; i64[3] 2 1 1"},
    {"Unique", "axis=0", "string[3,2] 'x' 'y' 'a' 'b' 'x' 'y'",
        "string[2,2] 'a' 'b' 'x' 'y'; i64[2] 1 0; i64[3] 1 0 1; i64[2] 1 2"},
    {"Reshape", "", "string[4] 'a' 'b' 'c' 'd'; i64[1] 3", "!INVALID"},
    {"Concat", "axis=3", "string[1] 'a'; string[1] 'b'", "!INVALID"}, {"Gather", "", "{}; i64[1] 0", "!INVALID"}};

static const row ml_rows[] = {{"LabelEncoder", "keys_strings='a','b','c' values_int64s=0,1,2 default_int64=42",
                                  "string[5] 'a' 'b' 'd' 'c' 'g'", "i64[5] 0 1 42 2 42"},
    {"LabelEncoder", "keys_strings='a','b','c' values_int64s=0,1,2", "string[5] 'a' 'b' 'd' 'c' 'g'",
        "i64[5] 0 1 -1 2 -1"},
    {"LabelEncoder", "keys_tensor=string[3]:'a','b','c' values_tensor=i16[3]:0,1,2 default_tensor=i16[1]:42",
        "string[5] 'a' 'b' 'd' 'c' 'g'", "i16[5] 0 1 42 2 42"},
    {"LabelEncoder", "keys_floats=1.5,nan, values_strings='x','y'", "f32[4] 1.5 nan 2 -0",
        "string[4] 'x' 'y' '_Unused' '_Unused'"},
    {"LabelEncoder", "keys_int64s=1,1, values_strings='x','y' default_string='?'", "i64[2] 1 3", "string[2] 'y' '?'"},
    {"LabelEncoder", "keys_strings='a','b' values_floats=0.5,2.5", "string[3] 'b' 'a' 'z'", "f32[3] 2.5 0.5 -0"},
    {"LabelEncoder", "classes_strings='p','q' default_int64=9", "string[3] 'q' 'p' 'r'", "i64[3] 1 0 9"},
    {"LabelEncoder", "classes_strings='p','q' default_string='r'", "i64[3] 1 0 2", "string[3] 'q' 'p' 'r'"},
    {"LabelEncoder", "keys_strings='a','b' values_int64s=1,", "string[1] 'a'", "!INVALID"},
    {"LabelEncoder", "keys_strings='a'", "string[1] 'a'", "!INVALID"},
    {"LabelEncoder", "keys_int64s=1, values_int64s=1,", "string[1] 'a'", "!INVALID"},
    {"CategoryMapper", "cats_strings='cat','dog' cats_int64s=10,20 default_int64=-5", "string[2,1] 'dog' 'cow'",
        "i64[2,1] 20 -5"},
    {"CategoryMapper", "cats_strings='cat','dog' cats_int64s=10,20 default_string='?'", "i64[2] 10 11",
        "string[2] 'cat' '?'"},
    {"OneHotEncoder", "cats_strings='a','b','c'", "string[2] 'c' 'x'", "f32[2,3] 0 0 1 0 0 0"},
    {"OneHotEncoder", "cats_strings='a','b','c' zeros=0", "string[2] 'c' 'x'", "!INVALID"},
    {"OneHotEncoder", "cats_int64s=1,2", "f32[1] 2", "f32[1,2] 0 1"},
    {"DictVectorizer", "string_vocabulary='a','c','b','z'", "(string[2] 'a' 'c' = i64[] 4 & i64[] 8)",
        "i64[4] 4 8 0 0"},
    {"DictVectorizer", "int64_vocabulary=5,6", "(i64[1] 6 = string[] 'six')", "string[2] '' 'six'"},
    {"DictVectorizer", "string_vocabulary='a'", "(string[1] 'q' = i64[] 4)", "!INVALID"},
    {"DictVectorizer", "string_vocabulary='a'", "i64[1] 1", "!INVALID"},
    {"CastMap", "", "(i64[3] 7 2 5 = string[] '0.5' & string[] '1' & string[] '2')", "f32[1,3] 1 2 0.5"},
    {"CastMap", "cast_to='TO_INT64' map_form='SPARSE' max_map=4", "(i64[2] 3 0 = f32[] 9 & f32[] 8)",
        "i64[1,4] 8 0 0 9"},
    {"CastMap", "cast_to='TO_STRING' map_form='SPARSE' max_map=3", "(i64[1] 1 = f32[] 2.5)", "string[1,3] '' '2.5' ''"},
    {"CastMap", "map_form='SPARSE' max_map=3", "(i64[1] 3 = f32[] 1)", "!INVALID"},
    {"CastMap", "map_form='SPARSE' max_map=-1", "(i64[1] 3 = f32[] 1)", "!INVALID"},
    {"ZipMap", "classlabels_strings='a','b'", "f32[2,2] 1 2 3 4",
        "{(string[2] 'a' 'b' = f32[] 1 & f32[] 2) & (string[2] 'a' 'b' = f32[] 3 & f32[] 4)}"},
    {"ZipMap", "classlabels_int64s=1,2,3", "f32[2,2] 1 2 3 4", "!INVALID"}};

#define GRAMS "pool_int64s=2,3,5,4,5,6,7,8,6,7 ngram_counts=0,4 ngram_indexes=0,1,2,3,4,5,6 "
static const row tfidf_rows[] = {
    {"TfIdfVectorizer", GRAMS "mode='TF' min_gram_length=2 max_gram_length=2 max_skip_count=0",
        "i32[12] 1 1 3 3 3 7 8 6 7 5 6 8", "f32[7] 0 0 0 0 1 1 1"},
    {"TfIdfVectorizer", GRAMS "mode='TF' min_gram_length=2 max_gram_length=2 max_skip_count=5",
        "i32[12] 1 1 3 3 3 7 8 6 7 5 6 8", "f32[7] 0 0 0 0 1 3 1"},
    {"TfIdfVectorizer", GRAMS "mode='TF' min_gram_length=1 max_gram_length=2 max_skip_count=5",
        "i32[12] 1 1 3 3 3 7 8 6 7 5 6 8", "f32[7] 0 3 1 0 1 3 1"},
    {"TfIdfVectorizer", GRAMS "mode='TF' min_gram_length=2 max_gram_length=2 max_skip_count=5",
        "i32[2,6] 1 1 3 3 3 7 8 6 7 5 6 8", "f32[2,7] 0 0 0 0 0 0 0 0 0 0 0 1 1 1"},
    {"TfIdfVectorizer", GRAMS "mode='TF' min_gram_length=1 max_gram_length=2 max_skip_count=0",
        "i32[2,6] 1 1 3 3 3 7 8 6 7 5 6 8", "f32[2,7] 0 3 0 0 0 0 0 0 0 1 0 1 0 1"},
    {"TfIdfVectorizer",
        GRAMS "mode='IDF' weights=1.0,2.0,3.0,4.0,5.0,6.0,7.0 min_gram_length=1 max_gram_length=2 max_skip_count=5",
        "i32[12] 1 1 3 3 3 7 8 6 7 5 6 8", "f32[7] 0 2 3 0 5 6 7"},
    {"TfIdfVectorizer",
        GRAMS "mode='TFIDF' weights=1.0,2.0,3.0,4.0,5.0,6.0,7.0 min_gram_length=1 max_gram_length=2 max_skip_count=5",
        "i32[12] 1 1 3 3 3 7 8 6 7 5 6 8", "f32[7] 0 6 3 0 5 18 7"},
    {"TfIdfVectorizer",
        "pool_strings='a','b','a','b' ngram_counts=0,2 ngram_indexes=2,0,1 mode='TF' min_gram_length=1 "
        "max_gram_length=2 max_skip_count=0",
        "string[4] 'a' 'b' 'x' 'a'", "f32[3] 1 1 2"},
    {"TfIdfVectorizer",
        "pool_strings='a','b','a','b' ngram_counts=0,2 ngram_indexes=2,0,1 weights=2.0,3.0,5.0 mode='TFIDF' "
        "min_gram_length=1 max_gram_length=2 max_skip_count=0",
        "string[4] 'a' 'b' 'x' 'a'", "f32[3] 3 5 4"},
    {"TfIdfVectorizer", GRAMS "mode='TF' min_gram_length=1 max_gram_length=2 max_skip_count=0", "i64[0]",
        "f32[7] 0 0 0 0 0 0 0"},
    {"TfIdfVectorizer", GRAMS "mode='TF' min_gram_length=1 max_gram_length=2 max_skip_count=9223372036854775806",
        "i64[2] 2 3", "f32[7] 1 1 0 0 0 0 0"},
    {"TfIdfVectorizer",
        "pool_int64s=1,2,3 ngram_counts=0,2 ngram_indexes=0,1,2 mode='TF' min_gram_length=1 max_gram_length=2 "
        "max_skip_count=0",
        "i64[1] 1", "!INVALID"},
    {"TfIdfVectorizer", "pool_int64s=1,2,3 ngram_counts=0,9 ngram_indexes=0,1,2 mode='TF'", "i64[1] 1", "!INVALID"},
    {"TfIdfVectorizer", "pool_int64s=1,2 ngram_counts=0, ngram_indexes=0, mode='TF'", "i64[1] 1", "!INVALID"},
    {"TfIdfVectorizer", "pool_int64s=1,2 ngram_counts=0, ngram_indexes=0,-1 mode='TF'", "i64[1] 1", "!INVALID"},
    {"TfIdfVectorizer", GRAMS "mode='XX'", "i64[1] 1", "!INVALID"},
    {"TfIdfVectorizer", GRAMS "mode='TF'", "string[1] 'a'", "!INVALID"},
    {"TfIdfVectorizer", GRAMS "mode='TF'", "i64[1,1,1] 1", "!INVALID"}};

static void run_rows(const row *rows, size_t n)
{
    open_session();
    for (size_t i = 0; i < n; i++)
        if (!check_call(rows[i].op, rows[i].attrs, rows[i].in, rows[i].out))
            printf("    %s %s (%s)\n", rows[i].op, rows[i].attrs, rows[i].in);
    close_session();
}
#define RUN(rows) run_rows(rows, sizeof rows / sizeof *rows)
TEST(sequences) { RUN(sequence_rows); }
TEST(strings) { RUN(string_rows); }
TEST(movement) { RUN(move_rows); }
TEST(encoders) { RUN(ml_rows); }
TEST(ngrams) { RUN(tfidf_rows); }

/* More parts than Split has results, so that they are split into groups. */
TEST(many_parts)
{
    gale_object *x = NULL, *parts = NULL;
    gale_tensor *t = NULL;
    enum { N = 300 };
    float data[N];
    for (int i = 0; i < N; i++) data[i] = (float)i;
    CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, 1, &(int64_t){N}, data, &t));
    CHECK_OK(gale__onnx_object_take(&t, &x));
    open_session();
    if (CHECK_OK(call_with("SplitToSequence", "", &x, 1, &parts, 1))) CHECK_EQ(gale_object_count(parts), N);
    for (int i = 0; parts && i < N; i++) {
        float v = -1;
        CHECK_OK(gale_tensor_to_cpu(gale_object_get_tensor(gale_object_item(parts, (size_t)i)), &v, sizeof v));
        if (!CHECK_EQ(v, i)) break;
    }
    gale_object_destroy(&parts);
    gale_object_destroy(&x);
    close_session();
}

/* Every allocation of an operator fails once. */
static void fail_rows(const row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int n_out = 1;
        for (const char *p = rows[i].out; *p; p++) n_out += *p == ';';
        if (!check_faults(rows[i].op, rows[i].attrs, rows[i].in, n_out))
            printf("    %s %s (%s)\n", rows[i].op, rows[i].attrs, rows[i].in);
    }
}
#define FAIL(rows) fail_rows(rows, sizeof rows / sizeof *rows)
TEST(allocations_fail)
{
    FAIL(sequence_rows);
    FAIL(string_rows);
    FAIL(ml_rows);
    FAIL(tfidf_rows);
    fail_rows(move_rows, test_light() ? 2 : sizeof move_rows / sizeof *move_rows);
}

TESTS(ROW(objects), ROW(table), ROW(kinds), ROW(sequences), ROW(strings), ROW(movement), ROW(encoders), ROW(ngrams),
    ROW(many_parts), ROW(allocations_fail))
