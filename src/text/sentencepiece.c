/* SentencePiece models: a protocol buffer with pieces, their scores, and normalization rules.  The result is that of
 * SentencePiece itself: no special tokens are added.  That library is 2.7 MB of C++ without a C interface; this file
 * feeds the models that tokenizer.json needs anyway.  A text of 88 characters takes 5.3 us with Unigram and with BPE,
 * by sentencepiece 0.2.3 5.8 and 13.7 us (Granite Rapids, 8,000 pieces, 17 November 2026, `gale bench tokenize`). */
#include "text/fields.h"
#include "text/tokenizer.h"
#include <stdlib.h>

#define MARK "\xe2\x96\x81" /* U+2581 stands for a space */

/* --- Protocol buffers. --- */

typedef struct reader {
    const uint8_t *at, *end;
} reader;
typedef struct field {
    uint32_t number, wire;
    uint64_t value;  /* a number, or the bits of a float */
    reader contents; /* of bytes */
} field;

static bool read_varint(reader *r, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && r->at < r->end; shift += 7) {
        uint8_t byte = *r->at++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return true;
    }
    return false;
}

static bool read_fixed(reader *r, size_t size, uint64_t *out)
{
    if ((size_t)(r->end - r->at) < size) return false;
    *out = 0;
    for (size_t i = 0; i < size; i++) *out |= (uint64_t)r->at[i] << (8 * i);
    r->at += size;
    return true;
}

/* *more is false at the end. */
static gale_status next_field(reader *r, field *f, bool *more)
{
    uint64_t key = 0, size = 0;
    *more = r->at < r->end;
    if (!*more) return GALE_OK;
    bool good = read_varint(r, &key);
    f->number = (uint32_t)(key >> 3);
    f->wire = key & 7;
    if (f->wire == 0) good = good && read_varint(r, &f->value);
    else if (f->wire == 1) good = good && read_fixed(r, 8, &f->value);
    else if (f->wire == 5) good = good && read_fixed(r, 4, &f->value);
    else good = good && f->wire == 2 && read_varint(r, &size) && size <= (uint64_t)(r->end - r->at);
    if (!good) return gale__fail(GALE_FORMAT, "not a SentencePiece model, or damaged");
    f->contents = (reader){r->at, r->at + size};
    r->at += size;
    return GALE_OK;
}

bool gale__is_sentencepiece(const void *data, size_t size)
{
    const char *p = data;
    size_t i = 0;
    while (i < size && strchr(" \t\r\n", p[i]) && p[i]) i++;
    return size > 3 && p[0] == 0x0a && i < size && p[i] != '{' && p[i] != '[';
}

/* --- Pieces. --- */

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };
enum { UNIGRAM = 1, BPE = 2 };

typedef struct piece {
    const char *text;
    size_t size;
    float score;
    uint32_t type;
} piece;
typedef struct spec {
    piece *pieces;
    size_t count, capacity;
    uint32_t model_type;
    bool byte_fallback, as_suffix, dummy_prefix, no_extra_spaces, escape;
    reader charsmap;
} spec;

static gale_status read_piece(spec *s, reader r)
{
    piece p = {"", 0, 0, NORMAL};
    field f = {0};
    for (bool more;;) {
        GALE_TRY(next_field(&r, &f, &more));
        if (!more) break;
        uint32_t bits = (uint32_t)f.value;
        if (f.number == 1 && f.wire == 2)
            p.text = (const char *)f.contents.at, p.size = (size_t)(f.contents.end - f.contents.at);
        if (f.number == 2 && f.wire == 5) memcpy(&p.score, &bits, 4);
        if (f.number == 3 && f.wire == 0) p.type = bits;
    }
    if (gale__utf8_valid_length(p.text, p.size) != p.size || p.score != p.score)
        return gale__fail(GALE_FORMAT, "piece %zu is not valid UTF-8, or its score is not a number", s->count);
    GALE_TRY(gale__grow((void **)&s->pieces, &s->capacity, s->count + 1, sizeof *s->pieces));
    s->pieces[s->count++] = p;
    return GALE_OK;
}

static gale_status read_trainer(spec *s, reader r)
{
    field f = {0};
    for (bool more;;) {
        GALE_TRY(next_field(&r, &f, &more));
        if (!more) return GALE_OK;
        if (f.wire != 0) continue;
        if (f.number == 3) s->model_type = (uint32_t)f.value;
        if (f.number == 24) s->as_suffix = f.value;
        if (f.number == 35) s->byte_fallback = f.value;
    }
}

static gale_status read_normalizer(spec *s, reader r)
{
    field f = {0};
    for (bool more;;) {
        GALE_TRY(next_field(&r, &f, &more));
        if (!more) return GALE_OK;
        if (f.number == 2 && f.wire == 2) s->charsmap = f.contents;
        if (f.number == 3 && f.wire == 0) s->dummy_prefix = f.value;
        if (f.number == 4 && f.wire == 0) s->no_extra_spaces = f.value;
        if (f.number == 5 && f.wire == 0) s->escape = f.value;
    }
}

