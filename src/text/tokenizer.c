/* The public interface: encoders, encoding with special tokens, decoding, vocabulary. */
#include "text/tokenizer.h"

/* --- Preparation. --- */

static bool is_bert(const gale_tokenizer *t)
{
    const gale__splitters *s = &t->splitters;
    if (t->model.kind != GALE__TOKEN_MODEL_WORDPIECE || !t->normalizers.count || t->post.trim_count) return false;
    if (t->normalizers.items[0].kind != GALE__NORM_CLEAN) return false;
    for (size_t i = 1; i < t->normalizers.count; i++) {
        gale__normalizer_kind kind = t->normalizers.items[i].kind;
        bool fits = kind == GALE__NORM_CHINESE || kind == GALE__NORM_FORM || kind == GALE__NORM_STRIP_MN ||
                    kind == GALE__NORM_STRIP_MARKS || kind == GALE__NORM_LOWERCASE;
        if (!fits) return false;
    }
    return s->count == 2 && s->items[0].kind == GALE__SPLIT_WHITE && s->items[1].kind == GALE__SPLIT_PUNCT &&
           s->items[1].behaviour == GALE__SPLIT_ISOLATED;
}

static void prepare_bert(gale_tokenizer *t)
{
    t->bert = is_bert(t);
    for (size_t i = 0; i < t->normalizers.count; i++)
        t->bert_lower |= t->normalizers.items[i].kind == GALE__NORM_LOWERCASE;
    for (uint32_t c = 0; c < 256; c++) {
        uint32_t bits = c < 128 ? gale__unicode_bits(c) : GALE__U_OTHER;
        bool added = t->added.raw.first[c] || t->added.normal.first[c];
        t->bert_class[c] = added || (bits & GALE__U_OTHER) || !c ? GALE__BERT_OTHER
                           : bits & GALE__U_WHITE                ? GALE__BERT_SPACE
                           : bits & GALE__U_PUNCT                ? GALE__BERT_PUNCT
                                                                 : GALE__BERT_LETTER;
    }
}

gale_status gale__tokenizer_prepare(gale_tokenizer *t)
{
    GALE_TRY(gale__added_prepare(&t->added, &t->model, &t->normalizers));
    prepare_bert(t);
    if (t->post.truncates && t->post.max_length < t->post.single.added)
        return gale__fail(GALE_FORMAT, "truncation.max_length is %u, less than the %zu special tokens of a text",
            t->post.max_length, t->post.single.added);
    return GALE_OK;
}

void gale_tokenizer_destroy(gale_tokenizer **tokenizer)
{
    gale_tokenizer *t = tokenizer ? *tokenizer : NULL;
    if (!t) return;
    gale__normalizers_finish(&t->normalizers);
    gale__splitters_finish(&t->splitters);
    gale__token_model_finish(&t->model);
    gale__added_finish(&t->added);
    gale__post_finish(&t->post);
    gale__decoders_finish(&t->decoders);
    gale__free(t);
    *tokenizer = NULL;
}

/* --- The vocabulary. --- */

size_t gale_tokenizer_size(const gale_tokenizer *t)
{
    if (!t) return gale__lack(__func__, "tokenizer"), 0;
    return t->added.id_end;
}

gale_status gale_tokenizer_find(const gale_tokenizer *t, const char *token, size_t size, uint32_t *id)
{
    GALE__NEED({"tokenizer", t}, {"token", !size || token}, {"id", id});
    const gale__added_token *added = gale__added_find(&t->added, token, size);
    uint32_t found = added ? added->id : gale__vocab_find(&t->model.vocab, token, size);
    if (found == GALE__NO_ID)
        return gale__fail(GALE_NOT_FOUND, "the vocabulary has no token '%.*s'", (int)(size < 60 ? size : 60), token);
    *id = found;
    return GALE_OK;
}

gale_status gale_tokenizer_token(const gale_tokenizer *t, uint32_t id, const char **token, size_t *size)
{
    GALE__NEED({"tokenizer", t}, {"token", token});
    const gale__added_token *added = gale__added_by_id(&t->added, id);
    size_t length = 0;
    const char *text = added ? added->content : gale__vocab_token(&t->model.vocab, id, &length);
    if (!text) return gale__fail(GALE_NOT_FOUND, "the vocabulary has no token %u", id);
    *token = text;
    *size = added ? added->size : length;
    return GALE_OK;
}

void gale_tokenizer_get_info(const gale_tokenizer *t, gale_tokenizer_info *out)
{
    if (GALE__LACKS({"tokenizer", t}, {"out", out})) return;
    static const char *const names[] = {"WordPiece", "BPE", "Unigram", "WordLevel"};
    const gale__post *p = &t->post;
    *out = (gale_tokenizer_info){.model = names[t->model.kind],
        .max_length = p->truncates ? p->max_length : 0,
        .pad_length = p->pads ? p->pad_length : 0,
        .pads = p->pads,
        .pad_left = p->pad_left,
        .pad_id = p->pad_id,
        .pad_type_id = p->pad_type_id,
        .special_count = p->single.added,
        .special_count_of_pair = p->pair.added};
}

