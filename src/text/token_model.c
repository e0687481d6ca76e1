/* Shared by all models: the cache of words in front of them, preparation, and the short models WordPiece and
 * WordLevel.  Tokenizers are gale's own, because Hugging Face's library is Rust without a C interface, and 10 to 38
 * times as slow (docs/benchmarks.md, Text). */
#include "text/token_model.h"
#include "text/unicode.h"
#include <stdio.h>

void gale__token_model_finish(gale__token_model *m)
{
    gale__vocab_finish(&m->vocab);
    gale__trie_finish(&m->trie);
    gale__trie_finish(&m->inner);
    gale__free(m->unk_token);
    gale__free(m->prefix);
    gale__free(m->suffix);
    gale__free(m->merges);
    gale__free(m->scores);
    *m = (gale__token_model){0};
}

gale_status gale__token_model_state_init(gale__token_model_state *s)
{
    s->words = gale__alloc_aligned(64, GALE__WORD_SLOTS * sizeof *s->words);
    if (!s->words) return GALE_NO_MEMORY;
    memset(s->words, 0, GALE__WORD_SLOTS * sizeof *s->words);
    return GALE_OK;
}

void gale__token_model_state_finish(gale__token_model_state *s)
{
    gale__free(s->words);
    gale__free(s->symbols);
    gale__free(s->heap);
    gale__free(s->paths);
    gale__free(s->text);
    *s = (gale__token_model_state){0};
}

gale_status gale__token_pieces_add(gale__token_pieces *p, uint32_t id, size_t begin, size_t end)
{
    if (p->count == p->capacity) GALE_TRY(gale__grow((void **)&p->items, &p->capacity, p->count + 1, sizeof *p->items));
    p->items[p->count++] = (gale__token_piece){id, (uint32_t)begin, (uint32_t)end};
    return GALE_OK;
}

/* --- Preparation. --- */

gale_status gale__token_model_build_trie(const gale__vocab *v, const char *prefix, gale__trie *out)
{
    size_t skip = prefix ? strlen(prefix) : 0, n = 0;
    gale__trie_key *keys = gale__alloc((v->count + 1) * sizeof *keys);
    if (!keys) return GALE_NO_MEMORY;
    for (size_t i = 0; i < v->count; i++) {
        const gale__vocab_entry *e = v->entries + i;
        const char *text = v->pool + e->at;
        if (e->length < skip || (skip && memcmp(text, prefix, skip))) continue;
        keys[n++] = (gale__trie_key){text + skip, e->length - (uint32_t)skip, e->id};
    }
    gale_status status = gale__trie_build(out, keys, n);
    gale__free(keys);
    return status;
}

static void find_characters(gale__token_model *m)
{
    char text[8];
    for (uint32_t c = 0; c < 0x800; c++)
        m->character_ids[c] = gale__vocab_find(&m->vocab, text, (size_t)(gale__utf8_put(text, c) - text));
}

static void find_bytes(gale__token_model *m)
{
    char text[8];
    for (int b = 0; b < 256; b++) {
        snprintf(text, sizeof text, "<0x%02X>", b);
        m->byte_ids[b] = gale__vocab_find(&m->vocab, text, 6);
    }
}

gale_status gale__token_model_prepare(gale__token_model *m)
{
    if (m->kind != GALE__TOKEN_MODEL_UNIGRAM) {
        m->size = (uint32_t)m->vocab.count;
        m->unk = m->unk_token ? gale__vocab_find(&m->vocab, m->unk_token, strlen(m->unk_token)) : GALE__NO_ID;
    }
    find_bytes(m);
    if (m->kind == GALE__TOKEN_MODEL_BPE) find_characters(m);
    if (m->kind == GALE__TOKEN_MODEL_WORDPIECE || (m->kind == GALE__TOKEN_MODEL_UNIGRAM && !m->trie.count))
        GALE_TRY(gale__token_model_build_trie(&m->vocab, NULL, &m->trie));
    if (m->kind == GALE__TOKEN_MODEL_WORDPIECE) GALE_TRY(gale__token_model_build_trie(&m->vocab, m->prefix, &m->inner));
    return GALE_OK;
}

