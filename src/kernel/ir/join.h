/* Joins consecutive small kernels into one: a single work-group does the work of each in turn, with a barrier instead
 * of a launch.  On a GPU a launch costs more than such a kernel's work, for example the last levels of a MIP chain or
 * the steps of a recurrent cell. */
#ifndef GALE_KERNEL_JOIN_H
#define GALE_KERNEL_JOIN_H
#include "kernel/schedule/schedule.h"

enum { GALE__JOIN_PARTS = 8, GALE__JOIN_POINTERS = 32, GALE__JOIN_WORDS = 192 };

/* Whether a kernel of this nest may be a part: its threads work alone, and one group is done with it sooner than a
 * launch takes. */
bool gale__ir_join_takes(const gale__nest *nest, const gale__schedule *s);
/* A kernel that does what parts[0], parts[1], ... do one after the other.  Its pointers are theirs in order; its words
 * are those of gale__ir_join_words. group_max: threads that a group may have.  `out` is initialised here, and the
 * caller finishes it (nothing to finish on failure). */
gale_status gale__ir_join(const gale__ir *const *parts, int n, const char *name, uint32_t group_max, gale__ir *out);
/* Adds one part's words, launched with `groups` groups, to the n that are there; returns how many there are then. */
int gale__ir_join_words(uint32_t *words, int n, uint32_t groups, const uint32_t *part, int n_part);
#endif
