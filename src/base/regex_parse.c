/* The parser of regular expressions: recursive descent over RE2's grammar, with limited group depth and repetition
 * counts, since patterns come from models. */
#include "base/regex_tree.h"
#include "base/utf8.h"
#include <ctype.h>
#include <string.h>

typedef struct flags {
    bool fold, lines, dot_all;
} flags;
typedef struct parser {
    gale__arena *arena;
    const char *pattern, *at, *end;
    flags flags;
    int depth;
    bool quoted; /* between \Q and \E */
} parser;
#define LAST_CHAR 0x10ffff

static gale_status fail_at(const parser *p, const char *what)
{
    return gale__fail(
        GALE_FORMAT, "regular expression '%.200s', at byte %zu: %s", p->pattern, (size_t)(p->at - p->pattern), what);
}

static bool take(parser *p, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n)) return false;
    p->at += n;
    return true;
}

static gale_status new_node(parser *p, gale__regex_kind kind, gale__regex_node **out)
{
    *out = gale__arena_alloc(p->arena, sizeof **out);
    if (!*out) return GALE_NO_MEMORY;
    (*out)->kind = kind;
    return GALE_OK;
}

/* --- Sets of characters. --- */

static gale_status add_range(parser *p, gale__regex_set *set, int32_t low, int32_t high)
{
    if (set->count == set->capacity) {
        size_t capacity = set->capacity ? set->capacity * 2 : 4;
        gale__regex_range *more = gale__arena_alloc(p->arena, capacity * sizeof *more);
        if (!more) return GALE_NO_MEMORY;
        if (set->count) memcpy(more, set->ranges, set->count * sizeof *more);
        set->ranges = more;
        set->capacity = capacity;
    }
    set->ranges[set->count++] = (gale__regex_range){low, high};
    return GALE_OK;
}

/* Pairs of ASCII characters in rising order. */
typedef struct spans {
    const char *at;
    int pairs;
} spans;
#define SPANS(text)                      \
    {                                    \
        text, (int)(sizeof text - 1) / 2 \
    }

static gale_status add_spans(parser *p, gale__regex_set *set, spans list, bool complement)
{
    int32_t from = 0;
    for (int i = 0; i < list.pairs; i++) {
        char low = list.at[2 * i], high = list.at[2 * i + 1];
        if (!complement) GALE_TRY(add_range(p, set, low, high));
        else if (low > from) GALE_TRY(add_range(p, set, from, low - 1));
        from = high + 1;
    }
    return complement ? add_range(p, set, from, LAST_CHAR) : GALE_OK;
}

static gale_status take_posix(parser *p, gale__regex_set *set, bool *taken)
{
    static const struct {
        const char *name;
        spans list;
    } classes[] = {{"alnum", SPANS("09AZaz")}, {"alpha", SPANS("AZaz")}, {"ascii", SPANS("\0\x7f")},
        {"blank", SPANS("\t\t  ")}, {"cntrl", SPANS("\0\x1f\x7f\x7f")}, {"digit", SPANS("09")}, {"graph", SPANS("!~")},
        {"lower", SPANS("az")}, {"print", SPANS(" ~")}, {"punct", SPANS("!/:@[`{~")}, {"space", SPANS("\t\r  ")},
        {"upper", SPANS("AZ")}, {"word", SPANS("09AZ__az")}, {"xdigit", SPANS("09AFaf")}};
    *taken = false;
    const char *close = p->end - p->at > 2 && p->at[0] == '[' && p->at[1] == ':' ? strstr(p->at + 2, ":]") : NULL;
    if (!close) return GALE_OK;
    const char *name = p->at + 2;
    bool complement = *name == '^';
    name += complement;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (strlen(classes[i].name) != (size_t)(close - name) || memcmp(classes[i].name, name, (size_t)(close - name)))
            continue;
        p->at = close + 2;
        *taken = true;
        return add_spans(p, set, classes[i].list, complement);
    }
    return fail_at(p, "unknown character class");
}