/* --- WordPiece and WordLevel. --- */

static gale_status add_unknown(const gale__token_model *m, size_t size, gale__token_pieces *out)
{
    if (m->unk == GALE__NO_ID)
        return gale__fail(GALE_NOT_FOUND,
            "a word is not in the vocabulary, and neither is the token for unknown words "
            "(model.unk_token is '%s')",
            m->unk_token ? m->unk_token : "");
    return gale__token_pieces_add(out, m->unk, 0, size);
}

static size_t count_characters(const char *text, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < size; i++) n += (text[i] & 0xc0) != 0x80;
    return n;
}

gale_status gale__wordpiece_encode(
    const gale__token_model *m, gale__token_model_state *s, const char *word, size_t size, gale__token_pieces *out)
{
    size_t before = out->count;
    uint32_t id = 0;
    (void)s;
    if (size > m->characters_most && count_characters(word, size) > m->characters_most)
        return add_unknown(m, size, out);
    for (size_t at = 0, n; at < size; at += n) {
        n = gale__trie_longest(at ? &m->inner : &m->trie, word + at, size - at, &id);
        if (!n) {
            out->count = before;
            return add_unknown(m, size, out);
        }
        GALE_TRY(gale__token_pieces_add(out, id, at, at + n));
    }
    return GALE_OK;
}

static gale_status encode_whole(const gale__token_model *m, const char *word, size_t size, gale__token_pieces *out)
{
    uint32_t id = gale__vocab_find(&m->vocab, word, size);
    return id == GALE__NO_ID ? add_unknown(m, size, out) : gale__token_pieces_add(out, id, 0, size);
}

/* --- The cache. --- */

static gale_status encode_anew(
    const gale__token_model *m, gale__token_model_state *s, const char *word, size_t size, gale__token_pieces *out)
{
    switch (m->kind) {
    case GALE__TOKEN_MODEL_WORDPIECE: return gale__wordpiece_encode(m, s, word, size, out);
    case GALE__TOKEN_MODEL_BPE: return gale__bpe_encode(m, s, word, size, out);
    case GALE__TOKEN_MODEL_UNIGRAM: return gale__unigram_encode(m, s, word, size, out);
    case GALE__TOKEN_MODEL_WORDLEVEL: break;
    }
    return encode_whole(m, word, size, out);
}

static void keep(
    gale__token_word *w, uint64_t hash, const char *word, size_t size, const gale__token_piece *pieces, size_t count)
{
    uint32_t at = 0;
    if (count > GALE__WORD_PIECES) return;
    for (size_t i = 0; i < count; at = pieces[i++].end) /* pieces that follow one another, as nearly all do */
        if (pieces[i].begin != at || pieces[i].end > size) return;
    w->tag = (uint32_t)(hash >> 32);
    w->size = (uint8_t)size;
    w->count = (uint8_t)count;
    memcpy(w->text, word, size);
    for (size_t i = 0; i < count; i++) {
        w->ids[i] = pieces[i].id;
        w->ends[i] = (uint8_t)pieces[i].end;
    }
}

gale_status gale__token_model_encode(
    const gale__token_model *m, gale__token_model_state *s, const char *word, size_t size, gale__token_pieces *out)
{
    size_t before = out->count;
    if (!size) return GALE_OK;
    if (size > GALE__WORD_BYTES) return encode_anew(m, s, word, size, out);
    uint64_t hash = gale__token_word_hash(word, size);
    gale__token_word *w = s->words + (hash & (GALE__WORD_SLOTS - 1));
    if (gale__token_word_is(w, hash, word, size)) {
        for (uint32_t i = 0, at = 0; i < w->count; at = w->ends[i++])
            GALE_TRY(gale__token_pieces_add(out, w->ids[i], at, w->ends[i]));
        return GALE_OK;
    }
    GALE_TRY(encode_anew(m, s, word, size, out));
    keep(w, hash, word, size, out->items + before, out->count - before);
    return GALE_OK;
}
