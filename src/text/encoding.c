/* From a text to tokens: added tokens, normalization, words, pieces, and the position of each. */
#include "text/tokenizer.h"

enum { TEXT_MOST = 1 << 26 };

/* --- The words. --- */

static gale_status add_token_part(gale_encoder *e, const char *text, size_t begin, size_t end, uint32_t id)
{
    size_t at = e->split.text.size;
    gale__aligned_add_plain(&e->split.text, text + begin, end - begin, (uint32_t)begin);
    return gale__splits_add(&e->split.now, at, e->split.text.size, id);
}

/* A part of the text without tokens of the first kind: normalized, and searched for those of the second. */
static gale_status add_text_part(
    const gale_tokenizer *t, gale_encoder *e, const char *text, size_t begin, size_t end, bool special_as_text)
{
    gale__aligned *a = &e->normal.a, *out = &e->split.text;
    gale__added_walk w = {0};
    if (begin >= end) return GALE_OK;
    gale__aligned_clear(a, (uint32_t)begin);
    gale__aligned_add_plain(a, text + begin, end - begin, (uint32_t)begin);
    if (a->failed) return GALE_NO_MEMORY;
    GALE_TRY(gale__normalize(&t->normalizers, &e->normal));
    size_t base = out->size, last = 0;
    gale__aligned_add_part(out, a, 0, a->size);
    while (gale__added_next(&t->added, &t->added.normal, a->text, a->size, special_as_text, &w)) {
        if (w.begin > last) GALE_TRY(gale__splits_add(&e->split.now, base + last, base + w.begin, GALE__NO_ID));
        GALE_TRY(gale__splits_add(&e->split.now, base + w.begin, base + w.end, w.token->id));
        last = w.end;
    }
    return gale__splits_add(&e->split.now, base + last, base + a->size, GALE__NO_ID);
}

static gale_status find_words(
    const gale_tokenizer *t, gale_encoder *e, const char *text, size_t size, bool special_as_text)
{
    gale__added_walk w = {0};
    size_t last = 0;
    gale__aligned_clear(&e->split.text, 0);
    e->split.now.count = 0;
    while (gale__added_next(&t->added, &t->added.raw, text, size, special_as_text, &w)) {
        GALE_TRY(add_text_part(t, e, text, last, w.begin, special_as_text));
        GALE_TRY(add_token_part(e, text, w.begin, w.end, w.token->id));
        last = w.end;
    }
    GALE_TRY(add_text_part(t, e, text, last, size, special_as_text));
    if (e->split.text.failed) return GALE_NO_MEMORY;
    e->split.patterns = &e->normal.patterns;
    return gale__split_words(&t->splitters, &e->split);
}

/* --- The tokens. --- */

static bool is_trimmed(uint32_t c) { return c == 0x120 || gale__unicode_bits(c) & GALE__U_WHITE; }

static void measure(const char *text, size_t size, uint16_t *front, uint16_t *back)
{
    size_t n, at = 0, count = 0;
    for (; at < size && is_trimmed(gale__utf8_at(text + at, &n)); at += n) count++;
    *front = (uint16_t)(count < 0xffff ? count : 0xffff);
    for (at = size, count = 0; at > 0; count++) {
        const char *last = gale__utf8_back(text + at);
        if (!is_trimmed(gale__utf8_at(last, &n))) break;
        at = (size_t)(last - text);
    }
    *back = (uint16_t)(count < 0xffff ? count : 0xffff);
}

/* Of tokens that stand for a text of their own the text counts, else the token. */
static void set_trims(
    const gale_tokenizer *t, const gale__aligned *text, gale__split word, gale__token_piece p, gale__token *to)
{
    const char *token = text->text + word.begin + p.begin;
    size_t size = p.end - p.begin;
    bool own = word.token != GALE__NO_ID || (t->model.kind == GALE__TOKEN_MODEL_UNIGRAM && p.id == t->model.unk);
    if (!own) token = gale__vocab_token(&t->model.vocab, p.id, &size);
    if (token) measure(token, size, &to->trim_front, &to->trim_back);
}

