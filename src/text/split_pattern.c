/* Regular expressions with PCRE2, literal patterns, and GPT-2's expression by hand. */
#ifndef PCRE2_CODE_UNIT_WIDTH
#define PCRE2_CODE_UNIT_WIDTH 8
#endif
#include "text/split_pattern.h"
#include "base/str.h"
#include "text/unicode.h"
#include <string.h>
#ifdef GALE_HAVE_PCRE2
#include <pcre2.h>
#else
typedef void pcre2_code;
typedef void pcre2_match_context;
#endif

enum { STEPS_MOST = 1000000, PATTERN_MOST = 1 << 16 };

struct gale__split_pattern {
    char *literal; /* NULL: an expression */
    size_t literal_size;
    pcre2_code *code;
    pcre2_match_context *limits;
};

#ifdef GALE_HAVE_PCRE2
static void *give(PCRE2_SIZE size, void *user)
{
    (void)user;
    return gale__alloc(size);
}

static void take(void *p, void *user)
{
    (void)user;
    gale__free(p);
}

static gale_status compile(gale__split_pattern *p, const char *text, size_t size)
{
    pcre2_general_context *memory = pcre2_general_context_create(give, take, NULL);
    pcre2_compile_context *how = memory ? pcre2_compile_context_create(memory) : NULL;
    gale__str perl = {0};
    int error = 0;
    PCRE2_SIZE where = 0;
    gale_status status = how ? gale__pattern_to_perl(text, size, &perl) : GALE_NO_MEMORY;
    if (status == GALE_OK) {
        pcre2_set_newline(how, PCRE2_NEWLINE_LF);
        pcre2_set_parens_nest_limit(how, 100);
        p->code = pcre2_compile((PCRE2_SPTR)gale__str_text(&perl), perl.length,
            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &where, how);
        p->limits = p->code ? pcre2_match_context_create(memory) : NULL;
        if (error == PCRE2_ERROR_HEAP_FAILED || (p->code && !p->limits)) status = GALE_NO_MEMORY;
        else if (!p->code) {
            char why[128] = "";
            pcre2_get_error_message(error, (PCRE2_UCHAR *)why, sizeof why);
            status =
                gale__fail(GALE_FORMAT, "the regular expression '%.100s': %s, at byte %zu", text, why, (size_t)where);
        }
    }
    if (p->limits) {
        pcre2_set_match_limit(p->limits, STEPS_MOST);
        pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE); /* without it the same matches are found, more slowly */
    }
    gale__str_finish(&perl);
    pcre2_compile_context_free(how);
    pcre2_general_context_free(memory);
    return status;
}

gale_status gale__split_pattern_state_init(gale__split_pattern_state *s)
{
    pcre2_general_context *memory = pcre2_general_context_create(give, take, NULL);
    s->match = memory ? pcre2_match_data_create(1, memory) : NULL;
    pcre2_general_context_free(memory);
    return s->match ? GALE_OK : GALE_NO_MEMORY;
}

void gale__split_pattern_state_finish(gale__split_pattern_state *s)
{
    pcre2_match_data_free(s->match);
    s->match = NULL;
}

