/* Tokenizers: text to the token ids of a language model, and back.
 *
 *     gale_tokenizer *tokenizer;
 *     gale_encoder *encoder;
 *     gale_encoding tokens;
 *     gale_tokenizer_open("all-MiniLM-L6-v2", &tokenizer);
 *     gale_encoder_create(tokenizer, &encoder);
 *     gale_tokenizer_encode(tokenizer, encoder, "Hello", 5, NULL, 0, NULL, &tokens);   // tokens.ids, tokens.count ...
 *
 * Ids are identical to those of Hugging Face's `tokenizers`.  A tokenizer is immutable: any number of threads may use
 * it at once, each with its own encoder.  An encoder keeps its memory, so it does not allocate once it has seen the
 * longest text.
 *
 * Text is UTF-8.  Each maximal invalid sequence is replaced by U+FFFD. */
#ifndef GALE_TEXT_H
#define GALE_TEXT_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gale_tokenizer gale_tokenizer; /* threads: any number at once */
typedef struct gale_encoder gale_encoder;     /* threads: one at a time */

/* A file: tokenizer.json, vocab.txt (WordPiece), vocab.json with merges.txt beside it (byte-level BPE), or a
 * SentencePiece model.  A folder: the first of these files in it.
 * GALE_UNSUPPORTED: the file uses an unsupported feature, which the message names; nothing is ignored. */
GALE_API gale_status gale_tokenizer_open(const char *path, gale_tokenizer **out);
/* The text of a tokenizer.json, or the bytes of a SentencePiece model; they may be freed afterwards. */
GALE_API gale_status gale_tokenizer_open_memory(const void *data, size_t size, gale_tokenizer **out);
GALE_API void gale_tokenizer_destroy(gale_tokenizer **tokenizer);

/* Ids are 0 to gale_tokenizer_size - 1, possibly with gaps. */
GALE_API size_t gale_tokenizer_size(const gale_tokenizer *tokenizer);
/* GALE_NOT_FOUND: the vocabulary has no such token. */
GALE_API gale_status gale_tokenizer_find(
    const gale_tokenizer *tokenizer, const char *token, size_t token_size, uint32_t *id);
/* The token of an id: *token belongs to the tokenizer and is zero-terminated.  GALE_NOT_FOUND: no such token. */
GALE_API gale_status gale_tokenizer_token(
    const gale_tokenizer *tokenizer, uint32_t id, const char **token, size_t *token_size);

typedef struct gale_tokenizer_info {
    const char *model; /* "WordPiece", "BPE", "Unigram" or "WordLevel" */
    size_t max_length; /* tokens that the file truncates to, including special ones; 0: no truncation */
    size_t pad_length; /* tokens that the file pads to; 0: no padding, or to the longest of a batch */
    bool pads;         /* the file asks for padding of either kind */
    bool pad_left;     /* padding is on the left */
    uint32_t pad_id, pad_type_id;
    size_t special_count; /* special tokens added to a text */
    size_t special_count_of_pair;
} gale_tokenizer_info;
GALE_API void gale_tokenizer_get_info(const gale_tokenizer *tokenizer, gale_tokenizer_info *out);

/* All zero: as the file says. */
typedef struct gale_encode_options {
    bool no_special;      /* do not add tokens such as [CLS] and [SEP] */
    bool special_as_text; /* treat special tokens in the text as ordinary text */
    int64_t max_length;   /* tokens, including special ones; 0: as the file says; -1: no limit */
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

/* One encoder serves one thread.  The tokenizer must outlive it. */
GALE_API gale_status gale_encoder_create(const gale_tokenizer *tokenizer, gale_encoder **out);
GALE_API void gale_encoder_destroy(gale_encoder **encoder);

/* `pair` is the second text of a pair; NULL: none.  `options` may be NULL. */
GALE_API gale_status gale_tokenizer_encode(const gale_tokenizer *tokenizer, gale_encoder *encoder, const char *text,
    size_t text_size, const char *pair, size_t pair_size, const gale_encode_options *options, gale_encoding *out);
/* Unknown ids are skipped, and so are special tokens without GALE_DECODE_SPECIAL.  *text belongs to the encoder and is
 * zero-terminated. */
enum { GALE_DECODE_SPECIAL = 1 };
GALE_API gale_status gale_tokenizer_decode(const gale_tokenizer *tokenizer, gale_encoder *encoder, const uint32_t *ids,
    size_t count, gale_flags flags, const char **text, size_t *text_size);

#ifdef __cplusplus
}
#endif
#endif
