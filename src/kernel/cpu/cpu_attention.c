/* Attention without storing scores in memory: keys and values of a head are packed once, then a few rows of queries at
 * a time go through product, softmax and product while everything is in the L1 and L2 caches.
 *
 * Where the processor multiplies tiles of bf16, operands of that type stay as they are, and weights are rounded to it.
 */
#include "kernel/cpu/routines.h"
#include "base/num.h"
#include "base/thread.h"
#include "kernel/cpu/simd.h"
#include <math.h>
#include <string.h>

enum { BLOCK = 64, FEW = 2 };   /* rows of q in a task; rows for which nothing is packed */
enum { STEPS = 32, UNIT = 64 }; /* of a row of a tile: bf16, and their bytes */

/* Sizes of the packed parts, in floats. */
typedef struct layout {
    size_t mr, nr, n, c; /* n, c: up to whole panels */
    size_t keys, values, q, scores, p, out, wide, rows,
        total; /* wide: operands in f32; rows: results before rounding */
} layout;

/* Tiles of bf16, where rows are adjacent in memory and fill them; else NULL. */
static const gale__simd_gemm *tiles_of(const gale__cpu_attention *a)
{
    int64_t even = a->k.offset | a->k.row;
    for (int i = 0; i < GALE__CPU_LEAD; i++) even |= a->k.lead[i];
    if (a->type != GALE_BF16 || a->q.column != 1 || a->k.column != 1 || a->v.column != 1 || a->d % STEPS ||
        a->m < STEPS / 2 || even % 2)
        return NULL;
    return gale__simd_gemm_find((gale__simd_key){GALE_BF16, GALE_BF16, GALE_F32, STEPS});
}

static layout make_layout(const gale__cpu_attention *a)
{
    const gale__simd_gemm *g = tiles_of(a);
    if (!g) g = gale__simd_gemm_find(gale__simd_plain(GALE__SIMD_TYPE_F32));
    layout l = {.mr = (size_t)g->mr, .nr = (size_t)g->nr};
    size_t d = (size_t)a->d, n = (size_t)a->n, c = (size_t)a->c;
    l.n = (n + l.nr - 1) / l.nr * l.nr;
    l.c = (c + l.nr - 1) / l.nr * l.nr;
    l.values = l.n * d;
    l.q = l.values + l.c * l.n; /* tiles: whole panels of keys are steps as well */
    l.scores = l.q + l.mr * d;
    l.p = l.scores + l.mr * l.n;
    l.out = l.p + l.mr * l.n;
    l.wide = l.out + l.mr * l.c;
    size_t most = (d > c ? d : c) * (n > l.mr ? n : l.mr);
    l.rows = l.wide + (a->type == GALE_F32 ? 0 : most);
    l.total = l.rows + (a->type == GALE_F32 ? 0 : c);
    return l;
}

size_t gale__cpu_attention_scratch(const gale__cpu_attention *a)
{
    return (make_layout(a).total * sizeof(float) + 63) / 64 * 64;
}

/* to[i][r] = from[r * pitch + i * step] for r < rows, zeros up to width; i < n. */
static void pack(float *to, const float *from, int64_t pitch, int64_t step, size_t rows, size_t width, size_t n)
{
    if (step == 1 && pitch > 0) {
        gale__simd_get()->interleave[0](to, from, (size_t)pitch, rows, width, n);
        return;
    }
    for (size_t i = 0; i < n; i++, to += width, from += step) {
        if (pitch == 1) memcpy(to, from, rows * sizeof *to);
        else
            for (size_t r = 0; r < rows; r++) to[r] = from[(int64_t)r * pitch];
        for (size_t r = rows; r < width; r++) to[r] = 0;
    }
}

/* Panels of `width` rows of [count, n]. */
static void pack_all(float *to, const float *from, int64_t pitch, int64_t step, size_t count, size_t width, size_t n)
{
    for (size_t at = 0; at < count; at += width, to += width * n)
        pack(to, from + (int64_t)at * pitch, pitch, step, count - at < width ? count - at : width, width, n);
}

typedef struct job {
    const gale__cpu_attention *args;
    const gale__simd *simd;
    layout layout;
    void *out;
    const void *q, *k, *v;
    const float *mask;
    const uint8_t *hide;
    gale__cpu_scratch_space scratch;
    size_t blocks; /* of one head */
} job;

