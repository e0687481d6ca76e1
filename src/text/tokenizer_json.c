/* tokenizer.json.  Every component is read by its own file; an unknown one is an error that names it. */
#include "text/fields.h"
#include "text/tokenizer.h"

/* --- Models. --- */

static gale_status add_vocab(gale__token_model *m, const gale__json *v)
{
    if (v->kind != GALE__JSON_OBJECT) return gale__fail(GALE_FORMAT, "model.vocab must map tokens to ids");
    for (const gale__json *token = v->child; token; token = token->next) {
        if (token->kind != GALE__JSON_NUMBER || !(token->number >= 0 && token->number <= GALE__VOCAB_ID_MOST) ||
            token->number != (double)(uint32_t)token->number)
            return gale__fail(GALE_FORMAT, "model.vocab: the id of '%.60s' is not an integer from 0 to %d", token->key,
                GALE__VOCAB_ID_MOST);
        GALE_TRY(gale__vocab_add(&m->vocab, token->key, token->key_size, (uint32_t)token->number));
    }
    return GALE_OK;
}

static gale_status copy(const gale__json *v, const char *key, char **out)
{
    const char *text = NULL;
    size_t size = 0;
    GALE_TRY(gale__field_text(v, key, &text, &size));
    if (!text) return GALE_OK;
    gale__free(*out);
    *out = NULL;
    return gale__copy_text(text, size, out);
}

static gale_status read_wordpiece(gale__token_model *m, const gale__json *v)
{
    const gale__json *vocab = NULL;
    m->kind = GALE__TOKEN_MODEL_WORDPIECE;
    m->characters_most = 100;
    GALE_TRY(gale__field_need(v, "vocab", &vocab));
    GALE_TRY(add_vocab(m, vocab));
    GALE_TRY(gale__copy_text("[UNK]", 5, &m->unk_token));
    GALE_TRY(gale__copy_text("##", 2, &m->prefix));
    GALE_TRY(copy(v, "unk_token", &m->unk_token));
    GALE_TRY(copy(v, "continuing_subword_prefix", &m->prefix));
    GALE_TRY(gale__field_u32(v, "max_input_chars_per_word", &m->characters_most));
    return gale__token_model_prepare(m);
}

static gale_status read_wordlevel(gale__token_model *m, const gale__json *v)
{
    const gale__json *vocab = NULL;
    m->kind = GALE__TOKEN_MODEL_WORDLEVEL;
    GALE_TRY(gale__field_need(v, "vocab", &vocab));
    GALE_TRY(add_vocab(m, vocab));
    GALE_TRY(gale__copy_text("<unk>", 5, &m->unk_token));
    GALE_TRY(copy(v, "unk_token", &m->unk_token));
    return gale__token_model_prepare(m);
}

/* A merge as a pair of texts, or as one text with a space in it. */
static gale_status add_merge(gale__token_model *m, const gale__json *v)
{
    if (v->kind == GALE__JSON_ARRAY) {
        const gale__json *left = v->child, *right = left ? left->next : NULL;
        if (right && !right->next && left->kind == GALE__JSON_STRING && right->kind == GALE__JSON_STRING)
            return gale__bpe_add_merge(m, left->string, left->string_size, right->string, right->string_size);
    } else if (v->kind == GALE__JSON_STRING) {
        const char *space = memchr(v->string, ' ', v->string_size), *end = v->string + v->string_size;
        if (v->string_size >= 8 && !memcmp(v->string, "#version", 8)) return GALE_OK;
        if (space && !memchr(space + 1, ' ', (size_t)(end - space - 1)))
            return gale__bpe_add_merge(m, v->string, (size_t)(space - v->string), space + 1, (size_t)(end - space - 1));
    }
    return gale__fail(GALE_FORMAT, "model.merges: rule %zu is not a pair of tokens", m->merge_count + 1);
}

static gale_status read_bpe(gale__token_model *m, const gale__json *v)
{
    const gale__json *vocab = NULL, *merges = NULL, *dropout = gale__json_get(v, "dropout");
    m->kind = GALE__TOKEN_MODEL_BPE;
    if (dropout && dropout->kind == GALE__JSON_NUMBER && dropout->number != 0)
        return gale__fail(GALE_UNSUPPORTED, "model.dropout makes tokens random and is not supported; set it to null");
    GALE_TRY(gale__field_need(v, "vocab", &vocab));
    GALE_TRY(gale__field_need(v, "merges", &merges));
    GALE_TRY(add_vocab(m, vocab));
    GALE_TRY(copy(v, "unk_token", &m->unk_token));
    GALE_TRY(copy(v, "continuing_subword_prefix", &m->prefix));
    GALE_TRY(copy(v, "end_of_word_suffix", &m->suffix));
    GALE_TRY(gale__field_bool(v, "fuse_unk", &m->fuse_unk));
    GALE_TRY(gale__field_bool(v, "byte_fallback", &m->byte_fallback));
    GALE_TRY(gale__field_bool(v, "ignore_merges", &m->ignore_merges));
    GALE_TRY(gale__token_model_prepare(m));
    if (merges->kind != GALE__JSON_ARRAY) return gale__fail(GALE_FORMAT, "model.merges must be a list");
    for (const gale__json *item = merges->child; item; item = item->next) GALE_TRY(add_merge(m, item));
    return GALE_OK;
}

static gale_status add_score(gale__token_model *m, const gale__json *v, size_t *capacity, double *least)
{
    const gale__json *token = v->kind == GALE__JSON_ARRAY ? v->child : NULL, *score = token ? token->next : NULL;
    if (!score || token->kind != GALE__JSON_STRING || score->kind != GALE__JSON_NUMBER)
        return gale__fail(GALE_FORMAT, "model.vocab: entry %u is not a token and its score", m->size);
    GALE_TRY(gale__vocab_add(&m->vocab, token->string, token->string_size, m->size));
    GALE_TRY(gale__grow((void **)&m->scores, capacity, (size_t)m->size + 1, sizeof *m->scores));
    double value = gale__number_twice_rounded(score->source);
    m->scores[m->size++] = value;
    if (value < *least) *least = value;
    return GALE_OK;
}

