/* A folder with a small encoder whose vectors can be computed by hand: the vector of a token is its row of a table, and
 * a tokenizer that knows a few words.  Token n has the row (n, n * n, -n, 1).
 *
 *     [PAD] 0  [CLS] 1  [SEP] 2  [UNK] 3  one 4  two 5  three 6  query 7 */
#ifndef GALE_TESTS_ENCODER_MAKE_H
#define GALE_TESTS_ENCODER_MAKE_H
#include "base/file.h"
#include "base/process.h"
#include "onnx_make.h"
#include "test.h"

enum { ENCODER_WORDS = 8, ENCODER_DIMS = 4 };

static const char encoder_tokenizer[] =
    "{\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"post_processor\":{\"type\":"
    "\"BertProcessing\",\"sep\":[\"[SEP]\",2],\"cls\":[\"[CLS]\",1]},\"model\":{\"type\":\"WordLevel\",\"unk_token\":"
    "\"[UNK]\",\"vocab\":{\"[PAD]\":0,\"[CLS]\":1,\"[SEP]\":2,\"[UNK]\":3,\"one\":4,\"two\":5,\"three\":6,"
    "\"query\":7}}}";

static inline void encoder_write(const char *folder, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK_OK(gale__file_write(path, text, strlen(text)));
}

typedef struct encoder_kind {
    int opset;          /* 0: 17 */
    int words;          /* rows of the table; 0: ENCODER_WORDS */
    const char *input;  /* another one beside the usual three; NULL: none */
    const char *output; /* NULL: last_hidden_state; "sentence_embedding": the first token's */
    bool bare;          /* input_ids alone */
    bool narrow;        /* inputs are i32 */
} encoder_kind;

static inline void encoder_model(const char *path, encoder_kind kind)
{
    maker m;
    float table[64 * ENCODER_DIMS];
    int words = kind.words ? kind.words : ENCODER_WORDS;
    char shape[32];
    gale__str bytes = {0};
    for (int i = 0; i < words; i++)
        for (int k = 0; k < ENCODER_DIMS; k++)
            table[i * ENCODER_DIMS + k] = (float)(k == 0 ? i : k == 1 ? i * i : k == 2 ? -i : 1);
    make_begin(&m, kind.opset ? kind.opset : 17);
    make_input(&m, "input_ids", kind.narrow ? 6 : 7, "b,t");
    if (!kind.bare) {
        make_input(&m, "attention_mask", kind.narrow ? 6 : 7, "b,t");
        make_input(&m, "token_type_ids", kind.narrow ? 6 : 7, "b,t");
    }
    if (kind.input) make_input(&m, kind.input, 7, "b,t");
    snprintf(shape, sizeof shape, "%d,%d", words, ENCODER_DIMS);
    make_initializer(&m, make_floats(&m, "table", shape, table, (size_t)words * ENCODER_DIMS));
    make_node(&m, "Gather", "table,input_ids", "last_hidden_state");
    if (kind.output && !strcmp(kind.output, "sentence_embedding")) {
        make_initializer(&m, make_ints(&m, "first", "", (const int64_t[]){0}, 1));
        gale__pb_node *node = make_node(&m, "Gather", "last_hidden_state,first", "sentence_embedding");
        make_attr_i(&m, node, "axis", 1);
        make_output(&m, "sentence_embedding", 1, "b,4");
    } else if (kind.output) {
        make_node(&m, "Shape", "last_hidden_state", kind.output);
        make_output(&m, kind.output, 7, "3");
    } else make_output(&m, "last_hidden_state", 1, "b,t,4");
    if (CHECK_OK(make_encode(&m, &bytes))) CHECK_OK(gale__file_write(path, bytes.text, bytes.length));
    gale__str_finish(&bytes);
    make_end(&m);
}

/* A new folder with both files; removed with gale__temp_folder_remove. */
static inline void encoder_make(char folder[256], encoder_kind kind)
{
    char path[512];
    if (!CHECK_OK(gale__temp_folder_make(folder, 256))) return;
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    encoder_model(path, kind);
    encoder_write(folder, "tokenizer.json", encoder_tokenizer);
}
#endif
