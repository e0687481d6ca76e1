/* Pools: maxima and sums of windows.  Of floats they are taken down the rows in place, then across, between borders of
 * zeros, or of the least number.  A band of a channel of bytes is copied between borders, so that every row of results
 * is taken over all taps without edge checks.  Of channels-last values a result is the sum, or the maximum, of rows of
 * channels. */
#include "kernel/cpu/routines.h"
#include "base/thread.h"
#include "kernel/cpu/simd.h"
#include <string.h>

enum { BAND_FLOATS = 8192, TAPS_MAX = 64 };

/* A band: so many rows of results, over so many padded rows of the input. */
typedef struct band {
    int64_t rows, in_rows, pitch;
} band;

static band make_band(const gale__cpu_pool *a)
{
    int64_t reach = (a->rows - 1) * a->dilation[0] + 1,
            need = (a->out_width - 1) * a->stride[1] + (a->columns - 1) * a->dilation[1] + 1;
    band b = {.pitch = (need + 15) / 16 * 16};
    int64_t fit = (BAND_FLOATS / b.pitch - reach) / a->stride[0] + 1;
    b.rows = fit < 8 ? 8 : fit;
    if (b.rows > a->out_height) b.rows = a->out_height;
    b.in_rows = (b.rows - 1) * a->stride[0] + reach;
    return b;
}

/* The band, or maxima of rows, and of every other place of them. */
size_t gale__cpu_pool_scratch(const gale__cpu_pool *a)
{
    band b = make_band(a);
    return ((size_t)((b.in_rows + b.rows) * b.pitch) * sizeof(float) + 63) / 64 * 64;
}

typedef struct job {
    const gale__cpu_pool *a;
    const gale__simd *simd;
    band b;
    char *out;
    const char *x;
    float border; /* of floats; for bytes the least of their type */
    size_t size;  /* of an element */
    gale__cpu_scratch_space scratch;
    size_t bands; /* of one plane */
} job;

static void fill_floats(float *to, float border, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = border;
}

static void fill_border(const job *j, char *to, int64_t n)
{
    if (j->size == 4) fill_floats((float *)(void *)to, j->border, n);
    else if (n > 0) memset(to, j->a->type == GALE_I8 ? 0x80 : 0, (size_t)n);
}

/* What a padded row has of the plane's: `length` elements from `from` on, `low` after its begin. */
typedef struct stretch {
    int64_t low, from, length;
} stretch;

static stretch find_stretch(const job *j)
{
    const gale__cpu_pool *a = j->a;
    stretch s = {a->low[1] > 0 ? a->low[1] : 0, a->low[1] < 0 ? -a->low[1] : 0, 0};
    s.length = a->width - s.from;
    if (s.length > j->b.pitch - s.low) s.length = j->b.pitch - s.low;
    if (s.length < 0) s.length = 0;
    return s;
}

/* Rows [first, first + count) of the padded plane. */
static void copy_rows(const job *j, char *to, const char *plane, int64_t first, int64_t count)
{
    const gale__cpu_pool *a = j->a;
    stretch s = find_stretch(j);
    for (int64_t r = 0; r < count; r++, to += (size_t)j->b.pitch * j->size) {
        int64_t y = first + r - a->low[0];
        bool inside = y >= 0 && y < a->height && s.low < j->b.pitch;
        int64_t filled = inside ? s.low + s.length : 0;
        if (inside) {
            fill_border(j, to, s.low);
            memcpy(to + (size_t)s.low * j->size, plane + (size_t)(y * a->width + s.from) * j->size,
                (size_t)s.length * j->size);
        }
        fill_border(j, to + (size_t)filled * j->size, j->b.pitch - filled);
    }
}

static float ones[TAPS_MAX];
static gale__once ones_once;

static void make_ones(void) { fill_floats(ones, 1, TAPS_MAX); }

/* y[i] = the largest, or the sum, of x[offset[t] + i * stride]. */
static void combine(
    const job *j, float *y, const float *x, const int64_t *offset, size_t taps, int64_t stride, size_t n)
{
    const gale__simd_rows *rows = &j->simd->rows;
    if (j->a->largest) rows->tops[stride - 1](y, x, offset, taps, n);
    else rows->taps[stride - 1](y, x, offset, ones, taps, 0, n);
}

