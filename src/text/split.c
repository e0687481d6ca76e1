/* Runs pre-tokenizers.  Most find matches and then decide what to do with them, like the reference library; Metaspace
 * and ByteLevel change the text as well. */
#include "text/split.h"

void gale__split_state_finish(gale__split_state *s)
{
    gale__aligned_finish(&s->text);
    gale__aligned_finish(&s->other);
    gale__aligned_finish(&s->spaced);
    gale__free(s->now.items);
    gale__free(s->next.items);
    gale__free(s->segments.items);
    *s = (gale__split_state){0};
}

gale_status gale__splits_add(gale__splits *s, size_t begin, size_t end, uint32_t token)
{
    if (begin == end) return GALE_OK;
    if (s->count == s->capacity) GALE_TRY(gale__grow((void **)&s->items, &s->capacity, s->count + 1, sizeof *s->items));
    s->items[s->count++] = (gale__split){(uint32_t)begin, (uint32_t)end, token};
    return GALE_OK;
}

/* --- Segments: the whole of a word as matches and what is between. --- */

enum { BETWEEN, MATCH };

static gale_status add_segment(gale__splits *s, size_t begin, size_t end, uint32_t what)
{
    if (s->count == s->capacity) GALE_TRY(gale__grow((void **)&s->items, &s->capacity, s->count + 1, sizeof *s->items));
    s->items[s->count++] = (gale__split){(uint32_t)begin, (uint32_t)end, what};
    return GALE_OK;
}

static bool is_match(const gale__splitter *step, uint32_t c)
{
    switch (step->kind) {
    case GALE__SPLIT_WHITE: return gale__unicode_bits(c) & GALE__U_WHITE;
    case GALE__SPLIT_PUNCT: return gale__unicode_bits(c) & GALE__U_PUNCT;
    case GALE__SPLIT_DIGITS: return gale__unicode_bits(c) & GALE__U_NUMERIC;
    default: return c == step->character;
    }
}

static gale_status match_characters(const gale__splitter *step, const char *text, gale__split word, gale__splits *out)
{
    size_t last = word.begin;
    for (size_t i = word.begin, n; i < word.end; i += n) {
        if (!is_match(step, gale__utf8_at(text + i, &n))) continue;
        if (last < i) GALE_TRY(add_segment(out, last, i, BETWEEN));
        GALE_TRY(add_segment(out, i, i + n, MATCH));
        last = i + n;
    }
    return last < word.end ? add_segment(out, last, word.end, BETWEEN) : GALE_OK;
}

static gale_status match_pattern(const gale__splitter *step, gale__split_state *s, gale__split word)
{
    gale__split_pattern_walk walk = {0};
    const char *text = s->text.text + word.begin;
    size_t last = 0, size = word.end - word.begin;
    uint32_t match = step->invert ? BETWEEN : MATCH, between = step->invert ? MATCH : BETWEEN;
    for (bool found;;) {
        GALE_TRY(gale__split_pattern_next(step->pattern, s->patterns, text, size, &walk, &found));
        if (!found) break;
        if (last < walk.begin) GALE_TRY(add_segment(&s->segments, word.begin + last, word.begin + walk.begin, between));
        GALE_TRY(add_segment(&s->segments, word.begin + walk.begin, word.begin + walk.end, match));
        last = walk.end;
    }
    return last < size ? add_segment(&s->segments, word.begin + last, word.end, between) : GALE_OK;
}

static gale_status match_words(const char *text, gale__split word, gale__splits *out)
{
    for (size_t i = word.begin, n, begin; i < word.end;) {
        uint32_t class = gale__unicode_bits(gale__utf8_at(text + i, &n)) & (GALE__U_WORD | GALE__U_WHITE);
        begin = i;
        for (i += n; i < word.end; i += n)
            if ((gale__unicode_bits(gale__utf8_at(text + i, &n)) & (GALE__U_WORD | GALE__U_WHITE)) != class) break;
        GALE_TRY(add_segment(out, begin, i, class & GALE__U_WORD || !(class & GALE__U_WHITE) ? BETWEEN : MATCH));
    }
    return GALE_OK;
}

