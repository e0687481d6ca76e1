/* Pre-tokenizers of tokenizer.json, as a flat list of steps. */
#include "text/fields.h"
#include "text/split.h"

enum { STEPS_MOST = 256 };

void gale__splitters_finish(gale__splitters *s)
{
    for (size_t i = 0; i < s->count; i++) gale__split_pattern_destroy(&s->items[i].pattern);
    gale__free(s->items);
    *s = (gale__splitters){0};
}

gale_status gale__splitters_add(gale__splitters *s, gale__splitter_kind kind, gale__splitter **out)
{
    if (s->count >= STEPS_MOST) return gale__fail(GALE_LIMIT, "more than %d pre-tokenizers", STEPS_MOST);
    GALE_TRY(gale__grow((void **)&s->items, &s->capacity, s->count + 1, sizeof *s->items));
    s->items[s->count] = (gale__splitter){.kind = kind, .regex = true, .split = true};
    *out = s->items + s->count++;
    return GALE_OK;
}

static gale_status read_behaviour(const gale__json *v, gale__split_behaviour *out)
{
    static const char *const names[] = {
        "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous", NULL};
    const char *text = NULL;
    size_t size = 0;
    GALE_TRY(gale__field_text(v, "behavior", &text, &size));
    int found = text ? gale__word_index(text, names) : (int)*out;
    if (found < 0) return gale__fail(GALE_UNSUPPORTED, "behavior '%.60s' of a pre-tokenizer is not supported", text);
    *out = (gale__split_behaviour)found;
    return GALE_OK;
}

static gale_status read_bert(gale__splitters *s)
{
    gale__splitter *step = NULL;
    GALE_TRY(gale__splitters_add(s, GALE__SPLIT_WHITE, &step));
    GALE_TRY(gale__splitters_add(s, GALE__SPLIT_PUNCT, &step));
    step->behaviour = GALE__SPLIT_ISOLATED;
    return GALE_OK;
}

static gale_status read_bytes(gale__splitters *s, const gale__json *v)
{
    gale__splitter *step = NULL;
    GALE_TRY(gale__splitters_add(s, GALE__SPLIT_BYTES, &step));
    step->prefix_space = true;
    GALE_TRY(gale__field_bool(v, "add_prefix_space", &step->prefix_space));
    return gale__field_bool(v, "use_regex", &step->regex);
}

gale_status gale__splitter_read_metaspace(gale__splitter *step, const gale__json *v)
{
    static const char *const names[] = {"always", "first", "never", NULL};
    const char *scheme = "always";
    size_t size;
    bool add = true;
    step->character = 0x2581;
    GALE_TRY(gale__field_character(v, "replacement", &step->character));
    GALE_TRY(gale__field_text(v, "prepend_scheme", &scheme, &size));
    GALE_TRY(gale__field_bool(v, "split", &step->split));
    GALE_TRY(gale__field_bool(v, "add_prefix_space", &add)); /* how older files say it */
    int found = gale__word_index(scheme, names);
    if (found < 0) return gale__fail(GALE_UNSUPPORTED, "prepend_scheme '%.60s' is not supported", scheme);
    if (!add && found != GALE__PREPEND_NEVER && gale__json_get(v, "prepend_scheme"))
        return gale__fail(GALE_FORMAT, "'add_prefix_space' and 'prepend_scheme' contradict each other");
    step->prepend = add ? (gale__split_prepend)found : GALE__PREPEND_NEVER;
    return GALE_OK;
}

static gale_status read_punctuation(gale__splitters *s, const gale__json *v)
{
    gale__splitter *step = NULL;
    GALE_TRY(gale__splitters_add(s, GALE__SPLIT_PUNCT, &step));
    step->behaviour = GALE__SPLIT_ISOLATED;
    return read_behaviour(v, &step->behaviour);
}

