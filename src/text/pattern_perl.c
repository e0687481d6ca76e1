/* From Oniguruma's syntax (its Ruby flavour) to Perl's.  They differ in few places that tokenizers use: those are
 * rewritten, and unsupported constructs are rejected by name. */
#include "text/split_pattern.h"
#ifdef GALE_HAVE_PCRE2
#ifndef PCRE2_CODE_UNIT_WIDTH
#define PCRE2_CODE_UNIT_WIDTH 8
#endif
#include "text/unicode.h"
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

enum { NESTED = 8 }; /* classes inside one another */

typedef struct source {
    const char *at, *end;
    gale__str *out;
} source;

static gale_status refuse(const char *what)
{
    return gale__fail(GALE_UNSUPPORTED, "%s is not supported in a regular expression; rewrite it", what);
}

/* White space: what \s is, and PCRE2's \s but for U+180E. */
#define WHITE "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

static uint32_t end_of(uint32_t c) { return (uint32_t)gale__char_category_end((int32_t)c); }

/* Characters of a kind that PCRE2's older tables do not count among it, as ranges of a class. */
static void add_newer(gale__str *out, uint32_t bit, const char *const *categories)
{
    uint32_t known = 0, first = 0, last = 0;
    for (; *categories; categories++) known |= gale__category_mask(*categories, strlen(*categories));
    for (; gale__unicode_next_run(bit, &first, &last); first = last + 1)
        for (uint32_t c = first, begin; c <= last; c++) {
            for (begin = c; c <= last && !(known >> gale__char_category((int32_t)c) & 1);) c = end_of(c) + 1;
            if (c > begin) gale__str_addf(out, "\\x{%x}-\\x{%x}", begin, c > last ? last : c - 1);
            if (c <= last) c = end_of(c);
        }
}

/* Letters, numbers and word characters as Oniguruma counts them: among the last are powers and fractions of Latin-1,
 * but not inside a class. */
static void add_kind(gale__str *out, uint32_t bit, bool in_class)
{
    static const char *const word[] = {"L", "M", "Nd", "Nl", "Pc", "Cf", NULL}, *const letter[] = {"L", NULL},
                             *const number[] = {"N", NULL};
    bool is_word = bit == GALE__U_WORD;
    gale__str_add(out, is_word ? "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}" : bit == GALE__U_L ? "\\p{L}" : "\\p{N}");
    add_newer(out, bit, is_word ? word : bit == GALE__U_L ? letter : number);
    if (is_word && !in_class) gale__str_add(out, "\\xb2\\xb3\\xb9\\xbc-\\xbe");
}

/* Whether PCRE2 knows a script of this name: by the name alone, recent versions also count what scripts share. */
static bool is_script(const char *name, int size)
{
    char text[64];
    int error;
    PCRE2_SIZE where;
    int n = snprintf(text, sizeof text, "\\p{sc:%.*s}", size, name);
    pcre2_code *code =
        n < (int)sizeof text ? pcre2_compile((PCRE2_SPTR)text, (size_t)n, PCRE2_UTF, &error, &where, NULL) : NULL;
    pcre2_code_free(code);
    return code != NULL;
}

/* \p{L}, \p{Han}; false: PCRE2 takes it as it is. */
static bool take_property(source *s, bool in_class)
{
    size_t left = (size_t)(s->end - s->at);
    bool not = s->at[1] == 'P';
    const char *name = s->at + 3,
               *close = left > 3 && (not || s->at[1] == 'p') && s->at[2] == '{' ? memchr(name, '}', left - 3) : NULL;
    if (!close || close - name > 60) return false;
    int size = (int)(close - name);
    uint32_t bit = size != 1 ? 0 : *name == 'L' ? GALE__U_L : *name == 'N' ? GALE__U_N : 0;
    if (bit ? not &&in_class : !is_script(name, size)) return false;
    if (bit && !in_class) gale__str_add(s->out, not ? "[^" : "[");
    if (bit) add_kind(s->out, bit, true);
    else gale__str_addf(s->out, "\\%c{sc:%.*s}", s->at[1], size, name);
    if (bit && !in_class) gale__str_add(s->out, "]");
    s->at = close + 1;
    return true;
}

/* Between such a character and another, or, for \B, not so. */
static void add_boundary(gale__str *out, bool not )
{
    const char *const parts[] = {"(?:(?<=[", not ? "(?=[" : "(?![", "|(?<![", not ? "(?![" : "(?=["};
    for (int i = 0; i < 4; i++) {
        gale__str_add(out, parts[i]);
        add_kind(out, GALE__U_WORD, false);
        gale__str_add(out, "])");
    }
    gale__str_add(out, ")");
}

