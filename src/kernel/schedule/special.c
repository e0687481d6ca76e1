/* Which launches make a sort, a scan or a scatter of a given size, with their grids, words and buffers. */
#include "kernel/schedule/special_ir.h"
#include <stdio.h>
#include <string.h>

#define THREADS 256
#define SCAN_BLOCK 2048
#define SCAN_WALKED 64 /* lines up to this long are walked by one thread each */
#define SCAN_SIDE 32   /* likewise this many lines side by side */

static uint64_t power_up(uint64_t n)
{
    uint64_t p = 1;
    while (p < n) p *= 2;
    return p;
}

static uint64_t up(uint64_t n, uint64_t by) { return (n + by - 1) / by; }

static uint32_t threads_of(const gale_device_caps *caps, uint32_t wanted)
{
    uint32_t most = caps->group_max ? caps->group_max : 64;
    while (wanted > most) wanted /= 2;
    return wanted;
}

static gale_status too_large(const char *what, int64_t elements)
{
    return gale__fail(GALE_LIMIT, "%s of %lld elements: this device takes fewer than 2^31 at once; split it", what,
        (long long)elements);
}

static bool is_wide(gale_type type) { return gale__type_table[gale__compute_type(type)].bits == 64; }

gale_status gale__special_sort(
    gale__special_job *job, const gale_device_caps *caps, gale_type type, int64_t rows, int64_t n, bool descending)
{
    bool wide = is_wide(type);
    uint64_t padded = power_up((uint64_t)(n < 2 ? 2 : n)), most = 2048;
    *job = (gale__special_job){.op = 's', .type = type, .mode = descending, .rows = rows, .n = n, .padded = padded};
    if (rows > 0 && padded > (uint64_t)INT32_MAX / (uint64_t)rows) return too_large("a sort", rows * n);
    while (most > 64 && caps->shared_bytes && most * 12 > caps->shared_bytes) most /= 2;
    job->block = padded > most ? most : rows == 1 || padded > 512 ? padded : most < 512 ? most : 512;
    job->threads = threads_of(caps, (uint32_t)(job->block / 2 < 512 ? job->block / 2 : 512));
    job->n_launches = rows > 0 && n > 0;
    if (!job->n_launches || padded <= job->block) return GALE_OK;
    /* Blocks, then for each width beyond: a step for each gap that is too far for a block, and a merge; then the
     * result. */
    job->n_launches = 2;
    for (uint64_t width = 2 * job->block; width <= padded; width *= 2)
        for (uint64_t gap = width / 2; gap >= job->block / 2; gap /= 2) job->n_launches++;
    job->scratch_bytes = (uint64_t)rows * padded * (wide ? 12 : 8);
    return GALE_OK;
}

static int scan_levels(const gale__special_job *job)
{
    int levels = 1;
    for (uint64_t blocks = up((uint64_t)job->n, job->block); blocks > 1; blocks = up(blocks, job->block)) levels++;
    return levels;
}

gale_status gale__special_scan(gale__special_job *job, const gale_device_caps *caps, gale_type type, gale__reduce kind,
    int64_t outer, int64_t n, int64_t inner)
{
    *job = (gale__special_job){
        .op = 'c', .type = type, .mode = kind, .rows = outer, .n = n, .inner = inner, .block = SCAN_BLOCK};
    if (outer == 0 || n == 0 || inner == 0) return GALE_OK;
    if ((double)outer * (double)n * (double)inner > INT32_MAX) return too_large("a scan", outer * n * inner);
    job->threads = threads_of(caps, THREADS);
    job->block = (uint64_t)job->threads * (SCAN_BLOCK / THREADS);
    if (n <= SCAN_WALKED || (inner >= SCAN_SIDE && !(caps->loop_max && n > caps->loop_max))) {
        job->n_launches = 1;
        return GALE_OK;
    }
    job->levels = scan_levels(job);
    job->n_launches = 2 * job->levels - 1;
    for (uint64_t blocks = up((uint64_t)n, job->block), i = 0; i < (uint64_t)job->levels;
         i++, blocks = up(blocks, job->block))
        job->scratch_bytes += (uint64_t)(outer * inner) * blocks * 8;
    return GALE_OK;
}

static uint64_t order_bytes(const gale__special_job *job) { return up((uint64_t)job->count * 8, 256) * 256; }

static gale_status put_sort(const gale__special_job *job, gale__special_job *sort)
{
    const gale_device_caps caps = {.group_max = job->threads, .shared_bytes = (uint32_t)job->block};
    gale_status status = gale__special_sort(sort, &caps, GALE_I64, 1, job->count, false);
    sort->limit = (uint64_t)job->n;
    return status;
}

