/* See scratch.h.  Pieces only grow: a larger one serves every smaller need, so a smaller one is freed for each that is
 * made, and all are freed with the last kernel. */
#include "kernel/cpu/scratch.h"
#include "base/thread.h"

#define HEAD_BYTES 64
typedef struct piece { struct piece *next; size_t size; bool out; } piece;
typedef struct store { piece *pieces; int kernels; } store;

static struct { gale__mutex lock; gale__cond given; store kind[GALE__CPU_SCRATCH_COUNT]; } scratch;
static gale__once scratch_once;

static void init_scratch(void)
{
    gale__mutex_init(&scratch.lock);
    gale__cond_init(&scratch.given);
}

/* Unlinks and frees the first idle piece smaller than size. */
static void drop_one(store *s, size_t size)
{
    for (piece **at = &s->pieces; *at; at = &(*at)->next) {
        piece *p = *at;
        if (p->out || p->size >= size) continue;
        *at = p->next;
        gale__free(p);
        return;
    }
}

static int count_pieces(const store *s, size_t size)
{
    int count = 0;
    for (const piece *p = s->pieces; p; p = p->next) count += p->size >= size;
    return count;
}

static piece *add_piece(store *s, size_t size)
{
    piece *p = gale__alloc_aligned(64, HEAD_BYTES + size);
    if (!p) return NULL;
    drop_one(s, size);
    *p = (piece){s->pieces, size, false};
    return s->pieces = p;
}

static gale_status add_pieces(store *s, size_t size, int wanted)
{
    for (wanted -= count_pieces(s, size); wanted > 0; wanted--)
        if (!add_piece(s, size)) return GALE_NO_MEMORY;
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
    if (--s->kernels == 0)
        while (s->pieces) {
            piece *p = s->pieces;
            s->pieces = p->next;
            gale__free(p);
        }
    gale__mutex_unlock(&scratch.lock);
}

/* The smallest idle piece that does: large ones are for those who need them. */
static piece *find_piece(const store *s, size_t size)
{
    piece *best = NULL;
    for (piece *p = s->pieces; p; p = p->next)
        if (!p->out && p->size >= size && (!best || p->size < best->size)) best = p;
    return best;
}

void *gale__cpu_scratch_take(gale__cpu_scratch_kind kind, size_t size_bytes)
{
    if (!size_bytes) return NULL;
    store *s = &scratch.kind[kind];
    piece *p;
    gale__mutex_lock(&scratch.lock);
    while (!(p = find_piece(s, size_bytes))) {
        if (count_pieces(s, size_bytes) < gale__parallel_width() && (p = add_piece(s, whole_pages(size_bytes)))) break;
        gale__cond_wait(&scratch.given, &scratch.lock);
    }
    p->out = true;
    gale__mutex_unlock(&scratch.lock);
    return (char *)p + HEAD_BYTES;
}

void gale__cpu_scratch_give(gale__cpu_scratch_kind kind, void *given)
{
    (void)kind;
    if (!given) return;
    piece *p = (piece *)(void *)((char *)given - HEAD_BYTES);
    gale__mutex_lock(&scratch.lock);
    p->out = false;
    gale__cond_broadcast(&scratch.given);
    gale__mutex_unlock(&scratch.lock);
}
