/* Host memory.  Every allocation of the library goes through this file, so that tests can count live allocations and
 * make the n-th one fail.  All functions return NULL on failure and set the error slot. */
#ifndef GALE_BASE_MEM_H
#define GALE_BASE_MEM_H
#include "error.h"

void *gale__alloc(size_t size_bytes);                /* uninitialised; 0 bytes returns a valid pointer */
void *gale__calloc(size_t count, size_t size_bytes); /* zeroed, overflow-checked */
void *gale__realloc(void *p, size_t size_bytes);
void *gale__alloc_aligned(size_t align, size_t size_bytes); /* free with gale__free */
void gale__free(void *p);
char *gale__strdup(const char *s);

/* Fault injection and leak checks, for tests: fail the n-th allocation from now (1 = the next;
 * 0 = never), or it and all after it; how many were asked since (counted from the
 * first call of one of these on); how many are live. */
void gale__alloc_fail_at(uint64_t n);
void gale__alloc_fail_from(uint64_t n);
uint64_t gale__alloc_count(void);
int64_t gale__alloc_live(void);

/* An arena: many small objects that are freed together. Memory is zeroed and aligned to 16 bytes. */
typedef struct gale__arena {
    struct gale__arena_block *head;
    size_t total_bytes;
} gale__arena;
void *gale__arena_alloc(gale__arena *a, size_t size_bytes);
void *gale__arena_copy(gale__arena *a, const void *p, size_t size_bytes);
char *gale__arena_strdup(gale__arena *a, const char *s);
char *gale__arena_printf(gale__arena *a, const char *format, ...) GALE__PRINTF(2, 3);
void gale__arena_finish(gale__arena *a); /* frees all; the arena may be used again */

/* A growing array: T *items; size_t count, capacity.  Grows `items` so that `count + more` fit. */
gale_status gale__grow(void **items, size_t *capacity, size_t need, size_t item_bytes);

/* Sizes from outside: GALE_LIMIT when a*b or a+b overflows. */
bool gale__mul_size(size_t a, size_t b, size_t *out); /* true on overflow */
bool gale__add_size(size_t a, size_t b, size_t *out);
#endif