/* Where the operand of a head begins, in elements. */
static int64_t head(const gale__cpu_attention *a, const gale__cpu_view *v, size_t number)
{
    int64_t at = v->offset;
    for (int i = GALE__CPU_LEAD - 1; i >= 0; number /= (size_t)a->lead[i], i--)
        at += (int64_t)(number % (size_t)a->lead[i]) * v->lead[i];
    return at;
}

/* An operand's [rows, columns] in f32: its own memory, or a dense copy of it in `to`. */
typedef struct operand {
    const float *at;
    int64_t row, column;
} operand;

static operand widen(
    const job *j, const void *base, int64_t at, const gale__cpu_view *v, size_t rows, size_t columns, float *to)
{
    gale_type type = (gale_type)j->args->type;
    if (type == GALE_F32) return (operand){(const float *)base + at, v->row, v->column};
    const uint16_t *from = (const uint16_t *)base + at;
    bool turned = v->row == 1 && v->column != 1; /* then columns are contiguous */
    size_t lines = turned ? columns : rows, length = turned ? rows : columns;
    int64_t line = turned ? v->column : v->row, step = turned ? v->row : v->column;
    for (size_t i = 0; i < lines; i++, from += line) {
        if (step == 1) j->simd->widen[type](to + i * length, from, NULL, NULL, length);
        else
            for (size_t k = 0; k < length; k++)
                to[i * length + k] = (float)gale__load_f64(type, from + (int64_t)k * step);
    }
    return turned ? (operand){to, 1, (int64_t)length} : (operand){to, (int64_t)length, 1};
}

/* One row of the result, times a factor. */
static void store_row(const job *j, float *s, const float *row, float factor, size_t at)
{
    const gale__cpu_attention *a = j->args;
    gale_type type = (gale_type)a->type;
    if (type == GALE_F32) {
        j->simd->rows.scale((float *)j->out + at, row, factor, (size_t)a->c);
        return;
    }
    j->simd->rows.scale(s + j->layout.rows, row, factor, (size_t)a->c);
    j->simd->narrow[type]((uint16_t *)j->out + at, s + j->layout.rows, NULL, NULL, (size_t)a->c);
}

/* How many keys the row sees. */
static size_t visible(const gale__cpu_attention *a, size_t row)
{
    return a->causal && (int64_t)row + a->seen < a->n ? row + (size_t)a->seen : (size_t)a->n;
}

static void mask_row(const job *j, float *scores, size_t number, size_t row)
{
    const gale__cpu_attention *a = j->args;
    int64_t n = (int64_t)visible(a, row);
    if (a->masked) {
        const float *mask = j->mask + head(a, &a->mask, number) + (int64_t)row * a->mask.row;
        if (a->mask.column == 1) j->simd->rows.add(scores, mask, (size_t)n);
        else
            for (int64_t i = 0; i < n; i++) scores[i] += mask[i * a->mask.column];
    }
    if (a->hides) {
        const uint8_t *hide = j->hide + head(a, &a->hide, number) + (int64_t)row * a->hide.row;
        for (int64_t i = 0; i < n; i++) scores[i] = hide[i * a->hide.column] == a->hidden ? (float)a->fill : scores[i];
    }
}

/* Whether masks hide every key from a row whose scores do not matter then. */
static bool is_blind(const job *j, size_t number, size_t row)
{
    const gale__cpu_attention *a = j->args;
    int64_t n = (int64_t)visible(a, row), i = 0;
    if (!a->blind) return false;
    const float *mask = a->masked ? j->mask + head(a, &a->mask, number) + (int64_t)row * a->mask.row : NULL;
    const uint8_t *hide = a->hides ? j->hide + head(a, &a->hide, number) + (int64_t)row * a->hide.row : NULL;
    while (
        i < n && ((mask && mask[i * a->mask.column] == -INFINITY) || (hide && hide[i * a->hide.column] == a->hidden)))
        i++;
    return i == n;
}

/* The weights of a row's n keys replace their scores; returns their sum. */
static float weigh(const job *j, float *scores, size_t number, size_t row, size_t n)
{
    mask_row(j, scores, number, row);
    if (!is_blind(j, number, row)) return j->simd->rows.exp(scores, scores, n);
    memset(scores, 0, n * sizeof *scores);
    return 1;
}

