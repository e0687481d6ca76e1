/* Post-processors of tokenizer.json, converted to one form: a template for a single text and one for a pair. */
#include "text/post.h"
#include "text/fields.h"
#include "text/vocab.h"

void gale__post_finish(gale__post *p)
{
    gale__free(p->ids);
    *p = (gale__post){0};
}

void gale__post_init(gale__post *p)
{
    p->single = (gale__post_template){.pieces = {{0, 0, 0, 0}}, .count = 1};
    p->pair = (gale__post_template){.pieces = {{0, 0, 0, 0}, {1, 1, 0, 0}}, .count = 2};
}

static gale_status add_piece(gale__post_template *t, gale__post_piece piece)
{
    if (t->count == GALE__POST_PIECES)
        return gale__fail(GALE_LIMIT, "a template of the post-processor has more than %d parts", GALE__POST_PIECES);
    t->pieces[t->count++] = piece;
    t->added += piece.count;
    return GALE_OK;
}

static gale_status add_special(gale__post *p, gale__post_template *t, uint32_t id, uint32_t type_id)
{
    if (id == GALE__NO_ID) return GALE_OK;
    GALE_TRY(gale__grow((void **)&p->ids, &p->id_capacity, p->id_count + 1, sizeof *p->ids));
    p->ids[p->id_count++] = id;
    return add_piece(t, (gale__post_piece){-1, type_id, (uint32_t)p->id_count - 1, 1});
}

gale_status gale__post_set_bert(gale__post *p, uint32_t cls, uint32_t sep, bool roberta)
{
    uint32_t second = roberta ? 0 : 1;
    p->single = p->pair = (gale__post_template){0};
    GALE_TRY(add_special(p, &p->single, cls, 0));
    GALE_TRY(add_piece(&p->single, (gale__post_piece){0, 0, 0, 0}));
    GALE_TRY(add_special(p, &p->single, sep, 0));
    p->pair = p->single;
    if (roberta) GALE_TRY(add_special(p, &p->pair, sep, 0));
    GALE_TRY(add_piece(&p->pair, (gale__post_piece){1, second, 0, 0}));
    return add_special(p, &p->pair, sep, second);
}

static gale_status read_pair(const gale__json *v, const char *key, uint32_t *id)
{
    const gale__json *list = NULL;
    GALE_TRY(gale__field_need(v, key, &list));
    const gale__json *number = list->kind == GALE__JSON_ARRAY && list->child ? list->child->next : NULL;
    if (!number || number->kind != GALE__JSON_NUMBER || !(number->number >= 0 && number->number <= GALE__VOCAB_ID_MOST))
        return gale__fail(GALE_FORMAT, "'%s' of the post-processor must be a token and its id", key);
    *id = (uint32_t)number->number;
    return GALE_OK;
}

static gale_status once(gale__post *p)
{
    if (p->adds) return gale__fail(GALE_UNSUPPORTED, "several post-processors that add tokens are not supported");
    p->adds = true;
    return GALE_OK;
}

static gale_status add_trim(gale__post *p, const gale__json *v)
{
    bool trim = true, space = true;
    GALE_TRY(gale__field_bool(v, "trim_offsets", &trim));
    GALE_TRY(gale__field_bool(v, "add_prefix_space", &space));
    if (!trim) return GALE_OK;
    if (p->trim_count == GALE__TRIMS)
        return gale__fail(GALE_LIMIT, "more than %d post-processors trim offsets", GALE__TRIMS);
    p->trim_prefix_space[p->trim_count++] = space;
    return GALE_OK;
}

static gale_status read_bert(gale__post *p, const gale__json *v, bool roberta)
{
    uint32_t cls = 0, sep = 0;
    GALE_TRY(once(p));
    GALE_TRY(read_pair(v, "cls", &cls));
    GALE_TRY(read_pair(v, "sep", &sep));
    if (roberta) GALE_TRY(add_trim(p, v));
    return gale__post_set_bert(p, cls, sep, roberta);
}

/* --- Templates. --- */

