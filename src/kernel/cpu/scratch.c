/* See scratch.h.  Pieces only grow: a larger piece serves every smaller need, so a smaller one is freed for each that
 * is made, and all are freed with the last kernel.  The head of a piece never moves, so a thread can try the piece it
 * had last, which is in its caches, without taking the lock.  The lock is needed only to find another piece or to wait.
 */
#include "kernel/cpu/scratch.h"
#include "base/thread.h"
#include <stdatomic.h>

enum { ABSENT, IDLE, OUT, HEADS_MOST = 4096, BEFORE = 64 }; /* bytes before a piece, where its head is named */
typedef struct head {
    _Alignas(64) _Atomic int state;
    size_t size;
    void *memory;
} head; /* size and memory are set while it is absent */
typedef struct store {
    head heads[HEADS_MOST];
    int used, kernels;
    _Atomic int waiting;
} store;

static struct {
    gale__mutex lock;
    gale__cond given;
    store kind[GALE__CPU_SCRATCH_COUNT];
} scratch;
static gale__once scratch_once;
static _Thread_local int last_had[GALE__CPU_SCRATCH_COUNT];

static void init_scratch(void)
{
    gale__mutex_init(&scratch.lock);
    gale__cond_init(&scratch.given);
}

static bool change(head *h, int from, int to) { return atomic_compare_exchange_strong(&h->state, &from, to); }

static void free_piece(head *h)
{
    if (h->memory) gale__free((char *)h->memory - BEFORE);
    h->memory = NULL;
    h->size = 0;
    atomic_store(&h->state, ABSENT);
}

/* Frees the first idle piece smaller than size. */
static void drop_one(store *s, size_t size)
{
    for (head *h = s->heads; h < s->heads + s->used; h++) {
        if (!change(h, IDLE, OUT)) continue;
        if (h->size < size) {
            free_piece(h);
            return;
        }
        atomic_store(&h->state, IDLE);
    }
}

/* Under the lock, which all changes of size are made with. */
static int count_pieces(const store *s, size_t size)
{
    int count = 0;
    for (const head *h = s->heads; h < s->heads + s->used; h++) count += h->size >= size;
    return count;
}

static head *absent_head(store *s)
{
    for (head *h = s->heads; h < s->heads + s->used; h++)
        if (atomic_load(&h->state) == ABSENT) return h;
    return s->used < HEADS_MOST ? &s->heads[s->used++] : NULL;
}

/* One more piece in the state given. */
static head *add_piece(store *s, size_t size, int state)
{
    head **memory = gale__alloc_aligned(64, BEFORE + size);
    if (!memory) return NULL;
    drop_one(s, size);
    head *h = absent_head(s);
    if (!h) {
        gale__free(memory);
        return NULL;
    }
    *memory = h;
    h->memory = (char *)memory + BEFORE;
    h->size = size;
    atomic_store(&h->state, state);
    return h;
}

static gale_status add_pieces(store *s, size_t size, int wanted)
{
    for (wanted -= count_pieces(s, size); wanted > 0; wanted--)
        if (!add_piece(s, size, IDLE)) return GALE_NO_MEMORY;
    return GALE_OK;
}

static size_t whole_pages(size_t size) { return (size + 4095) / 4096 * 4096; }

gale_status gale__cpu_scratch_reserve(gale__cpu_scratch_kind kind, size_t size_bytes, int pieces)
{
    if (!size_bytes) return GALE_OK;
    gale__once_run(&scratch_once, init_scratch);
    gale__mutex_lock(&scratch.lock);
    store *s = &scratch.kind[kind];
    s->kernels++;
    gale_status status = add_pieces(s, whole_pages(size_bytes), pieces);
    gale__mutex_unlock(&scratch.lock);
    if (status != GALE_OK) gale__cpu_scratch_release(kind, size_bytes);
    return status;
}

void gale__cpu_scratch_release(gale__cpu_scratch_kind kind, size_t size_bytes)
{
    if (!size_bytes) return;
    gale__mutex_lock(&scratch.lock);
    store *s = &scratch.kind[kind];
    if (--s->kernels == 0) {
        for (head *h = s->heads; h < s->heads + s->used; h++) free_piece(h);
        s->used = 0;
    }
    gale__mutex_unlock(&scratch.lock);
}

/* The smallest idle piece that does, now out: large ones are for those who need them. */
static head *find_piece(store *s, size_t size)
{
    head *best = NULL;
    for (head *h = s->heads; h < s->heads + s->used; h++)
        if (h->size >= size && (!best || h->size < best->size) && atomic_load(&h->state) == IDLE) best = h;
    return best && change(best, IDLE, OUT) ? best : NULL;
}

/* A thread that returns a piece reads `waiting` afterwards; here it is incremented first, so that at least one of the
 * two notices the other. */
static head *find_or_wait(store *s, size_t size)
{
    head *h;
    gale__mutex_lock(&scratch.lock);
    atomic_fetch_add(&s->waiting, 1);
    while (!(h = find_piece(s, size))) {
        if ((h = add_piece(s, whole_pages(size), OUT))) break;
        bool lost = false; /* it was idle, and another thread took it first: there may be more */
        for (head *other = s->heads; other < s->heads + s->used; other++)
            lost |= other->size >= size && atomic_load(&other->state) == IDLE;
        if (!lost) gale__cond_wait(&scratch.given, &scratch.lock);
    }
    atomic_fetch_sub(&s->waiting, 1);
    gale__mutex_unlock(&scratch.lock);
    return h;
}

void *gale__cpu_scratch_take(gale__cpu_scratch_kind kind, size_t size_bytes)
{
    if (!size_bytes) return NULL;
    store *s = &scratch.kind[kind];
    head *h = &s->heads[last_had[kind]];
    if (change(h, IDLE, OUT)) {
        if (h->size >= size_bytes) return h->memory;
        gale__cpu_scratch_give(kind, h->memory);
    }
    h = find_or_wait(s, size_bytes);
    last_had[kind] = (int)(h - s->heads);
    return h->memory;
}

void gale__cpu_scratch_give(gale__cpu_scratch_kind kind, void *piece)
{
    if (!piece) return;
    head *h = *(head **)(void *)((char *)piece - BEFORE);
    atomic_store(&h->state, IDLE);
    if (!atomic_load(&scratch.kind[kind].waiting)) return;
    gale__mutex_lock(&scratch.lock);
    gale__cond_broadcast(&scratch.given);
    gale__mutex_unlock(&scratch.lock);
}