/* --- Encoders. --- */

gale_status gale_encoder_create(const gale_tokenizer *t, gale_encoder **out)
{
    GALE__NEED({"tokenizer", t}, {"out", out});
    gale_encoder *e = gale__calloc(1, sizeof *e);
    gale_status status = e ? gale__token_model_state_init(&e->model) : GALE_NO_MEMORY;
    (void)t;
    if (status == GALE_OK) status = gale__normalize_state_init(&e->normal);
    if (status == GALE_OK) *out = e;
    else gale_encoder_destroy(&e);
    return status;
}

void gale_encoder_destroy(gale_encoder **encoder)
{
    gale_encoder *e = encoder ? *encoder : NULL;
    if (!e) return;
    gale__token_model_state_finish(&e->model);
    gale__normalize_state_finish(&e->normal);
    gale__split_state_finish(&e->split);
    gale__decode_state_finish(&e->decode);
    gale__str_finish(&e->decoded);
    void *arrays[] = {e->pieces.items, e->tokens[0].items, e->tokens[1].items, e->repaired, e->lower, e->places, e->ids,
        e->type_ids, e->ranges, e->words, e->special, e->mask};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) gale__free(arrays[i]);
    gale__free(e);
    *encoder = NULL;
}

static gale_status reserve(gale_encoder *e, size_t count)
{
    if (count <= e->capacity && e->capacity) return GALE_OK;
    size_t want = count < 64 ? 64 : count + count / 2;
    struct {
        void **array;
        size_t size;
    } all[] = {{(void **)&e->ids, 4}, {(void **)&e->type_ids, 4}, {(void **)&e->ranges, sizeof *e->ranges},
        {(void **)&e->words, 4}, {(void **)&e->special, 1}, {(void **)&e->mask, 1}};
    e->capacity = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        void *grown = gale__realloc(*all[i].array, want * all[i].size);
        if (!grown) return GALE_NO_MEMORY;
        *all[i].array = grown;
    }
    e->capacity = want;
    return GALE_OK;
}

/* White space at the ends of a token is not part of where it comes from; a space that was put in front of the text has
 * no place there anyway. */
static void trim(gale__token *tokens, size_t count, bool prefix_space)
{
    for (size_t i = 0; i < count; i++) {
        gale__token *t = tokens + i;
        uint32_t front = t->trim_front, back = t->trim_back;
        if (prefix_space && front == 1 && (i == 0 || t->begin == 0)) front = 0;
        t->begin = t->begin + front < t->end ? t->begin + front : t->end;
        if (back && t->end >= back) t->end = t->end - back > t->begin ? t->end - back : t->begin;
    }
}

static void put(gale_encoder *e, size_t at, uint32_t id, uint32_t type_id, gale_range range, int32_t word, int flags)
{
    e->ids[at] = id;
    e->type_ids[at] = type_id;
    e->ranges[at] = range;
    e->words[at] = word;
    e->special[at] = flags & 1;
    e->mask[at] = !(flags & 2);
}

static void fill(gale_encoder *e, size_t begin, size_t end, const gale__post *p)
{
    for (size_t i = begin; i < end; i++) put(e, i, p->pad_id, p->pad_type_id, (gale_range){0, 0}, -1, 3);
}

/* The part of a sequence that stays. */
typedef struct part {
    gale__token *tokens;
    size_t count;
} part;

static size_t put_piece(
    gale_encoder *e, const gale__post *p, const gale__post_piece *piece, const part parts[2], size_t at, bool special)
{
    if (piece->sequence < 0) {
        for (uint32_t i = 0; i < piece->count && special; i++)
            put(e, at++, p->ids[piece->first + i], piece->type_id, (gale_range){0, 0}, -1, 1);
        return at;
    }
    const part *from = parts + piece->sequence;
    for (size_t i = 0; i < from->count; i++) {
        const gale__token *t = from->tokens + i;
        put(e, at++, t->id, piece->type_id, (gale_range){t->begin, t->end}, (int32_t)t->word, 0);
    }
    return at;
}

static size_t padded_length(const gale__post *p, const gale_encode_options *o, size_t count)
{
    size_t want = o->pad_length > 0 ? (size_t)o->pad_length : p->pad_length;
    if (o->pad_length < 0 || (o->pad_length == 0 && !p->pads)) return count;
    if (o->pad_length == 0 && !want) want = count;
    if (o->pad_length == 0 && p->pad_multiple && want % p->pad_multiple)
        want += p->pad_multiple - want % p->pad_multiple;
    return want > count ? want : count;
}

