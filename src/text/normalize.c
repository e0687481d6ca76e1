/* Runs normalizers.  Each reads one buffer and writes the other; one that has nothing to change leaves the text in
 * place, which is the usual case for plain English. */
#include "text/normalize.h"

gale_status gale__normalize_state_init(gale__normalize_state *s)
{
    return gale__split_pattern_state_init(&s->patterns);
}

void gale__normalize_state_finish(gale__normalize_state *s)
{
    gale__aligned_finish(&s->a);
    gale__aligned_finish(&s->b);
    gale__free(s->steps.items);
    gale__split_pattern_state_finish(&s->patterns);
    *s = (gale__normalize_state){0};
}

uint32_t gale__byte_character(uint8_t b)
{
    if ((b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae) return b;
    return b <= 0x20 ? 0x100u + b : b == 0xad ? 0x143 : 0x121u + b - 0x7f;
}

int gale__character_byte(uint32_t c)
{
    if (c < 0x100) return gale__byte_character((uint8_t)c) == c ? (int)c : -1;
    if (c <= 0x120) return (int)c - 0x100;
    return c <= 0x142 ? (int)c - 0x121 + 0x7f : c == 0x143 ? 0xad : -1;
}

void gale__byte_level_add(gale__aligned *out, const char *text, const gale__text_span *from, size_t size)
{
    if (!gale__aligned_reserve(out, 2 * size)) return;
    char *to = out->text + out->size;
    gale__text_span *spans = out->from + out->size;
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = (uint8_t)text[i];
        *spans++ = from[i];
        if (byte > 0x20 && byte < 0x7f) {
            *to++ = (char)byte;
        } else {
            *spans++ = from[i];
            to = gale__utf8_put(to, gale__byte_character(byte));
        }
    }
    out->size = (size_t)(to - out->text);
}

static bool is_ideograph(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
           (c >= 0x2a700 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) || (c >= 0xf900 && c <= 0xfaff) ||
           (c >= 0x2f800 && c <= 0x2fa1f);
}

static void clean(const gale__aligned *in, gale__aligned *out)
{
    for (size_t i = 0, n; i < in->size; i += n) {
        uint32_t c = gale__utf8_at(in->text + i, &n), bits = gale__unicode_bits(c);
        if (bits & GALE__U_OTHER || c == 0 || c == 0xfffd) continue;
        gale__aligned_put(out, bits & GALE__U_WHITE ? ' ' : c, in->from[i]);
    }
}

static void set_apart(const gale__aligned *in, gale__aligned *out)
{
    for (size_t i = 0, n; i < in->size; i += n) {
        uint32_t c = gale__utf8_at(in->text + i, &n);
        bool alone = c >= 0x3400 && is_ideograph(c);
        if (alone) gale__aligned_put(out, ' ', in->from[i]);
        gale__aligned_put(out, c, in->from[i]);
        if (alone) gale__aligned_put(out, ' ', in->from[i]);
    }
}

static void drop(const gale__aligned *in, uint32_t bits, gale__aligned *out)
{
    for (size_t i = 0, n; i < in->size; i += n) {
        uint32_t c = gale__utf8_at(in->text + i, &n);
        if (!(gale__unicode_bits(c) & bits)) gale__aligned_put(out, c, in->from[i]);
    }
}

static void lower(const gale__aligned *in, gale__aligned *out)
{
    for (size_t i = 0, n; i < in->size; i += n) {
        uint32_t c = gale__utf8_at(in->text + i, &n);
        gale__aligned_put(out, c == 0x130 ? 'i' : gale__unicode_lower(c), in->from[i]);
        if (c == 0x130) gale__aligned_put(out, 0x307, in->from[i]);
    }
}

static void lower_ascii(gale__aligned *text)
{
    for (size_t i = 0; i < text->size; i++)
        text->text[i] = (char)(text->text[i] + ((unsigned)(text->text[i] - 'A') < 26 ? 32 : 0));
}

static void nmt(const gale__aligned *in, gale__aligned *out)
{
    for (size_t i = 0, n; i < in->size; i += n) {
        uint32_t c = gale__utf8_at(in->text + i, &n);
        if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f) continue;
        bool space = c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
                     c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
        gale__aligned_put(out, space ? ' ' : c, in->from[i]);
    }
}

