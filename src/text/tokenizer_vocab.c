/* Vocabularies without a description: vocab.txt is treated as BERT's, vocab.json with merges.txt as GPT-2's. */
#include "text/fields.h"
#include "text/tokenizer.h"

static gale_status add_special(gale_tokenizer *t, const char *name)
{
    gale__added_token token = {.content = (char *)(uintptr_t)name, .size = strlen(name), .special = true};
    bool there = gale__vocab_find(&t->model.vocab, name, token.size) != GALE__NO_ID;
    return there ? gale__added_add(&t->added, &t->model, &token) : GALE_OK;
}

/* The next line, without what white space ends it; false: there is none. */
static bool next_line(const char **at, const char *end, const char **line, size_t *size)
{
    if (*at >= end) return false;
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    *line = *at;
    *size = (size_t)((stop ? stop : end) - *at);
    *at = stop ? stop + 1 : end;
    return true;
}

static size_t without_end(const char *line, size_t size)
{
    size_t n;
    while (size) {
        const char *last = gale__utf8_back(line + size);
        if (!(gale__unicode_bits(gale__utf8_at(last, &n)) & GALE__U_WHITE)) break;
        size = (size_t)(last - line);
    }
    return size;
}

static gale_status need_utf8(const char *text, size_t size)
{
    size_t good = gale__utf8_valid_length(text, size);
    return good == size ? GALE_OK : gale__fail(GALE_FORMAT, "invalid UTF-8 at byte %zu", good);
}

static gale_status add_step(gale_tokenizer *t, gale__normalizer_kind kind)
{
    gale__normalizer *step = NULL;
    GALE_TRY(gale__normalizers_add(&t->normalizers, kind, &step));
    step->form = GALE__NFD;
    return GALE_OK;
}

static gale_status set_bert(gale_tokenizer *t, const gale__bert_options *o)
{
    gale__splitter *splitter = NULL;
    gale__decoder *decoder = NULL;
    GALE_TRY(add_step(t, GALE__NORM_CLEAN));
    if (o->chinese) GALE_TRY(add_step(t, GALE__NORM_CHINESE));
    if (o->accents) {
        GALE_TRY(gale__normal_form_check("BERT's tokenizer, which strips accents,"));
        GALE_TRY(add_step(t, GALE__NORM_FORM));
        GALE_TRY(add_step(t, GALE__NORM_STRIP_MN));
    }
    if (o->lower) GALE_TRY(add_step(t, GALE__NORM_LOWERCASE));
    GALE_TRY(gale__splitters_add(&t->splitters, GALE__SPLIT_WHITE, &splitter));
    GALE_TRY(gale__splitters_add(&t->splitters, GALE__SPLIT_PUNCT, &splitter));
    splitter->behaviour = GALE__SPLIT_ISOLATED;
    GALE_TRY(gale__decoders_add(&t->decoders, GALE__DECODE_WORDPIECE, &decoder));
    return gale__copy_text("##", 2, &decoder->text);
}

gale_status gale__tokenizer_read_bert_vocab(
    gale_tokenizer *t, const char *text, size_t size, const gale__bert_options *options)
{
    static const char *const specials[] = {"[UNK]", "[SEP]", "[CLS]", "[PAD]", "[MASK]"};
    gale__token_model *m = &t->model;
    const char *at = text, *line;
    uint32_t id = 0;
    GALE_TRY(need_utf8(text, size));
    m->kind = GALE__TOKEN_MODEL_WORDPIECE;
    m->characters_most = 100;
    for (size_t n; next_line(&at, text + size, &line, &n); id++)
        GALE_TRY(gale__vocab_add(&m->vocab, line, without_end(line, n), id));
    GALE_TRY(gale__copy_text("[UNK]", 5, &m->unk_token));
    GALE_TRY(gale__copy_text("##", 2, &m->prefix));
    GALE_TRY(gale__token_model_prepare(m));
    GALE_TRY(set_bert(t, options));
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) GALE_TRY(add_special(t, specials[i]));
    uint32_t cls = gale__vocab_find(&m->vocab, "[CLS]", 5), sep = gale__vocab_find(&m->vocab, "[SEP]", 5);
    if (cls == GALE__NO_ID || sep == GALE__NO_ID || m->unk == GALE__NO_ID)
        return gale__fail(GALE_FORMAT, "not a BERT vocabulary: [CLS], [SEP] or [UNK] is missing");
    GALE_TRY(gale__post_set_bert(&t->post, cls, sep, false));
    return gale__tokenizer_prepare(t);
}

static gale_status add_vocab(gale__token_model *m, const char *text, size_t size)
{
    gale__arena arena = {0};
    gale__json *v = NULL;
    gale_status status = gale__json_parse_with_zeros(&arena, text, size, &v);
    if (status == GALE_OK && v->kind != GALE__JSON_OBJECT)
        status = gale__fail(GALE_FORMAT, "a vocabulary must map tokens to ids");
    for (const gale__json *c = status == GALE_OK ? v->child : NULL; c && status == GALE_OK; c = c->next) {
        bool good = c->kind == GALE__JSON_NUMBER && c->number >= 0 && c->number <= GALE__VOCAB_ID_MOST &&
                    c->number == (double)(uint32_t)c->number;
        status = good ? gale__vocab_add(&m->vocab, c->key, c->key_size, (uint32_t)c->number)
                      : gale__fail(GALE_FORMAT, "the id of '%.60s' is not an integer from 0 to %d", c->key,
                            GALE__VOCAB_ID_MOST);
    }
    gale__arena_finish(&arena);
    return status;
}

static gale_status add_merges(gale__token_model *m, const char *text, size_t size)
{
    const char *at = text, *line;
    GALE_TRY(need_utf8(text, size));
    for (size_t n, number = 1; next_line(&at, text + size, &line, &n); number++) {
        if (n && line[n - 1] == '\r') n--;
        if (n >= 8 && !memcmp(line, "#version", 8)) continue;
        const char *space = memchr(line, ' ', n);
        size_t left = space ? (size_t)(space - line) : 0;
        if (!space || memchr(space + 1, ' ', n - left - 1))
            return gale__fail(GALE_FORMAT, "merges.txt, line %zu: not two tokens separated by a space", number);
        GALE_TRY(gale__bpe_add_merge(m, line, left, space + 1, n - left - 1));
    }
    return GALE_OK;
}

gale_status gale__tokenizer_read_bpe_files(
    gale_tokenizer *t, const char *vocab, size_t vocab_size, const char *merges, size_t merges_size)
{
    gale__splitter *splitter = NULL;
    gale__decoder *decoder = NULL;
    t->model.kind = GALE__TOKEN_MODEL_BPE;
    GALE_TRY(add_vocab(&t->model, vocab, vocab_size));
    GALE_TRY(gale__token_model_prepare(&t->model));
    GALE_TRY(add_merges(&t->model, merges, merges_size));
    GALE_TRY(gale__splitters_add(&t->splitters, GALE__SPLIT_BYTES, &splitter));
    GALE_TRY(gale__decoders_add(&t->decoders, GALE__DECODE_BYTES, &decoder));
    GALE_TRY(add_special(t, "<|endoftext|>"));
    gale__post_init(&t->post);
    return gale__tokenizer_prepare(t);
}
