/* Normal forms. utf8proc provides decompositions and compositions; the algorithm is here because it has to track which
 * characters each result comes from.  Characters that the reference library's older tables do not decompose are left
 * unchanged. */
#include "text/normal_form.h"
#include <stdlib.h>
#ifdef GALE_HAVE_UTF8PROC
#include <utf8proc.h>

gale_status gale__normal_form_check(const char *what)
{
    (void)what;
    return GALE_OK;
}

/* Decompositions of Unicode 12 and later. */
static bool is_left_whole(uint32_t c)
{
    return c == 0x32ff || c == 0x1f16c || (c >= 0xa7f1 && c <= 0xa7f4) || c == 0xab69 ||
           (c >= 0x10781 && c <= 0x107ba) || c == 0x11938 || (c >= 0x105c9 && c <= 0x105e4) ||
           (c >= 0x11383 && c <= 0x113c8) || (c >= 0x16121 && c <= 0x1612a) || (c >= 0x16d68 && c <= 0x16d6a) ||
           (c >= 0x1ccd6 && c <= 0x1ccf9) || (c >= 0x1e030 && c <= 0x1e06d) || (c >= 0x1fbf0 && c <= 0x1fbf9);
}

static uint32_t combining_class(uint32_t c)
{
    if (c < 0x300 || !(gale__unicode_bits(c) & GALE__U_MARK)) return 0;
    return (uint32_t)utf8proc_get_property((utf8proc_int32_t)c)->combining_class;
}

static uint32_t compose(uint32_t a, uint32_t b)
{
    if (b < 0x300 || b == 0x11a7) return 0; /* U+11A7 stands before the final consonants, and is none */
    utf8proc_int32_t pair[3] = {(utf8proc_int32_t)a, (utf8proc_int32_t)b, 0};
    bool one = utf8proc_normalize_utf32(pair, 2, UTF8PROC_STABLE | UTF8PROC_COMPOSE) == 1;
    return one && !is_left_whole((uint32_t)pair[0]) ? (uint32_t)pair[0] : 0;
}

static gale_status add_step(gale__normal_steps *s, uint32_t c, int32_t change)
{
    GALE_TRY(gale__grow((void **)&s->items, &s->capacity, s->count + 1, sizeof *s->items));
    s->items[s->count++] = (gale__normal_step){c, change, combining_class(c)};
    return GALE_OK;
}

static int by_class(const void *a, const void *b)
{
    const gale__normal_step *x = a, *y = b;
    return (x->order > y->order) - (x->order < y->order);
}

/* Marks in the order of their classes, those of one class as they stood.  Texts have a few in a row; hostile ones
 * thousands, so longer rows are sorted by class and place. */
static void sort_marks(gale__normal_step *s, size_t n)
{
    if (n < 2) return;
    if (n > 32) {
        for (size_t i = 0; i < n; i++) s[i].order = s[i].order << 24 | (uint32_t)(i < 0xffffff ? i : 0xffffff);
        qsort(s, n, sizeof *s, by_class);
        for (size_t i = 0; i < n; i++) s[i].order >>= 24;
        return;
    }
    for (size_t i = 1; i < n; i++) {
        gale__normal_step moved = s[i];
        size_t k = i;
        for (; k > 0 && s[k - 1].order > moved.order; k--) s[k] = s[k - 1];
        s[k] = moved;
    }
}

static gale_status decompose(const gale__aligned *in, bool compatible, gale__normal_steps *s)
{
    utf8proc_int32_t parts[32];
    size_t marks = 0; /* where the marks behind the last starter begin */
    s->count = 0;
    for (size_t i = 0, n; i < in->size; i += n) {
        uint32_t c = gale__utf8_at(in->text + i, &n);
        size_t before = s->count;
        int count = 0, bounds = 0;
        if (c >= 0xa0 && !is_left_whole(c))
            count = (int)utf8proc_decompose_char((utf8proc_int32_t)c, parts, 32,
                UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0), &bounds);
        if (count < 1 || count > 32) parts[0] = (utf8proc_int32_t)c, count = 1;
        for (int k = 0; k < count; k++) GALE_TRY(add_step(s, (uint32_t)parts[k], k > 0));
        for (size_t k = before; k < s->count; k++)
            if (s->items[k].order == 0) {
                sort_marks(s->items + marks, k - marks);
                marks = k + 1;
            }
    }
    sort_marks(s->items + marks, s->count - marks);
    return GALE_OK;
}

/* Puts together what can be, in place: a starter swallows marks that no other mark of their class or a higher one
 * stands before.  One that swallows an original character records it in its change. */
static void recompose(gale__normal_steps *s)
{
    gale__normal_step *items = s->items;
    size_t out = 0, starter = SIZE_MAX;
    for (size_t i = 0; i < s->count; i++) {
        gale__normal_step now = items[i];
        bool behind = starter != SIZE_MAX && out > starter + 1; /* marks stand between */
        bool blocked = behind && items[out - 1].order >= now.order;
        uint32_t one = starter != SIZE_MAX && !blocked ? compose(items[starter].c, now.c) : 0;
        if (one) {
            items[starter].c = one;
            items[starter].change += now.change - 1;
            continue;
        }
        if (now.order == 0) starter = out;
        items[out++] = now;
    }
    s->count = out;
}

gale_status gale__normal_form(
    const gale__aligned *in, gale__normal_form_kind form, gale__normal_steps *steps, gale__aligned *out)
{
    gale__aligned_rewrite r = {in, out, 0};
    GALE_TRY(decompose(in, form == GALE__NFKD || form == GALE__NFKC, steps));
    if (form == GALE__NFC || form == GALE__NFKC) recompose(steps);
    for (size_t i = 0; i < steps->count; i++) gale__aligned_rewrite_put(&r, steps->items[i].c, steps->items[i].change);
    return out->failed ? GALE_NO_MEMORY : GALE_OK;
}

size_t gale__grapheme_length(const char *text, size_t size)
{
    size_t n, at, state_size;
    utf8proc_int32_t state = 0, last = (utf8proc_int32_t)gale__utf8_at(text, &n);
    for (at = n; at < size; at += state_size) {
        utf8proc_int32_t next = (utf8proc_int32_t)gale__utf8_at(text + at, &state_size);
        if (utf8proc_grapheme_break_stateful(last, next, &state)) break;
        last = next;
    }
    return at;
}

#else
gale_status gale__normal_form_check(const char *what)
{
    return gale__fail(GALE_UNSUPPORTED,
        "%s needs utf8proc, which this build of gale does not include; install libutf8proc-dev and rebuild gale", what);
}

gale_status gale__normal_form(
    const gale__aligned *in, gale__normal_form_kind form, gale__normal_steps *steps, gale__aligned *out)
{
    (void)in, (void)form, (void)steps, (void)out;
    return gale__normal_form_check("a Unicode normal form");
}

size_t gale__grapheme_length(const char *text, size_t size)
{
    (void)size;
    return gale__utf8_size(text);
}
#endif
