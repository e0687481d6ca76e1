/* Models: from a word, as produced by the pre-tokenizer, to tokens. */
#ifndef GALE_TEXT_MODEL_H
#define GALE_TEXT_MODEL_H
#include "text/vocab.h"

typedef enum gale__token_model_kind {
    GALE__TOKEN_MODEL_WORDPIECE,
    GALE__TOKEN_MODEL_BPE,
    GALE__TOKEN_MODEL_UNIGRAM,
    GALE__TOKEN_MODEL_WORDLEVEL
} gale__token_model_kind;

typedef struct gale__bpe_merge {
    uint32_t left, right; /* tokens; the left one is GALE__NO_ID: a free slot */
    uint32_t rank, id;
} gale__bpe_merge;

/* Immutable once it is read. */
typedef struct gale__token_model {
    gale__token_model_kind kind;
    gale__vocab vocab;
    uint32_t size;                     /* how many tokens the file counts: added tokens get numbers from here on */
    char *unk_token, *prefix, *suffix; /* NULL: none; prefix: of pieces inside a word, suffix: of the last one (BPE) */
    uint32_t unk;                      /* GALE__NO_ID: none */
    gale__trie trie, inner;            /* of all tokens; of those with the prefix, without it (WordPiece) */
    uint32_t characters_most;          /* WordPiece: longer words are unknown */
    gale__bpe_merge *merges;           /* BPE: a table of slots */
    size_t merge_slots, merge_count;
    uint32_t character_ids[0x800]; /* BPE: of characters that are a token by themselves */
    uint32_t byte_ids[256];        /* <0x00> to <0xFF> */
    bool fuse_unk, byte_fallback, ignore_merges;
    double *scores; /* Unigram: one for each number */
    double unk_score;
    bool single; /* sums of scores are rounded to single precision, as SentencePiece does */
} gale__token_model;
void gale__token_model_finish(gale__token_model *m);
/* What is left to do once vocabulary, names and flags are set; for BPE before the merges are added. */
gale_status gale__token_model_prepare(gale__token_model *m);
gale_status gale__token_model_build_trie(const gale__vocab *v, const char *prefix, gale__trie *out);
/* The next merge, by the texts of both parts. */
gale_status gale__bpe_add_merge(
    gale__token_model *m, const char *left, size_t left_size, const char *right, size_t right_size);

typedef struct gale__token_piece {
    uint32_t id, begin, end; /* bytes of the word */
} gale__token_piece;
typedef struct gale__token_pieces {
    gale__token_piece *items;
    size_t count, capacity;
} gale__token_pieces;

/* Words that were seen lately.  A slot is a cache line; what does not fit is encoded again. */
typedef struct gale__token_word {
    uint32_t tag;
    uint8_t size, count, ends[6];
    char text[28];
    uint32_t ids[6];
} gale__token_word;
enum { GALE__WORD_SLOTS = 1 << 15, GALE__WORD_BYTES = 28, GALE__WORD_PIECES = 6 };

typedef struct gale__bpe_symbol {
    uint32_t id, size;
    int32_t previous, next;
} gale__bpe_symbol;
typedef struct gale__unigram_path {
    double score;
    uint32_t begin, id; /* of the best token that ends here; begin is GALE__NO_ID: none does */
    uint32_t next;      /* where the token that begins here ends, on the best way */
} gale__unigram_path;
gale_status gale__bpe_set_merge(gale__token_model *m, uint32_t left, uint32_t right, uint32_t rank, uint32_t id);
/* What one thread needs to run a model; grows and is used again. */
typedef struct gale__token_model_state {
    gale__token_word *words; /* NULL: no cache */
    gale__bpe_symbol *symbols;
    gale__bpe_merge *heap; /* left: the place, right: unused */
    gale__unigram_path *paths;
    char *text;
    size_t symbol_capacity, heap_capacity, path_capacity, text_capacity, heap_count;
} gale__token_model_state;
gale_status gale__token_model_state_init(gale__token_model_state *s);
void gale__token_model_state_finish(gale__token_model_state *s);

/* Appends the tokens of a word. */
gale_status gale__token_model_encode(
    const gale__token_model *m, gale__token_model_state *s, const char *word, size_t size, gale__token_pieces *out);
gale_status gale__token_pieces_add(gale__token_pieces *p, uint32_t id, size_t begin, size_t end);

/* The models themselves. */
gale_status gale__wordpiece_encode(
    const gale__token_model *m, gale__token_model_state *s, const char *word, size_t size, gale__token_pieces *out);
gale_status gale__bpe_encode(
    const gale__token_model *m, gale__token_model_state *s, const char *word, size_t size, gale__token_pieces *out);
gale_status gale__unigram_encode(
    const gale__token_model *m, gale__token_model_state *s, const char *word, size_t size, gale__token_pieces *out);

static inline uint64_t gale__token_word_load(
    const char *p, size_t n) /* n of up to 8 bytes, without reading past them */
{
    uint64_t a = 0, b = 0;
    if (n >= 8) {
        memcpy(&a, p, 8);
        return a;
    }
    if (n >= 4) {
        memcpy(&a, p, 4);
        memcpy(&b, p + n - 4, 4);
        return a | b << 32;
    }
    return n ? (uint64_t)(uint8_t)p[0] | (uint64_t)(uint8_t)p[n / 2] << 8 | (uint64_t)(uint8_t)p[n - 1] << 16 : 0;
}
/* For words of up to GALE__WORD_BYTES. */
static inline uint64_t gale__token_word_hash(const char *p, size_t n)
{
    uint64_t h = n * 0x9e3779b97f4a7c15u;
    h = (h ^ gale__token_word_load(p, n)) * 0xd6e8feb86659fd93u;
    if (n > 8) h = ((h ^ h >> 32) ^ gale__token_word_load(p + n - 8, 8)) * 0x9e3779b97f4a7c15u;
    if (n > 16) h = ((h ^ h >> 32) ^ gale__token_word_load(p + 8, 8)) * 0xd6e8feb86659fd93u;
    return h ^ h >> 29;
}
static inline bool gale__token_word_is(const gale__token_word *w, uint64_t hash, const char *p, size_t n)
{
    if (w->tag != (uint32_t)(hash >> 32) || w->size != n) return false;
    if (gale__token_word_load(w->text, n) != gale__token_word_load(p, n)) return false;
    return n <= 8 || !memcmp(w->text + 8, p + 8, n - 8);
}
#endif
