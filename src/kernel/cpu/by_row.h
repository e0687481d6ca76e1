/* What is the same along all of a row of a map's fastest dimension: computed once for a row instead of for each lane.
 * Above all the places that TAKE reads: rows gathered by an index are copied as rows. */
#ifndef GALE_KERNEL_CPU_BY_ROW_H
#define GALE_KERNEL_CPU_BY_ROW_H
#include "kernel/cpu/tape.h"

enum { GALE__CPU_SPOT_TERMS = 4 };

/* The index of a TAKE as a sum: what is affine, an element of a table for each place in the row, and values that are
 * the same all along the row. */
struct gale__cpu_spot {
    const gale__nest_access *base;
    gale__nest_access walk;
    const gale__nest_access *column; /* I64 side by side along the row; NULL: none */
    int terms[GALE__CPU_SPOT_TERMS]; /* instructions */
    int n_terms;
};
typedef struct gale__cpu_by_row {
    uint8_t by_row[GALE__NEST_CODE_MAX];  /* computed once a row */
    uint8_t spread[GALE__NEST_CODE_MAX];  /* and then needed in all lanes */
    uint8_t by_lane[GALE__NEST_CODE_MAX]; /* computed in all lanes */
    gale__cpu_spot *spot[GALE__NEST_CODE_MAX];
    bool any;
} gale__cpu_by_row;
/* Of a nest without inner dimensions.  spots: room for one for each instruction that is a TAKE. */
void gale__cpu_by_row_find(gale__cpu_by_row *r, const gale__nest *nest, gale__cpu_spot *spots);

/* Runs GALE__CPU_STEP_TAKE_ROWS. */
void gale__cpu_take_rows(gale__cpu_frame *f, const gale__cpu_step *s);
#endif