/* \d \w \s and their complements at the current position, before the backslash. */
static gale_status take_perl(parser *p, gale__regex_set *set, bool *taken)
{
    static const struct {
        char letter;
        spans list;
    } classes[] = {{'d', SPANS("09")}, {'w', SPANS("09AZ__az")}, {'s', SPANS("\t\n\f\r  ")}};
    *taken = false;
    if (p->end - p->at < 2 || *p->at != '\\') return GALE_OK;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (classes[i].letter != tolower((unsigned char)p->at[1])) continue;
        bool complement = isupper((unsigned char)p->at[1]) != 0;
        p->at += 2;
        *taken = true;
        return add_spans(p, set, classes[i].list, complement);
    }
    return GALE_OK;
}

/* \pL, \p{Lu}, \p{^Lu}, and with \P their complements. */
static gale_status take_property(parser *p, gale__regex_set *set, bool *taken)
{
    bool complement = p->end - p->at > 1 && p->at[1] == 'P';
    *taken = p->end - p->at > 1 && *p->at == '\\' && (p->at[1] == 'p' || complement);
    if (!*taken) return GALE_OK;
    p->at += 2;
    bool braces = take(p, "{");
    if (braces && take(p, "^")) complement = !complement;
    size_t size = braces ? strcspn(p->at, "}") : p->at < p->end;
    uint32_t mask = gale__category_mask(p->at, size), all = gale__category_mask("Any", 3);
    if (!mask)
        return gale__fail(GALE_UNSUPPORTED,
            "regular expression '%.200s', at byte %zu: only general categories such as \\pL or \\p{Lu} are supported, "
            "not scripts",
            p->pattern, (size_t)(p->at - p->pattern));
    p->at += size;
    if (braces && !take(p, "}")) return fail_at(p, "missing '}'");
    set->categories |= complement ? all & ~mask : mask;
    return GALE_OK;
}

/* --- Escapes. --- */

static int hex_digit(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : -1;
}

static gale_status take_hex(parser *p, int32_t *out)
{
    int32_t v = 0;
    int digits = 0;
    bool braces = take(p, "{");
    while (p->at < p->end && hex_digit(*p->at) >= 0 && (braces || digits < 2)) {
        v = v * 16 + hex_digit(*p->at++);
        digits++;
        if (v > LAST_CHAR) return fail_at(p, "character above U+10FFFF");
    }
    if (braces ? !digits || !take(p, "}") : digits != 2)
        return fail_at(p, "\\x needs two hexadecimal digits, or digits in braces");
    *out = v;
    return GALE_OK;
}

/* One character after a backslash, which has been consumed. */
static gale_status take_escaped(parser *p, int32_t *out)
{
    static const char names[] = "nrtfva", values[] = "\n\r\t\f\v\a";
    if (p->at == p->end) return fail_at(p, "trailing backslash");
    char c = *p->at;
    const char *named = memchr(names, c, sizeof names - 1);
    if (named) return p->at++, *out = values[named - names], GALE_OK;
    if (take(p, "x")) return take_hex(p, out);
    if (c == '0' || (c >= '1' && c <= '7' && p->end - p->at > 1 && p->at[1] >= '0' && p->at[1] <= '7')) {
        *out = 0;
        for (int i = 0; i < 3 && p->at < p->end && *p->at >= '0' && *p->at <= '7'; i++)
            *out = *out * 8 + *p->at++ - '0';
        return GALE_OK;
    }
    if ((unsigned char)c >= 0x80 || isalnum((unsigned char)c)) return fail_at(p, "unknown escape");
    p->at++;
    *out = c;
    return GALE_OK;
}

static gale_status take_char(parser *p, int32_t *out)
{
    if (take(p, "\\")) return take_escaped(p, out);
    *out = gale__utf8_take(&p->at, p->end);
    return *out < 0 ? fail_at(p, "invalid UTF-8") : GALE_OK;
}