static gale_status assemble(const gale_tokenizer *t, gale_encoder *e, const part parts[2], bool pair,
    const gale_encode_options *o, gale_encoding *out)
{
    const gale__post *p = &t->post;
    const gale__post_template *shape = pair ? &p->pair : &p->single;
    size_t count = o->no_special ? 0 : shape->added, at = 0;
    for (size_t i = 0; i < shape->count; i++)
        if (shape->pieces[i].sequence >= 0) count += parts[shape->pieces[i].sequence].count;
    size_t whole = padded_length(p, o, count), front = p->pad_left ? whole - count : 0;
    GALE_TRY(reserve(e, whole));
    fill(e, 0, front, p);
    at = front;
    for (size_t i = 0; i < shape->count; i++) at = put_piece(e, p, shape->pieces + i, parts, at, !o->no_special);
    fill(e, at, whole, p);
    *out = (gale_encoding){whole, e->ids, e->type_ids, e->ranges, e->words, e->special, e->mask};
    return GALE_OK;
}

/* How many tokens of the texts themselves may stay; SIZE_MAX: all. */
static gale_status find_most(const gale__post *p, const gale_encode_options *o, size_t added, size_t *out)
{
    if (o->max_length < 0 || (o->max_length == 0 && !p->truncates)) return *out = SIZE_MAX, GALE_OK;
    size_t most = o->max_length > 0 ? (size_t)o->max_length : p->max_length;
    if (most < added)
        return gale__fail(GALE_INVALID,
            "a limit of %zu tokens is less than the %zu special tokens; allow more, or omit special tokens", most,
            added);
    *out = most - added;
    return GALE_OK;
}

gale_status gale_tokenizer_encode(const gale_tokenizer *t, gale_encoder *e, const char *text, size_t text_size,
    const char *pair, size_t pair_size, const gale_encode_options *options, gale_encoding *out)
{
    GALE__NEED({"tokenizer", t}, {"encoder", e}, {"text", !text_size || text}, {"out", out});
    GALE__OPTIONS(options);
    static const gale_encode_options none = {0};
    const gale_encode_options *o = options ? options : &none;
    const gale__post_template *shape = pair ? &t->post.pair : &t->post.single;
    size_t most = SIZE_MAX, kept[2];
    part parts[2] = {{0}};
    if (o->pad_length > GALE__VOCAB_ID_MOST)
        return gale__fail(GALE_LIMIT, "padding to more than %d tokens", GALE__VOCAB_ID_MOST);
    GALE_TRY(find_most(&t->post, o, o->no_special ? 0 : shape->added, &most));
    e->tokens[1].count = 0;
    GALE_TRY(gale__encode_sequence(t, e, text, text_size, o->special_as_text, &e->tokens[0]));
    if (pair) GALE_TRY(gale__encode_sequence(t, e, pair, pair_size, o->special_as_text, &e->tokens[1]));
    for (int i = 0; i < 2; i++) kept[i] = e->tokens[i].count;
    if (most != SIZE_MAX) GALE_TRY(gale__post_truncate(&t->post, most, pair != NULL, &kept[0], &kept[1]));
    for (int i = 0; i < 2; i++) {
        size_t cut = e->tokens[i].count - kept[i];
        if (e->tokens[i].count) parts[i] = (part){e->tokens[i].items + (t->post.truncate_left ? cut : 0), kept[i]};
        for (size_t k = 0; k < t->post.trim_count; k++)
            trim(parts[i].tokens, parts[i].count, t->post.trim_prefix_space[k]);
    }
    return assemble(t, e, parts, pair != NULL, o, out);
}

/* --- Decoding. --- */

static gale_status add_decoded(const gale_tokenizer *t, gale__text_list *list, uint32_t id, bool with_special)
{
    const gale__added_token *added = gale__added_by_id(&t->added, id);
    size_t size = 0;
    const char *text;
    if (added) {
        text = added->normal ? added->normal : added->content;
        size = added->normal ? added->normal_size : added->size;
    } else {
        text = gale__vocab_token(&t->model.vocab, id, &size);
    }
    if (!text) return GALE_OK;
    const gale__added_token *same = with_special ? NULL : gale__added_find(&t->added, text, size);
    if (same && same->special) return GALE_OK;
    gale__str_add_n(&list->pool, text, size);
    return gale__text_list_end(list);
}

gale_status gale_tokenizer_decode(const gale_tokenizer *t, gale_encoder *e, const uint32_t *ids, size_t count,
    gale_flags flags, const char **text, size_t *size)
{
    GALE__NEED({"tokenizer", t}, {"encoder", e}, {"ids", !count || ids}, {"text", text});
    GALE__FLAGS(flags, GALE_DECODE_SPECIAL);
    gale__text_list_clear(&e->decode.a);
    e->decoded.length = 0;
    e->decoded.failed = false;
    gale__str_add(&e->decoded, "");
    for (size_t i = 0; i < count; i++) GALE_TRY(add_decoded(t, &e->decode.a, ids[i], flags & GALE_DECODE_SPECIAL));
    GALE_TRY(gale__decode(&t->decoders, &e->decode, &e->normal.patterns, &e->decoded));
    *text = gale__str_text(&e->decoded);
    *size = e->decoded.length;
    return GALE_OK;
}