static gale_status read_unigram(gale__token_model *m, const gale__json *v)
{
    const gale__json *vocab = NULL;
    size_t capacity = 0;
    double least = 1e300;
    m->kind = GALE__TOKEN_MODEL_UNIGRAM;
    m->unk = GALE__NO_ID;
    GALE_TRY(gale__field_need(v, "vocab", &vocab));
    if (vocab->kind != GALE__JSON_ARRAY) return gale__fail(GALE_FORMAT, "model.vocab must be a list");
    for (const gale__json *item = vocab->child; item; item = item->next)
        GALE_TRY(add_score(m, item, &capacity, &least));
    GALE_TRY(gale__field_u32(v, "unk_id", &m->unk));
    GALE_TRY(gale__field_bool(v, "byte_fallback", &m->byte_fallback));
    if (m->unk != GALE__NO_ID && m->unk >= m->size)
        return gale__fail(GALE_FORMAT, "model.unk_id is %u, but there are %u tokens", m->unk, m->size);
    m->unk_score = least - 10;
    return gale__token_model_prepare(m);
}

/* Old files do not name the model. */
static const char *guess_model(const gale__json *v)
{
    const gale__json *vocab = gale__json_get(v, "vocab");
    if (gale__json_get(v, "merges")) return "BPE";
    if (vocab && vocab->kind == GALE__JSON_ARRAY) return "Unigram";
    return gale__json_get(v, "continuing_subword_prefix") ? "WordPiece" : "WordLevel";
}

static gale_status read_model(gale__token_model *m, const gale__json *v)
{
    static const char *const names[] = {"WordPiece", "BPE", "Unigram", "WordLevel", NULL};
    if (v->kind != GALE__JSON_OBJECT) return gale__fail(GALE_FORMAT, "'model' must be an object");
    const char *type = gale__json_get(v, "type") ? gale__field_type(v) : guess_model(v);
    switch (gale__word_index(type, names)) {
    case 0: return read_wordpiece(m, v);
    case 1: return read_bpe(m, v);
    case 2: return read_unigram(m, v);
    case 3: return read_wordlevel(m, v);
    default: return gale__fail(GALE_UNSUPPORTED, "model '%.60s' is not supported", type);
    }
}

/* --- The rest. --- */

static gale_status read_added(gale_tokenizer *t, const gale__json *list)
{
    if (!list || list->kind == GALE__JSON_NULL) return GALE_OK;
    if (list->kind != GALE__JSON_ARRAY) return gale__fail(GALE_FORMAT, "'added_tokens' must be a list");
    for (const gale__json *v = list->child; v; v = v->next) {
        gale__added_token token = {.normalized = true};
        const char *content = NULL;
        GALE_TRY(gale__field_need_text(v, "content", &content, &token.size));
        token.content = (char *)(uintptr_t)content;
        GALE_TRY(gale__field_bool(v, "single_word", &token.single_word));
        GALE_TRY(gale__field_bool(v, "lstrip", &token.lstrip));
        GALE_TRY(gale__field_bool(v, "rstrip", &token.rstrip));
        GALE_TRY(gale__field_bool(v, "normalized", &token.normalized));
        GALE_TRY(gale__field_bool(v, "special", &token.special));
        GALE_TRY(gale__added_add(&t->added, &t->model, &token));
    }
    return GALE_OK;
}

static gale_status within(gale_status status, const char *part)
{
    return status == GALE_OK ? GALE_OK : gale__fail_within(status, "%s", part);
}

static gale_status read_parts(gale_tokenizer *t, const gale__json *v)
{
    const gale__json *model = NULL;
    const char *version = gale__json_text(v, "version", "1.0");
    if (v->kind != GALE__JSON_OBJECT) return gale__fail(GALE_FORMAT, "not a tokenizer.json: it is not a JSON object");
    if (strcmp(version, "1.0"))
        return gale__fail(GALE_UNSUPPORTED, "version '%.20s' is not supported, only 1.0", version);
    GALE_TRY(gale__field_need(v, "model", &model));
    GALE_TRY(within(gale__normalizers_read(&t->normalizers, gale__json_get(v, "normalizer")), "normalizer"));
    GALE_TRY(within(gale__splitters_read(&t->splitters, gale__json_get(v, "pre_tokenizer")), "pre_tokenizer"));
    GALE_TRY(within(read_model(&t->model, model), "model"));
    GALE_TRY(within(read_added(t, gale__json_get(v, "added_tokens")), "added_tokens"));
    gale__post_init(&t->post);
    GALE_TRY(within(gale__post_read(&t->post, gale__json_get(v, "post_processor")), "post_processor"));
    GALE_TRY(within(gale__decoders_read(&t->decoders, gale__json_get(v, "decoder")), "decoder"));
    GALE_TRY(within(gale__post_read_truncation(&t->post, gale__json_get(v, "truncation")), "truncation"));
    GALE_TRY(within(gale__post_read_padding(&t->post, gale__json_get(v, "padding")), "padding"));
    return gale__tokenizer_prepare(t);
}

gale_status gale__tokenizer_read_json(gale_tokenizer *t, const char *text, size_t size)
{
    gale__arena arena = {0};
    gale__json *v = NULL;
    gale_status status = gale__json_parse_with_zeros(&arena, text, size, &v);
    if (status == GALE_OK) status = read_parts(t, v);
    gale__arena_finish(&arena);
    return status;
}
