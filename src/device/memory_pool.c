/* The memory pool: driver memory is allocated in blocks and handed out in pieces, best fit first, split on allocation
 * and merged with free neighbours on release, because a driver allocation costs more than the kernel it is for.  Free
 * pieces are in bins by power of two, so releasing never needs memory and never fails. */
#include "device/front.h"
#include "base/env.h"
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define GRAIN 512u /* the coarsest start of a sub-buffer that an OpenCL driver asks for */
#define BLOCK_MIN ((size_t)2 << 20)

typedef struct gale__pool_piece piece;
typedef struct block {
    gale__mem mem;
    struct block *prev, *next;
    piece *first;
} block;
struct gale__pool_piece {
    block *in;
    size_t offset, size;
    bool used;
    piece *left, *right; /* neighbours in the block */
    piece *prev, *next;  /* others of the bin, while free; next: of those aside */
};
typedef struct gale__pool {
    gale_device *device;
    gale__mutex lock;
    block *blocks;
    piece *bins[64];
    uint64_t filled; /* bit i: bins[i] is not empty */
    bool caching, doubling;
    int late;     /* number of hung streams that may still write to freed memory */
    piece *aside; /* memory freed meanwhile (quarantined); counted as in use */
    gale_memory_stats stats;
} pool;

static int log2_floor(uint64_t v)
{
    int n = 0;
    while (v >>= 1) n++;
    return n;
}

static size_t round_up(size_t size, size_t to) { return (size + to - 1) / to * to; }

static void bin_put(pool *p, piece *x)
{
    int bin = log2_floor(x->size);
    x->prev = NULL;
    x->next = p->bins[bin];
    if (x->next) x->next->prev = x;
    p->bins[bin] = x;
    p->filled |= 1ull << bin;
    p->stats.fragments++;
}

static void bin_take(pool *p, piece *x)
{
    int bin = log2_floor(x->size);
    if (x->prev) x->prev->next = x->next;
    else p->bins[bin] = x->next;
    if (x->next) x->next->prev = x->prev;
    if (!p->bins[bin]) p->filled &= ~(1ull << bin);
    p->stats.fragments--;
}

static piece *best_of(piece *list, size_t size, size_t block_most)
{
    piece *best = NULL;
    for (piece *x = list; x; x = x->next)
        if (x->size >= size && x->in->mem.size <= block_most && (!best || x->size < best->size)) best = x;
    return best;
}

/* Small pieces have separate blocks: a long-lived one would otherwise keep a large block from being reused or
 * returned. */
static piece *find_fit(const pool *p, size_t size, bool anywhere)
{
    int bin = log2_floor(size);
    size_t block_most = anywhere || size > BLOCK_MIN / 2 ? SIZE_MAX : BLOCK_MIN;
    piece *best = NULL;
    uint64_t from = p->filled >> bin << bin;
    for (int i = bin; !best && i < 64 && from >> i; i++) best = best_of(p->bins[i], size, block_most);
    return best;
}

/* Leaves the rest of a piece in the pool.  Without host memory for it the piece is handed out whole. */
static void split(pool *p, piece *x, size_t size)
{
    if (x->size - size < GRAIN) return;
    piece *rest = gale__calloc(1, sizeof *rest);
    if (!rest) return;
    *rest = (piece){.in = x->in, .offset = x->offset + size, .size = x->size - size, .left = x, .right = x->right};
    if (rest->right) rest->right->left = rest;
    x->right = rest;
    x->size = size;
    bin_put(p, rest);
}

static void block_destroy(pool *p, block *b)
{
    if (b->prev) b->prev->next = b->next;
    else p->blocks = b->next;
    if (b->next) b->next->prev = b->prev;
    p->stats.reserved_bytes -= b->mem.size;
    p->device->backend->free(p->device, &b->mem);
    gale__free(b->first);
    gale__free(b);
}

static bool block_is_free(const block *b) { return !b->first->used && !b->first->right; }

static bool trim(pool *p)
{
    bool any = false;
    for (block *b = p->blocks, *next; b; b = next) {
        next = b->next;
        if (!block_is_free(b)) continue;
        bin_take(p, b->first);
        block_destroy(p, b);
        any = true;
    }
    return any;
}

