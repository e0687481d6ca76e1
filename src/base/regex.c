/* Regular expressions of ONNX's RegexFullMatch, whose patterns come from models and are untrusted.  PCRE2, which
 * tokenizers use, backtracks: it takes exponential time on some patterns or stops at a limit.  Here they run as sets of
 * states, all alternatives at once (Thompson's construction).  A text is read once and each state is visited once per
 * character, so the worst case is text length times number of states. */
#include "base/regex.h"
#include "base/regex_tree.h"
#include "base/utf8.h"
#include <string.h>

#define MOST_STATES 100000
#define MOST_VISITS (8 * MOST_STATES) /* of tree nodes while states are created: empty bodies create none */

typedef enum op { SET, SPLIT, JUMP, ASSERT, MATCH } op;
typedef struct thread {
    int32_t state;
    size_t start;
} thread; /* start: where in the text its match begins */
typedef struct state {
    uint8_t op, assertion;
    int32_t x, y;
    const gale__regex_set *set;
} state;
struct gale__regex {
    gale__arena arena; /* the tree, whose sets the states use */
    state *states;
    size_t count, capacity, visits;
    thread *now, *next;
    int32_t *stack;
    uint64_t *mark, round; /* the last round in which a state was reached */
    uint64_t steps;
};

/* --- States from the tree. --- */

static gale_status push(gale__regex *r, state s, int32_t *out)
{
    if (r->count == MOST_STATES)
        return gale__fail(
            GALE_LIMIT, "regular expression too large: more than %d states; use fewer repetitions", MOST_STATES);
    GALE_TRY(gale__grow((void **)&r->states, &r->capacity, r->count + 1, sizeof *r->states));
    if (out) *out = (int32_t)r->count;
    r->states[r->count++] = s;
    return GALE_OK;
}

static gale_status make(gale__regex *r, const gale__regex_node *node);

static gale_status make_alternatives(gale__regex *r, const gale__regex_node *node)
{
    int32_t jumps = -1; /* a chain through their targets, until the end is known */
    for (const gale__regex_node *c = node->child; c; c = c->next) {
        int32_t split = -1;
        if (c->next) GALE_TRY(push(r, (state){.op = SPLIT, .x = (int32_t)r->count + 1}, &split));
        GALE_TRY(make(r, c));
        if (!c->next) break;
        GALE_TRY(push(r, (state){.op = JUMP, .x = jumps}, &jumps));
        r->states[split].y = (int32_t)r->count;
    }
    while (jumps >= 0) {
        int32_t before = r->states[jumps].x;
        r->states[jumps].x = (int32_t)r->count;
        jumps = before;
    }
    return GALE_OK;
}

static gale_status make_repeat(gale__regex *r, const gale__regex_node *node)
{
    int32_t loop = 0;
    for (int i = 0; i < node->least; i++) {
        loop = (int32_t)r->count;
        GALE_TRY(make(r, node->child));
    }
    if (node->most < 0 && node->least > 0)
        return push(r, (state){.op = SPLIT, .x = loop, .y = (int32_t)r->count + 1}, NULL);
    if (node->most < 0) {
        GALE_TRY(push(r, (state){.op = SPLIT, .x = (int32_t)r->count + 1}, &loop));
        GALE_TRY(make(r, node->child));
        GALE_TRY(push(r, (state){.op = JUMP, .x = loop}, NULL));
        r->states[loop].y = (int32_t)r->count;
        return GALE_OK;
    }
    int32_t skips = -1;
    for (int i = node->least; i < node->most; i++) {
        GALE_TRY(push(r, (state){.op = SPLIT, .x = (int32_t)r->count + 1, .y = skips}, &skips));
        GALE_TRY(make(r, node->child));
    }
    while (skips >= 0) {
        int32_t before = r->states[skips].y;
        r->states[skips].y = (int32_t)r->count;
        skips = before;
    }
    return GALE_OK;
}

static gale_status make(gale__regex *r, const gale__regex_node *node)
{
    if (++r->visits > MOST_VISITS) return gale__fail(GALE_LIMIT, "regular expression too large: too many repetitions");
    switch (node->kind) {
    case GALE__RE_EMPTY: return GALE_OK;
    case GALE__RE_SET: return push(r, (state){.op = SET, .set = &node->set}, NULL);
    case GALE__RE_ASSERT: return push(r, (state){.op = ASSERT, .assertion = (uint8_t)node->assertion}, NULL);
    case GALE__RE_ALT: return make_alternatives(r, node);
    case GALE__RE_REPEAT: return make_repeat(r, node);
    case GALE__RE_CAT: break;
    }
    for (const gale__regex_node *c = node->child; c; c = c->next) GALE_TRY(make(r, c));
    return GALE_OK;
}

gale_status gale__regex_create(const char *pattern, gale__regex **out)
{
    gale__regex_node *tree;
    gale_status status = GALE_OK;
    gale__regex *r = gale__calloc(1, sizeof *r);
    if (!r) return GALE_NO_MEMORY;
    GALE_GO(gale__regex_parse(&r->arena, pattern, &tree));
    GALE_GO(make(r, tree));
    GALE_GO(push(r, (state){.op = MATCH}, NULL));
    r->now = gale__arena_alloc(&r->arena, r->count * sizeof *r->now);
    r->next = gale__arena_alloc(&r->arena, r->count * sizeof *r->next);
    r->stack =
        gale__arena_alloc(&r->arena, (2 * r->count + 1) * sizeof *r->stack); /* a state pushes two, once a round */
    r->mark = gale__arena_alloc(&r->arena, r->count * sizeof *r->mark);
    if (!r->now || !r->next || !r->stack || !r->mark) status = GALE_NO_MEMORY;
done:
    if (status != GALE_OK) return gale__regex_destroy(&r), status;
    *out = r;
    return GALE_OK;
}