static gale_status add_named(
    gale__post *p, gale__post_template *t, const gale__json *specials, const char *name, uint32_t type_id)
{
    const gale__json *token = gale__json_get(specials, name), *ids = gale__json_get(token, "ids");
    if (!ids || ids->kind != GALE__JSON_ARRAY)
        return gale__fail(GALE_FORMAT, "the template names '%.60s', which has no 'ids' in 'special_tokens'", name);
    for (const gale__json *v = ids->child; v; v = v->next) {
        if (v->kind != GALE__JSON_NUMBER || !(v->number >= 0 && v->number <= GALE__VOCAB_ID_MOST))
            return gale__fail(GALE_FORMAT, "'ids' of '%.60s' in 'special_tokens' must be token ids", name);
        GALE_TRY(add_special(p, t, (uint32_t)v->number, type_id));
    }
    return GALE_OK;
}

static gale_status read_piece(
    gale__post *p, gale__post_template *t, const gale__json *specials, const gale__json *v, bool pair)
{
    const gale__json *sequence = gale__json_get(v, "Sequence"), *special = gale__json_get(v, "SpecialToken");
    const char *name = "";
    size_t size;
    uint32_t type_id = 0;
    if (!sequence && !special)
        return gale__fail(GALE_FORMAT, "a part of a template must be a 'Sequence' or a 'SpecialToken'");
    GALE_TRY(gale__field_need_text(sequence ? sequence : special, "id", &name, &size));
    GALE_TRY(gale__field_u32(sequence ? sequence : special, "type_id", &type_id));
    if (special) return add_named(p, t, specials, name, type_id);
    bool second = !strcmp(name, "B");
    if ((!second && strcmp(name, "A")) || (second && !pair))
        return gale__fail(GALE_FORMAT, "a template uses the unknown sequence '%.20s'", name);
    return add_piece(t, (gale__post_piece){second, type_id, 0, 0});
}

static gale_status read_template(gale__post *p, const gale__json *v, bool pair)
{
    gale__post_template *t = pair ? &p->pair : &p->single;
    const gale__json *list = NULL;
    GALE_TRY(gale__field_need(v, pair ? "pair" : "single", &list));
    if (list->kind != GALE__JSON_ARRAY)
        return gale__fail(GALE_FORMAT, "'%s' of the post-processor must be a list", pair ? "pair" : "single");
    *t = (gale__post_template){0};
    for (const gale__json *item = list->child; item; item = item->next)
        GALE_TRY(read_piece(p, t, gale__json_get(v, "special_tokens"), item, pair));
    return GALE_OK;
}

gale_status gale__post_read(gale__post *p, const gale__json *v)
{
    static const char *const names[] = {
        "BertProcessing", "RobertaProcessing", "ByteLevel", "TemplateProcessing", "Sequence", NULL};
    const gale__json *list = NULL;
    if (!v || v->kind == GALE__JSON_NULL) return GALE_OK;
    const char *type = gale__field_type(v);
    switch (gale__word_index(type, names)) {
    case 0: return read_bert(p, v, false);
    case 1: return read_bert(p, v, true);
    case 2: return add_trim(p, v);
    case 3:
        GALE_TRY(once(p));
        GALE_TRY(read_template(p, v, false));
        return read_template(p, v, true);
    case 4:
        GALE_TRY(gale__field_need(v, "processors", &list));
        for (const gale__json *item = list->child; item; item = item->next) GALE_TRY(gale__post_read(p, item));
        return GALE_OK;
    default: return gale__fail(GALE_UNSUPPORTED, "post-processor '%.60s' is not supported", type);
    }
}

/* --- Truncation and padding. --- */

static gale_status read_side(const gale__json *v, const char *what, bool *left)
{
    static const char *const names[] = {"Right", "Left", NULL};
    const char *text = "Right";
    size_t size;
    GALE_TRY(gale__field_text(v, "direction", &text, &size));
    int found = gale__word_index(text, names);
    if (found < 0) return gale__fail(GALE_FORMAT, "%s: direction '%.20s' is neither Left nor Right", what, text);
    *left = found == 1;
    return GALE_OK;
}