static bool is_white_at(const char *p)
{
    size_t n;
    return gale__unicode_bits(gale__utf8_at(p, &n)) & GALE__U_WHITE;
}

static void strip(const gale__normalizer *step, const gale__aligned *in, gale__aligned *out)
{
    size_t begin = 0, end = in->size;
    while (step->left && begin < end && is_white_at(in->text + begin)) begin += gale__utf8_size(in->text + begin);
    while (step->right && end > begin && is_white_at(gale__utf8_back(in->text + end)))
        end = (size_t)(gale__utf8_back(in->text + end) - in->text);
    gale__aligned_add_part(out, in, begin, end);
}

static void strip_space(const gale__aligned *in, gale__aligned *out)
{
    size_t begin = 0, end = in->size;
    while (begin < end && in->text[begin] == ' ') begin++;
    while (end > begin && in->text[end - 1] == ' ') end--;
    gale__aligned_add_part(out, in, begin, end);
}

static void squeeze(const gale__aligned *in, gale__aligned *out)
{
    for (size_t i = 0, n; i < in->size; i += n) {
        n = gale__utf8_size(in->text + i);
        if (in->text[i] != ' ' || i == 0 || in->text[i - 1] != ' ') gale__aligned_add_part(out, in, i, i + n);
    }
}

static void put_text(gale__aligned *out, const char *text, size_t size, gale__text_span from)
{
    for (size_t i = 0, n; i < size; i += n) gale__aligned_put(out, gale__utf8_at(text + i, &n), from);
}

static gale_status replace(
    const gale__normalizer *step, gale__normalize_state *s, const gale__aligned *in, gale__aligned *out)
{
    gale__split_pattern_walk walk = {0};
    size_t last = 0;
    for (bool found;;) {
        GALE_TRY(gale__split_pattern_next(step->pattern, &s->patterns, in->text, in->size, &walk, &found));
        if (!found) break;
        gale__text_span base = {in->base, in->base};
        gale__aligned_add_part(out, in, last, walk.begin);
        put_text(out, step->text, step->text_size, walk.end ? in->from[walk.end - 1] : base);
        last = walk.end;
    }
    gale__aligned_add_part(out, in, last, in->size);
    return GALE_OK;
}

static gale_status add_step(gale__normal_steps *s, uint32_t c, int32_t change)
{
    if (s->count == s->capacity) GALE_TRY(gale__grow((void **)&s->items, &s->capacity, s->count + 1, sizeof *s->items));
    s->items[s->count++] = (gale__normal_step){c, change, 0};
    return GALE_OK;
}

static size_t count_characters(const char *text, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < size; i++) n += (text[i] & 0xc0) != 0x80;
    return n;
}

/* Puts what stands for `taken` characters of the source: the first take their places, more are new; what is left over
 * is swallowed by the last character put, whichever that is (none at the front of a text, as in the reference). */
static gale_status add_replacement(gale__normal_steps *s, size_t taken, const char *text, size_t size)
{
    size_t count = 0;
    for (size_t i = 0, n; i < size; i += n, count++) {
        uint32_t c = gale__utf8_at(text + i, &n);
        GALE_TRY(add_step(s, c, count >= taken));
    }
    if (count < taken && s->count) s->items[s->count - 1].change -= (int32_t)(taken - count);
    return GALE_OK;
}

/* As the reference does it: by graphemes, of which a short one is replaced as a whole by what its shortest key stands
 * for; else character by character. */
static gale_status map_graphemes(const gale__charsmap *m, const gale__aligned *in, gale__normal_steps *s)
{
    size_t length, n;
    for (size_t i = 0, whole; i < in->size; i += whole) {
        const char *text = in->text + i;
        bool alone = !(text[0] & 0x80) && text[0] != '\r' && i + 1 < in->size && !(text[1] & 0x80);
        whole = alone ? 1 : gale__grapheme_length(text, in->size - i);
        const char *to = whole < 6 ? gale__charsmap_shortest(m, text, whole, &length) : NULL;
        if (to) {
            GALE_TRY(add_replacement(s, count_characters(text, whole), to, length));
            continue;
        }
        for (size_t k = 0; k < whole; k += n) {
            uint32_t c = gale__utf8_at(text + k, &n);
            to = gale__charsmap_shortest(m, text + k, n, &length);
            if (to) GALE_TRY(add_replacement(s, 1, to, length));
            else GALE_TRY(add_step(s, c, 0));
        }
    }
    return GALE_OK;
}