void gale__regex_destroy(gale__regex **regex)
{
    if (!*regex) return;
    gale__arena_finish(&(*regex)->arena);
    gale__free((*regex)->states);
    gale__free(*regex);
    *regex = NULL;
}

/* --- Matching. --- */

static bool has(const gale__regex_set *set, int32_t c)
{
    for (size_t i = 0; i < set->count; i++)
        if (c >= set->ranges[i].low && c <= set->ranges[i].high) return true;
    return set->categories && set->categories >> gale__char_category(c) & 1;
}

/* Whether the set has the character; with fold in any case of it. */
static bool in_set(const gale__regex_set *set, int32_t c)
{
    if (c < 0) return false;
    bool in = has(set, c);
    if (!in && set->fold) {
        int32_t upper = gale__char_upper(c), lower = gale__char_lower(c);
        in = has(set, upper) || has(set, lower) || has(set, gale__char_lower(upper));
    }
    return in != set->negated;
}

static bool is_word(int32_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= 'a' && c <= 'z');
}

#define OUTSIDE (-2) /* the character before the first and after the last */
static bool holds(gale__regex_assert assertion, int32_t before, int32_t behind)
{
    switch (assertion) {
    case GALE__RE_TEXT_BEGIN: return before == OUTSIDE;
    case GALE__RE_TEXT_END: return behind == OUTSIDE;
    case GALE__RE_LINE_BEGIN: return before == OUTSIDE || before == '\n';
    case GALE__RE_LINE_END: return behind == OUTSIDE || behind == '\n';
    case GALE__RE_WORD: return is_word(before) != is_word(behind);
    case GALE__RE_NO_WORD: return is_word(before) == is_word(behind);
    }
    return false;
}

/* Adds the states reachable from `from` without consuming a character to `list`; returns its new length. */
static size_t reach(gale__regex *r, thread from, int32_t before, int32_t behind, thread *list, size_t n)
{
    size_t depth = 0;
    r->stack[depth++] = from.state;
    while (depth) {
        int32_t i = r->stack[--depth];
        if (r->mark[i] == r->round) continue;
        r->mark[i] = r->round;
        r->steps++;
        const state *s = &r->states[i];
        if (s->op == JUMP) r->stack[depth++] = s->x;
        else if (s->op == SPLIT) {
            r->stack[depth++] = s->y;
            r->stack[depth++] = s->x;
        } else if (s->op != ASSERT) list[n++] = (thread){i, from.start};
        else if (holds((gale__regex_assert)s->assertion, before, behind)) r->stack[depth++] = i + 1;
    }
    return n;
}

static bool takes(const gale__regex *r, thread t, int32_t c)
{
    return r->states[t.state].op == SET && in_set(r->states[t.state].set, c);
}

bool gale__regex_full_match(gale__regex *r, const char *text, size_t size)
{
    const char *at = text, *end = text + size;
    int32_t before = OUTSIDE, c = at < end ? gale__utf8_take(&at, end) : OUTSIDE;
    r->round++;
    size_t n = reach(r, (thread){0}, before, c, r->now, 0);
    while (c != OUTSIDE && n) {
        int32_t behind = at < end ? gale__utf8_take(&at, end) : OUTSIDE;
        size_t m = 0;
        r->round++;
        for (size_t i = 0; i < n; i++)
            if (takes(r, r->now[i], c)) m = reach(r, (thread){r->now[i].state + 1}, c, behind, r->next, m);
        thread *swap = r->now;
        r->now = r->next;
        r->next = swap;
        n = m;
        c = behind;
    }
    for (size_t i = 0; i < n; i++)
        if (r->states[r->now[i].state].op == MATCH) return true;
    return false;
}

static int32_t character_before(const char *text, size_t at)
{
    size_t from = at;
    while (from && at - from < 4 && (from == at || ((unsigned char)text[from] & 0xc0) == 0x80)) from--;
    const char *p = text + from;
    return at ? gale__utf8_take(&p, text + at) : OUTSIDE;
}

/* Threads are ordered by where they started, so the first one to reach a state is kept; after a match, threads that
 * started later are dropped. */
bool gale__regex_find(gale__regex *r, const char *text, size_t size, size_t from, size_t *begin, size_t *stop)
{
    const char *at = text + from, *end = text + size;
    int32_t before = character_before(text, from), c;
    bool found = false;
    size_t waiting = 0, n = 0;
    do {
        size_t place = (size_t)(at - text);
        c = at < end ? gale__utf8_take(&at, end) : OUTSIDE;
        r->round++, n = 0;
        for (size_t i = 0; i < waiting; i++) n = reach(r, r->next[i], before, c, r->now, n);
        if (!found) n = reach(r, (thread){0, place}, before, c, r->now, n);
        for (size_t i = 0; i < n; i++) {
            if (r->states[r->now[i].state].op != MATCH || r->now[i].start == place) continue;
            found = true, *begin = r->now[i].start, *stop = place;
            break;
        }
        waiting = 0;
        for (size_t i = 0; i < n; i++)
            if ((!found || r->now[i].start <= *begin) && takes(r, r->now[i], c))
                r->next[waiting++] = (thread){r->now[i].state + 1, r->now[i].start};
        before = c;
    } while (c != OUTSIDE && (waiting || !found));
    return found;
}

uint64_t gale__regex_steps(const gale__regex *r) { return r->steps; }
size_t gale__regex_size(const gale__regex *r) { return r->count; }
