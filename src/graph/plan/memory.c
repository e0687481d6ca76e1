/* Packs values into slabs.  Values are placed in the order in which they are first written; each takes the smallest
 * free hole that fits, else the end of a slab that may still grow, else a new slab.  Those that overwrite another value
 * take its place. */
#include "graph/plan/plan.h"
#include <string.h>

#define ALIGN 256u

typedef struct hole {
    int32_t slab;
    uint64_t offset, size;
} hole;
typedef struct packer {
    hole *holes;
    int n_holes;
    size_t holes_capacity; /* sorted by slab, offset */
    uint64_t *slabs;
    int n_slabs;
    size_t slabs_capacity;
    int *active;
    int n_active; /* heap of items in use, soonest last use first */
    uint64_t limit;
} packer;

static void remove_hole(packer *p, int i)
{
    memmove(&p->holes[i], &p->holes[i + 1], (size_t)(p->n_holes - i - 1) * sizeof *p->holes);
    p->n_holes--;
}

static gale_status give_back(packer *p, int32_t slab, uint64_t offset, uint64_t size)
{
    int i = 0;
    while (i < p->n_holes && (p->holes[i].slab < slab || (p->holes[i].slab == slab && p->holes[i].offset < offset)))
        i++;
    GALE_TRY(gale__grow((void **)&p->holes, &p->holes_capacity, (size_t)p->n_holes + 1, sizeof *p->holes));
    memmove(&p->holes[i + 1], &p->holes[i], (size_t)(p->n_holes - i) * sizeof *p->holes);
    p->holes[i] = (hole){slab, offset, size};
    p->n_holes++;
    if (i + 1 < p->n_holes && p->holes[i + 1].slab == slab && offset + size == p->holes[i + 1].offset) {
        p->holes[i].size += p->holes[i + 1].size;
        remove_hole(p, i + 1);
    }
    if (i > 0 && p->holes[i - 1].slab == slab && p->holes[i - 1].offset + p->holes[i - 1].size == offset) {
        p->holes[i - 1].size += p->holes[i].size;
        remove_hole(p, i);
    }
    return GALE_OK;
}

static gale_status new_slab(packer *p, uint64_t size)
{
    GALE_TRY(gale__grow((void **)&p->slabs, &p->slabs_capacity, (size_t)p->n_slabs + 1, sizeof *p->slabs));
    p->slabs[p->n_slabs++] = size;
    return GALE_OK;
}

static void take_place(gale__plan_item *item, gale__plan_item *of)
{
    item->slab = of->slab;
    item->offset = of->offset;
    of->left = true;
}

static gale_status place_item(packer *p, gale__plan_item *item)
{
    uint64_t size = (item->size + ALIGN - 1) / ALIGN * ALIGN;
    int best = -1;
    for (int i = 0; i < p->n_holes; i++)
        if (p->holes[i].size >= size && (best < 0 || p->holes[i].size < p->holes[best].size)) best = i;
    if (best >= 0) {
        hole *h = &p->holes[best];
        item->slab = h->slab;
        item->offset = h->offset;
        h->offset += size;
        h->size -= size;
        if (!h->size) remove_hole(p, best);
        return GALE_OK;
    }
    for (int s = 0; s < p->n_slabs; s++) {
        /* a hole at the slab's end is used first: only what is missing is added */
        uint64_t end = p->slabs[s], start = end;
        int tail = -1;
        for (int i = 0; i < p->n_holes; i++)
            if (p->holes[i].slab == s && p->holes[i].offset + p->holes[i].size == end)
                tail = i, start = p->holes[i].offset;
        if (start + size > p->limit && !(p->n_slabs == 1 && p->limit == 0)) continue;
        if (tail >= 0) remove_hole(p, tail);
        item->slab = s;
        item->offset = start;
        p->slabs[s] = start + size;
        return GALE_OK;
    }
    item->slab = p->n_slabs;
    item->offset = 0;
    return new_slab(p, size);
}

/* Min-heap by last use. */
static void push(packer *p, gale__plan_item *const *items, int i)
{
    int at = p->n_active++;
    while (at > 0 && items[p->active[(at - 1) / 2]]->last > items[i]->last) {
        p->active[at] = p->active[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    p->active[at] = i;
}

static int pop(packer *p, gale__plan_item *const *items)
{
    int top = p->active[0], last = p->active[--p->n_active], at = 0;
    for (int child; (child = 2 * at + 1) < p->n_active; at = child) {
        if (child + 1 < p->n_active && items[p->active[child + 1]]->last < items[p->active[child]]->last) child++;
        if (items[last]->last <= items[p->active[child]]->last) break;
        p->active[at] = p->active[child];
    }
    p->active[at] = last;
    return top;
}

gale_status gale__plan_memory_pack(
    gale__plan_item *items, gale__plan_item *const *order, int n, uint64_t slab_limit, uint64_t **slabs, int *n_slabs)
{
    packer p = {.limit = slab_limit ? slab_limit / ALIGN * ALIGN : UINT64_MAX / 2};
    gale_status status = GALE_OK;
    p.active = gale__alloc(((size_t)n + 1) * sizeof *p.active);
    if (!p.active) return GALE_NO_MEMORY;
    for (int i = 0; i < n && status == GALE_OK; i++) {
        while (p.n_active && order[p.active[0]]->last < order[i]->first && status == GALE_OK) {
            const gale__plan_item *gone = order[pop(&p, order)];
            if (!gone->left) status = give_back(&p, gone->slab, gone->offset, (gone->size + ALIGN - 1) / ALIGN * ALIGN);
        }
        if (order[i]->over >= 0) take_place(order[i], &items[order[i]->over]);
        else if (status == GALE_OK) status = place_item(&p, order[i]);
        push(&p, order, i);
    }
    gale__free(p.active);
    gale__free(p.holes);
    if (status != GALE_OK) return gale__free(p.slabs), status;
    *slabs = p.slabs;
    *n_slabs = p.n_slabs;
    return GALE_OK;
}
