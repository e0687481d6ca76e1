/* Attention without its scores in memory: keys and values of a head are packed once, then a few rows of queries at a
 * time go through product, softmax and product while everything lies in the first caches. */
#include "kernel/cpu/routines.h"
#include "base/thread.h"
#include "kernel/cpu/simd.h"
#include <math.h>
#include <string.h>

enum { BLOCK = 64, FEW = 2 }; /* rows of q in a task; rows for which nothing is packed */

/* Sizes of the packed parts, in floats. */
typedef struct layout {
    size_t mr, nr, n, c; /* n, c: up to whole panels */
    size_t keys, values, q, scores, p, out, total;
} layout;

static layout make_layout(const gale__cpu_attention *a)
{
    const gale__simd_gemm *g = gale__simd_gemm_find(gale__simd_plain(GALE__SIMD_TYPE_F32));
    layout l = {.mr = (size_t)g->mr, .nr = (size_t)g->nr};
    size_t d = (size_t)a->d, n = (size_t)a->n, c = (size_t)a->c;
    l.n = (n + l.nr - 1) / l.nr * l.nr;
    l.c = (c + l.nr - 1) / l.nr * l.nr;
    l.values = l.n * d;
    l.q = l.values + l.c * n;
    l.scores = l.q + l.mr * d;
    l.p = l.scores + l.mr * l.n;
    l.out = l.p + l.mr * n;
    l.total = l.out + l.mr * l.c;
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
    float *out;
    const float *q, *k, *v, *mask;
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

/* The weights of a row's n keys in the place of their scores; gives their sum. */
static float weigh(const job *j, float *scores, size_t number, size_t row, size_t n)
{
    mask_row(j, scores, number, row);
    if (!is_blind(j, number, row)) return j->simd->rows.exp(scores, scores, n);
    memset(scores, 0, n * sizeof *scores);
    return 1;
}

/* Rows [first, first + rows) of one head, of which `keys` keys and values lie packed in s. */
static void attend(const job *j, float *s, size_t number, size_t first, size_t rows, size_t keys)
{
    const gale__cpu_attention *a = j->args;
    const layout *l = &j->layout;
    gale__simd_tile *tile =
        gale__simd_part_for(gale__simd_gemm_find(gale__simd_plain(GALE__SIMD_TYPE_F32)), (int64_t)rows)->tile;
    float *scores = s + l->scores, *mixed = s + l->out, *out = j->out + (number * (size_t)a->m + first) * (size_t)a->c,
          total[64];
    const float *q = j->q + head(a, &a->q, number);
    pack(s + l->q, q + (int64_t)first * a->q.row, a->q.row, a->q.column, rows, l->mr, (size_t)a->d);
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
        j->simd->rows.scale(out + r * (size_t)a->c, mixed + r * l->c, 1 / total[r], (size_t)a->c);
}

/* A few rows read keys and values once each: packing them would cost more than it saves. */
static bool is_few(const gale__cpu_attention *a)
{
    return a->m <= FEW && a->k.column == 1 && a->v.column == 1 && a->d >= 2;
}

static void attend_few(const job *j, float *s, size_t number)
{
    const gale__cpu_attention *a = j->args;
    const layout *l = &j->layout;
    const float *q = j->q + head(a, &a->q, number), *k = j->k + head(a, &a->k, number),
                *v = j->v + head(a, &a->v, number);
    float *out = j->out + number * (size_t)(a->m * a->c), *row = s + l->q, *scores = s + l->scores;
    int64_t *place = (int64_t *)(void *)(s + l->keys); /* where packed keys would lie: two floats and more for each */
    for (int64_t i = 0; i < a->n; i++) place[i] = i * a->v.row;
    for (int64_t r = 0; r < a->m; r++, out += a->c) {
        for (int64_t i = 0; i < a->d; i++) row[i] = q[r * a->q.row + i * a->q.column] * (float)a->scale;
        size_t n = visible(a, (size_t)r);
        j->simd->rows.dots(scores, row, k, a->k.row, n, (size_t)a->d);
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
    size_t keys = visible(a, end - 1);
    pack_all(
        s + j->layout.keys, j->k + head(a, &a->k, number), a->k.row, a->k.column, keys, j->layout.nr, (size_t)a->d);
    pack_all(
        s + j->layout.values, j->v + head(a, &a->v, number), a->v.column, a->v.row, (size_t)a->c, j->layout.nr, keys);
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
    gale__parallel(heads * j.blocks, run_block, &j);
}
