/* Palettes: exactly the colours of the picture if they are few enough, else a median cut of a histogram with five bits
 * a colour, and errors passed on to neighbours (Floyd and Steinberg).  By hand, since giflib has moved its own
 * function, which does not diffuse errors, out of the library, and libimagequant's licence (GPL or commercial) does not
 * fit. */
#include "media/animation.h"
#include "base/hash_table.h"
#include <stdlib.h>
#include <string.h>

enum { COLOURS_MOST = 255, BINS = 1 << 15 };

/* The number of a colour in the palette, added where it is new; -1: there are too many. */
static int exact_find(gale__hash_table *table, gale__gif_colours *out, const uint8_t *c)
{
    uint64_t hash = ((uint64_t)c[0] | (uint64_t)c[1] << 8 | (uint64_t)c[2] << 16) * 0x9e3779b97f4a7c15u;
    gale__hash_table_probe probe = gale__hash_table_look(hash);
    for (int64_t i; (i = gale__hash_table_next(table, &probe)) >= 0;)
        if (!memcmp(out->palette[i], c, 3)) return (int)i;
    if (out->count == COLOURS_MOST || gale__hash_table_add(table, hash, (uint32_t)out->count) != GALE_OK) return -1;
    memcpy(out->palette[out->count], c, 3);
    return out->count++;
}

static bool is_clear(const gale_picture *p, const uint8_t *pixel) { return p->channels == 4 && pixel[3] < 128; }

static gale_status take_exact(const gale_picture *p, gale__gif_colours *out, bool *fits)
{
    size_t n = (size_t)p->width * (size_t)p->height;
    gale__hash_table table = {0};
    GALE_TRY(gale__hash_table_reserve(&table, COLOURS_MOST));
    *fits = true;
    for (size_t i = 0; i < n && *fits; i++) {
        const uint8_t *pixel = (const uint8_t *)p->data + i * (size_t)p->channels;
        int index = is_clear(p, pixel) ? COLOURS_MOST : exact_find(&table, out, pixel);
        *fits = index >= 0;
        out->indices[i] = (uint8_t)index;
    }
    gale__hash_table_finish(&table);
    return GALE_OK;
}

typedef struct box {
    int low[3], high[3]; /* bins, both inside */
    uint64_t weight;
} box;

typedef struct cut {
    uint32_t counts[BINS];
    int16_t nearest[BINS]; /* palette index; -1: not looked for yet */
    box boxes[COLOURS_MOST];
    int count;
} cut;

static int bin_of(int r, int g, int b) { return r << 10 | g << 5 | b; }

/* Shrinks the box to what is in it, and weighs it. */
static void tighten(const cut *k, box *b)
{
    box t = {{31, 31, 31}, {0, 0, 0}, 0};
    for (int r = b->low[0]; r <= b->high[0]; r++)
        for (int g = b->low[1]; g <= b->high[1]; g++)
            for (int u = b->low[2]; u <= b->high[2]; u++) {
                uint32_t n = k->counts[bin_of(r, g, u)];
                int at[3] = {r, g, u};
                for (int c = 0; c < 3 && n; c++) {
                    if (at[c] < t.low[c]) t.low[c] = at[c];
                    if (at[c] > t.high[c]) t.high[c] = at[c];
                }
                t.weight += n;
            }
    *b = t;
}

static int longest(const box *b, int *length)
{
    int axis = 0;
    for (int c = 1; c < 3; c++)
        if (b->high[c] - b->low[c] > b->high[axis] - b->low[axis]) axis = c;
    *length = b->high[axis] - b->low[axis];
    return axis;
}

static uint64_t slice_weight(const cut *k, const box *b, int axis, int at)
{
    box s = *b;
    s.low[axis] = s.high[axis] = at;
    tighten(k, &s);
    return s.weight;
}

/* Cuts the box where half of its pixels are on either side; false: it is a single bin. */
static bool divide(cut *k, int index)
{
    box *b = &k->boxes[index];
    int length, axis = longest(b, &length), at = b->low[axis];
    if (!length) return false;
    uint64_t sum = slice_weight(k, b, axis, at);
    while (at + 1 < b->high[axis] && sum * 2 < b->weight) sum += slice_weight(k, b, axis, ++at);
    k->boxes[k->count] = *b;
    k->boxes[k->count].low[axis] = at + 1;
    b->high[axis] = at;
    tighten(k, b);
    tighten(k, &k->boxes[k->count++]);
    return true;
}

/* The box to cut next: large and full.  -1: none can be cut. */
static int choose(const cut *k)
{
    int best = -1, length;
    uint64_t most = 0;
    for (int i = 0; i < k->count; i++) {
        longest(&k->boxes[i], &length);
        uint64_t score = k->boxes[i].weight * (uint64_t)(length * length);
        if (score > most) most = score, best = i;
    }
    return best;
}