/* Where a piece comes from.  What is outside its word (characters that the model left out move the rest) is given as
 * it is, as in the reference. */
static gale__text_span origin(const gale__aligned *text, gale__split word, gale__token_piece p)
{
    const gale__text_span *from = text->from + word.begin;
    if (p.begin == p.end) return (gale__text_span){from->begin + p.begin, from->begin + p.end};
    if (p.end > word.end - word.begin) return (gale__text_span){p.begin, p.end};
    return (gale__text_span){from[p.begin].begin, from[p.end - 1].end};
}

static gale_status add_tokens(const gale_tokenizer *t, gale_encoder *e, size_t index, gale__tokens *out)
{
    gale__split word = e->split.now.items[index];
    const gale__aligned *text = &e->split.text;
    e->pieces.count = 0;
    if (word.token != GALE__NO_ID) GALE_TRY(gale__token_pieces_add(&e->pieces, word.token, 0, word.end - word.begin));
    else
        GALE_TRY(
            gale__token_model_encode(&t->model, &e->model, text->text + word.begin, word.end - word.begin, &e->pieces));
    if (out->capacity - out->count < e->pieces.count)
        GALE_TRY(gale__grow((void **)&out->items, &out->capacity, out->count + e->pieces.count, sizeof *out->items));
    for (size_t i = 0; i < e->pieces.count; i++) {
        gale__token_piece p = e->pieces.items[i];
        gale__text_span from = origin(text, word, p);
        gale__token *to = out->items + out->count++;
        *to = (gale__token){p.id, from.begin, from.end, (uint32_t)index, 0, 0};
        if (t->post.trim_count) set_trims(t, text, word, p, to);
    }
    return GALE_OK;
}

/* From bytes to code points. */
static gale_status convert(gale_encoder *e, const char *text, size_t size, gale__tokens *tokens)
{
    uint32_t count = 0;
    if (gale__ascii_length(text, size) == size) return GALE_OK;
    GALE_TRY(gale__grow((void **)&e->places, &e->place_capacity, size + 1, sizeof *e->places));
    for (size_t i = 0; i < size; i++) {
        count += (text[i] & 0xc0) != 0x80;
        e->places[i] = count - 1;
    }
    e->places[size] = count;
    for (size_t i = 0; i < tokens->count; i++) {
        gale__token *to = tokens->items + i;
        if (to->begin >= size) continue;
        to->begin = e->places[to->begin];
        to->end = to->end <= size ? e->places[to->end] : to->begin + 2;
    }
    return GALE_OK;
}

static gale_status repair(gale_encoder *e, const char **text, size_t *size)
{
    if (gale__utf8_valid_length(*text, *size) == *size) return GALE_OK;
    GALE_TRY(gale__grow((void **)&e->repaired, &e->repaired_capacity, 3 * *size, 1));
    *size = gale__utf8_repair(*text, *size, e->repaired);
    *text = e->repaired;
    return GALE_OK;
}

gale_status gale__encode_sequence(
    const gale_tokenizer *t, gale_encoder *e, const char *text, size_t size, bool special_as_text, gale__tokens *out)
{
    bool done = false;
    out->count = 0;
    if (size > TEXT_MOST) return gale__fail(GALE_LIMIT, "a text has more than %d bytes; split it", TEXT_MOST);
    if (t->bert && !special_as_text) GALE_TRY(gale__encode_bert_ascii(t, e, text, size, out, &done));
    if (done) return GALE_OK;
    out->count = 0;
    GALE_TRY(repair(e, &text, &size));
    GALE_TRY(find_words(t, e, text, size, special_as_text));
    for (size_t i = 0; i < e->split.now.count; i++) GALE_TRY(add_tokens(t, e, i, out));
    return convert(e, text, size, out);
}
