/* Runs decoders: each turns a list of strings into another one. */
#include "text/decoder.h"

void gale__text_list_clear(gale__text_list *l)
{
    l->pool.length = l->count = 0;
    l->pool.failed = false;
}

void gale__text_list_finish(gale__text_list *l)
{
    gale__str_finish(&l->pool);
    gale__free(l->ends);
    *l = (gale__text_list){0};
}

gale_status gale__text_list_end(gale__text_list *l)
{
    GALE_TRY(gale__str_check(&l->pool));
    GALE_TRY(gale__grow((void **)&l->ends, &l->capacity, l->count + 1, sizeof *l->ends));
    l->ends[l->count++] = l->pool.length;
    return GALE_OK;
}

const char *gale__text_list_get(const gale__text_list *l, size_t i, size_t *size)
{
    size_t begin = i ? l->ends[i - 1] : 0;
    *size = l->ends[i] - begin;
    return gale__str_text(&l->pool) + begin;
}

void gale__decode_state_finish(gale__decode_state *s)
{
    gale__text_list_finish(&s->a);
    gale__text_list_finish(&s->b);
    gale__str_finish(&s->first);
    gale__str_finish(&s->second);
}

static void clear(gale__str *s)
{
    s->length = 0;
    s->failed = false;
    if (s->text) s->text[0] = 0;
}

static void add_replaced(gale__str *out, const char *text, size_t size, const char *from, const char *to)
{
    size_t n = strlen(from);
    for (const char *at = text, *end = text + size;;) {
        const char *found = n ? memmem(at, (size_t)(end - at), from, n) : NULL;
        gale__str_add_n(out, at, (size_t)((found ? found : end) - at));
        if (!found) return;
        gale__str_add(out, to);
        at = found + n;
    }
}