/* How much to ask of the driver for a request of `size`. */
static size_t grown(const pool *p, size_t size)
{
    if (!p->caching) return size;
    size_t want = round_up(size, BLOCK_MIN);
    if (p->doubling && want & (want - 1)) want = (size_t)1 << (log2_floor(want) + 1);
    uint64_t most = p->device->info.caps.alloc_max_bytes;
    return most && want > most ? size : want;
}

/* What can still be had, in the pool and from the driver. */
static uint64_t memory_left(const pool *p, uint64_t *total)
{
    const gale_device *d = p->device;
    uint64_t left = d->info.caps.memory_free_bytes, limit = p->stats.limit_bytes, used = p->stats.in_use_bytes;
    *total = d->info.caps.memory_bytes;
    if (d->backend->memory_info) d->backend->memory_info(p->device, total, &left);
    if (!left && *total > p->stats.reserved_bytes)
        left = *total - p->stats.reserved_bytes; /* the driver does not say */
    left += p->stats.reserved_bytes - used;
    if (limit && limit - (used < limit ? used : limit) < left) left = limit - (used < limit ? used : limit);
    return left;
}

uint64_t gale__device_memory_left(const gale_device *device)
{
    uint64_t total;
    gale__mutex_lock(&device->pool->lock);
    uint64_t left = memory_left(device->pool, &total);
    gale__mutex_unlock(&device->pool->lock);
    return left;
}

static gale_status no_memory(pool *p, size_t size)
{
    const gale_device *d = p->device;
    uint64_t total, left = memory_left(p, &total), limit = p->stats.limit_bytes;
    char ask[32], have[32], all[32], most[32];
    gale__bytes_text(limit, most);
    return gale__fail(GALE_NO_MEMORY, "%s out of memory: %s requested, free %s%s of %s (pool limit %s)",
        gale__backend_label(d->backend), gale__bytes_text(size, ask), gale__bytes_text(left, have),
        left >= size ? " in smaller pieces" : "", gale__bytes_text(total, all), limit ? most : "none");
}

/* Tries the size that the growth policy wants, then the exact size; then both again after returning unused blocks. */
static gale_status block_fill(pool *p, size_t size, block *b)
{
    size_t wanted[2] = {grown(p, size), size};
    for (int i = 0; i < 4; i++) {
        if (i == 2 && !trim(p)) break;
        size_t want = wanted[i & 1];
        if ((i & 1) && wanted[0] == want) continue;
        if (p->stats.limit_bytes && p->stats.reserved_bytes + want > p->stats.limit_bytes) continue;
        gale_status status = p->device->backend->alloc(p->device, GALE__MEM_DEVICE, want, &b->mem);
        if (status != GALE_NO_MEMORY) return status;
    }
    return no_memory(p, size);
}

static gale_status block_create(pool *p, size_t size, piece **out)
{
    block *b = gale__calloc(1, sizeof *b);
    piece *x = b ? gale__calloc(1, sizeof *x) : NULL;
    gale_status status = x ? block_fill(p, size, b) : GALE_NO_MEMORY;
    if (status != GALE_OK) {
        gale__free(x);
        gale__free(b);
        return status;
    }
    *x = (piece){.in = b, .size = b->mem.size};
    b->first = x;
    b->next = p->blocks;
    if (b->next) b->next->prev = b;
    p->blocks = b;
    p->stats.reserved_bytes += b->mem.size;
    p->stats.driver_allocations++;
    *out = x;
    return GALE_OK;
}

gale__mem *gale__pool_piece_mem(piece *x, size_t *offset)
{
    *offset = x->offset;
    return &x->in->mem;
}

static gale_status take_locked(pool *p, size_t size, piece **out)
{
    piece *x = find_fit(p, size, false), *made = NULL;
    gale_status status = x ? GALE_OK : block_create(p, size, &made);
    if (status == GALE_NO_MEMORY) x = find_fit(p, size, true);
    if (x) bin_take(p, x);
    else if (status == GALE_OK) x = made;
    else return status;
    split(p, x, size);
    x->used = true;
    p->stats.buffers++;
    p->stats.allocations++;
    p->stats.in_use_bytes += x->size;
    if (p->stats.in_use_bytes > p->stats.peak_bytes) p->stats.peak_bytes = p->stats.in_use_bytes;
    *out = x;
    return GALE_OK;
}