/* Rows [first, first + rows) of one head, of which `keys` keys and values are packed in s. */
static void attend(const job *j, float *s, size_t number, size_t first, size_t rows, size_t keys)
{
    const gale__cpu_attention *a = j->args;
    const layout *l = &j->layout;
    gale__simd_tile *tile =
        gale__simd_part_for(gale__simd_gemm_find(gale__simd_plain(GALE__SIMD_TYPE_F32)), (int64_t)rows)->tile;
    float *scores = s + l->scores, *mixed = s + l->out, total[64];
    operand q =
        widen(j, j->q, head(a, &a->q, number) + (int64_t)first * a->q.row, &a->q, rows, (size_t)a->d, s + l->wide);
    pack(s + l->q, q.at, q.row, q.column, rows, l->mr, (size_t)a->d);
    j->simd->rows.scale(s + l->q, s + l->q, (float)a->scale, l->mr * (size_t)a->d);
    size_t n = visible(a, first + rows - 1);
    memset(scores, 0, l->mr * l->n * sizeof *scores);
    for (size_t at = 0; at < n; at += l->nr)
        tile(scores + at, l->n, s + l->q, s + l->keys + at * (size_t)a->d, (size_t)a->d);
    for (size_t r = 0; r < rows; r++) {
        float *row = scores + r * l->n;
        size_t end = visible(a, first + r);
        total[r] = weigh(j, row, number, first + r, end);
        memset(row + end, 0, (n - end) * sizeof *row);
    }
    pack(s + l->p, scores, (int64_t)l->n, 1, rows, l->mr, n);
    memset(mixed, 0, l->mr * l->c * sizeof *mixed);
    for (size_t at = 0; at < l->c; at += l->nr) tile(mixed + at, l->c, s + l->p, s + l->values + at * keys, n);
    for (size_t r = 0; r < rows; r++)
        store_row(j, s, mixed + r * l->c, 1 / total[r], (number * (size_t)a->m + first + r) * (size_t)a->c);
}

/* Keys and values as panels of bf16: pairs of a key's elements, of all keys; pairs of keys, of all elements. */
static void pack_tiles(const job *j, float *s, size_t number, size_t keys)
{
    const gale__cpu_attention *a = j->args;
    const layout *l = &j->layout;
    const uint16_t *k = (const uint16_t *)j->k + head(a, &a->k, number),
                   *v = (const uint16_t *)j->v + head(a, &a->v, number);
    static const uint16_t none[STEPS];
    char *values = (char *)(s + l->values);
    for (size_t at = 0; at < keys; at += l->nr)
        j->simd->interleave[0]((char *)(s + l->keys) + at * (size_t)a->d * 2, k + (int64_t)at * a->k.row,
            (size_t)a->k.row / 2, keys - at < l->nr ? keys - at : l->nr, l->nr, (size_t)a->d / 2);
    for (size_t c = 0; c < (size_t)a->c; c += l->nr)
        for (size_t i = 0; i < l->n; i += 2, values += 2 * UNIT) {
            const uint16_t *row = v + (int64_t)i * a->v.row + c;
            size_t width = (size_t)a->c - c < l->nr ? (size_t)a->c - c : l->nr;
            memset(values, 0, 2 * UNIT);
            if (i < keys) j->simd->zip[1](values, row, i + 1 < keys ? row + a->v.row : none, width);
        }
}

/* As attend, of tiles. */
static void attend_tiles(const job *j, float *s, size_t number, size_t first, size_t rows)
{
    const gale__cpu_attention *a = j->args;
    const layout *l = &j->layout;
    const gale__simd_part *part = gale__simd_part_for(tiles_of(a), (int64_t)rows);
    const uint16_t *from = (const uint16_t *)j->q + head(a, &a->q, number) + (int64_t)first * a->q.row;
    size_t d = (size_t)a->d, n = visible(a, first + rows - 1), units = (n + STEPS - 1) / STEPS;
    float *scores = s + l->scores, *mixed = s + l->out, total[STEPS];
    char *q = (char *)(s + l->q), *p = (char *)(s + l->p);
    for (size_t r = 0; r < rows; r++)
        for (size_t u = 0; u < d / STEPS; u++)
            memcpy(q + (u * l->mr + r) * UNIT, from + (int64_t)r * a->q.row + u * STEPS, UNIT);
    for (size_t at = 0; at < n; at += l->nr)
        part->fresh(scores + at, l->n, q, (char *)(s + l->keys) + at * d * 2, d / STEPS);
    for (size_t r = 0; r < rows; r++) {
        float *row = scores + r * l->n;
        size_t end = visible(a, first + r);
        j->simd->rows.scale(row, row, (float)a->scale, end);
        total[r] = weigh(j, row, number, first + r, end);
        memset(row + end, 0, (units * STEPS - end) * sizeof *row);
        for (size_t u = 0; u < units; u++)
            j->simd->narrow[GALE_BF16](p + (u * l->mr + r) * UNIT, row + u * STEPS, NULL, NULL, STEPS);
    }
    for (size_t at = 0; at < l->c; at += l->nr)
        part->fresh(mixed + at, l->c, p, (char *)(s + l->values) + at * l->n * 2, units);
    for (size_t r = 0; r < rows; r++)
        store_row(j, s, mixed + r * l->c, 1 / total[r], (number * (size_t)a->m + first + r) * (size_t)a->c);
}