/* English punctuation without the spaces in front of it. */
static void add_clean(gale__decode_state *s, gale__str *out, const char *text, size_t size)
{
    static const char *const pairs[][2] = {{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"},
        {" n't", "n't"}, {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    gale__str *now = &s->first, *next = &s->second;
    clear(now);
    gale__str_add_n(now, text, size);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        gale__str *swapped = now;
        clear(next);
        add_replaced(next, gale__str_text(now), now->length, pairs[i][0], pairs[i][1]);
        now = next;
        next = swapped;
    }
    if (now->failed) out->failed = true;
    gale__str_add_n(out, gale__str_text(now), now->length);
}

static void decode_wordpiece(const gale__decoder *d, gale__decode_state *s, size_t i, const char *text, size_t size)
{
    size_t prefix = strlen(d->text), from = s->b.pool.length;
    bool inner = i && size >= prefix && !memcmp(text, d->text, prefix);
    if (i && !inner) gale__str_add(&s->b.pool, " ");
    gale__str_add_n(&s->b.pool, text + (inner ? prefix : 0), size - (inner ? prefix : 0));
    if (!d->cleanup || s->b.pool.failed) return;
    gale__str dirty = {0};
    gale__str_add_n(&dirty, s->b.pool.text + from, s->b.pool.length - from);
    s->b.pool.length = from;
    if (dirty.failed) s->b.pool.failed = true;
    else add_clean(s, &s->b.pool, gale__str_text(&dirty), dirty.length);
    gale__str_finish(&dirty);
}

static void decode_metaspace(const gale__decoder *d, gale__str *out, size_t i, const char *text, size_t size)
{
    for (size_t k = 0, n; k < size; k += n) {
        bool mark = gale__utf8_at(text + k, &n) == d->character;
        if (!mark) gale__str_add_n(out, text + k, n);
        else if (i || !d->prepends) gale__str_add(out, " ");
    }
}

static void decode_strip(const gale__decoder *d, gale__str *out, const char *text, size_t size)
{
    size_t begin = 0, end = size, n;
    for (uint32_t k = 0; k < d->start && begin < end && gale__utf8_at(text + begin, &n) == d->character; k++)
        begin += n;
    for (uint32_t k = 0; k < d->stop && end > begin; k++) {
        const char *last = gale__utf8_back(text + end);
        if (gale__utf8_at(last, &n) != d->character) break;
        end = (size_t)(last - text);
    }
    gale__str_add_n(out, text + begin, end - begin);
}

static gale_status decode_replace(
    const gale__decoder *d, gale__split_pattern_state *patterns, gale__str *out, const char *text, size_t size)
{
    gale__split_pattern_walk walk = {0};
    size_t last = 0;
    for (bool found;;) {
        GALE_TRY(gale__split_pattern_next(d->pattern, patterns, text, size, &walk, &found));
        if (!found) break;
        gale__str_add_n(out, text + last, walk.begin - last);
        gale__str_add(out, d->text);
        last = walk.end;
    }
    gale__str_add_n(out, text + last, size - last);
    return GALE_OK;
}

/* One text after the other. */
static gale_status decode_each(const gale__decoder *d, gale__decode_state *s, gale__split_pattern_state *patterns)
{
    for (size_t i = 0, size; i < s->a.count; i++) {
        const char *text = gale__text_list_get(&s->a, i, &size);
        gale__str *out = &s->b.pool;
        if (d->kind == GALE__DECODE_BPE) add_replaced(out, text, size, d->text, i + 1 == s->a.count ? "" : " ");
        else if (d->kind == GALE__DECODE_WORDPIECE) decode_wordpiece(d, s, i, text, size);
        else if (d->kind == GALE__DECODE_METASPACE) decode_metaspace(d, out, i, text, size);
        else if (d->kind == GALE__DECODE_STRIP) decode_strip(d, out, text, size);
        else if (d->kind == GALE__DECODE_REPLACE) GALE_TRY(decode_replace(d, patterns, out, text, size));
        else gale__str_add_n(out, text, size);
        if (d->kind != GALE__DECODE_FUSE || i + 1 == s->a.count) GALE_TRY(gale__text_list_end(&s->b));
    }
    return GALE_OK;
}

static bool same(const gale__text_list *l, size_t i, size_t k)
{
    size_t a, b;
    const char *x = gale__text_list_get(l, i, &a), *y = gale__text_list_get(l, k, &b);
    return a == b && !memcmp(x, y, a);
}

static gale_status decode_ctc(const gale__decoder *d, gale__decode_state *s)
{
    gale__str kept = {0};
    gale_status status = GALE_OK;
    for (size_t i = 0, size; i < s->a.count && status == GALE_OK; i++) {
        const char *text = gale__text_list_get(&s->a, i, &size);
        size_t before = s->b.pool.length;
        if (i && same(&s->a, i - 1, i)) continue;
        clear(&kept);
        add_replaced(&kept, text, size, d->text, "");
        if (d->cleanup) {
            gale__str cleaned = {0};
            add_clean(s, &cleaned, gale__str_text(&kept), kept.length);
            add_replaced(&s->b.pool, gale__str_text(&cleaned), cleaned.length, d->more, " ");
            if (cleaned.failed) s->b.pool.failed = true;
            gale__str_finish(&cleaned);
        } else {
            gale__str_add_n(&s->b.pool, gale__str_text(&kept), kept.length);
        }
        if (kept.failed) s->b.pool.failed = true;
        if (s->b.pool.length > before || s->b.pool.failed) status = gale__text_list_end(&s->b);
    }
    gale__str_finish(&kept);
    return status;
}

static void add_repaired(gale__str *out, const char *text, size_t size)
{
    if (gale__utf8_valid_length(text, size) == size) {
        gale__str_add_n(out, text, size);
        return;
    }
    char *fixed = size < SIZE_MAX / 3 ? gale__alloc(3 * size) : NULL;
    if (fixed) gale__str_add_n(out, fixed, gale__utf8_repair(text, size, fixed));
    else out->failed = true;
    gale__free(fixed);
}

/* Characters stand for bytes; a token with others in it is taken as it is. */
static gale_status decode_bytes(gale__decode_state *s)
{
    gale__str *bytes = &s->first;
    clear(bytes);
    for (size_t i = 0, size; i < s->a.count; i++) {
        const char *text = gale__text_list_get(&s->a, i, &size);
        size_t before = bytes->length, k = 0, n;
        for (; k < size; k += n) {
            int byte = gale__character_byte(gale__utf8_at(text + k, &n));
            char one = (char)byte;
            if (byte < 0) break;
            gale__str_add_n(bytes, &one, 1);
        }
        if (k == size || bytes->failed) continue;
        bytes->length = before;
        gale__str_add_n(bytes, text, size);
    }
    if (bytes->failed) return GALE_NO_MEMORY;
    add_repaired(&s->b.pool, gale__str_text(bytes), bytes->length);
    return gale__text_list_end(&s->b);
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* The byte of a token such as <0x0A>; -1: it is none. */
static int fallback_byte(const char *text, size_t size)
{
    if (size != 6 || memcmp(text, "<0x", 3) || text[5] != '>') return -1;
    int high = hex(text[3]), low = hex(text[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

static gale_status end_bytes(gale__decode_state *s)
{
    gale__str *bytes = &s->first;
    size_t n = bytes->length;
    if (bytes->failed) return GALE_NO_MEMORY;
    if (!n) return GALE_OK;
    bool text = gale__utf8_valid_length(bytes->text, n) == n;
    for (size_t i = 0; i < (text ? 1 : n); i++) {
        if (text) gale__str_add_n(&s->b.pool, bytes->text, n);
        else gale__str_add(&s->b.pool, "\xef\xbf\xbd");
        GALE_TRY(gale__text_list_end(&s->b));
    }
    clear(bytes);
    return GALE_OK;
}

static gale_status decode_fallback(gale__decode_state *s)
{
    clear(&s->first);
    for (size_t i = 0, size; i < s->a.count; i++) {
        const char *text = gale__text_list_get(&s->a, i, &size);
        int byte = fallback_byte(text, size);
        char one = (char)byte;
        if (byte >= 0) {
            gale__str_add_n(&s->first, &one, 1);
            continue;
        }
        GALE_TRY(end_bytes(s));
        gale__str_add_n(&s->b.pool, text, size);
        GALE_TRY(gale__text_list_end(&s->b));
    }
    return end_bytes(s);
}

static gale_status run(const gale__decoder *d, gale__decode_state *s, gale__split_pattern_state *patterns)
{
    gale__text_list_clear(&s->b);
    if (d->kind == GALE__DECODE_BYTES) GALE_TRY(decode_bytes(s));
    else if (d->kind == GALE__DECODE_CTC) GALE_TRY(decode_ctc(d, s));
    else if (d->kind == GALE__DECODE_BYTE_FALLBACK) GALE_TRY(decode_fallback(s));
    else GALE_TRY(decode_each(d, s, patterns));
    gale__text_list swapped = s->a;
    s->a = s->b;
    s->b = swapped;
    return GALE_OK;
}

gale_status gale__decode(
    const gale__decoders *d, gale__decode_state *s, gale__split_pattern_state *patterns, gale__str *out)
{
    for (size_t i = 0; i < d->count; i++) GALE_TRY(run(d->items + i, s, patterns));
    for (size_t i = 0, size; i < s->a.count; i++) {
        const char *text = gale__text_list_get(&s->a, i, &size);
        if (i && d->none) gale__str_add(out, " ");
        gale__str_add_n(out, text, size);
    }
    return gale__str_check(out);
}
