/* Host memory: the C library's allocator with counters, and arenas.  The counters let a test make the n-th allocation
 * of any run fail and check for leaks afterwards. */
#include "base/cpu.h"
#include "base/mem.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static _Atomic uint64_t fail_at, fail_last, asked; /* allocations from fail_at to fail_last fail */
static _Atomic int64_t live;
static _Atomic bool
    counting; /* set by the first call of a counting function: a counter that all threads write is not free */

static void fail_between(uint64_t first, uint64_t last)
{
    atomic_store(&counting, true);
    atomic_store(&fail_last, 0);
    atomic_store(&asked, 0);
    atomic_store(&fail_at, first);
    atomic_store(&fail_last, last);
}

void gale__alloc_fail_at(uint64_t n) { fail_between(n, n); }
void gale__alloc_fail_from(uint64_t n) { fail_between(n, n ? UINT64_MAX : 0); }

uint64_t gale__alloc_count(void)
{
    atomic_store(&counting, true);
    return atomic_load(&asked);
}

int64_t gale__alloc_live(void) { return atomic_load(&live); }

/* The system overcommits memory and kills the process when it is written to; a request that cannot be satisfied is
 * rejected here. */
enum { LARGE = 1 << 30 };

/* True if this allocation must fail, or if a test wants it to. */
static bool must_fail(size_t size_bytes)
{
    if (size_bytes >= LARGE && size_bytes > gale__cpu_memory_left_bytes()) return true;
    if (!atomic_load_explicit(&counting, memory_order_relaxed)) return false;
    uint64_t n = atomic_fetch_add_explicit(&asked, 1, memory_order_relaxed) + 1;
    return n <= atomic_load_explicit(&fail_last, memory_order_relaxed) &&
           n >= atomic_load_explicit(&fail_at, memory_order_relaxed);
}

static void *taken(void *p, size_t size_bytes)
{
    if (p) atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    else gale__fail(GALE_NO_MEMORY, "out of host memory: %zu bytes requested", size_bytes);
    return p;
}

void *gale__alloc(size_t size_bytes)
{
    return taken(must_fail(size_bytes) ? NULL : malloc(size_bytes ? size_bytes : 1), size_bytes);
}

void *gale__calloc(size_t count, size_t size_bytes)
{
    size_t total;
    if (gale__mul_size(count, size_bytes, &total)) {
        gale__fail(GALE_NO_MEMORY, "out of host memory: %zu times %zu bytes requested", count, size_bytes);
        return NULL;
    }
    return taken(must_fail(total) ? NULL : calloc(total ? total : 1, 1), total);
}

void *gale__realloc(void *p, size_t size_bytes)
{
    if (!p) return gale__alloc(size_bytes);
    void *q = must_fail(size_bytes) ? NULL : realloc(p, size_bytes ? size_bytes : 1);
    if (!q) gale__fail(GALE_NO_MEMORY, "out of host memory: %zu bytes requested", size_bytes);
    return q;
}

/* Feature maps are read a piece of each channel at a time: with pages of 4 KB most pieces begin with a page that the
 * processor has to look up. */
enum { HUGE_PAGE = 2 << 20 };

void *gale__alloc_aligned(size_t align, size_t size_bytes)
{
    void *p = NULL;
    bool huge = size_bytes >= HUGE_PAGE && align <= HUGE_PAGE;
    if (align < sizeof(void *)) align = sizeof(void *);
    if (must_fail(size_bytes) || posix_memalign(&p, huge ? HUGE_PAGE : align, size_bytes ? size_bytes : 1)) p = NULL;
#ifdef MADV_HUGEPAGE
    if (p && huge) (void)madvise(p, size_bytes, MADV_HUGEPAGE); /* a wish: the system may not know them */
#endif
    return taken(p, size_bytes);
}

void gale__free(void *p)
{
    if (!p) return;
    atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    free(p);
}

char *gale__strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    char *copy = gale__alloc(n);
    return copy ? memcpy(copy, s, n) : NULL;
}

bool gale__mul_size(size_t a, size_t b, size_t *out) { return __builtin_mul_overflow(a, b, out); }
bool gale__add_size(size_t a, size_t b, size_t *out) { return __builtin_add_overflow(a, b, out); }

gale_status gale__grow(void **items, size_t *capacity, size_t need, size_t item_bytes)
{
    if (need <= *capacity) return GALE_OK;
    size_t room = *capacity < 8 ? 8 : *capacity + *capacity / 2, bytes;
    if (room < need) room = need;
    if (gale__mul_size(room, item_bytes, &bytes))
        return gale__fail(GALE_NO_MEMORY, "out of host memory: %zu items of %zu bytes requested", room, item_bytes);
    void *p = gale__realloc(*items, bytes);
    if (!p) return GALE_NO_MEMORY;
    *items = p;
    *capacity = room;
    return GALE_OK;
}

/* Arenas.  Blocks grow with the arena, so that a small one stays small and a large one has few blocks. */
typedef struct gale__arena_block {
    struct gale__arena_block *next;
    size_t used, size;
} block;
#define BLOCK_HEAD ((sizeof(block) + 15) & ~(size_t)15)
#define BLOCK_LEAST 1024
#define BLOCK_MOST (256 * 1024)

static block *add_block(gale__arena *a, size_t size_bytes)
{
    size_t size = a->total_bytes < BLOCK_LEAST  ? BLOCK_LEAST
                  : a->total_bytes > BLOCK_MOST ? BLOCK_MOST
                                                : a->total_bytes;
    if (size < size_bytes) size = size_bytes;
    block *b = size > SIZE_MAX - BLOCK_HEAD ? NULL : gale__calloc(1, BLOCK_HEAD + size);
    if (!b) return NULL;
    b->size = size;
    a->total_bytes += size;
    /* A block for one large object is inserted after the head, which may still have room. */
    if (a->head && a->head->size - a->head->used > size - size_bytes) {
        b->next = a->head->next;
        a->head->next = b;
    } else {
        b->next = a->head;
        a->head = b;
    }
    return b;
}

void *gale__arena_alloc(gale__arena *a, size_t size_bytes)
{
    /* Counted like any other allocation, so that tests can make each one fail, not only those that need a new block. */
    if (must_fail(size_bytes) || size_bytes > SIZE_MAX / 2) {
        gale__fail(GALE_NO_MEMORY, "out of host memory: %zu bytes requested", size_bytes);
        return NULL;
    }
    size_t size = size_bytes ? (size_bytes + 15) & ~(size_t)15 : 16; /* no two share an address */
    block *b = a->head;
    if (!b || b->size - b->used < size) b = add_block(a, size);
    if (!b) return NULL;
    void *p = (char *)b + BLOCK_HEAD + b->used;
    b->used += size;
    return p;
}

void *gale__arena_copy(gale__arena *a, const void *p, size_t size_bytes)
{
    void *copy = gale__arena_alloc(a, size_bytes);
    if (copy && size_bytes) memcpy(copy, p, size_bytes);
    return copy;
}

char *gale__arena_strdup(gale__arena *a, const char *s) { return gale__arena_copy(a, s, strlen(s) + 1); }

char *gale__arena_printf(gale__arena *a, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    char *text = n < 0 ? NULL : gale__arena_alloc(a, (size_t)n + 1);
    if (text) vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

void gale__arena_finish(gale__arena *a)
{
    for (block *b = a->head, *next; b; b = next) {
        next = b->next;
        gale__free(b);
    }
    *a = (gale__arena){0};
}