/* --- What becomes of them. --- */

static gale_status apply(gale__split_behaviour behaviour, const gale__splits *segments, gale__splits *out)
{
    size_t n = segments->count, begin = out->count;
    bool backwards = behaviour == GALE__SPLIT_MERGED_WITH_NEXT, before = false;
    for (size_t k = 0; k < n; k++) {
        gale__split s = segments->items[backwards ? n - 1 - k : k];
        bool match = s.token == MATCH, any = out->count > begin;
        bool join = behaviour == GALE__SPLIT_CONTIGUOUS ? match == before : match && !before;
        s.token = GALE__NO_ID;
        if (behaviour == GALE__SPLIT_REMOVED && match) continue;
        if (behaviour <= GALE__SPLIT_ISOLATED || !join || !any) {
            if (out->count == out->capacity)
                GALE_TRY(gale__grow((void **)&out->items, &out->capacity, out->count + 1, sizeof *out->items));
            out->items[out->count++] = s;
        } else if (backwards) {
            out->items[out->count - 1].begin = s.begin;
        } else {
            out->items[out->count - 1].end = s.end;
        }
        before = match;
    }
    for (size_t i = begin, j = out->count; backwards && i + 1 < j; i++) {
        gale__split swapped = out->items[i];
        out->items[i] = out->items[--j];
        out->items[j] = swapped;
    }
    size_t kept = begin; /* expressions can match nothing */
    for (size_t i = begin; i < out->count; i++)
        if (out->items[i].begin < out->items[i].end) out->items[kept++] = out->items[i];
    out->count = kept;
    return GALE_OK;
}

static gale_status split_matches(const gale__splitter *step, gale__split_state *s, gale__split word)
{
    s->segments.count = 0;
    if (step->kind == GALE__SPLIT_PATTERN) GALE_TRY(match_pattern(step, s, word));
    else if (step->kind == GALE__SPLIT_WORDS) GALE_TRY(match_words(s->text.text, word, &s->segments));
    else GALE_TRY(match_characters(step, s->text.text, word, &s->segments));
    return apply(step->behaviour, &s->segments, &s->next);
}

/* A new piece begins where the script changes; what has no script goes on with what stands before it, and is lost at
 * the front, as in the reference. */
static gale_status split_scripts(gale__split_state *s, gale__split word)
{
    size_t begin = SIZE_MAX;
    int last = -1;
    for (size_t i = word.begin, n; i < word.end; i += n) {
        uint32_t c = gale__utf8_at(s->text.text + i, &n);
        int script = gale__unicode_script(c);
        if (!script) continue;
        if (script != last && begin != SIZE_MAX) GALE_TRY(gale__splits_add(&s->next, begin, i, GALE__NO_ID));
        if (script != last) begin = i;
        last = script;
    }
    return begin == SIZE_MAX ? GALE_OK : gale__splits_add(&s->next, begin, word.end, GALE__NO_ID);
}

static gale_status split_length(const gale__splitter *step, gale__split_state *s, gale__split word)
{
    for (size_t i = word.begin, begin; i < word.end;) {
        begin = i;
        for (uint32_t k = 0; k < step->length && i < word.end; k++) i += gale__utf8_size(s->text.text + i);
        GALE_TRY(gale__splits_add(&s->next, begin, i, GALE__NO_ID));
    }
    return GALE_OK;
}

/* --- Those that change the text: they write it anew. --- */

static bool starts_with(const char *text, size_t size, uint32_t c)
{
    size_t n;
    return size && gale__utf8_at(text, &n) == c;
}