gale_status gale__pool_take(pool *p, size_t size, piece **out)
{
    uint64_t most = p->device->info.caps.alloc_max_bytes;
    if (!most || most > SIZE_MAX / 4) most = SIZE_MAX / 4;
    if (size > most) {
        char ask[32], text[32];
        return gale__fail(GALE_NO_MEMORY,
            "%s out of memory: %s requested, but the largest single allocation of this device is %s",
            gale__backend_label(p->device->backend), gale__bytes_text(size, ask), gale__bytes_text(most, text));
    }
    gale__mutex_lock(&p->lock);
    gale_status status = take_locked(p, round_up(size ? size : 1, GRAIN), out);
    gale__mutex_unlock(&p->lock);
    return status;
}

/* Joins x with the piece to its right, both free and out of the bins. */
static void join(piece *x)
{
    piece *y = x->right;
    x->size += y->size;
    x->right = y->right;
    if (x->right) x->right->left = x;
    gale__free(y);
}

static void give_back(pool *p, piece *x)
{
    p->stats.in_use_bytes -= x->size;
    x->used = false;
    if (x->right && !x->right->used) {
        bin_take(p, x->right);
        join(x);
    }
    if (x->left && !x->left->used) {
        x = x->left;
        bin_take(p, x);
        join(x);
    }
    if (!p->caching && block_is_free(x->in)) block_destroy(p, x->in);
    else bin_put(p, x);
}

void gale__pool_give(pool *p, piece *x)
{
    gale__mutex_lock(&p->lock);
    p->stats.buffers--;
    if (p->late) {
        x->next = p->aside;
        p->aside = x;
    } else give_back(p, x);
    gale__mutex_unlock(&p->lock);
}

static void give_aside(pool *p)
{
    for (piece *x = p->aside, *next; x; x = next) {
        next = x->next;
        give_back(p, x);
    }
    p->aside = NULL;
}

void gale__pool_late(pool *p, bool late)
{
    gale__mutex_lock(&p->lock);
    p->late += late ? 1 : -1;
    if (!p->late) give_aside(p);
    gale__mutex_unlock(&p->lock);
}

gale_status gale__pool_create(gale_device *device, uint64_t limit_bytes, pool **out)
{
    pool *p = gale__calloc(1, sizeof *p);
    if (!p) return GALE_NO_MEMORY;
    p->device = device;
    p->stats.limit_bytes = limit_bytes;
    p->caching = gale__env_get_i64(GALE__ENV_POOL, 1) != 0;
    const char *growth = gale__env_get(GALE__ENV_POOL_GROWTH);
    p->doubling = !strcmp(growth, "next-power-of-two");
    if (!p->doubling && strcmp(growth, "same-as-requested"))
        gale__log(GALE__WARN,
            "GALE_POOL_GROWTH=%s is ignored: expected same-as-requested or next-power-of-two; using same-as-requested",
            growth);
    gale__mutex_init(&p->lock);
    *out = p;
    return GALE_OK;
}

void gale__pool_destroy(pool **pp)
{
    pool *p = *pp;
    if (!p) return;
    give_aside(p); /* freeing would block, or pull memory from under a kernel that hangs */
    trim(p);
    gale__mutex_finish(&p->lock);
    gale__free(p);
    *pp = NULL;
}

void gale_memory_get_stats(const gale_device *device, gale_memory_stats *out)
{
    if (GALE__LACKS({"device", device}, {"out", out})) return;
    pool *p = device->pool;
    gale__mutex_lock(&p->lock);
    *out = p->stats;
    out->cached_bytes = p->stats.reserved_bytes - p->stats.in_use_bytes;
    out->largest_free_bytes = 0;
    if (p->filled)
        for (piece *x = p->bins[log2_floor(p->filled)]; x; x = x->next)
            if (x->size > out->largest_free_bytes) out->largest_free_bytes = x->size;
    gale__mutex_unlock(&p->lock);
}

void gale_memory_trim(gale_device *device)
{
    if (GALE__LACKS({"device", device})) return;
    GALE__WITHIN(device->context);
    gale__mutex_lock(&device->pool->lock);
    trim(device->pool);
    gale__mutex_unlock(&device->pool->lock);
}