static gale_status map_longest(const gale__charsmap *m, const gale__aligned *in, gale__normal_steps *s)
{
    for (size_t i = 0, taken, length; i < in->size; i += taken) {
        const char *to = gale__charsmap_longest(m, in->text + i, in->size - i, &taken, &length);
        if (to) GALE_TRY(add_replacement(s, count_characters(in->text + i, taken), to, length));
        else GALE_TRY(add_step(s, gale__utf8_at(in->text + i, &taken), 0));
    }
    return GALE_OK;
}

static gale_status map(const gale__normalizer *step, gale__normal_steps *s, const gale__aligned *in, gale__aligned *out)
{
    gale__aligned_rewrite r = {in, out, 0};
    s->count = 0;
    if (step->whole) GALE_TRY(map_longest(&step->map, in, s));
    else GALE_TRY(map_graphemes(&step->map, in, s));
    for (size_t i = 0; i < s->count; i++) gale__aligned_rewrite_put(&r, s->items[i].c, s->items[i].change);
    return GALE_OK;
}

static gale_status run_step(
    const gale__normalizer *step, gale__normalize_state *s, const gale__aligned *in, gale__aligned *out)
{
    switch (step->kind) {
    case GALE__NORM_CLEAN: clean(in, out); break;
    case GALE__NORM_CHINESE: set_apart(in, out); break;
    case GALE__NORM_STRIP_MN: drop(in, GALE__U_MN, out); break;
    case GALE__NORM_STRIP_MARKS: drop(in, GALE__U_MARK, out); break;
    case GALE__NORM_LOWERCASE: lower(in, out); break;
    case GALE__NORM_FORM: GALE_TRY(gale__normal_form(in, step->form, &s->steps, out)); break;
    case GALE__NORM_NMT: nmt(in, out); break;
    case GALE__NORM_STRIP: strip(step, in, out); break;
    case GALE__NORM_REPLACE: GALE_TRY(replace(step, s, in, out)); break;
    case GALE__NORM_PREPEND:
        put_text(out, step->text, step->text_size, in->from[0]);
        gale__aligned_add_part(out, in, 0, in->size);
        break;
    case GALE__NORM_CHARSMAP: GALE_TRY(map(step, &s->steps, in, out)); break;
    case GALE__NORM_BYTES: gale__byte_level_add(out, in->text, in->from, in->size); break;
    case GALE__NORM_SQUEEZE: squeeze(in, out); break;
    case GALE__NORM_STRIP_SPACE: strip_space(in, out); break;
    }
    return out->failed ? GALE_NO_MEMORY : GALE_OK;
}

/* Steps that do nothing to plain ASCII. */
static bool is_idle(gale__normalizer_kind kind)
{
    return kind == GALE__NORM_FORM || kind == GALE__NORM_STRIP_MN || kind == GALE__NORM_STRIP_MARKS ||
           kind == GALE__NORM_CHINESE;
}

gale_status gale__normalize(const gale__normalizers *n, gale__normalize_state *s)
{
    for (size_t i = 0; i < n->count && s->a.size; i++) {
        bool easy = is_idle(n->items[i].kind) || n->items[i].kind == GALE__NORM_LOWERCASE;
        if (easy && gale__ascii_length(s->a.text, s->a.size) == s->a.size) {
            if (n->items[i].kind == GALE__NORM_LOWERCASE) lower_ascii(&s->a);
            continue;
        }
        gale__aligned_clear(&s->b, s->a.base);
        GALE_TRY(run_step(n->items + i, s, &s->a, &s->b));
        gale__aligned swapped = s->a;
        s->a = s->b;
        s->b = swapped;
    }
    return GALE_OK;
}
