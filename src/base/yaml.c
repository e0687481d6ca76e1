/* A reader for the common subset of YAML.  libyaml is not used, because it calls malloc itself and accepts no
 * allocator: tests that make each allocation of a manifest fail could not reach it, and its limits on depth and size
 * differ.  Manifests, catalogues and data lists are the only YAML in gale, so builds with and without libraries read
 * the same.  Input is untrusted: every read is bounds-checked, nesting is limited, memory comes from the arena.  `at`
 * always points to the first character to read, and `column` is the indentation at that position. */
#include "base/yaml.h"
#include "base/utf8.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { DEPTH_MOST = 32 };

typedef struct parser {
    gale__arena *arena;
    const char *at, *end, *line_start;
    int line, depth;
    int64_t column; /* of the content at `at`; -1: end of the text */
} parser;

static gale_status fail(const parser *p, const char *format, ...) GALE__PRINTF(2, 3);
static gale_status fail(const parser *p, const char *format, ...)
{
    char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return gale__fail(GALE_FORMAT, "YAML, line %d: %s", p->line, text);
}

static bool is_break(const parser *p) { return p->at >= p->end || *p->at == '\n'; }
static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
static bool blank_follows(const parser *p, size_t n)
{
    return (size_t)(p->end - p->at) <= n || is_blank(p->at[n]) || p->at[n] == '\n';
}

static void skip_blanks(parser *p)
{
    while (p->at < p->end && is_blank(*p->at)) p->at++;
}

/* A comment must follow a blank or start the line. */
static void skip_comment(parser *p)
{
    if (p->at < p->end && *p->at == '#' && (p->at == p->line_start || is_blank(p->at[-1])))
        while (!is_break(p)) p->at++;
}

static bool marks(const parser *p, const char *mark)
{
    return p->column == 0 && p->end - p->at >= 3 && !memcmp(p->at, mark, 3) && blank_follows(p, 3);
}

/* Advances to the first character of the next line with content; `here`: starting with this line. */
static gale_status next_line(parser *p, bool here)
{
    for (;; here = false) {
        if (!here) {
            while (!is_break(p)) p->at++;
            if (p->at < p->end) p->at++, p->line++;
            p->line_start = p->at;
        }
        while (p->at < p->end && *p->at == ' ') p->at++;
        p->column = p->at - p->line_start;
        bool tab = p->at < p->end && *p->at == '\t';
        skip_blanks(p);
        skip_comment(p);
        if (p->at >= p->end || marks(p, "...")) {
            p->column = -1;
            return GALE_OK;
        }
        if (*p->at == '\n') continue;
        return tab ? fail(p, "tabs are not allowed in indentation") : GALE_OK;
    }
}

/* Only a comment may follow a value on its line. */
static gale_status end_line(parser *p)
{
    skip_blanks(p);
    skip_comment(p);
    return is_break(p) ? next_line(p, false) : fail(p, "unexpected '%c'", *p->at);
}

static gale_status make(parser *p, gale__json_kind kind, gale__json **out)
{
    gale__json *n = gale__arena_alloc(p->arena, sizeof *n);
    if (!n) return GALE_NO_MEMORY;
    n->kind = kind;
    *out = n;
    return GALE_OK;
}

static gale_status make_text(parser *p, gale__str *s, gale__json **out)
{
    gale_status status = gale__str_check(s);
    if (status == GALE_OK) status = make(p, GALE__JSON_STRING, out);
    if (status == GALE_OK && !((*out)->string = gale__arena_strdup(p->arena, gale__str_text(s))))
        status = GALE_NO_MEMORY;
    gale__str_finish(s);
    return status;
}

static bool is_word(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (!strcmp(text, *words)) return true;
    return false;
}

/* What a plain scalar means. */
static void resolve(gale__json *n)
{
    static const char *const none[] = {"", "~", "null", "Null", "NULL", NULL},
                             *const yes[] = {"true", "True", "TRUE", NULL},
                             *const no[] = {"false", "False", "FALSE", NULL};
    double number;
    if (is_word(n->string, none)) n->kind = GALE__JSON_NULL;
    else if (is_word(n->string, yes) || is_word(n->string, no)) {
        n->kind = GALE__JSON_BOOL;
        n->boolean = is_word(n->string, yes);
    } else if (strchr("+-.0123456789", *n->string) && !strpbrk(n->string, "xXnNpP") &&
               gale__text_to_f64(n->string[0] == '+' ? n->string + 1 : n->string, &number)) {
        n->kind = GALE__JSON_NUMBER;
        n->number = number;
    }
}

