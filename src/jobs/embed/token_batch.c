/* Batches of few shapes.  Every shape needs a plan and memory of its own, so lengths are rounded up to a list and rows
 * to halves of a full batch; padding costs time, so the list is fine where texts are short.  Texts of similar length
 * are grouped.  With a window of 131,072 texts of 18 tokens on average, 2 % of what runs is padding, in 50 shapes. */
#include "jobs/embed/embedder_inside.h"
#include <string.h>

/* Fixed cost of a run, as a share of the cost of a full one. */
enum { FIXED_PART = 32, TILE = 128 };

static size_t round_up(size_t n, size_t step) { return (n + step - 1) / step * step; }

/* The list: exact up to 32, then within a thirtieth.  A single text is served sooner by a shape that was seen before.
 */
size_t gale__length_class(size_t n, bool single, size_t most)
{
    size_t fine = n <= 32 ? 1 : n <= 64 ? 2 : n <= 128 ? 4 : n <= 256 ? 8 : 16;
    size_t length = round_up(n ? n : 1, single ? 4 * fine : fine);
    return most && length > most ? most : length;
}

/* Full batches have a number of tokens that the tiles of products divide, where that leaves out few rows. */
static size_t round_rows(size_t rows, size_t length)
{
    size_t step = TILE;
    for (size_t twos = length; twos % 2 == 0 && step > 8; twos /= 2) step /= 2;
    if (rows < 8 * step) step = 8;
    return rows > step ? rows - rows % step : rows;
}

static size_t count_tokens(const gale__row *rows, size_t count)
{
    size_t sum = 0;
    for (size_t i = 0; i < count; i++) sum += rows[i].count;
    return sum;
}

typedef struct gale__batch_shape shape;

/* The entry of a shape; NULL: there is none, and no room if one is to be added. */
static shape *find_shape(gale__batch_shapes *shapes, gale__batch b, bool add)
{
    int i = 0, most = shapes ? (int)(sizeof shapes->list / sizeof *shapes->list) : 0;
    while (i < most && i < shapes->n && (shapes->list[i].slots != b.slots || shapes->list[i].length != b.length)) i++;
    if (i == most || (i == shapes->n && !add)) return NULL;
    if (i == shapes->n) shapes->list[shapes->n++] = (shape){.slots = b.slots, .length = b.length};
    return &shapes->list[i];
}

typedef struct choice {
    gale__batch batch;
    double cost; /* tokens for each that is not padding */
    size_t real;
} choice;

/* A run of this shape from row b.first on, if it is cheaper. */
static void try_shape(const gale__row *sorted, size_t rows, size_t fixed, gale__batch b, choice *best)
{
    b.count = rows - b.first < b.slots ? rows - b.first : b.slots;
    size_t real = count_tokens(sorted + b.first, b.count);
    double cost = (double)(b.slots * b.length + fixed) / (double)(real + 1);
    if (!best->batch.count || cost < best->cost) *best = (choice){b, cost, real};
}

/* The cheapest of a full batch, half of one and so on, by the time for each token that is not padding: a full one may
 * reach into shorter texts, a smaller one need not.  A shape that runs have had already may be cheaper than these. */
void gale__batch_next(const gale__row *sorted, size_t rows, size_t first, size_t tokens, size_t rows_most,
    size_t length_most, gale__batch_shapes *shapes, gale__batch *out)
{
    choice best = {{.first = first}, 0, 0}, ideal = best; /* ideal: if shapes cost nothing */
    size_t fixed = tokens / FIXED_PART, price = shapes ? shapes->price : 0;
    *out = best.batch;
    if (first >= rows) return;
    size_t length = gale__length_class(sorted[first].count, rows == 1, length_most);
    if (length < sorted[first].count) length = sorted[first].count;
    size_t most = tokens / length ? tokens / length : 1;
    most = round_rows(most, length);
    if (rows_most && most > rows_most) most = rows_most;
    for (size_t slots = most; slots; slots /= 2) {
        gale__batch b = {first, 0, slots, length};
        const shape *s = find_shape(shapes, b, false);
        size_t paid = !s ? 0 : s->made || s->missed > price ? price : s->missed;
        try_shape(sorted, rows, fixed, b, &ideal);
        try_shape(sorted, rows, fixed + price - paid, b, &best);
    }
    for (int i = 0; shapes && i < shapes->n; i++) {
        const shape *s = &shapes->list[i];
        if (s->made && s->slots <= most && s->slots * s->length <= tokens && s->length > length)
            try_shape(sorted, rows, fixed, (gale__batch){first, 0, s->slots, s->length}, &best);
    }
    *out = best.batch;
    shape *wanted = find_shape(shapes, ideal.batch, true), *taken = find_shape(shapes, best.batch, true);
    double padded = (double)(out->slots * out->length + fixed), least = ideal.cost * (double)(best.real + 1);
    if (taken) taken->made = true;
    if (wanted && padded > least) wanted->missed += (size_t)(padded - least);
}

/* By length alone: a counting sort, since lengths are small numbers, and stable, since batches should not depend on how
 * a sort is done. */
gale_status gale__rows_sort(gale__row *rows, size_t count)
{
    uint32_t longest = 0;
    if (count < 2) return GALE_OK;
    for (size_t i = 0; i < count; i++)
        if (rows[i].count > longest) longest = rows[i].count;
    size_t *place = gale__calloc((size_t)longest + 2, sizeof *place);
    gale__row *sorted = gale__alloc(count * sizeof *sorted);
    if (!place || !sorted) {
        gale__free(place);
        gale__free(sorted);
        return GALE_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) place[longest - rows[i].count + 1]++;
    for (size_t i = 1; i <= longest; i++) place[i] += place[i - 1];
    for (size_t i = 0; i < count; i++) sorted[place[longest - rows[i].count]++] = rows[i];
    memcpy(rows, sorted, count * sizeof *sorted);
    gale__free(place);
    gale__free(sorted);
    return GALE_OK;
}

/* Texts that may not share a row come first; returns how many. */
static size_t part_rows(const gale_embedder *e, gale__row *rows, size_t count)
{
    size_t apart = 0;
    for (size_t i = 0; i < count; i++) {
        gale__row row = rows[i];
        if (gale__embedder_shares(e, &row)) continue;
        rows[i] = rows[apart];
        rows[apart++] = row;
    }
    return apart;
}

gale_status gale__rows_batch(const gale_embedder *e, gale__row *rows, size_t count, const gale__batch_how *how,
    gale__batch *batches, size_t *n_batches)
{
    size_t apart = how->packs ? part_rows(e, rows, count) : count, n = 0, packed = 0;
    size_t longest = (size_t)e->info.max_length;
    GALE_TRY(gale__rows_sort(rows, apart));
    GALE_TRY(gale__rows_sort(rows + apart, count - apart));
    for (size_t at = 0; at < apart; at += batches[n++].count)
        gale__batch_next(rows, apart, at, how->tokens, how->texts, longest, how->shapes, &batches[n]);
    GALE_TRY(gale__pack(rows + apart, count - apart, how->tokens, longest, batches + n, &packed, how->left));
    for (size_t i = n; i < n + packed; i++) batches[i].first += apart;
    *n_batches = n + packed;
    return GALE_OK;
}