static gale_status read_spec(spec *s, reader r)
{
    field f = {0};
    for (bool more;;) {
        GALE_TRY(next_field(&r, &f, &more));
        if (!more) return GALE_OK;
        if (f.wire != 2) continue;
        if (f.number == 1) GALE_TRY(read_piece(s, f.contents));
        if (f.number == 2) GALE_TRY(read_trainer(s, f.contents));
        if (f.number == 3) GALE_TRY(read_normalizer(s, f.contents));
    }
}

/* --- The parts of the tokenizer. --- */

static gale_status add_replace(gale_tokenizer *t, const char *from, const char *to)
{
    gale__normalizer *step = NULL;
    GALE_TRY(gale__normalizers_add(&t->normalizers, GALE__NORM_REPLACE, &step));
    GALE_TRY(gale__split_pattern_create(from, strlen(from), true, &step->pattern));
    step->text_size = strlen(to);
    return gale__copy_text(to, step->text_size, &step->text);
}

static gale_status set_normalizers(gale_tokenizer *t, const spec *s)
{
    gale__normalizer *step = NULL;
    if (s->charsmap.end > s->charsmap.at) {
        GALE_TRY(gale__normalizers_add(&t->normalizers, GALE__NORM_CHARSMAP, &step));
        step->whole = true;
        GALE_TRY(gale__charsmap_read(&step->map, s->charsmap.at, (size_t)(s->charsmap.end - s->charsmap.at)));
    }
    if (s->no_extra_spaces) {
        GALE_TRY(gale__normalizers_add(&t->normalizers, GALE__NORM_SQUEEZE, &step));
        GALE_TRY(gale__normalizers_add(&t->normalizers, GALE__NORM_STRIP_SPACE, &step));
    }
    const char *mark = s->escape ? MARK : " ";
    if (s->dummy_prefix) {
        GALE_TRY(gale__normalizers_add(&t->normalizers, GALE__NORM_PREPEND, &step));
        step->text_size = strlen(mark);
        GALE_TRY(gale__copy_text(mark, step->text_size, &step->text));
    }
    return s->escape ? add_replace(t, " ", MARK) : GALE_OK;
}

/* BPE: words are cut in front of each mark where no piece goes over one: nothing changes, but words can be remembered.
 * Unigram takes a text as a whole: its sums are single precision, and what was summed before decides between equals. */
static gale_status set_splitters(gale_tokenizer *t, const spec *s)
{
    gale__splitter *step = NULL;
    bool alone = s->escape && s->model_type == BPE && gale__vocab_find(&t->model.vocab, MARK, 3) != GALE__NO_ID;
    for (size_t i = 0; i < s->count && alone; i++)
        alone = s->pieces[i].size < 2 || !memmem(s->pieces[i].text + 1, s->pieces[i].size - 1, MARK, 3);
    if (!alone) return GALE_OK;
    GALE_TRY(gale__splitters_add(&t->splitters, GALE__SPLIT_CHARACTER, &step));
    step->character = 0x2581;
    step->behaviour = GALE__SPLIT_MERGED_WITH_NEXT;
    return GALE_OK;
}

static gale_status set_decoders(gale_tokenizer *t, const spec *s)
{
    gale__decoder *step = NULL;
    GALE_TRY(gale__decoders_add(&t->decoders, GALE__DECODE_REPLACE, &step));
    GALE_TRY(gale__copy_text(" ", 1, &step->text));
    GALE_TRY(gale__split_pattern_create(MARK, 3, true, &step->pattern));
    GALE_TRY(gale__decoders_add(&t->decoders, GALE__DECODE_BYTE_FALLBACK, &step));
    GALE_TRY(gale__decoders_add(&t->decoders, GALE__DECODE_FUSE, &step));
    if (!s->dummy_prefix) return GALE_OK;
    GALE_TRY(gale__decoders_add(&t->decoders, GALE__DECODE_STRIP, &step));
    step->character = ' ';
    step->start = 1;
    return GALE_OK;
}

static gale_status set_added(gale_tokenizer *t, const spec *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const piece *p = s->pieces + i;
        if (p->type != CONTROL && p->type != UNKNOWN && p->type != USER_DEFINED) continue;
        gale__added_token token = {.content = (char *)(uintptr_t)p->text,
            .size = p->size,
            .normalized = true,
            .as_it_is = true,
            .special = p->type != USER_DEFINED,
            .hidden = p->type != USER_DEFINED};
        GALE_TRY(gale__added_add(&t->added, &t->model, &token));
    }
    return GALE_OK;
}

/* --- Unigram: only normal pieces are found in a text. --- */

