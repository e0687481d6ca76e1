/* Packs texts into rows that several of them share, so that little is padding and nearly all batches have one shape.
 * A row takes the longest text that is left, then the longest that fits beside it, and so on.  Rows have SHORT tokens
 * where all their texts fit: enough for few gaps, and few enough that attention, which runs over whole rows, stays
 * cheap.  Longer texts get rows of a power of two, if shorter ones fill the gaps, else rows of their own length.
 * (A million sentences of 18 tokens on average: 1.2 % padding.) */
#include "jobs/embed/embedder.h"
#include <string.h>

/* WAITS: how often a text may be left over, fewer times than there are windows in flight; those that need long rows are
 * rare, so theirs take longer to fill. */
enum {
    SHORT = GALE__PACK_LENGTH,
    EACH_LEAST = GALE__PACK_EACH_LEAST,
    EACH_MOST = 32,
    PARTS = 4,
    WAITS = 1,
    WAITS_LONG = 2
};

typedef struct packing {
    const gale__row *sorted;
    gale__row *out, *to;    /* texts row by row; then batch by batch */
    uint32_t *ends, *owner; /* of rows: in `out`; the batch */
    size_t used, rows;
    size_t *left, *next, *below; /* by size: texts left; the first of them; a shorter one, and none is left between */
    size_t longest, length_most;
    size_t tokens; /* of a batch */
    gale__batch *batches;
    size_t n_batches;
    gale__row *aside; /* texts in no batch */
    size_t n_aside, aside_most;
} packing;

/* A text without tokens takes a place too. */
static size_t size_of(const gale__row *row) { return row->count ? row->count : 1; }
static size_t round_up(size_t n, size_t step) { return (n + step - 1) / step * step; }

bool gale__slot_next(gale__slot *s, const gale__row *row, const gale__batch *b)
{
    bool fits = s->texts && s->texts < b->each && s->end + size_of(row) <= b->length;
    s->number += !fits && s->texts;
    s->texts = fits ? s->texts + 1 : 1;
    s->at = fits ? s->end : 0;
    s->end = s->at + size_of(row);
    return s->number < b->slots;
}

/* The longest size up to n of which a text is left; 0: none. */
static size_t find_size(packing *p, size_t n)
{
    size_t found, above;
    if (n > p->longest) n = p->longest;
    found = n;
    while (found && !p->left[found]) found = p->below[found];
    for (; n > found; n = above) {
        above = p->below[n];
        p->below[n] = found;
    }
    return found;
}

static void fill_row(packing *p, size_t length)
{
    size_t room = length, texts = 0, size;
    while (texts < EACH_MOST && (size = find_size(p, room))) {
        p->out[p->used++] = p->sorted[p->next[size]++];
        p->left[size]--;
        room -= size;
        texts++;
    }
    p->ends[p->rows++] = (uint32_t)p->used;
}

/* Rows of the last, smaller batch: few shapes, and few rows of padding. */
static size_t slots_for(size_t rest, size_t most)
{
    size_t part = most / PARTS ? most / PARTS : 1, slots = 1;
    while (slots < rest) slots *= 2;
    return rest < part ? slots : round_up(rest, part) < most ? round_up(rest, part) : most;
}

static size_t first_of(const packing *p, size_t row) { return row ? p->ends[row - 1] : 0; }

static bool may_wait(const packing *p, size_t row, uint32_t most)
{
    size_t i = first_of(p, row);
    while (i < p->ends[row] && p->out[i].waited < most) i++;
    return i == p->ends[row];
}

/* Chooses the rows that are carried over because they would not fill a batch: the last row, which may not be full, and
 * others spread over all rows, so that short texts do not accumulate.  A few more are chosen at first, since some may
 * not wait any longer. */
static void set_aside(packing *p, size_t begin, size_t rows, uint32_t waits)
{
    size_t found = 0, texts = 0, first = first_of(p, begin), kept = begin, all = p->rows - begin;
    p->used = first;
    for (size_t r = p->rows; r-- > begin;) {
        size_t due = (p->rows - r) * rows / all + rows / 8 + 1;
        bool chosen = found < rows && found < due && may_wait(p, r, waits);
        found += chosen;
        texts += chosen ? p->ends[r] - first_of(p, r) : 0;
        p->owner[r] = chosen;
    }
    bool fits = found == rows && p->n_aside + texts <= p->aside_most;
    for (size_t r = begin, end; r < p->rows; r++, first = end) {
        end = p->ends[r];
        bool chosen = fits && p->owner[r];
        memmove(chosen ? p->aside + p->n_aside : p->out + p->used, p->out + first, (end - first) * sizeof *p->out);
        *(chosen ? &p->n_aside : &p->used) += end - first;
        if (!chosen) p->ends[kept++] = (uint32_t)p->used;
    }
    p->rows = kept;
}

/* Rows from `begin` on become batches that are alike: each takes one row in so many.  A batch keeps the order of rows:
 * then gale__slot_next finds where each of them ends, since nothing that came later fitted. */
