/* The JSON reader (RFC 8259).  Every build needs it (models, tokenizers, options), also one without libraries, and
 * libraries such as Jansson and cJSON allocate each node by themselves.  It takes text from strangers: nesting is
 * bounded, every read is checked against the end, strings have to be UTF-8 without zero bytes, and all memory comes
 * from the caller's arena. */
#include "base/json.h"
#include "base/utf8.h"
#include <ctype.h>
#include <string.h>

#define DEPTH_MOST 64

typedef struct parser {
    gale__arena *arena;
    const char *start, *at, *end;
    int depth;
    bool zeros; /* allowed in strings */
} parser;

static gale_status fail_at(const parser *p, const char *what)
{
    int line = 1;
    const char *line_start = p->start;
    for (const char *q = p->start; q < p->at; q++)
        if (*q == '\n') {
            line++;
            line_start = q + 1;
        }
    return gale__fail(GALE_FORMAT, "JSON, line %d column %d: %s", line, (int)(p->at - line_start) + 1, what);
}

static int peek(const parser *p) { return p->at < p->end ? (unsigned char)*p->at : -1; }

static void skip_space(parser *p)
{
    while (p->at < p->end && memchr(" \t\r\n", *p->at, 4)) p->at++;
}

static bool take(parser *p, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n)) return false;
    p->at += n;
    return true;
}

