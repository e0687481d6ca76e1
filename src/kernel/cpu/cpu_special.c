/* Simple loops, one per type through one macro.  Rows run in parallel; within a row the order is that of the
 * definition, so the results do not depend on the number of threads. */
#include "kernel/cpu/cpu_special.h"
#include "base/thread.h"
#include "kernel/cpu/runs.h"
#include "kernel/cpu/simd.h"
#include <string.h>

/* Sort keys: every type as a u64 that sorts like the value (NaN above all). */
static uint64_t key_of(gale_type type, const void *p)
{
    if (gale__type_is_float(type)) {
        double v = gale__load_f64(type, p);
        uint64_t bits;
        if (v != v) return UINT64_MAX;
        if (v == 0) v = 0; /* both zeros are equal */
        memcpy(&bits, &v, sizeof bits);
        return bits >> 63 ? ~bits : bits | 1ull << 63;
    }
    uint64_t v = (uint64_t)gale__load_i64(type, p);
    return gale__type_table[type].kind == 'i' ? v ^ 1ull << 63 : v;
}

typedef struct sorter {
    gale_type type;
    const char *x;
    int64_t *index, *scratch;
    int64_t n, first;
    bool descending;
} sorter;

/* Elements up to which insertion is faster, and places wanted up to which it is; bytes of a key. */
enum { SMALL = 48, FEW = 32, DIGITS = 8, BUCKETS = 256 };

static void sort_few(uint64_t *key, int64_t *index, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        uint64_t k = key[i];
        int64_t v = index[i], at = i;
        for (; at > 0 && key[at - 1] > k; at--) key[at] = key[at - 1], index[at] = index[at - 1];
        key[at] = k, index[at] = v;
    }
}

/* By one byte of the key after another, the lowest first; bytes that are the same everywhere are passed over.  Returns
 * where the indices are. */
static const int64_t *sort_bytes(uint64_t *key, int64_t *index, uint64_t *key2, int64_t *index2, int64_t n)
{
    int64_t count[DIGITS][BUCKETS] = {0};
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < DIGITS; d++) count[d][key[i] >> 8 * d & 255]++;
    for (int d = 0; d < DIGITS; d++) {
        if (count[d][key[0] >> 8 * d & 255] == n) continue;
        int64_t at = 0;
        for (int b = 0; b < BUCKETS; b++) {
            int64_t here = count[d][b];
            count[d][b] = at;
            at += here;
        }
        for (int64_t i = 0; i < n; i++) {
            int64_t to = count[d][key[i] >> 8 * d & 255]++;
            key2[to] = key[i], index2[to] = index[i];
        }
        uint64_t *k = key;
        int64_t *v = index;
        key = key2, index = index2;
        key2 = k, index2 = v;
    }
    return index;
}

/* Keeps the `first` least keys and their indices in order.  The last of them is found by one byte after another, the
 * highest first; work: n keys. */
static void keep_first(uint64_t *key, int64_t *index, uint64_t *work, int64_t n, int64_t first)
{
    const uint64_t *from = key;
    uint64_t differ = 0, last = 0;
    int64_t rest = first, kept = 0;
    for (int64_t i = 0; i < n; i++) differ |= key[i] ^ key[0];
    for (int64_t d = DIGITS - 1, count = n; d >= 0; d--) {
        if (!(differ >> 8 * d & 255)) {
            last |= key[0] & 255ull << 8 * d;
            continue;
        }
        int64_t counts[BUCKETS] = {0}, same = 0;
        uint64_t b = 0;
        for (int64_t i = 0; i < count; i++) counts[from[i] >> 8 * d & 255]++;
        for (; counts[b] < rest; b++) rest -= counts[b];
        last |= b << 8 * d;
        if (counts[b] == count) continue;
        for (int64_t i = 0; i < count; i++)
            if ((from[i] >> 8 * d & 255) == b) work[same++] = from[i];
        from = work, count = same;
    }
    for (int64_t i = 0; i < n; i++) /* of equal keys those that come first */
        if (key[i] < last || (key[i] == last && rest-- > 0)) key[kept] = key[i], index[kept++] = index[i];
}

/* The same for few: most keys are above the last that was kept. */
static void insert_first(uint64_t *key, int64_t *index, int64_t n, int64_t first)
{
    sort_few(key, index, first);
    for (int64_t i = first; i < n; i++) {
        uint64_t k = key[i];
        if (k >= key[first - 1]) continue;
        int64_t at = first - 1;
        for (; at > 0 && key[at - 1] > k; at--) key[at] = key[at - 1], index[at] = index[at - 1];
        key[at] = k, index[at] = i;
    }
}