/* After the opening bracket. */
static gale_status take_class(parser *p, gale__regex_node *node)
{
    gale__regex_set *set = &node->set;
    set->negated = take(p, "^");
    for (bool first = true;; first = false) {
        bool taken;
        int32_t low, high;
        if (p->at == p->end) return fail_at(p, "missing ']'");
        if (!first && take(p, "]")) return GALE_OK;
        GALE_TRY(take_posix(p, set, &taken));
        if (!taken) GALE_TRY(take_perl(p, set, &taken));
        if (!taken) GALE_TRY(take_property(p, set, &taken));
        if (taken) continue;
        GALE_TRY(take_char(p, &low));
        high = low;
        if (p->end - p->at > 1 && p->at[0] == '-' && p->at[1] != ']') {
            p->at++;
            GALE_TRY(take_char(p, &high));
            if (high < low) return fail_at(p, "character range in reverse order");
        }
        GALE_TRY(add_range(p, set, low, high));
    }
}

/* --- Atoms. --- */

static gale_status one_char(parser *p, int32_t c, gale__regex_node **out)
{
    GALE_TRY(new_node(p, GALE__RE_SET, out));
    (*out)->set.fold = p->flags.fold;
    return add_range(p, &(*out)->set, c, c);
}

static gale_status assertion(parser *p, gale__regex_assert which, gale__regex_node **out)
{
    GALE_TRY(new_node(p, GALE__RE_ASSERT, out));
    (*out)->assertion = which;
    return GALE_OK;
}

static gale_status take_backslash(parser *p, gale__regex_node **out)
{
    static const struct {
        const char *text;
        gale__regex_assert which;
    } marks[] = {
        {"\\A", GALE__RE_TEXT_BEGIN}, {"\\z", GALE__RE_TEXT_END}, {"\\b", GALE__RE_WORD}, {"\\B", GALE__RE_NO_WORD}};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (take(p, marks[i].text)) return assertion(p, marks[i].which, out);
    bool taken;
    int32_t c;
    GALE_TRY(new_node(p, GALE__RE_SET, out));
    GALE_TRY(take_perl(p, &(*out)->set, &taken));
    if (!taken) GALE_TRY(take_property(p, &(*out)->set, &taken));
    (*out)->set.fold = p->flags.fold && (*out)->set.categories;
    if (taken) return GALE_OK;
    GALE_TRY(take_char(p, &c));
    return one_char(p, c, out);
}

static gale_status take_alternatives(parser *p, gale__regex_node **out);

/* "(?i)" or "(?i:"; *group tells which. The position is after the question mark. */
static gale_status take_flags(parser *p, bool *group)
{
    bool value = true;
    for (; p->at < p->end; p->at++) {
        char c = *p->at;
        if (c == 'i') p->flags.fold = value;
        else if (c == 'm') p->flags.lines = value;
        else if (c == 's') p->flags.dot_all = value;
        else if (c == '-' && value) value = false;
        else if (c == ':' || c == ')') {
            p->at++;
            *group = c == ':';
            return GALE_OK;
        } else if (c != 'U') break; /* which of several matches is preferred does not matter for a whole match */
    }
    return fail_at(p, "unknown flag in (?...)");
}

/* After the opening parenthesis. */
static gale_status take_group(parser *p, gale__regex_node **out)
{
    flags before = p->flags;
    bool group = true;
    if (take(p, "?P<") || take(p, "?<")) {
        const char *name = p->at;
        while (p->at < p->end && (isalnum((unsigned char)*p->at) || *p->at == '_')) p->at++;
        if (p->at == name || !take(p, ">")) return fail_at(p, "invalid group name");
    } else if (take(p, "?")) GALE_TRY(take_flags(p, &group));
    if (!group) return new_node(p, GALE__RE_EMPTY, out); /* these flags apply to the end of the enclosing group */
    if (++p->depth > GALE__REGEX_DEPTH) return fail_at(p, "groups nested too deeply");
    GALE_TRY(take_alternatives(p, out));
    if (!take(p, ")")) return fail_at(p, "missing ')'");
    p->depth--;
    p->flags = before;
    return GALE_OK;
}