static bool take_hex4(parser *p, uint32_t *out)
{
    uint32_t v = 0;
    if (p->end - p->at < 4) return false;
    for (int i = 0; i < 4; i++, p->at++) {
        int c = (unsigned char)*p->at;
        if (!isxdigit(c)) return false;
        v = v * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    *out = v;
    return true;
}

static gale_status take_escape(parser *p, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = peek(p);
    const char *known = c > 0 ? strchr(from, c) : NULL;
    p->at++;
    if (known) {
        *(*out)++ = to[known - from];
        return GALE_OK;
    }
    uint32_t high, low;
    if (c != 'u' || !take_hex4(p, &high)) return fail_at(p, "bad escape in a string");
    if (high >= 0xd800 && high < 0xdc00) {
        if (!take(p, "\\u") || !take_hex4(p, &low) || low < 0xdc00 || low > 0xdfff)
            return fail_at(p, "half of a surrogate pair");
        high = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    } else if (high >= 0xdc00 && high < 0xe000) {
        return fail_at(p, "half of a surrogate pair");
    }
    if (high == 0 && !p->zeros) return fail_at(p, "zero byte in a string");
    *out = gale__utf8_put(*out, high);
    return GALE_OK;
}

/* The text after its opening quote.  Escapes only shrink, so the source length is room enough. */
static gale_status take_string(parser *p, const char **out, size_t *size)
{
    const char *close = p->at;
    while (close < p->end && *close != '"') close += *close == '\\' && close + 1 < p->end ? 2 : 1;
    if (close >= p->end) return fail_at(p, "a string has no end");
    char *text = gale__arena_alloc(p->arena, (size_t)(close - p->at) + 1), *to = text;
    if (!text) return GALE_NO_MEMORY;
    while (p->at < close) {
        int c = peek(p);
        if (c == '\\') {
            p->at++;
            GALE_TRY(take_escape(p, &to));
            continue;
        }
        int n = gale__utf8_length(p->at, (size_t)(close - p->at));
        if (c < 0x20) return fail_at(p, "control character in a string");
        if (n == 0) return fail_at(p, "a string is not UTF-8");
        memcpy(to, p->at, (size_t)n);
        to += n;
        p->at += n;
    }
    p->at++;
    *out = text;
    *size = (size_t)(to - text);
    return GALE_OK;
}

static size_t skip_digits(parser *p)
{
    const char *from = p->at;
    while (isdigit(peek(p))) p->at++;
    return (size_t)(p->at - from);
}

static gale_status take_number(parser *p, double *out)
{
    const char *from = p->at;
    char text[512];
    if (peek(p) == '-') p->at++;
    bool zero = peek(p) == '0';
    size_t whole = skip_digits(p);
    bool good = whole > 0 && !(zero && whole > 1);
    if (good && peek(p) == '.') {
        p->at++;
        good = skip_digits(p) > 0;
    }
    if (good && (peek(p) == 'e' || peek(p) == 'E')) {
        p->at++;
        if (peek(p) == '+' || peek(p) == '-') p->at++;
        good = skip_digits(p) > 0;
    }
    size_t n = (size_t)(p->at - from);
    if (!good || n >= sizeof text) {
        p->at = from;
        return fail_at(p, good ? "a number is too long" : "not a value");
    }
    memcpy(text, from, n);
    text[n] = 0;
    if (gale__text_to_f64(text, out)) return GALE_OK;
    p->at = from;
    return fail_at(p, "a number is out of range");
}

static gale_status take_value(parser *p, gale__json *v);

static gale_status take_member(parser *p, bool object, gale__json *v)
{
    skip_space(p);
    if (object) {
        if (!take(p, "\"")) return fail_at(p, "a member needs a name in quotes");
        GALE_TRY(take_string(p, &v->key, &v->key_size));
        skip_space(p);
        if (!take(p, ":")) return fail_at(p, "':' is missing after a member's name");
    }
    return take_value(p, v);
}

/* The items after the opening bracket. */
static gale_status take_items(parser *p, bool object, gale__json *v)
{
    const char *close = object ? "}" : "]";
    gale__json **tail = &v->child;
    if (++p->depth > DEPTH_MOST) return fail_at(p, "nested too deeply");
    v->kind = object ? GALE__JSON_OBJECT : GALE__JSON_ARRAY;
    skip_space(p);
    if (take(p, close)) {
        p->depth--;
        return GALE_OK;
    }
    for (;;) {
        *tail = gale__arena_alloc(p->arena, sizeof **tail);
        if (!*tail) return GALE_NO_MEMORY;
        GALE_TRY(take_member(p, object, *tail));
        tail = &(*tail)->next;
        skip_space(p);
        if (take(p, close)) break;
        if (!take(p, ",")) return fail_at(p, object ? "',' or '}' expected" : "',' or ']' expected");
    }
    p->depth--;
    return GALE_OK;
}

static gale_status take_value(parser *p, gale__json *v)
{
    skip_space(p);
    if (take(p, "{")) return take_items(p, true, v);
    if (take(p, "[")) return take_items(p, false, v);
    if (take(p, "\"")) {
        v->kind = GALE__JSON_STRING;
        return take_string(p, &v->string, &v->string_size);
    }
    if (take(p, "null")) return GALE_OK;
    v->kind = GALE__JSON_BOOL;
    if (take(p, "false")) return GALE_OK;
    v->boolean = take(p, "true");
    if (v->boolean) return GALE_OK;
    v->kind = GALE__JSON_NUMBER;
    v->source = p->at;
    return take_number(p, &v->number);
}

static gale_status parse(gale__arena *a, const char *text, size_t size, bool zeros, gale__json **out)
{
    parser p = {.arena = a, .start = text, .at = text, .end = text + size, .zeros = zeros};
    gale__json *v = gale__arena_alloc(a, sizeof *v);
    if (!v) return GALE_NO_MEMORY;
    GALE_TRY(take_value(&p, v));
    skip_space(&p);
    if (p.at < p.end) return fail_at(&p, "text after the end");
    *out = v;
    return GALE_OK;
}

gale_status gale__json_parse(gale__arena *a, const char *text, size_t size, gale__json **out)
{
    return parse(a, text, size, false, out);
}

gale_status gale__json_parse_with_zeros(gale__arena *a, const char *text, size_t size, gale__json **out)
{
    return parse(a, text, size, true, out);
}

const gale__json *gale__json_get(const gale__json *object, const char *key)
{
    if (!object || object->kind != GALE__JSON_OBJECT) return NULL;
    for (const gale__json *m = object->child; m; m = m->next)
        if (!strcmp(m->key, key)) return m;
    return NULL;
}

double gale__json_number(const gale__json *object, const char *key, double fallback)
{
    const gale__json *m = gale__json_get(object, key);
    return m && m->kind == GALE__JSON_NUMBER ? m->number : fallback;
}

const char *gale__json_text(const gale__json *object, const char *key, const char *fallback)
{
    const gale__json *m = gale__json_get(object, key);
    return m && m->kind == GALE__JSON_STRING ? m->string : fallback;
}

gale_status gale__json_copy_text(gale__arena *a, const gale__json *object, const char *key, const char **out)
{
    const gale__json *v = gale__json_get(object, key);
    if (!v || v->kind == GALE__JSON_NULL) return GALE_OK;
    if (v->kind > GALE__JSON_STRING || !v->string) return gale__fail(GALE_FORMAT, "%s is no text", key);
    const char *copy = gale__arena_strdup(a, v->string);
    if (!copy) return GALE_NO_MEMORY;
    *out = copy;
    return GALE_OK;
}