static gale_status take_hex(parser *p, int digits, gale__str *s)
{
    uint32_t v = 0;
    char utf8[5] = "";
    for (int i = 0; i < digits; i++, p->at++) {
        int c = p->at < p->end ? *p->at | 32 : 0;
        if ((c < '0' || c > '9') && (c < 'a' || c > 'f'))
            return fail(p, "an escape needs %d hexadecimal digits", digits);
        v = v * 16 + (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    if (!v || v > 0x10ffff || (v >= 0xd800 && v < 0xe000)) return fail(p, "invalid character in an escape");
    gale__str_add_n(s, utf8, (size_t)(gale__utf8_put(utf8, v) - utf8));
    return GALE_OK;
}

static gale_status take_escape(parser *p, gale__str *s)
{
    static const char from[] = "0abtnvfre\"/\\ ", to[] = "?\a\b\t\n\v\f\r\033\"/\\ ";
    char c = p->at < p->end ? *p->at++ : 0;
    const char *known = c && c != '0' ? strchr(from, c) : NULL;
    if (known) gale__str_add_n(s, &to[known - from], 1);
    else if (c == 'x' || c == 'u' || c == 'U') return take_hex(p, c == 'x' ? 2 : c == 'u' ? 4 : 8, s);
    else return fail(p, "unknown escape");
    return GALE_OK;
}

/* A line break inside quotes becomes a space, each further one a line break. */
static void fold(parser *p, gale__str *s)
{
    int breaks = 0;
    while (s->length && is_blank(s->text[s->length - 1])) s->text[--s->length] = 0;
    for (; p->at < p->end && (is_blank(*p->at) || *p->at == '\n'); p->at++)
        if (*p->at == '\n') breaks++, p->line++, p->line_start = p->at + 1;
    for (int i = 1; i < breaks; i++) gale__str_add(s, "\n");
    if (breaks == 1) gale__str_add(s, " ");
}

static gale_status quoted(parser *p, gale__json **out)
{
    char quote = *p->at++;
    gale__str s = {0};
    gale_status status = GALE_OK;
    while (status == GALE_OK) {
        if (p->at >= p->end || !*p->at) status = fail(p, "unterminated quoted text");
        else if (*p->at == quote && quote == '\'' && p->end - p->at > 1 && p->at[1] == quote)
            gale__str_add(&s, "'"), p->at += 2;
        else if (*p->at == quote) break;
        else if (*p->at == '\n') fold(p, &s);
        else if (*p->at == '\\' && quote == '"') p->at++, status = take_escape(p, &s);
        else gale__str_add_n(&s, p->at++, 1);
    }
    p->at++;
    if (status == GALE_OK) return make_text(p, &s, out);
    gale__str_finish(&s);
    return status;
}

/* Plain text up to its end on this line, which in brackets comes earlier. */
static void plain_line(parser *p, bool flow, gale__str *s)
{
    const char *begin = p->at, *last = p->at;
    for (; !is_break(p); p->at++) {
        if (*p->at == '#' && p->at > begin && is_blank(p->at[-1])) break;
        if (flow && (strchr(",[]{}", *p->at) || (*p->at == ':' && (blank_follows(p, 1) || strchr(",[]{}", p->at[1])))))
            break;
        if (!is_blank(*p->at)) last = p->at + 1;
    }
    gale__str_add_n(s, begin, (size_t)(last - begin));
}

static gale_status check_plain(const parser *p)
{
    if (p->at < p->end && (!*p->at || strchr("&*!%@`", *p->at)))
        return fail(p, "YAML syntax starting with '%c' is not supported; quote the text", *p->at);
    return GALE_OK;
}

static gale_status flow(parser *p, gale__json **out);

/* Blanks, line breaks and comments inside brackets. */
static void skip_flow(parser *p)
{
    while (p->at < p->end && (is_blank(*p->at) || *p->at == '\n' || *p->at == '#')) {
        const char *before = p->at;
        skip_comment(p);
        if (p->at >= p->end) return;
        if (*p->at == '\n') p->line++, p->line_start = p->at + 1;
        else if (*p->at == '#' && p->at == before) return;
        p->at++;
    }
}

static gale_status add(parser *p, gale__json *parent, gale__json **tail, const char *key, gale__json *child)
{
    for (const gale__json *c = key ? parent->child : NULL; c; c = c->next)
        if (!strcmp(c->key, key)) return fail(p, "duplicate key \"%s\"", key);
    child->key = key;
    *(*tail ? &(*tail)->next : &parent->child) = child;
    *tail = child;
    return GALE_OK;
}

static gale_status flow_item(parser *p, gale__json *parent, gale__json **tail)
{
    gale__json *key = NULL, *value = NULL;
    if (parent->kind == GALE__JSON_ARRAY) {
        GALE_TRY(flow(p, &value));
        return add(p, parent, tail, NULL, value);
    }
    if (strchr("[{", *p->at)) return fail(p, "a key must be plain or quoted text");
    GALE_TRY(flow(p, &key));
    skip_flow(p);
    if (p->at < p->end && *p->at == ':') {
        p->at++;
        skip_flow(p);
        GALE_TRY(p->at < p->end && strchr(",}", *p->at) ? make(p, GALE__JSON_NULL, &value) : flow(p, &value));
    } else GALE_TRY(make(p, GALE__JSON_NULL, &value));
    return add(p, parent, tail, key->string, value);
}

static gale_status flow_list(parser *p, gale__json **out)
{
    bool map = *p->at++ == '{';
    gale__json *tail = NULL;
    GALE_TRY(make(p, map ? GALE__JSON_OBJECT : GALE__JSON_ARRAY, out));
    if (++p->depth > DEPTH_MOST) return fail(p, "nested more than %d levels deep", DEPTH_MOST);
    for (;;) {
        skip_flow(p);
        if (p->at >= p->end) return fail(p, "unclosed bracket");
        if (*p->at == (map ? '}' : ']')) break;
        GALE_TRY(flow_item(p, *out, &tail));
        skip_flow(p);
        if (p->at < p->end && *p->at == ',') p->at++;
        else if (p->at < p->end && *p->at != (map ? '}' : ']'))
            return fail(p, "a comma or '%c' was expected", map ? '}' : ']');
    }
    p->at++;
    p->depth--;
    return GALE_OK;
}

static gale_status flow(parser *p, gale__json **out)
{
    gale__str s = {0};
    if (p->at < p->end && strchr("[{", *p->at)) return flow_list(p, out);
    if (p->at < p->end && strchr("'\"", *p->at)) return quoted(p, out);
    GALE_TRY(check_plain(p));
    plain_line(p, true, &s);
    bool missing = !s.length && !s.failed;
    GALE_TRY(make_text(p, &s, out));
    if (missing) return fail(p, "missing value");
    resolve(*out);
    return GALE_OK;
}

/* | keeps lines, > joins them; - and + after it determine how trailing line breaks are treated. */
static gale_status text_block(parser *p, int64_t parent, gale__json **out)
{
    bool folded = *p->at++ == '>', strip = false;
    int64_t indent = -1;
    gale__str s = {0};
    for (; p->at < p->end && strchr("+-", *p->at); p->at++) strip = *p->at == '-';
    skip_blanks(p);
    skip_comment(p);
    if (!is_break(p)) return fail(p, "unexpected '%c'", *p->at);
    while (p->at < p->end) {
        const char *line = p->at + 1, *text = line, *stop;
        while (text < p->end && *text == ' ' && (indent < 0 || text - line < indent)) text++;
        for (stop = text; stop < p->end && *stop != '\n';) stop++;
        bool empty = text == stop || (stop - text == 1 && *text == '\r');
        if (!empty && text - line <= parent) break;
        if (!empty && indent < 0) indent = text - line;
        if (!empty && text - line < indent) break;
        bool joins = folded && s.length && s.text[s.length - 1] == '\n' && !empty && *text != ' ' &&
                     !(s.length > 1 && s.text[s.length - 2] == '\n');
        if (joins) s.text[s.length - 1] = ' ';
        else if (folded && !empty && s.length > 1 && s.text[s.length - 2] == '\n') s.text[--s.length] = 0;
        if (!empty) gale__str_add_n(&s, text, (size_t)(stop - text) - (stop[-1] == '\r'));
        if (indent >= 0 && !s.failed) gale__str_add(&s, "\n");
        p->at = stop;
        p->line++;
    }
    while (s.length && s.text[s.length - 1] == '\n' && (strip || s.length == 1 || s.text[s.length - 2] == '\n'))
        s.text[--s.length] = 0;
    GALE_TRY(make_text(p, &s, out));
    return next_line(p, false);
}

/* Whether the line is "key: ..."; if so, returns the key and advances past the colon. */
static gale_status take_key(parser *p, const char **key)
{
    const char *begin = p->at;
    gale__json *node = NULL;
    parser before = *p;
    *key = NULL;
    if (strchr("'\"", *p->at)) {
        GALE_TRY(quoted(p, &node));
        skip_blanks(p);
        if (before.line == p->line && p->at < p->end && *p->at == ':' && blank_follows(p, 1))
            *key = node->string, p->at++;
        else *p = before;
        return GALE_OK;
    }
    const char *stop = begin;
    for (; stop < p->end && *stop != '\n'; stop++) {
        if (*stop == '#' && stop > begin && is_blank(stop[-1])) return GALE_OK;
        if (*stop == ':' && (stop + 1 >= p->end || is_blank(stop[1]) || stop[1] == '\n')) break;
    }
    if (stop >= p->end || *stop != ':' || strchr("[{", *begin)) return GALE_OK;
    GALE_TRY(check_plain(p));
    if (*begin == '?' && blank_follows(p, 1)) return fail(p, "complex keys are not supported");
    gale__str s = {0};
    for (p->at = stop; stop > begin && is_blank(stop[-1]);) stop--;
    gale__str_add_n(&s, begin, (size_t)(stop - begin));
    GALE_TRY(make_text(p, &s, &node));
    p->at++;
    *key = node->string;
    return GALE_OK;
}

/* A value on the rest of this line; plain text continues on lines that are indented more than `parent`. */
static gale_status scalar(parser *p, int64_t parent, gale__json **out)
{
    const char *key;
    gale__str s = {0};
    if (strchr("|>", *p->at)) return text_block(p, parent, out);
    if (strchr("[{'\"", *p->at)) {
        GALE_TRY(flow(p, out));
        return end_line(p);
    }
    GALE_TRY(check_plain(p));
    plain_line(p, false, &s);
    gale_status status = end_line(p);
    while (status == GALE_OK && p->column > parent) {
        const char *at = p->at;
        status = take_key(p, &key);
        if (status == GALE_OK && key) status = fail(p, "\"%s\" is indented more than the keys above it", key);
        if (status != GALE_OK) break;
        p->at = at;
        gale__str_add(&s, " ");
        plain_line(p, false, &s);
        status = end_line(p);
    }
    if (status != GALE_OK) {
        gale__str_finish(&s);
        return status;
    }
    GALE_TRY(make_text(p, &s, out));
    resolve(*out);
    return GALE_OK;
}

static gale_status block(parser *p, int64_t parent, gale__json **out);

static bool is_dash(const parser *p) { return p->column >= 0 && *p->at == '-' && blank_follows(p, 1); }

static gale_status list(parser *p, gale__json **out)
{
    int64_t indent = p->column;
    gale__json *tail = NULL, *item;
    GALE_TRY(make(p, GALE__JSON_ARRAY, out));
    while (p->column == indent && is_dash(p)) {
        p->at++;
        skip_blanks(p);
        skip_comment(p);
        item = NULL;
        if (is_break(p)) GALE_TRY(next_line(p, false));
        else p->column = p->at - p->line_start;
        if (p->column > indent) GALE_TRY(block(p, indent, &item));
        else GALE_TRY(make(p, GALE__JSON_NULL, &item));
        GALE_TRY(add(p, *out, &tail, NULL, item));
    }
    return GALE_OK;
}

static gale_status map_value(parser *p, int64_t indent, gale__json **out)
{
    skip_blanks(p);
    skip_comment(p);
    if (!is_break(p)) return scalar(p, indent, out);
    GALE_TRY(next_line(p, false));
    if (p->column > indent) return block(p, indent, out);
    if (p->column == indent && is_dash(p)) return list(p, out); /* a list may be at the same indentation as its key */
    return make(p, GALE__JSON_NULL, out);
}

static gale_status map(parser *p, const char *key, int64_t indent, gale__json **out)
{
    gale__json *tail = NULL, *value = NULL;
    GALE_TRY(make(p, GALE__JSON_OBJECT, out));
    while (key) {
        GALE_TRY(map_value(p, indent, &value));
        GALE_TRY(add(p, *out, &tail, key, value));
        if (p->column != indent || is_dash(p)) break;
        GALE_TRY(take_key(p, &key));
        if (!key) return fail(p, "a key and a colon were expected");
    }
    return GALE_OK;
}

/* The value at `at`, which is indented more than its parent. */
static gale_status block(parser *p, int64_t parent, gale__json **out)
{
    const char *key = NULL;
    int64_t indent = p->column;
    if (++p->depth > DEPTH_MOST) return fail(p, "nested more than %d levels deep", DEPTH_MOST);
    if (is_dash(p)) GALE_TRY(list(p, out));
    else {
        GALE_TRY(take_key(p, &key));
        GALE_TRY(key ? map(p, key, indent, out) : scalar(p, parent, out));
    }
    p->depth--;
    return p->column > parent ? fail(p, "the indentation does not match any level above") : GALE_OK;
}

gale_status gale__yaml_parse(gale__arena *a, const char *text, size_t size, gale__json **out)
{
    parser p = {.arena = a, .at = text, .end = text + size, .line_start = text, .line = 1};
    gale__json *root = NULL;
    if (size >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) p.line_start = p.at += 3;
    if (memchr(text, 0, size)) return gale__fail(GALE_FORMAT, "YAML: the text contains a zero byte");
    GALE_TRY(next_line(&p, true));
    if (p.column == 0 && marks(&p, "---")) {
        p.at += 3;
        skip_blanks(&p);
        if (is_break(&p)) GALE_TRY(next_line(&p, false));
        else p.column = p.at - p.line_start;
    }
    if (p.column < 0) GALE_TRY(make(&p, GALE__JSON_NULL, &root));
    else GALE_TRY(block(&p, -1, &root));
    *out = root;
    return GALE_OK;
}
