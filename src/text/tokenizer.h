/* A tokenizer and the per-thread state of its users. */
#ifndef GALE_TEXT_TOKENIZER_H
#define GALE_TEXT_TOKENIZER_H
#include "gale/text.h"
#include "text/added.h"
#include "text/decoder.h"
#include "text/post.h"
#include "text/split.h"

/* Bert's way with ASCII, which needs no normalization: what each byte is. */
typedef enum gale__bert_class {
    GALE__BERT_LETTER,
    GALE__BERT_SPACE,
    GALE__BERT_PUNCT,
    GALE__BERT_OTHER /* controls, and what may begin an added token: the general way has to look */
} gale__bert_class;

struct gale_tokenizer {
    gale__normalizers normalizers;
    gale__splitters splitters;
    gale__token_model model;
    gale__added added;
    gale__post post;
    gale__decoders decoders;
    bool bert, bert_lower; /* Bert's normalizer, pre-tokenizer and model: ASCII goes the short way */
    uint8_t bert_class[256];
};
/* After all parts are there: looks for short ways, and checks what depends on several parts. */
gale_status gale__tokenizer_prepare(gale_tokenizer *t);
gale_status gale__tokenizer_read_json(gale_tokenizer *t, const char *text, size_t size);
gale_status gale__tokenizer_read_sentencepiece(gale_tokenizer *t, const void *data, size_t size);
bool gale__is_sentencepiece(const void *data, size_t size);
/* vocab.txt: a token a line. */
typedef struct gale__bert_options {
    bool lower, accents, chinese; /* lower case; accents go; ideographs stand alone */
} gale__bert_options;
gale_status gale__tokenizer_read_bert_vocab(
    gale_tokenizer *t, const char *text, size_t size, const gale__bert_options *options);
gale_status gale__tokenizer_read_bpe_files(
    gale_tokenizer *t, const char *vocab, size_t vocab_size, const char *merges, size_t merges_size);

typedef struct gale__token {
    uint32_t id, begin, end, word; /* begin, end: of the original, in bytes at first, then in code points */
    uint16_t trim_front, trim_back;
} gale__token;
typedef struct gale__tokens {
    gale__token *items;
    size_t count, capacity;
} gale__tokens;

struct gale_encoder {
    gale__token_model_state model;
    gale__normalize_state normal;
    gale__split_state split;
    gale__decode_state decode;
    gale__token_pieces pieces;
    gale__tokens tokens[2]; /* of both sequences */
    char *repaired, *lower;
    uint32_t *places; /* the code point of each byte */
    size_t repaired_capacity, lower_capacity, place_capacity;
    gale__str decoded;
    uint32_t *ids, *type_ids;
    gale_range *ranges;
    int32_t *words;
    uint8_t *special, *mask;
    size_t capacity;
};
/* Tokens of a text, cut and post-processed by nothing yet. */
gale_status gale__encode_sequence(
    const gale_tokenizer *t, gale_encoder *e, const char *text, size_t size, bool special_as_text, gale__tokens *out);
/* ASCII by Bert's rules.  False: there is something in the text that needs the general way. */
gale_status gale__encode_bert_ascii(
    const gale_tokenizer *t, gale_encoder *e, const char *text, size_t size, gale__tokens *out, bool *done);
#endif
