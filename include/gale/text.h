/* Tokenizers: from text to the numbers that a language model takes, and back.
 *
 *     gale_tokenizer *tokenizer;
 *     gale_encoder *encoder;
 *     gale_encoding tokens;
 *     gale_tokenizer_open("all-MiniLM-L6-v2", &tokenizer);
 *     gale_encoder_create(tokenizer, &encoder);
 *     gale_tokenizer_encode(tokenizer, encoder, "Hello", 5, NULL, 0, NULL, &tokens);   // tokens.ids, tokens.count ...
 *
 * The numbers are those of Hugging Face's `tokenizers`.  A tokenizer is immutable: any number of threads may use it at
 * once, each with an encoder of its own.  An encoder keeps its memory, so that encoding allocates nothing once it has
 * seen the longest text.
 *
 * Text is UTF-8.  Whatever is not (each longest sequence that cannot go on) is taken for U+FFFD. */
#ifndef GALE_TEXT_H
#define GALE_TEXT_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gale_tokenizer gale_tokenizer; /* threads: any number at once */
typedef struct gale_encoder gale_encoder;     /* threads: one at a time */

/* A file: tokenizer.json, vocab.txt (WordPiece), vocab.json with merges.txt beside it (byte-level BPE), or a
 * SentencePiece model.  A folder: the first of these names that it holds.
 * GALE_UNSUPPORTED: the file asks for something that gale has not got (the message names it); it is never left out. */
GALE_API gale_status gale_tokenizer_open(const char *path, gale_tokenizer **out);
/* The text of a tokenizer.json, or the bytes of a SentencePiece model; they may be freed afterwards. */
GALE_API gale_status gale_tokenizer_open_memory(const void *data, size_t size, gale_tokenizer **out);
GALE_API void gale_tokenizer_destroy(gale_tokenizer **tokenizer);

/* Numbers run from 0 to gale_tokenizer_size - 1; a file may leave some out. */
GALE_API size_t gale_tokenizer_size(const gale_tokenizer *tokenizer);
/* GALE_NOT_FOUND: the vocabulary has no such token. */
GALE_API gale_status gale_tokenizer_find(
    const gale_tokenizer *tokenizer, const char *token, size_t token_size, uint32_t *id);
/* The token of a number: *token belongs to the tokenizer, and is followed by a zero byte. GALE_NOT_FOUND: there is
 * none. */
GALE_API gale_status gale_tokenizer_token(
    const gale_tokenizer *tokenizer, uint32_t id, const char **token, size_t *token_size);

typedef struct gale_tokenizer_info {
    const char *model; /* "WordPiece", "BPE", "Unigram" or "WordLevel" */
    size_t max_length; /* tokens that the file cuts to, with special ones; 0: it does not */
    size_t pad_length; /* tokens that the file pads to; 0: it does not, or to the longest of a batch */
    bool pads;         /* the file asks for padding of either kind */
    bool pad_left;     /* padding goes in front */
    uint32_t pad_id, pad_type_id;
    size_t special_count; /* tokens that are added to a text */
    size_t special_count_of_pair;
} gale_tokenizer_info;
GALE_API void gale_tokenizer_get_info(const gale_tokenizer *tokenizer, gale_tokenizer_info *out);

/* All zero: as the file says. */
typedef struct gale_encode_options {
    bool no_special;      /* leave out tokens such as [CLS] and [SEP] */
    bool special_as_text; /* a special token that stands in the text is text like any other */
    int64_t max_length;   /* tokens, special ones included; 0: as the file says; -1: all of them */
    int64_t pad_length;   /* 0: as the file says; -1: no padding */
    uint64_t reserved[4]; /* 0 */
} gale_encode_options;

typedef struct gale_range {
    uint32_t begin, end; /* code points of the text; 0, 0 for tokens that are not in it */
} gale_range;

/* Arrays of `count`.  They belong to the encoder and are valid until its next call. */
typedef struct gale_encoding {
    size_t count;
    const uint32_t *ids;
    const uint32_t *type_ids; /* 0: first text, 1: second, unless the file says otherwise */
    const gale_range *ranges; /* where tokens come from ("offsets") */
    const int32_t *words;     /* which word of its text; -1: none (special tokens and padding) */
    const uint8_t *special;   /* 1: added by the tokenizer */
    const uint8_t *mask;      /* 0: padding */
} gale_encoding;

/* One encoder serves one thread.  The tokenizer has to live as long. */
GALE_API gale_status gale_encoder_create(const gale_tokenizer *tokenizer, gale_encoder **out);
GALE_API void gale_encoder_destroy(gale_encoder **encoder);

/* `pair` is the second text of a pair; NULL: there is none.  `options` may be NULL. */
GALE_API gale_status gale_tokenizer_encode(const gale_tokenizer *tokenizer, gale_encoder *encoder, const char *text,
    size_t text_size, const char *pair, size_t pair_size, const gale_encode_options *options, gale_encoding *out);
/* Numbers that the vocabulary has not got are left out, and special tokens too, unless they are asked for.  *text
 * belongs to the encoder, and is followed by a zero byte. */
GALE_API gale_status gale_tokenizer_decode(const gale_tokenizer *tokenizer, gale_encoder *encoder, const uint32_t *ids,
    size_t count, bool with_special, const char **text, size_t *text_size);

#ifdef __cplusplus
}
#endif
#endif