static gale_status take_atom(parser *p, gale__regex_node **out)
{
    int32_t c;
    if (p->quoted) {
        c = gale__utf8_take(&p->at, p->end);
        return c < 0 ? fail_at(p, "invalid UTF-8") : one_char(p, c, out);
    }
    if (take(p, "(")) return take_group(p, out);
    if (*p->at == '\\') return take_backslash(p, out);
    if (take(p, "^")) return assertion(p, p->flags.lines ? GALE__RE_LINE_BEGIN : GALE__RE_TEXT_BEGIN, out);
    if (take(p, "$")) return assertion(p, p->flags.lines ? GALE__RE_LINE_END : GALE__RE_TEXT_END, out);
    if (take(p, "[")) {
        GALE_TRY(new_node(p, GALE__RE_SET, out));
        (*out)->set.fold = p->flags.fold;
        return take_class(p, *out);
    }
    if (take(p, ".")) {
        GALE_TRY(new_node(p, GALE__RE_SET, out));
        (*out)->set.negated = true;
        return p->flags.dot_all ? GALE_OK : add_range(p, &(*out)->set, '\n', '\n');
    }
    c = gale__utf8_take(&p->at, p->end);
    return c < 0 ? fail_at(p, "invalid UTF-8") : one_char(p, c, out);
}

/* --- Repetitions. --- */

static bool take_number(parser *p, int *out)
{
    const char *from = p->at;
    for (*out = 0; p->at < p->end && isdigit((unsigned char)*p->at); p->at++)
        if (*out <= GALE__REGEX_REPEAT) *out = *out * 10 + *p->at - '0';
    return p->at > from;
}

/* {n}, {n,} or {n,m}; anything else in braces is text. */
static bool take_counts(parser *p, int *least, int *most)
{
    const char *from = p->at;
    if (take(p, "{") && take_number(p, least)) {
        *most = *least;
        if (take(p, ",") && !take_number(p, most)) *most = -1;
        if (take(p, "}")) return true;
    }
    p->at = from;
    return false;
}

static bool take_quantifier(parser *p, int *least, int *most)
{
    if (p->quoted && !take(p, "\\E")) return false;
    p->quoted = false;
    *least = 0;
    *most = -1;
    if (take(p, "*")) return true;
    if (take(p, "+")) return *least = 1, true;
    if (take(p, "?")) return *most = 1, true;
    return take_counts(p, least, most);
}

static gale_status take_piece(parser *p, gale__regex_node **out)
{
    int least, most;
    gale__regex_node *atom, *repeat;
    if (take_quantifier(p, &least, &most)) return fail_at(p, "nothing to repeat");
    GALE_TRY(take_atom(p, &atom));
    *out = atom;
    if (!take_quantifier(p, &least, &most)) return GALE_OK;
    if (least > GALE__REGEX_REPEAT || most > GALE__REGEX_REPEAT || (most >= 0 && most < least))
        return fail_at(p, "repetition counts must be 0 to 1000 and in order");
    take(p, "?");
    GALE_TRY(new_node(p, GALE__RE_REPEAT, &repeat));
    repeat->least = least;
    repeat->most = most;
    repeat->child = atom;
    *out = repeat;
    return take_quantifier(p, &least, &most) ? fail_at(p, "repeated repetition: put the inner one into (?:...)")
                                             : GALE_OK;
}

static gale_status take_sequence(parser *p, gale__regex_node **out)
{
    GALE_TRY(new_node(p, GALE__RE_CAT, out));
    gale__regex_node **tail = &(*out)->child;
    while (p->at < p->end && (p->quoted || (*p->at != '|' && *p->at != ')'))) {
        if (take(p, p->quoted ? "\\E" : "\\Q")) {
            p->quoted = !p->quoted;
            continue;
        }
        GALE_TRY(take_piece(p, tail));
        tail = &(*tail)->next;
    }
    return GALE_OK;
}

static gale_status take_alternatives(parser *p, gale__regex_node **out)
{
    GALE_TRY(new_node(p, GALE__RE_ALT, out));
    gale__regex_node **tail = &(*out)->child;
    do {
        GALE_TRY(take_sequence(p, tail));
        tail = &(*tail)->next;
    } while (take(p, "|"));
    return GALE_OK;
}

gale_status gale__regex_parse(gale__arena *a, const char *pattern, gale__regex_node **out)
{
    parser p = {.arena = a, .pattern = pattern, .at = pattern, .end = pattern + strlen(pattern)};
    GALE_TRY(take_alternatives(&p, out));
    return p.at == p.end ? GALE_OK : fail_at(&p, "unmatched ')'");
}