gale_status gale__special_put(
    gale__special_job *job, const gale_device_caps *caps, gale_type type, int mode, int64_t n, int64_t count)
{
    gale__special_job sort;
    *job = (gale__special_job){.op = 'p', .type = type, .mode = mode, .n = n, .count = count};
    if (count == 0 || n == 0) return GALE_OK;
    if (n > INT32_MAX) return too_large("a scatter", n);
    job->threads = threads_of(caps, 512);
    job->block = caps->shared_bytes;
    GALE_TRY(put_sort(job, &sort));
    /* A thread walks all updates of one element: where loops are cut off, a launch takes only as many as it can walk.
     */
    job->piece =
        caps->loop_max && mode >= 0 && (uint64_t)count > caps->loop_max / 2 ? caps->loop_max / 2 : (uint64_t)count;
    job->n_launches = sort.n_launches + (int)up((uint64_t)count, job->piece);
    job->scratch_bytes = order_bytes(job) + sort.scratch_bytes;
    return GALE_OK;
}

static void set_groups(gale__special_launch *l, uint64_t groups)
{
    uint64_t y = up(groups, 65535);
    l->groups[0] = (uint32_t)up(groups, y);
    l->groups[1] = (uint32_t)y;
    l->groups[2] = 1;
}

static void set_ref(gale__special_launch *l, int buffer, uint64_t offset)
{
    l->refs[l->n_refs++] = (gale__special_ref){(uint8_t)buffer, offset};
}

static void set_words(gale__special_launch *l, int n, const uint64_t *words)
{
    for (int i = 0; i < n; i++) l->words[i] = (uint32_t)words[i];
    l->n_words = n;
}

/* The i-th launch after the blocks: width and gap of its step; a gap below the block means a merge.  False: past the
 * last. */
static bool sort_step(const gale__special_job *job, int i, uint64_t *width, uint64_t *gap)
{
    for (*width = 2 * job->block; *width <= job->padded; *width *= 2)
        for (*gap = *width / 2; *gap >= job->block / 2; *gap /= 2)
            if (i-- == 0) return true;
    return false;
}

static uint64_t log2_of(uint64_t n)
{
    uint64_t k = 0;
    while (((uint64_t)1 << k) < n) k++;
    return k;
}

static void sort_launch(const gale__special_job *job, int i, gale__special_launch *l)
{
    uint64_t all = (uint64_t)job->rows * job->padded, width = 0, gap = 0;
    l->limited = job->limit != 0;
    l->wide = !l->limited && is_wide(job->type);
    l->block = (uint32_t)job->block;
    l->threads = job->threads;
    l->mode = (uint8_t)job->mode;
    uint64_t places = all * (l->wide ? 8 : 4);
    if (job->n_launches == 1) {
        l->kernel = SORT_ROWS;
        width = log2_of(job->padded) + 1;
        set_ref(l, GALE__SPECIAL_INPUT, 0);
        set_ref(l, GALE__SPECIAL_RESULT, 0);
        set_groups(l, up(all, job->block));
    } else if (i == 0) {
        l->kernel = SORT_BLOCKS;
        set_ref(l, GALE__SPECIAL_INPUT, 0);
        set_ref(l, GALE__SPECIAL_SCRATCH, 0);
        set_ref(l, GALE__SPECIAL_SCRATCH, places);
        set_groups(l, all / job->block);
    } else if (sort_step(job, i - 1, &width, &gap)) {
        l->kernel = gap >= job->block ? SORT_STEP : SORT_MERGE;
        set_ref(l, GALE__SPECIAL_SCRATCH, 0);
        set_ref(l, GALE__SPECIAL_SCRATCH, places);
        set_groups(l, l->kernel == SORT_STEP ? up(all / 2, job->threads) : all / job->block);
    } else {
        l->kernel = SORT_WRITE;
        set_ref(l, GALE__SPECIAL_SCRATCH, places);
        set_ref(l, GALE__SPECIAL_RESULT, 0);
        set_groups(l, up(all, job->threads));
    }
    /* Those that see keys alone are the same for all types. */
    bool keys_alone = l->kernel != SORT_ROWS && l->kernel != SORT_BLOCKS;
    l->type = (uint8_t)(keys_alone ? GALE_U32 : job->type);
    if (keys_alone) l->mode = l->limited = 0;
    set_words(l, 6, (uint64_t[]){(uint64_t)job->n, job->padded, all, job->limit, width, gap});
}

/* A scan's levels: 0 is the data, level k + 1 the totals of level k's blocks. */
typedef struct level {
    uint64_t n, blocks, offset;
} level; /* offset: of its totals in the scratch */

static level level_of(const gale__special_job *job, int k)
{
    uint64_t lines = (uint64_t)(job->rows * job->inner);
    level v = {(uint64_t)job->n, up((uint64_t)job->n, job->block), 0};
    for (int i = 0; i < k; i++) v = (level){v.blocks, up(v.blocks, job->block), v.offset + lines * v.blocks * 8};
    return v;
}

