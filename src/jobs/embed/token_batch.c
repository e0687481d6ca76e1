/* Batches of few shapes.  A program caches about thirty plans, so lengths are rounded up to a short list, and each
 * length has one number of rows.  Texts of similar length are grouped, so there is little padding. */
#include "jobs/embed/embedder.h"
#include <string.h>

static size_t round_up(size_t n, size_t step) { return (n + step - 1) / step * step; }

/* The list: steps of 4 up to 32, then finer than a quarter of the length. */
static size_t length_class(size_t n, size_t most)
{
    size_t step = n <= 32 ? 4 : n <= 64 ? 8 : n <= 128 ? 16 : n <= 256 ? 32 : 64;
    size_t length = round_up(n ? n : 1, step);
    return most && length > most ? most : length;
}

void gale__batch_next(const gale__row *sorted, size_t rows, size_t first, size_t tokens, size_t rows_most,
    size_t length_most, gale__batch *out)
{
    *out = (gale__batch){.first = first};
    if (first >= rows) return;
    size_t length = length_class(sorted[first].count, length_most), left = rows - first;
    if (length < sorted[first].count) length = sorted[first].count;
    size_t most = tokens / length ? tokens / length : 1;
    if (most > 8) most -= most % 8;
    if (rows_most && most > rows_most) most = rows_most;
    size_t slots = most;
    while (slots > 1 && slots / 2 >= left) slots /= 2;
    out->count = left < slots ? left : slots;
    out->slots = slots;
    out->length = length;
}

/* By length alone: a counting sort, since lengths are small numbers, and stable, since batches should not depend on how
 * a sort is done. */
gale_status gale__rows_sort(gale__row *rows, size_t count)
{
    uint32_t longest = 0;
    for (size_t i = 0; i < count; i++)
        if (rows[i].count > longest) longest = rows[i].count;
    size_t *place = gale__calloc((size_t)longest + 2, sizeof *place);
    gale__row *sorted = gale__alloc((count + 1) * sizeof *sorted);
    if (!place || !sorted) {
        gale__free(place);
        gale__free(sorted);
        return GALE_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) place[longest - rows[i].count + 1]++;
    for (size_t i = 1; i <= longest; i++) place[i] += place[i - 1];
    for (size_t i = 0; i < count; i++) sorted[place[longest - rows[i].count]++] = rows[i];
    if (count) memcpy(rows, sorted, count * sizeof *sorted);
    gale__free(place);
    gale__free(sorted);
    return GALE_OK;
}