/* Maxima or sums down the plane, for a row of results, between borders. */
static void run_down(const job *j, float *row, const float *plane, int64_t first, stretch s)
{
    const gale__cpu_pool *a = j->a;
    int64_t down[TAPS_MAX], n = 0;
    for (int64_t t = 0; t < a->rows; t++) {
        int64_t y = first + t * a->dilation[0] - a->low[0];
        if (y >= 0 && y < a->height) down[n++] = y * a->width + s.from;
    }
    bool some = n > 0 && s.length > 0;
    if (some) {
        fill_floats(row, j->border, s.low);
        combine(j, row + s.low, plane, down, (size_t)n, 1, (size_t)s.length);
    }
    int64_t filled = some ? s.low + s.length : 0;
    fill_floats(row + filled, j->border, j->b.pitch - filled);
}

/* Rows of results: down first, over neighbouring places, then across; where places are a stride apart, in all rows at
 * once, since these are short. */
static void run_rows(const job *j, float *to, const float *plane, int64_t first, int64_t rows, float *work)
{
    const gale__cpu_pool *a = j->a;
    const stretch s = find_stretch(j);
    int64_t across[TAPS_MAX], pitch = j->b.pitch, width = a->out_width;
    float *halves = work + rows * pitch;
    for (int64_t t = 0; t < a->columns; t++) across[t] = t * a->dilation[1];
    for (int64_t r = 0; r < rows; r++) run_down(j, work + r * pitch, plane, (first + r) * a->stride[0], s);
    if (a->stride[1] == 2)
        combine(j, halves, work, across, (size_t)a->columns, 2,
            (size_t)((rows - 1) * pitch / 2 + width)); /* pitch is even */
    for (int64_t r = 0; r < rows; r++, to += width) {
        if (a->stride[1] == 2) memcpy(to, halves + r * pitch / 2, (size_t)width * sizeof *to);
        else combine(j, to, work + r * pitch, across, (size_t)a->columns, 1, (size_t)width);
    }
}

/* The same in one pass over the map; false where it is none of these. */
static bool run_tops_by_2(const job *j, float *to, const float *plane, int64_t first, int64_t rows)
{
    const gale__cpu_pool *a = j->a;
    if (!j->simd->tops_by_2 || a->stride[1] != 2 || a->columns < 2 || a->columns > 3 || a->dilation[1] != 1 ||
        a->rows > GALE__POOL_ROWS)
        return false;
    for (int64_t r = first; r < first + rows; r++, to += a->out_width) {
        gale__simd_pool d = {.columns = a->columns, .width = a->width, .low = a->low[1]};
        for (int64_t t = 0; t < a->rows; t++) {
            int64_t y = r * a->stride[0] + t * a->dilation[0] - a->low[0];
            if (y >= 0 && y < a->height) d.row[d.rows++] = plane + y * a->width;
        }
        if (d.rows) j->simd->tops_by_2(&d, to, a->out_width);
        else fill_floats(to, j->border, a->out_width);
    }
    return true;
}

/* Maxima of bytes, from a copy between borders. */
static void run_bytes(const job *j, char *out, const char *x, int64_t first, int64_t rows, char *padded)
{
    const gale__cpu_pool *a = j->a;
    int64_t taps = a->rows * a->columns, offset[TAPS_MAX];
    copy_rows(j, padded, x, first * a->stride[0], (rows - 1) * a->stride[0] + (a->rows - 1) * a->dilation[0] + 1);
    for (int64_t t = 0; t < taps; t++)
        offset[t] = t / a->columns * a->dilation[0] * j->b.pitch + t % a->columns * a->dilation[1];
    for (int64_t r = 0; r < rows; r++)
        j->simd->top_bytes[a->type == GALE_I8](out + r * a->out_width, padded + r * a->stride[0] * j->b.pitch, offset,
            a->stride[1], (size_t)taps, (size_t)a->out_width);
}

static void run_band(void *arg, size_t i, int worker)
{
    const job *j = arg;
    const gale__cpu_pool *a = j->a;
    int64_t plane = (int64_t)(i / j->bands), first = (int64_t)(i % j->bands) * j->b.rows;
    int64_t rows = a->out_height - first < j->b.rows ? a->out_height - first : j->b.rows;
    char *work = (char *)j->scratch.memory + (size_t)worker * j->scratch.bytes;
    const char *x = j->x + (size_t)(plane * a->height * a->width) * j->size;
    char *out = j->out + (size_t)((plane * a->out_height + first) * a->out_width) * j->size;
    const float *map = (const float *)(const void *)x;
    float *to = (float *)(void *)out;
    if (j->size == 1) run_bytes(j, out, x, first, rows, work);
    else if (!a->largest || !run_tops_by_2(j, to, map, first, rows))
        run_rows(j, to, map, first, rows, (float *)(void *)work);
}