/* Keys of floats in 32 bits, of which there are fewer to sort by. */
static void float_keys(const char *x, uint64_t *key, int64_t n, bool descending)
{
    const uint64_t turn = descending ? UINT64_MAX : 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits, k;
        memcpy(&bits, x + i * (int64_t)sizeof bits, sizeof bits);
        k = bits ^ (bits >> 31 ? UINT32_MAX : 1u << 31);
        k = bits == 1u << 31 ? bits : (bits & INT32_MAX) > 0x7f800000u ? UINT32_MAX : k; /* -0, NaN */
        key[i] = k ^ turn;
    }
}

static void sort_row(void *arg, size_t row, int worker)
{
    const sorter *s = arg;
    size_t size = gale_type_size(s->type);
    const char *x = s->x + row * (size_t)s->n * size;
    int64_t *index = s->index + (int64_t)row * s->n,
            *index2 = s->scratch + (int64_t)worker * s->n * GALE__CPU_SORT_SCRATCH;
    uint64_t *key = (uint64_t *)(index2 + s->n);
    for (int64_t i = 0; i < s->n; i++) index[i] = i;
    if (s->type == GALE_F32) float_keys(x, key, s->n, s->descending);
    for (int64_t i = 0; i < s->n && s->type != GALE_F32; i++) {
        uint64_t k = key_of(s->type, x + (size_t)i * size);
        key[i] = s->descending ? ~k : k;
    }
    int64_t n = s->n;
    if (n > SMALL && s->first <= n / 2) {
        if (s->first <= FEW) insert_first(key, index, n, s->first);
        else keep_first(key, index, key + n, n, s->first);
        memset(index + s->first, 0, (size_t)(n - s->first) * sizeof *index);
        n = s->first;
    }
    if (n <= SMALL) {
        sort_few(key, index, n);
        return;
    }
    const int64_t *sorted = sort_bytes(key, index, key + s->n, index2, n);
    if (sorted != index) memcpy(index, sorted, (size_t)n * sizeof *index);
}

void gale__cpu_sort(gale_type type, const void *x, int64_t *index, int64_t *scratch, int64_t rows, int64_t n,
    int64_t first, bool descending)
{
    sorter s = {type, x, index, scratch, n, first, descending};
    gale__parallel((size_t)rows, sort_row, &s);
}

/* One step of a reduction, in the type's own arithmetic; floats narrower than f32 are carried in f32 by the callers. */
#define STEP(T, kind, a, b)                     \
    ((kind) == GALE__SUM       ? (T)((a) + (b)) \
        : (kind) == GALE__PROD ? (T)((a) * (b)) \
        : (a) != (a)           ? (a)            \
        : (b) != (b)           ? (b)            \
                               : ((kind) == GALE__RMAX ? ((a) > (b) ? (a) : (b)) : ((a) < (b) ? (a) : (b))))

typedef struct scanner {
    gale_type type;
    gale__reduce kind;
    const char *x;
    char *y;
    int64_t n, inner;
} scanner;

/* One step of sums of floats. */
static void add_floats(double *total, const char *x, char *y, int64_t n, bool first)
{
    const float *from = (const float *)(const void *)x;
    float *to = (float *)(void *)y;
    for (int64_t i = 0; i < n; i++) total[i] = first ? from[i] : total[i] + from[i];
    for (int64_t i = 0; i < n; i++) to[i] = (float)total[i];
}

/* Columns side by side, as they are in memory. */
static void scan_floats(const scanner *s, const char *x, char *y)
{
    enum { COLUMNS = 64 };
    double total[COLUMNS];
    size_t size = gale_type_size(s->type);
    bool sums = s->type == GALE_F32 && s->kind == GALE__SUM;
    for (int64_t first = 0; first < s->inner; first += COLUMNS) {
        int64_t n = s->inner - first < COLUMNS ? s->inner - first : COLUMNS;
        for (int64_t k = 0; k < s->n; k++) {
            size_t at = (size_t)(k * s->inner + first) * size;
            if (sums) add_floats(total, x + at, y + at, n, k == 0);
            for (int64_t i = 0; i < n && !sums; i++) {
                double v = gale__load_f64(s->type, x + at + (size_t)i * size);
                total[i] = k > 0 ? STEP(double, s->kind, total[i], v) : v;
                gale__store_f64(s->type, y + at + (size_t)i * size, total[i]);
            }
        }
    }
}