static void make_palette(cut *k, const gale_picture *p, gale__gif_colours *out)
{
    uint64_t sums[COLOURS_MOST][4] = {{0}};
    k->boxes[0] = (box){{0, 0, 0}, {31, 31, 31}, 0};
    k->count = 1;
    tighten(k, &k->boxes[0]);
    for (int next; k->count < COLOURS_MOST && (next = choose(k)) >= 0;)
        if (!divide(k, next)) break;
    for (int i = 0; i < k->count; i++)
        for (int r = k->boxes[i].low[0]; r <= k->boxes[i].high[0]; r++)
            for (int g = k->boxes[i].low[1]; g <= k->boxes[i].high[1]; g++)
                for (int b = k->boxes[i].low[2]; b <= k->boxes[i].high[2]; b++)
                    k->nearest[bin_of(r, g, b)] = (int16_t)i;
    for (size_t i = 0, n = (size_t)p->width * (size_t)p->height; i < n; i++) {
        const uint8_t *c = (const uint8_t *)p->data + i * (size_t)p->channels;
        if (is_clear(p, c)) continue;
        uint64_t *s = sums[k->nearest[bin_of(c[0] >> 3, c[1] >> 3, c[2] >> 3)]];
        for (int j = 0; j < 3; j++) s[j] += c[j];
        s[3]++;
    }
    for (int i = 0; i < k->count; i++)
        for (int c = 0; c < 3; c++)
            out->palette[i][c] = (uint8_t)(sums[i][3] ? (sums[i][c] + sums[i][3] / 2) / sums[i][3] : 0);
    out->count = k->count;
    for (int i = 0; i < BINS; i++) k->nearest[i] = -1;
}

static int nearest(cut *k, const gale__gif_colours *out, const int v[3])
{
    int bin = bin_of(v[0] >> 3, v[1] >> 3, v[2] >> 3), best = 0, least = INT32_MAX;
    if (k->nearest[bin] >= 0) return k->nearest[bin];
    for (int i = 0; i < out->count; i++) {
        int sum = 0;
        for (int c = 0; c < 3; c++) {
            int d = (v[c] & ~7) + 4 - out->palette[i][c];
            sum += d * d * (c == 1 ? 2 : 1); /* eyes see green best */
        }
        if (sum < least) least = sum, best = i;
    }
    return k->nearest[bin] = (int16_t)best;
}

/* errors: two rows of three sums in sixteenths, with a pixel of room on either side. */
static void diffuse_row(cut *k, const gale_picture *p, gale__gif_colours *out, int64_t y, int *now, int *below)
{
    for (int64_t x = 0; x < p->width; x++) {
        const uint8_t *c = (const uint8_t *)gale__picture_row(p, y) + x * p->channels;
        uint8_t *to = &out->indices[y * p->width + x];
        int v[3], *e = now + 3 * (x + 1), *f = below + 3 * (x + 1);
        *to = COLOURS_MOST;
        if (is_clear(p, c)) continue;
        for (int j = 0; j < 3; j++) {
            v[j] = c[j] + e[j] / 16;
            v[j] = v[j] < 0 ? 0 : v[j] > 255 ? 255 : v[j];
        }
        *to = (uint8_t)nearest(k, out, v);
        for (int j = 0; j < 3; j++) {
            int d = v[j] - out->palette[*to][j];
            e[3 + j] += 7 * d;
            f[j - 3] += 3 * d;
            f[j] += 5 * d;
            f[3 + j] += d;
        }
    }
}

static gale_status take_near(const gale_picture *p, gale__gif_colours *out)
{
    size_t row = 3 * ((size_t)p->width + 2);
    cut *k = gale__calloc(1, sizeof *k);
    int *errors = gale__calloc(2 * row, sizeof *errors);
    gale_status status = k && errors ? GALE_OK : GALE_NO_MEMORY;
    for (size_t i = 0, n = (size_t)p->width * (size_t)p->height; i < n && status == GALE_OK; i++) {
        const uint8_t *c = (const uint8_t *)p->data + i * (size_t)p->channels;
        k->counts[bin_of(c[0] >> 3, c[1] >> 3, c[2] >> 3)] += !is_clear(p, c);
    }
    if (status == GALE_OK) make_palette(k, p, out);
    for (int64_t y = 0; y < p->height && status == GALE_OK; y++) {
        int *now = errors + (y % 2 ? row : 0), *below = errors + (y % 2 ? 0 : row);
        memset(below, 0, row * sizeof *below);
        diffuse_row(k, p, out, y, now, below);
    }
    gale__free(errors);
    gale__free(k);
    return status;
}

gale_status gale__gif_quantise(const gale_picture *p, gale__gif_colours *out)
{
    size_t n = (size_t)p->width * (size_t)p->height;
    bool fits = false;
    gale__gif_colours made = {.transparent = -1, .indices = gale__alloc(n)};
    if (!made.indices) return GALE_NO_MEMORY;
    gale_status status = take_exact(p, &made, &fits);
    if (status == GALE_OK && !fits) {
        made.count = 0;
        status = take_near(p, &made);
    }
    if (status != GALE_OK) {
        gale__free(made.indices);
        return status;
    }
    for (size_t i = 0; i < n && made.transparent < 0; i++)
        if (made.indices[i] == COLOURS_MOST) made.transparent = COLOURS_MOST;
    *out = made;
    return GALE_OK;
}