/* --- Channels-last values. --- */

/* Taps of a window that are inside along an axis, from `first` on, so that the place of the first is *at. */
static int64_t clip(const gale__cpu_pool *a, int axis, int64_t place, int64_t taps, int64_t extent, int64_t *at)
{
    int64_t from = place * a->stride[axis] - a->low[axis], by = a->dilation[axis],
            first = from < 0 ? (by - 1 - from) / by : 0, end = extent > from ? (extent - from + by - 1) / by : 0;
    if (end > taps) end = taps;
    *at = from + first * by;
    return end > first ? end - first : 0;
}

/* A result for all channels: maxima or sums over neighbouring rows of channels. */
static void run_place(const job *j, char *to, const char *x, const int64_t *offset, size_t taps)
{
    const gale__cpu_pool *a = j->a;
    size_t n = (size_t)a->channels;
    if (!taps) fill_border(j, to, a->channels);
    else if (j->size == 1) j->simd->top_bytes[a->type == GALE_I8](to, x, offset, 1, taps, n);
    else if (a->largest) j->simd->rows.tops[0]((float *)(void *)to, (const float *)(const void *)x, offset, taps, n);
    else j->simd->rows.taps[0]((float *)(void *)to, (const float *)(const void *)x, offset, ones, taps, 0, n);
}

/* The same where only one of the two is channels-last: through rows of channels. */
static void run_mixed(const job *j, char *to, const char *x, const int64_t *offset, size_t taps)
{
    const gale__cpu_pool *a = j->a;
    bool last = a->layouts & GALE__CPU_LAST_OPERAND;
    int64_t from = last ? 1 : a->height * a->width, by = last ? a->out_height * a->out_width : 1, far[TAPS_MAX];
    for (size_t t = 0; t < taps; t++) far[t] = last ? offset[t] : offset[t] / a->channels;
    gale__cpu_pool alone = *a;
    job one = *j;
    alone.channels = 1;
    one.a = &alone;
    for (int64_t c = 0; c < a->channels; c++)
        run_place(&one, to + (size_t)(c * by) * j->size, x + (size_t)(c * from) * j->size, far, taps);
}

/* A row of results. */
static void run_row(void *arg, size_t i, int worker)
{
    const job *j = arg;
    const gale__cpu_pool *a = j->a;
    int64_t item = (int64_t)i / a->out_height, row = (int64_t)i % a->out_height, y, x, offset[TAPS_MAX],
            down = clip(a, 0, row, a->rows, a->height, &y), plane = a->height * a->width, across = 0, before = -1;
    bool from_last = a->layouts & GALE__CPU_LAST_OPERAND, to_last = a->layouts & GALE__CPU_LAST_RESULT;
    (void)worker;
    for (int64_t column = 0; column < a->out_width; column++) {
        across = clip(a, 1, column, a->columns, a->width, &x);
        for (int64_t t = 0; t < down * across && across != before; t++)
            offset[t] = (t / across * a->dilation[0] * a->width + t % across * a->dilation[1]) * a->channels;
        before = across;
        int64_t place = y * a->width + x, at = row * a->out_width + column, all = a->out_height * a->out_width;
        const char *from =
            j->x + (size_t)(item * plane * a->channels + place * (from_last ? a->channels : 1)) * j->size;
        char *to = j->out + (size_t)(item * all * a->channels + at * (to_last ? a->channels : 1)) * j->size;
        (from_last && to_last ? run_place : run_mixed)(j, to, from, offset, (size_t)(down * across));
    }
}

static void run(job *j)
{
    const gale__cpu_pool *a = j->a;
    j->simd = gale__simd_get();
    if (a->layouts) {
        gale__parallel((size_t)(a->n * a->out_height), run_row, j);
        return;
    }
    j->b = make_band(a);
    j->bands = (size_t)((a->out_height + j->b.rows - 1) / j->b.rows);
    gale__parallel((size_t)(a->n * a->channels) * j->bands, run_band, j);
}

void gale__cpu_pool_run(const void *args, void *const *buffers, gale__cpu_scratch_space scratch)
{
    const gale__cpu_pool *a = args;
    gale__once_run(&ones_once, make_ones);
    run(&(job){.a = a,
        .out = buffers[0],
        .x = buffers[1],
        .border = a->largest ? -__builtin_inff() : 0,
        .scratch = scratch,
        .size = gale_type_size((gale_type)a->type)});
}