static void cut(packing *p, size_t begin, gale__batch like)
{
    size_t rows = p->rows - begin, full = rows / like.slots, rest = rows % like.slots, turn = 0;
    size_t at = first_of(p, begin);
    gale__batch *made = p->batches + p->n_batches;
    p->n_batches += full + (rest > 0);
    for (size_t i = 0; i < full + (rest > 0); i++) {
        made[i] = like;
        if (i == full) made[i].slots = slots_for(rest, like.slots);
    }
    for (size_t r = 0; r < rows; r++) {
        bool last = r * rest / rows != (r + 1) * rest / rows;
        p->owner[r] = (uint32_t)(last ? full : turn++ % full);
        made[p->owner[r]].count += p->ends[begin + r] - first_of(p, begin + r);
    }
    for (gale__batch *b = made; b < p->batches + p->n_batches; b++) {
        for (b->texts = 4 * b->slots; b->texts < b->count;) b->texts *= 2;
        b->first = at;
        at += b->count;
        b->count = 0;
    }
    for (size_t r = 0; r < rows; r++) {
        gale__batch *b = &made[p->owner[r]];
        size_t first = first_of(p, begin + r), count = p->ends[begin + r] - first;
        memcpy(p->to + b->first + b->count, p->out + first, count * sizeof *p->out);
        b->count += count;
    }
}

/* Whether texts of up to half a row fill what longer ones leave of rows of this length. */
static bool is_filled(const packing *p, size_t length)
{
    size_t gaps = 0, filling = 0;
    for (size_t n = 1; n <= length && n <= p->longest; n++) {
        if (2 * n > length) gaps += p->left[n] * (length - n);
        else filling += p->left[n] * n;
    }
    return filling > 2 * gaps;
}

/* Rows of one length: of all texts that are left, of those that fill more than half of a row, or of one batch. */
static void make_section(packing *p, size_t longest)
{
    size_t length = SHORT, begin = p->rows, each = EACH_LEAST;
    while (length < longest) length *= 2;
    bool all = length == SHORT, many = all || is_filled(p, length);
    if (!many) length = gale__length_class(longest, false, 0);
    if (length > p->length_most) length = p->length_most;
    if (length < longest) length = longest;
    size_t slots = p->tokens / length ? p->tokens / length : 1, least = all ? 0 : length / 2;
    while (find_size(p, length) > least && (many || p->rows - begin < slots)) fill_row(p, length);
    if (many && p->aside) set_aside(p, begin, (p->rows - begin) % slots, all ? WAITS : WAITS_LONG);
    for (size_t r = begin; r < p->rows; r++)
        while (each < p->ends[r] - first_of(p, r)) each *= 2;
    cut(p, begin, (gale__batch){.slots = slots, .length = length, .each = each});
}

static void pack(packing *p, const gale__row *sorted, size_t count)
{
    size_t longest;
    for (size_t i = 0; i < count; i++)
        if (!p->left[size_of(&sorted[i])]++) p->next[size_of(&sorted[i])] = i;
    for (size_t n = 1; n <= p->longest; n++) p->below[n] = n - 1;
    while ((longest = find_size(p, p->longest))) make_section(p, longest);
}

gale_status gale__pack(gale__row *rows, size_t count, size_t tokens, size_t length_most, gale__batch *batches,
    size_t *n_batches, size_t *left)
{
    packing p = {.to = rows, .tokens = tokens, .length_most = length_most, .batches = batches};
    p.aside_most = left ? *left : 0;
    *n_batches = 0;
    if (left) *left = 0;
    if (!count) return GALE_OK;
    p.longest = size_of(&rows[0]);
    gale__row *sorted = gale__alloc(count * sizeof *sorted);
    size_t *sizes = gale__calloc(3 * (p.longest + 1), sizeof *sizes);
    uint32_t *ends = gale__alloc(2 * count * sizeof *ends);
    p.out = gale__alloc(count * sizeof *p.out);
    p.aside = p.aside_most ? gale__alloc(p.aside_most * sizeof *p.aside) : NULL;
    bool made = sorted && sizes && ends && p.out && (p.aside || !p.aside_most);
    gale_status status = made ? GALE_OK : GALE_NO_MEMORY;
    if (status == GALE_OK) {
        memcpy(sorted, rows, count * sizeof *sorted);
        p.sorted = sorted;
        p.left = sizes, p.next = sizes + p.longest + 1, p.below = p.next + p.longest + 1;
        p.ends = ends, p.owner = ends + count;
        pack(&p, sorted, count);
        *n_batches = p.n_batches;
        if (left) *left = p.n_aside;
        if (p.n_aside) memcpy(rows + p.used, p.aside, p.n_aside * sizeof *p.aside);
    }
    gale__free(p.aside);
    gale__free(sorted);
    gale__free(sizes);
    gale__free(ends);
    gale__free(p.out);
    return status;
}
