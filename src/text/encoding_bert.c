/* The fast path for BERT's tokenizers: ASCII has no accents, no ideographs and one byte per character, so a text is
 * converted to lower case, split by a table of bytes and looked up word by word. */
#include "text/tokenizer.h"

static bool copy_lower(char *out, const char *text, size_t size, bool lower)
{
    uint8_t all = 0;
    for (size_t i = 0; i < size; i++) {
        uint8_t c = (uint8_t)text[i];
        all |= c;
        out[i] = (char)(c + (lower && (uint8_t)(c - 'A') < 26 ? 32 : 0));
    }
    return !(all & 0x80);
}

static inline gale_status add_word(
    const gale_tokenizer *t, gale_encoder *e, size_t begin, size_t end, uint32_t word, gale__tokens *out)
{
    const char *text = e->lower + begin;
    size_t size = end - begin;
    uint64_t hash = size <= GALE__WORD_BYTES ? gale__token_word_hash(text, size) : 0;
    const gale__token_word *w = e->model.words + (hash & (GALE__WORD_SLOTS - 1));
    if (size <= GALE__WORD_BYTES && gale__token_word_is(w, hash, text, size)) {
        gale__token *to = out->items + out->count;
        uint32_t at = (uint32_t)begin;
        for (uint32_t i = 0; i < w->count; i++) {
            to[i] = (gale__token){w->ids[i], at, (uint32_t)begin + w->ends[i], word, 0, 0};
            at = to[i].end;
        }
        out->count += w->count;
        return GALE_OK;
    }
    e->pieces.count = 0;
    GALE_TRY(gale__token_model_encode(&t->model, &e->model, text, size, &e->pieces));
    for (size_t i = 0; i < e->pieces.count; i++) {
        gale__token_piece p = e->pieces.items[i];
        out->items[out->count++] = (gale__token){p.id, (uint32_t)begin + p.begin, (uint32_t)begin + p.end, word, 0, 0};
    }
    return GALE_OK;
}

gale_status gale__encode_bert_ascii(
    const gale_tokenizer *t, gale_encoder *e, const char *text, size_t size, gale__tokens *out, bool *done)
{
    const uint8_t *class = t->bert_class;
    uint32_t word = 0;
    GALE_TRY(gale__grow((void **)&e->lower, &e->lower_capacity, size + 1, 1));
    GALE_TRY(gale__grow((void **)&out->items, &out->capacity, size + GALE__WORD_PIECES, sizeof *out->items));
    if (!copy_lower(e->lower, text, size, t->bert_lower)) return GALE_OK;
    e->lower[size] = ' ';
    for (size_t at = 0; at < size;) {
        uint8_t kind = class[(uint8_t)e->lower[at]];
        /* An added token may begin here, as the text has it or in lower case. */
        if (kind == GALE__BERT_OTHER || class[(uint8_t)text[at]] == GALE__BERT_OTHER) return GALE_OK;
        size_t begin = at++;
        if (kind == GALE__BERT_SPACE) continue;
        if (kind == GALE__BERT_LETTER)
            while (class[(uint8_t)e->lower[at]] == GALE__BERT_LETTER && class[(uint8_t)text[at]] != GALE__BERT_OTHER)
                at++;
        GALE_TRY(add_word(t, e, begin, at, word++, out));
    }
    *done = true;
    return GALE_OK;
}