/* A few rows read keys and values once each: packing them would cost more than it saves. */
static bool is_few(const gale__cpu_attention *a)
{
    return a->m <= FEW && a->k.column == 1 && a->v.column == 1 && a->d >= 2 && a->type == GALE_F32;
}

static void attend_few(const job *j, float *s, size_t number)
{
    const gale__cpu_attention *a = j->args;
    const layout *l = &j->layout;
    const float *q = (const float *)j->q + head(a, &a->q, number), *k = (const float *)j->k + head(a, &a->k, number),
                *v = (const float *)j->v + head(a, &a->v, number);
    float *out = (float *)j->out + number * (size_t)(a->m * a->c), *row = s + l->q, *scores = s + l->scores;
    int64_t *place = (int64_t *)(void *)(s + l->keys); /* where packed keys would be: two floats and more for each */
    for (int64_t i = 0; i < a->n; i++) place[i] = i * a->v.row;
    for (int64_t r = 0; r < a->m; r++, out += a->c) {
        for (int64_t i = 0; i < a->d; i++) row[i] = q[r * a->q.row + i * a->q.column] * (float)a->scale;
        size_t n = visible(a, (size_t)r);
        j->simd->rows.dots(scores, row, 1, k, a->k.row, n, (size_t)a->d);
        float total = weigh(j, scores, number, (size_t)r, n);
        j->simd->rows.taps[0](out, v, place, scores, n, 0, (size_t)a->c);
        j->simd->rows.scale(out, out, 1 / total, (size_t)a->c);
    }
}

static void run_block(void *arg, size_t i, int worker)
{
    const job *j = arg;
    const gale__cpu_attention *a = j->args;
    size_t number = i / j->blocks, first = i % j->blocks * BLOCK,
           end = first + BLOCK < (size_t)a->m ? first + BLOCK : (size_t)a->m;
    float *s = (float *)(j->scratch.memory + (size_t)worker * j->scratch.bytes);
    if (is_few(a)) {
        attend_few(j, s, number);
        return;
    }
    size_t keys = visible(a, end - 1), d = (size_t)a->d, c = (size_t)a->c;
    const gale__simd_gemm *tiles = tiles_of(a);
    if (tiles) {
        pack_tiles(j, s, number, keys);
        gale__simd_gemm_open(tiles);
        for (; first < end; first += j->layout.mr)
            attend_tiles(j, s, number, first, end - first < j->layout.mr ? end - first : j->layout.mr);
        gale__simd_gemm_close(tiles);
        return;
    }
    float *wide = s + j->layout.wide;
    operand k = widen(j, j->k, head(a, &a->k, number), &a->k, keys, d, wide);
    pack_all(s + j->layout.keys, k.at, k.row, k.column, keys, j->layout.nr, d);
    operand v = widen(j, j->v, head(a, &a->v, number), &a->v, keys, c, wide);
    pack_all(s + j->layout.values, v.at, v.column, v.row, c, j->layout.nr, keys);
    for (; first < end; first += j->layout.mr)
        attend(j, s, number, first, end - first < j->layout.mr ? end - first : j->layout.mr, keys);
}

void gale__cpu_attention_run(const void *args, void *const *buffers, gale__cpu_scratch_space scratch)
{
    const gale__cpu_attention *a = args;
    job j = {.args = a,
        .simd = gale__simd_get(),
        .layout = make_layout(a),
        .out = buffers[0],
        .q = buffers[1],
        .k = buffers[2],
        .v = buffers[3],
        .scratch = scratch};
    if (a->masked) j.mask = buffers[4];
    if (a->hides) j.hide = buffers[4 + a->masked];
    j.blocks = ((size_t)a->m + BLOCK - 1) / BLOCK;
    size_t heads = 1;
    for (int i = 0; i < GALE__CPU_LEAD; i++) heads *= (size_t)a->lead[i];
    gale__parallel_kernel(heads * j.blocks, run_block, &j);
}