/* An escape; outside a class \h is a hexadecimal digit, not white space. */
static gale_status take_escape(source *s, bool in_class)
{
    if (s->end - s->at < 2) return gale__fail(GALE_FORMAT, "a regular expression ends with a backslash");
    if (take_property(s, in_class)) return GALE_OK;
    char c = s->at[1];
    if (c == 'h') gale__str_add(s->out, in_class ? "0-9a-fA-F" : "[0-9a-fA-F]");
    else if (c == 'H' && !in_class) gale__str_add(s->out, "[^0-9a-fA-F]");
    else if (c == 's') gale__str_add(s->out, in_class ? WHITE : "[" WHITE "]");
    else if (c == 'S' && !in_class) gale__str_add(s->out, "[^" WHITE "]");
    else if (c == 'w' && in_class) add_kind(s->out, GALE__U_WORD, true);
    else if ((c == 'w' || c == 'W') && !in_class) {
        gale__str_add(s->out, c == 'w' ? "[" : "[^");
        add_kind(s->out, GALE__U_WORD, false);
        gale__str_add(s->out, "]");
    } else if ((c == 'b' || c == 'B') && !in_class) add_boundary(s->out, c == 'B');
    else if (strchr(in_class ? "HWyYOMC" : "HyYOMC", c) && c)
        return refuse("Oniguruma's \\H or \\W in a class, \\y, \\Y, \\O, \\M or \\C");
    else gale__str_add_n(s->out, s->at, 2);
    s->at += 2;
    return GALE_OK;
}

/* [:alpha:] and the like, up to `end`: letters are what Unicode calls alphabetic, and symbols are punctuation. */
static gale_status take_bracket(source *s, const char *end)
{
    static const char *const kinds[][2] = {{"[:alpha:]", "\\p{Alphabetic}"}, {"[:alnum:]", "\\p{Alphabetic}\\p{Nd}"},
        {"[:upper:]", "\\p{Uppercase}"}, {"[:lower:]", "\\p{Lowercase}"}, {"[:punct:]", "\\p{P}\\p{S}"},
        {"[:digit:]", "\\p{Nd}"}, {"[:space:]", WHITE}, {"[:blank:]", "[:blank:]"}, {"[:cntrl:]", "[:cntrl:]"},
        {"[:xdigit:]", "[:xdigit:]"}, {"[:word:]", ""}};
    size_t size = (size_t)(end - s->at), i = 0, n = sizeof kinds / sizeof *kinds;
    while (i < n && (strlen(kinds[i][0]) != size || memcmp(kinds[i][0], s->at, size))) i++;
    if (i == n) return refuse("[:graph:], [:print:] or a negated kind ([:^alpha:])");
    gale__str_add(s->out, kinds[i][1]);
    if (i + 1 == n) add_kind(s->out, GALE__U_WORD, true);
    s->at = end;
    return GALE_OK;
}

/* What a class contains, up to its end; a class inside it adds to it. */
static gale_status take_members(source *s, int depth)
{
    const char *begin = s->at;
    while (s->at < s->end && *s->at != ']') {
        size_t left = (size_t)(s->end - s->at);
        const char *close =
            left > 2 && s->at[0] == '[' && s->at[1] == ':' ? memmem(s->at + 2, left - 2, ":]", 2) : NULL;
        if (*s->at == '\\') {
            GALE_TRY(take_escape(s, true));
        } else if (close) {
            GALE_TRY(take_bracket(s, close + 2));
        } else if (*s->at == '[') {
            bool plain = depth < NESTED && left > 1 && s->at[1] != '^' && (s->at == begin || s->at[-1] != '-');
            if (!plain) return refuse("a negated class inside a class, or one next to a hyphen,");
            s->at++;
            GALE_TRY(take_members(s, depth + 1));
            if (s->at == s->end) return gale__fail(GALE_FORMAT, "a class of a regular expression does not end");
            if (++s->at < s->end && *s->at == '-') return refuse("a hyphen behind a class inside a class");
        } else if (left > 1 && s->at[0] == '&' && s->at[1] == '&') {
            return refuse("an intersection of classes (&&)");
        } else {
            bool edge = depth && *s->at == '-' && (s->at == begin || (left > 1 && s->at[1] == ']'));
            if (edge) gale__str_add(s->out, "\\");
            gale__str_add_n(s->out, s->at++, 1);
        }
    }
    return GALE_OK;
}

static gale_status take_class(source *s)
{
    gale__str_add_n(s->out, s->at++, 1);
    if (s->at < s->end && *s->at == '^') gale__str_add_n(s->out, s->at++, 1);
    if (s->at < s->end && *s->at == ']') gale__str_add(s->out, "\\]"), s->at++;
    return take_members(s, 0);
}

/* (?m) lets a dot match a line feed here, as (?s) does in Perl. */
static void take_options(source *s)
{
    gale__str_add_n(s->out, s->at, 2);
    s->at += 2;
    for (; s->at < s->end && strchr("imx-", *s->at) && *s->at; s->at++)
        gale__str_add_n(s->out, *s->at == 'm' ? "s" : s->at, 1);
}

gale_status gale__pattern_to_perl(const char *text, size_t size, gale__str *out)
{
    source s = {text, text + size, out};
    while (s.at < s.end) {
        if (*s.at == '\\') GALE_TRY(take_escape(&s, false));
        else if (*s.at == '[') GALE_TRY(take_class(&s));
        else if (s.end - s.at > 2 && s.at[0] == '(' && s.at[1] == '?') take_options(&s);
        else gale__str_add_n(out, s.at++, 1);
    }
    return gale__str_check(out);
}
#endif