static gale_status set_unigram(gale__token_model *m, const spec *s)
{
    double least = 0;
    size_t n = 0;
    gale__trie_key *keys = gale__alloc((s->count + 1) * sizeof *keys);
    m->scores = gale__alloc((s->count + 1) * sizeof *m->scores);
    gale_status status = keys && m->scores ? GALE_OK : GALE_NO_MEMORY;
    for (size_t i = 0; i < s->count && status == GALE_OK; i++) {
        const piece *p = s->pieces + i;
        m->scores[i] = p->score;
        if (p->type != NORMAL) continue;
        if (!n || p->score < least) least = p->score;
        keys[n++] = (gale__trie_key){p->text, (uint32_t)p->size, (uint32_t)i};
    }
    if (status == GALE_OK) status = gale__trie_build(&m->trie, keys, n);
    m->unk_score = (double)(float)(least - 10);
    m->single = true;
    gale__free(keys);
    return status == GALE_OK ? gale__token_model_prepare(m) : status;
}

/* --- BPE: pieces that two others make are rules, those with the highest score first. --- */

typedef struct ranked {
    float score;
    uint32_t id;
} ranked;

static int by_score(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static gale_status add_rules(gale__token_model *m, const spec *s, uint32_t id, uint32_t rank)
{
    const piece *p = s->pieces + id;
    for (size_t cut = 1; cut < p->size; cut++) {
        if ((p->text[cut] & 0xc0) == 0x80) continue;
        uint32_t left = gale__vocab_find(&m->vocab, p->text, cut);
        uint32_t right = left == GALE__NO_ID ? left : gale__vocab_find(&m->vocab, p->text + cut, p->size - cut);
        if (right == GALE__NO_ID || s->pieces[left].type != NORMAL || s->pieces[right].type != NORMAL) continue;
        GALE_TRY(gale__bpe_set_merge(m, left, right, rank, id));
    }
    return GALE_OK;
}

static gale_status set_bpe(gale__token_model *m, const spec *s)
{
    size_t n = 0;
    ranked *order = gale__alloc((s->count + 1) * sizeof *order);
    gale_status status = order ? gale__token_model_prepare(m) : GALE_NO_MEMORY;
    for (size_t i = 0; i < s->count && status == GALE_OK; i++) {
        if (s->pieces[i].type == UNUSED)
            status = gale__fail(GALE_UNSUPPORTED, "BPE models with unused pieces are not supported");
        if (s->pieces[i].type == NORMAL) order[n++] = (ranked){s->pieces[i].score, (uint32_t)i};
    }
    if (n && status == GALE_OK) qsort(order, n, sizeof *order, by_score);
    for (size_t i = 0, rank = 0; i < n && status == GALE_OK; i++) {
        if (i && order[i].score != order[i - 1].score) rank = i;
        status = add_rules(m, s, order[i].id, (uint32_t)rank);
    }
    gale__free(order);
    return status;
}

static gale_status set_model(gale_tokenizer *t, const spec *s)
{
    gale__token_model *m = &t->model;
    m->kind = s->model_type == BPE ? GALE__TOKEN_MODEL_BPE : GALE__TOKEN_MODEL_UNIGRAM;
    m->unk = GALE__NO_ID;
    m->byte_fallback = s->byte_fallback;
    m->fuse_unk = true;
    for (size_t i = 0; i < s->count; i++) {
        const piece *p = s->pieces + i;
        if (gale__vocab_find(&m->vocab, p->text, p->size) != GALE__NO_ID)
            return gale__fail(GALE_FORMAT, "duplicate piece %zu", i);
        GALE_TRY(gale__vocab_add(&m->vocab, p->text, p->size, (uint32_t)i));
        if (p->type == UNKNOWN) {
            m->unk = (uint32_t)i;
            gale__free(m->unk_token);
            m->unk_token = NULL;
            GALE_TRY(gale__copy_text(p->text, p->size, &m->unk_token));
        }
    }
    m->size = (uint32_t)s->count;
    if (m->unk == GALE__NO_ID) return gale__fail(GALE_FORMAT, "the model has no piece for unknown text");
    return s->model_type == BPE ? set_bpe(m, s) : set_unigram(m, s);
}

static gale_status build(gale_tokenizer *t, const spec *s)
{
    if (s->model_type != UNIGRAM && s->model_type != BPE)
        return gale__fail(GALE_UNSUPPORTED, "trainer_spec.model_type %u is not supported, only UNIGRAM (1) and BPE (2)",
            s->model_type);
    if (s->as_suffix) return gale__fail(GALE_UNSUPPORTED, "trainer_spec.treat_whitespace_as_suffix is not supported");
    GALE_TRY(set_model(t, s));
    GALE_TRY(set_normalizers(t, s));
    GALE_TRY(set_splitters(t, s));
    GALE_TRY(set_decoders(t, s));
    GALE_TRY(set_added(t, s));
    gale__post_init(&t->post);
    return gale__tokenizer_prepare(t);
}

gale_status gale__tokenizer_read_sentencepiece(gale_tokenizer *t, const void *data, size_t size)
{
    spec s = {.model_type = UNIGRAM, .dummy_prefix = true, .no_extra_spaces = true, .escape = true};
    gale_status status = read_spec(&s, (reader){data, (const uint8_t *)data + size});
    if (status == GALE_OK) status = build(t, &s);
    gale__free(s.pieces);
    return status;
}