static gale_status read_digits(gale__splitters *s, const gale__json *v)
{
    gale__splitter *step = NULL;
    bool each = false;
    GALE_TRY(gale__field_bool(v, "individual_digits", &each));
    GALE_TRY(gale__splitters_add(s, GALE__SPLIT_DIGITS, &step));
    step->behaviour = each ? GALE__SPLIT_ISOLATED : GALE__SPLIT_CONTIGUOUS;
    return GALE_OK;
}

static gale_status read_pattern(gale__splitters *s, const gale__json *v)
{
    gale__splitter *step = NULL;
    const gale__json *pattern = NULL, *behaviour = NULL;
    const char *text = NULL;
    size_t size = 0;
    GALE_TRY(gale__field_need(v, "pattern", &pattern));
    GALE_TRY(gale__field_need(v, "behavior", &behaviour));
    GALE_TRY(gale__field_text(pattern, "String", &text, &size));
    bool literal = text != NULL;
    if (!literal) GALE_TRY(gale__field_need_text(pattern, "Regex", &text, &size));
    GALE_TRY(gale__splitters_add(s, GALE__SPLIT_PATTERN, &step));
    GALE_TRY(gale__field_bool(v, "invert", &step->invert));
    GALE_TRY(read_behaviour(v, &step->behaviour));
    return gale__split_pattern_create(text, size, literal, &step->pattern);
}

static gale_status read_delimiter(gale__splitters *s, const gale__json *v)
{
    gale__splitter *step = NULL;
    const gale__json *there = NULL;
    GALE_TRY(gale__field_need(v, "delimiter", &there));
    GALE_TRY(gale__splitters_add(s, GALE__SPLIT_CHARACTER, &step));
    return gale__field_character(v, "delimiter", &step->character);
}

static gale_status read_length(gale__splitters *s, const gale__json *v)
{
    gale__splitter *step = NULL;
    GALE_TRY(gale__splitters_add(s, GALE__SPLIT_LENGTH, &step));
    step->length = 5;
    GALE_TRY(gale__field_u32(v, "length", &step->length));
    return step->length ? GALE_OK : gale__fail(GALE_FORMAT, "'length' of FixedLength is 0");
}

static gale_status read_sequence(gale__splitters *s, const gale__json *v)
{
    const gale__json *list = NULL;
    GALE_TRY(gale__field_need(v, "pretokenizers", &list));
    if (list->kind != GALE__JSON_ARRAY) return gale__fail(GALE_FORMAT, "'pretokenizers' must be a list");
    for (const gale__json *item = list->child; item; item = item->next) GALE_TRY(gale__splitters_read(s, item));
    return GALE_OK;
}

gale_status gale__splitters_read(gale__splitters *s, const gale__json *v)
{
    static const char *const names[] = {"BertPreTokenizer", "ByteLevel", "CharDelimiterSplit", "Metaspace",
        "Whitespace", "Sequence", "Split", "Punctuation", "WhitespaceSplit", "Digits", "UnicodeScripts", "FixedLength",
        NULL};
    if (!v || v->kind == GALE__JSON_NULL) return GALE_OK;
    const char *type = gale__field_type(v);
    gale__splitter *step = NULL;
    switch (gale__word_index(type, names)) {
    case 0: return read_bert(s);
    case 1: return read_bytes(s, v);
    case 2: return read_delimiter(s, v);
    case 3:
        GALE_TRY(gale__splitters_add(s, GALE__SPLIT_METASPACE, &step));
        return gale__splitter_read_metaspace(step, v);
    case 4: return gale__splitters_add(s, GALE__SPLIT_WORDS, &step);
    case 5: return read_sequence(s, v);
    case 6: return read_pattern(s, v);
    case 7: return read_punctuation(s, v);
    case 8: return gale__splitters_add(s, GALE__SPLIT_WHITE, &step);
    case 9: return read_digits(s, v);
    case 10: return gale__splitters_add(s, GALE__SPLIT_SCRIPTS, &step);
    case 11: return read_length(s, v);
    default: return gale__fail(GALE_UNSUPPORTED, "pre-tokenizer '%.60s' is not supported", type);
    }
}