static void scan_ints(const scanner *s, const char *x, char *y)
{
    size_t size = gale_type_size(s->type), step = size * (size_t)s->inner;
    bool is_signed = gale__type_table[s->type].kind == 'i';
    for (int64_t i = 0; i < s->inner; i++) {
        uint64_t total = (uint64_t)gale__load_i64(s->type, x + (size_t)i * size);
        for (int64_t k = 0; k < s->n; k++) {
            uint64_t v = (uint64_t)gale__load_i64(s->type, x + (size_t)i * size + (size_t)k * step);
            if (k > 0 && (s->kind <= GALE__PROD || !is_signed)) total = STEP(uint64_t, s->kind, total, v);
            else if (k > 0) total = (uint64_t)STEP(int64_t, s->kind, (int64_t)total, (int64_t)v);
            gale__store_i64(s->type, y + (size_t)i * size + (size_t)k * step, (int64_t)total);
            total =
                (uint64_t)gale__load_i64(s->type, y + (size_t)i * size + (size_t)k * step); /* wrapped to the width */
        }
    }
}

/* Sums of words: counts of what came before, above all. */
static void scan_words(const scanner *s, const char *x, char *y)
{
    const uint64_t *from = (const uint64_t *)(const void *)x;
    uint64_t *to = (uint64_t *)(void *)y;
    memmove(to, from, (size_t)s->inner * sizeof *to);
    if (s->inner == 1) {
        uint64_t total = from[0];
        for (int64_t k = 1; k < s->n; k++) to[k] = total += from[k];
        return;
    }
    for (int64_t k = s->inner; k < s->n * s->inner; k++) to[k] = to[k - s->inner] + from[k];
}

static void scan_part(void *arg, size_t part, int worker)
{
    const scanner *s = arg;
    size_t bytes = part * (size_t)(s->n * s->inner) * gale_type_size(s->type);
    (void)worker;
    bool words = gale_type_size(s->type) == sizeof(uint64_t) && s->kind == GALE__SUM;
    (gale__type_is_float(s->type) ? scan_floats : words ? scan_words : scan_ints)(s, s->x + bytes, s->y + bytes);
}

void gale__cpu_scan(gale_type type, gale__reduce kind, const void *x, void *y, int64_t outer, int64_t n, int64_t inner)
{
    scanner s = {type, kind, x, y, n, inner};
    gale__parallel((size_t)outer, scan_part, &s);
}

static void put_one(gale_type type, int mode, char *to, const char *from)
{
    bool is_signed = gale__type_table[type].kind == 'i';
    if (gale__type_is_float(type)) {
        double a = gale__load_f64(type, to), b = gale__load_f64(type, from);
        gale__store_f64(type, to, STEP(double, mode, a, b));
    } else if (mode <= GALE__PROD || !is_signed) {
        uint64_t a = (uint64_t)gale__load_i64(type, to), b = (uint64_t)gale__load_i64(type, from);
        gale__store_i64(type, to, (int64_t)STEP(uint64_t, mode, a, b));
    } else {
        int64_t a = gale__load_i64(type, to), b = gale__load_i64(type, from);
        gale__store_i64(type, to, STEP(int64_t, mode, a, b));
    }
}

/* In the type itself: a sum or product of two f32, computed in double, is rounded to the same f32. */
static gale__simd_fn *put_many(gale_type type, int mode)
{
    static const int ops[4] = {GALE__ADD, GALE__MUL, GALE__MAX, GALE__MIN};
    bool plain = type == GALE_F32 || type == GALE_F64 || type == GALE_I32 || type == GALE_I64;
    return mode >= 0 && plain ? gale__simd_get()->op[ops[mode]][gale__simd_type_of(type)] : NULL;
}

static void copy_one(char *to, const char *from, size_t size)
{
    if (size == 4) memcpy(to, from, 4);
    else if (size == 8) memcpy(to, from, 8);
    else memcpy(to, from, size);
}

/* Neighbours that go to neighbouring places, such as rows, go together: each place is met once. */
void gale__cpu_put(
    gale_type type, int mode, void *y, int64_t n, const int64_t *index, const void *updates, int64_t count)
{
    size_t size = gale_type_size(type);
    gale__simd_fn *many = put_many(type, mode);
    for (int64_t i = 0, run; i < count; i += run) {
        run = gale__cpu_even_run(index + i, count - i, 1);
        if (index[i] <= -run || index[i] >= n) continue;
        int64_t first = index[i] < 0 ? -index[i] : 0, room = n - index[i], end = run < room ? run : room;
        char *to = (char *)y + (index[i] + first) * (int64_t)size;
        const char *from = (const char *)updates + (i + first) * (int64_t)size;
        if (mode < 0 && end - first == 1) copy_one(to, from, size);
        else if (mode < 0) memcpy(to, from, (size_t)(end - first) * size);
        else if (many) many(to, to, from, NULL, (size_t)(end - first));
        else
            for (int64_t k = 0; k < end - first; k++)
                put_one(type, mode, to + (size_t)k * size, from + (size_t)k * size);
    }
}