gale_status gale__post_read_truncation(gale__post *p, const gale__json *v)
{
    static const char *const names[] = {"LongestFirst", "OnlyFirst", "OnlySecond", NULL};
    const char *strategy = "LongestFirst";
    const gale__json *there = NULL;
    size_t size;
    if (!v || v->kind == GALE__JSON_NULL) return GALE_OK;
    GALE_TRY(gale__field_need(v, "max_length", &there));
    GALE_TRY(gale__field_u32(v, "max_length", &p->max_length));
    GALE_TRY(gale__field_u32(v, "stride", &p->stride));
    GALE_TRY(gale__field_text(v, "strategy", &strategy, &size));
    GALE_TRY(read_side(v, "truncation", &p->truncate_left));
    int found = gale__word_index(strategy, names);
    if (found < 0) return gale__fail(GALE_UNSUPPORTED, "truncation strategy '%.40s' is not supported", strategy);
    p->strategy = (gale__post_strategy)found;
    p->truncates = true;
    return GALE_OK;
}

gale_status gale__post_read_padding(gale__post *p, const gale__json *v)
{
    const gale__json *strategy = NULL;
    if (!v || v->kind == GALE__JSON_NULL) return GALE_OK;
    GALE_TRY(gale__field_need(v, "strategy", &strategy));
    if (strategy->kind == GALE__JSON_OBJECT) GALE_TRY(gale__field_u32(strategy, "Fixed", &p->pad_length));
    else if (strategy->kind != GALE__JSON_STRING || strcmp(strategy->string, "BatchLongest"))
        return gale__fail(GALE_UNSUPPORTED, "padding.strategy must be \"BatchLongest\" or {\"Fixed\": N}");
    GALE_TRY(gale__field_u32(v, "pad_to_multiple_of", &p->pad_multiple));
    GALE_TRY(gale__field_u32(v, "pad_id", &p->pad_id));
    GALE_TRY(gale__field_u32(v, "pad_type_id", &p->pad_type_id));
    GALE_TRY(read_side(v, "padding", &p->pad_left));
    if (p->pad_length > GALE__VOCAB_ID_MOST || p->pad_multiple > GALE__VOCAB_ID_MOST)
        return gale__fail(GALE_LIMIT, "padding to more than %d tokens", GALE__VOCAB_ID_MOST);
    p->pads = true;
    return GALE_OK;
}

/* The shorter one keeps its length where it can; else both get half. */
static void share(size_t most, size_t *a, size_t *b)
{
    size_t shorter = *a < *b ? *a : *b;
    size_t longer = shorter > most ? shorter : most - shorter > shorter ? most - shorter : shorter;
    if (shorter + longer > most) {
        shorter = most / 2;
        longer = shorter + most % 2;
    }
    bool first = *a <= *b;
    *a = first ? shorter : longer;
    *b = first ? longer : shorter;
}

gale_status gale__post_truncate(const gale__post *p, size_t most, bool pair, size_t *a, size_t *b)
{
    size_t total = *a + *b;
    if (most == 0) *a = *b = 0;
    if (total <= most || most == 0) return GALE_OK;
    if (p->strategy == GALE__POST_LONGEST_FIRST) {
        if (pair) {
            size_t had_a = *a, had_b = *b;
            share(most, a, b);
            if (*a > had_a) *a = had_a;
            if (*b > had_b) *b = had_b;
        } else {
            *a = most;
        }
        return GALE_OK;
    }
    size_t *target = p->strategy == GALE__POST_ONLY_FIRST ? a : b;
    if (p->strategy == GALE__POST_ONLY_SECOND && !pair)
        return gale__fail(GALE_INVALID, "truncation.strategy is OnlySecond, but there is no second text");
    if (*target <= total - most)
        return gale__fail(GALE_INVALID, "the text to truncate is too short for a result of %zu tokens", most);
    *target -= total - most;
    return GALE_OK;
}