static gale_status split_metaspace(const gale__splitter *step, gale__split_state *s, gale__split word)
{
    const gale__aligned *in = &s->text;
    gale__aligned *out = &s->other;
    size_t last = out->size;
    const char *text = in->text + word.begin;
    bool there = *text == ' ' || starts_with(text, word.end - word.begin, step->character);
    bool wanted = step->prepend == GALE__PREPEND_ALWAYS ||
                  (step->prepend == GALE__PREPEND_FIRST && in->from[word.begin].begin == 0);
    if (!there && wanted) gale__aligned_put(out, step->character, in->from[word.begin]);
    for (size_t i = word.begin, n; i < word.end; i += n) {
        uint32_t c = gale__utf8_at(in->text + i, &n);
        bool mark = c == ' ' || c == step->character;
        if (mark && step->split && out->size > last) {
            GALE_TRY(gale__splits_add(&s->next, last, out->size, GALE__NO_ID));
            last = out->size;
        }
        gale__aligned_put(out, mark ? step->character : c, in->from[i]);
    }
    return gale__splits_add(&s->next, last, out->size, GALE__NO_ID);
}

static gale_status split_bytes(const gale__splitter *step, gale__split_state *s, gale__split word)
{
    gale__aligned *out = &s->other;
    const char *text = s->text.text + word.begin;
    const gale__text_span *from = s->text.from + word.begin;
    size_t size = word.end - word.begin;
    if (step->prefix_space && *text != ' ') {
        gale__aligned_clear(&s->spaced, 0);
        gale__aligned_put(&s->spaced, ' ', *from);
        gale__aligned_add_part(&s->spaced, &s->text, word.begin, word.end);
        if (s->spaced.failed) return GALE_NO_MEMORY;
        text = s->spaced.text;
        from = s->spaced.from;
        size++;
    }
    for (size_t taken = 0, n; taken < size; taken += n) {
        size_t begin = out->size;
        n = step->regex ? gale__gpt2_piece(text + taken, size - taken) : size;
        gale__byte_level_add(out, text + taken, from + taken, n);
        GALE_TRY(gale__splits_add(&s->next, begin, out->size, GALE__NO_ID));
    }
    return GALE_OK;
}

/* --- All of them. --- */

static bool writes_anew(gale__splitter_kind kind) { return kind == GALE__SPLIT_METASPACE || kind == GALE__SPLIT_BYTES; }

static gale_status split_word(const gale__splitter *step, gale__split_state *s, gale__split word)
{
    switch (step->kind) {
    case GALE__SPLIT_METASPACE: return split_metaspace(step, s, word);
    case GALE__SPLIT_BYTES: return split_bytes(step, s, word);
    case GALE__SPLIT_SCRIPTS: return split_scripts(s, word);
    case GALE__SPLIT_LENGTH: return split_length(step, s, word);
    default: return split_matches(step, s, word);
    }
}

/* A token that is there already stays as it is. */
static gale_status pass_on(gale__split_state *s, gale__split word, bool anew)
{
    size_t begin = s->other.size;
    if (!anew) return gale__splits_add(&s->next, word.begin, word.end, word.token);
    gale__aligned_add_part(&s->other, &s->text, word.begin, word.end);
    return gale__splits_add(&s->next, begin, s->other.size, word.token);
}

gale_status gale__split_words(const gale__splitters *splitters, gale__split_state *s)
{
    for (size_t k = 0; k < splitters->count; k++) {
        const gale__splitter *step = splitters->items + k;
        bool anew = writes_anew(step->kind);
        s->next.count = 0;
        if (anew) gale__aligned_clear(&s->other, 0);
        for (size_t i = 0; i < s->now.count; i++) {
            gale__split word = s->now.items[i];
            if (word.token != GALE__NO_ID) GALE_TRY(pass_on(s, word, anew));
            else GALE_TRY(split_word(step, s, word));
        }
        gale__splits swapped = s->now;
        s->now = s->next;
        s->next = swapped;
        if (!anew) continue;
        if (s->other.failed) return GALE_NO_MEMORY;
        gale__aligned text = s->text;
        s->text = s->other;
        s->other = text;
    }
    return GALE_OK;
}