static gale_status search(const gale__split_pattern *p, gale__split_pattern_state *s, const char *text, size_t size,
    gale__split_pattern_walk *w, bool *found)
{
    int rc = pcre2_match(p->code, (PCRE2_SPTR)text, size, w->at, PCRE2_NO_UTF_CHECK, s->match, p->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter keeps what it may come back to in memory of ours */
        rc =
            pcre2_match(p->code, (PCRE2_SPTR)text, size, w->at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, s->match, p->limits);
    *found = rc >= 0;
    if (rc == PCRE2_ERROR_NOMATCH) return GALE_OK;
    if (rc == PCRE2_ERROR_NOMEMORY) return GALE_NO_MEMORY;
    if (rc < 0)
        return gale__fail(
            GALE_LIMIT, "a regular expression of the tokenizer exceeds %d steps on a text (PCRE2: %d)", STEPS_MOST, rc);
    w->begin = pcre2_get_ovector_pointer(s->match)[0];
    w->end = pcre2_get_ovector_pointer(s->match)[1];
    if (w->end < w->begin || w->begin < w->at || w->end > size)
        return gale__fail(GALE_UNSUPPORTED, "\\K in a lookaround is not supported in a regular expression; rewrite it");
    return GALE_OK;
}

static void free_code(gale__split_pattern *p)
{
    pcre2_code_free(p->code);
    pcre2_match_context_free(p->limits);
}
#else
static gale_status compile(gale__split_pattern *p, const char *text, size_t size)
{
    (void)p, (void)text, (void)size;
    return gale__fail(GALE_UNSUPPORTED,
        "regular expression '%.60s' needs PCRE2, which this build of gale does not include; install libpcre2-dev and "
        "rebuild gale",
        text);
}
gale_status gale__split_pattern_state_init(gale__split_pattern_state *s)
{
    s->match = NULL;
    return GALE_OK;
}
void gale__split_pattern_state_finish(gale__split_pattern_state *s) { s->match = NULL; }
static gale_status search(const gale__split_pattern *p, gale__split_pattern_state *s, const char *text, size_t size,
    gale__split_pattern_walk *w, bool *found)
{
    (void)p, (void)s, (void)text, (void)size, (void)w;
    *found = false;
    return GALE_OK;
}
static void free_code(gale__split_pattern *p) { (void)p; }
#endif

gale_status gale__split_pattern_create(const char *text, size_t size, bool literal, gale__split_pattern **out)
{
    if (!size) return gale__fail(GALE_FORMAT, "a pattern is empty");
    if (size > PATTERN_MOST) return gale__fail(GALE_LIMIT, "a pattern has more than %d bytes", PATTERN_MOST);
    gale__split_pattern *p = gale__calloc(1, sizeof *p);
    gale_status status = p ? GALE_OK : GALE_NO_MEMORY;
    if (p && literal) {
        p->literal = gale__alloc(size);
        p->literal_size = size;
        status = p->literal ? GALE_OK : GALE_NO_MEMORY;
        if (p->literal) memcpy(p->literal, text, size);
    } else if (p) {
        status = compile(p, text, size);
    }
    if (status == GALE_OK) *out = p;
    else gale__split_pattern_destroy(&p);
    return status;
}

void gale__split_pattern_destroy(gale__split_pattern **p)
{
    if (!*p) return;
    gale__free((*p)->literal);
    free_code(*p);
    gale__free(*p);
    *p = NULL;
}

static bool find_literal(const gale__split_pattern *p, const char *text, size_t size, gale__split_pattern_walk *w)
{
    const char *found = w->at < size ? memmem(text + w->at, size - w->at, p->literal, p->literal_size) : NULL;
    if (!found) return false;
    w->begin = (size_t)(found - text);
    w->end = w->begin + p->literal_size;
    return true;
}

gale_status gale__split_pattern_next(const gale__split_pattern *p, gale__split_pattern_state *s, const char *text,
    size_t size, gale__split_pattern_walk *w, bool *found)
{
    for (;;) {
        *found = false;
        if (w->at > size) return GALE_OK;
        if (p->literal) *found = find_literal(p, text, size, w);
        else GALE_TRY(search(p, s, text, size, w, found));
        if (!*found) return GALE_OK;
        bool empty = w->begin == w->end, again = empty && w->last == w->end + 1;
        w->at = !empty ? w->end : w->end + (w->end < size ? gale__utf8_size(text + w->end) : 1);
        if (again) continue; /* nothing, right behind a match */
        w->last = w->end + 1;
        return GALE_OK;
    }
}

/* --- GPT-2's expression. --- */

/* 0 other, 1 letter, 2 number, 3 space */
/* clang-format off */
static const unsigned char ascii_class[128] = {
    ['\t'] = 3, ['\n'] = 3, ['\v'] = 3, ['\f'] = 3, ['\r'] = 3, [' '] = 3,
    ['0'] = 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
    ['A'] = 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    ['a'] = 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
};
/* clang-format on */

static int class_at(const char *text, size_t *size)
{
    if (!(*text & 0x80)) return *size = 1, ascii_class[(unsigned char)*text];
    uint32_t bits = gale__unicode_bits(gale__utf8_at(text, size));
    return bits & GALE__U_L ? 1 : bits & GALE__U_N ? 2 : bits & GALE__U_WHITE ? 3 : 0;
}

static size_t contraction(const char *text, size_t size)
{
    if (size < 2) return 0;
    if (strchr("stmd", text[1]) && text[1]) return 2;
    if (size < 3) return 0;
    bool pair = !memcmp(text + 1, "re", 2) || !memcmp(text + 1, "ve", 2) || !memcmp(text + 1, "ll", 2);
    return pair ? 3 : 0;
}

static size_t run_of(const char *text, size_t size, size_t at, int class, size_t *last)
{
    size_t n;
    for (; at < size && class_at(text + at, &n) == class; at += n) *last = at;
    return at;
}

size_t gale__gpt2_piece(const char *text, size_t size)
{
    size_t n, next = 0, last = 0;
    if (*text == '\'' && (n = contraction(text, size))) return n;
    int class = class_at(text, &n);
    if (class != 3) return run_of(text, size, n, class, &last);
    int behind = *text == ' ' && size > 1 ? class_at(text + 1, &next) : 3;
    if (behind != 3) return run_of(text, size, 1 + next, behind, &last);
    size_t end = run_of(text, size, 0, 3, &last);
    return end == size || last == 0 ? end : last; /* the last space belongs to what follows */
}