static void scan_launch(const gale__special_job *job, int i, gale__special_launch *l)
{
    uint64_t lines = (uint64_t)(job->rows * job->inner);
    l->mode = (uint8_t)job->mode;
    l->threads = job->threads;
    l->block = (uint32_t)job->block;
    l->type = (uint8_t)job->type;
    if (!job->levels) {
        l->kernel = SCAN_LINES;
        set_ref(l, GALE__SPECIAL_INPUT, 0);
        set_ref(l, GALE__SPECIAL_RESULT, 0);
        set_words(l, 3, (uint64_t[]){(uint64_t)job->n, (uint64_t)job->inner, lines});
        set_groups(l, up(lines, job->threads));
        return;
    }
    bool down = i >= job->levels;
    int k = down ? 2 * job->levels - 2 - i : i;
    level v = level_of(job, k), above = level_of(job, k ? k - 1 : 0);
    uint64_t inner = k ? 1 : (uint64_t)job->inner;
    if (k) l->type = (uint8_t)gale__compute_type(job->type);
    l->kernel = down ? SCAN_APPLY : SCAN_BLOCKS;
    if (!down) set_ref(l, k ? GALE__SPECIAL_SCRATCH : GALE__SPECIAL_INPUT, k ? above.offset : 0);
    set_ref(l, k ? GALE__SPECIAL_SCRATCH : GALE__SPECIAL_RESULT, k ? above.offset : 0);
    set_ref(l, GALE__SPECIAL_SCRATCH, v.offset);
    set_words(l, 5, (uint64_t[]){v.n, inner, lines * (down ? v.n : v.blocks), v.blocks, job->block});
    set_groups(l, down ? up(lines * v.n, job->threads) : lines * v.blocks);
}

static void put_launch(const gale__special_job *job, int i, gale__special_launch *l)
{
    gale__special_job sort;
    put_sort(job, &sort);
    if (i < sort.n_launches) {
        sort_launch(&sort, i, l);
        for (int r = 0; r < l->n_refs; r++) {
            gale__special_ref *ref = &l->refs[r];
            if (ref->buffer == GALE__SPECIAL_INPUT) ref->buffer = GALE__SPECIAL_INDEX;
            else if (ref->buffer == GALE__SPECIAL_RESULT) ref->buffer = GALE__SPECIAL_SCRATCH;
            else ref->offset += order_bytes(job);
        }
        return;
    }
    l->kernel = PUT_APPLY;
    l->mode = job->mode < 0 ? UINT8_MAX : (uint8_t)job->mode;
    l->type = (uint8_t)job->type;
    l->threads = job->threads < THREADS ? job->threads : THREADS;
    set_ref(l, GALE__SPECIAL_RESULT, 0);
    set_ref(l, GALE__SPECIAL_INPUT, 0);
    set_ref(l, GALE__SPECIAL_INDEX, 0);
    set_ref(l, GALE__SPECIAL_SCRATCH, 0);
    uint64_t first = (uint64_t)(i - sort.n_launches) * job->piece, left = (uint64_t)job->count - first,
             n = left < job->piece ? left : job->piece;
    set_words(l, 3, (uint64_t[]){first + n, (uint64_t)job->n, first});
    set_groups(l, up(n, l->threads));
}

void gale__special_launch_get(const gale__special_job *job, int i, gale__special_launch *out)
{
    static const char *const names[] = {"sort_rows", "sort_blocks", "sort_step", "sort_merge", "sort_write",
        "scan_lines", "scan_blocks", "scan_apply", "put"};
    memset(out, 0, sizeof *out);
    if (job->op == 's') sort_launch(job, i, out);
    else if (job->op == 'c') scan_launch(job, i, out);
    else put_launch(job, i, out);
    snprintf(out->key, sizeof out->key, "gale_%s_%s_%d_%d_%d_%u_%u", names[out->kernel],
        gale_type_name((gale_type)out->type), out->mode, out->wide, out->limited, out->block, out->threads);
}

gale_status gale__special_build(const gale__special_launch *l, gale__ir *ir)
{
    gale__ir_init(ir, l->key);
    ir->group[0] = l->threads;
    ir->n_pointers = l->n_refs;
    ir->n_words = l->n_words;
    if (l->kernel == PUT_APPLY) gale__special_build_put(l, ir);
    else if (l->kernel >= SCAN_LINES) gale__special_build_scan(l, ir);
    else gale__special_build_sort(l, ir);
    gale_status status = gale__ir_check(ir);
    if (status != GALE_OK) gale__ir_finish(ir);
    return status;
}
