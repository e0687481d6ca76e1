/* Cases of operators: one list that the tests and `gale check` share.
 *
 * A row is text, so that it stays short:
 *     CASE("Conv", "strides=2,2 pads=1,1,1,1", "f32 f16", "T[1,2,5,5] ~1; T[3,2,3,3] ~2", "r", "T[1,3,3,3] 0.5 ...")
 *
 * attributes  name=value: 3 whole, 0.5 real, 1,2 or 1, a list of whole numbers, 0.5,nan of real ones,
 *             {2:Add(0,1)>2} a body (case_body.h), else text
 * types       each is put in T's place and makes a case of its own; empty: the row as it is
 * inputs      separated by ';': type[dims] and elements or a generator; `!` in front: known when planning; `-`: left
 *             out.  Generators end with a seed:
 *               ~7       multiples of 1/8 in [-2, 2] (small integers, bools)
 *               ~p7      such, positive
 *               ~q7      any number in [-2, 2] (all integers)
 *               ~c       corners: NaN, infinities, zeros, least and largest
 *               ~i-3:5:7 whole numbers from -3 to 5
 * tolerance   e exactly; u4 four units in the last place; r relative L2 by the type, r1e-3 as given; with `, large`
 *             behind it the kernels are large, and software drivers, which compile them for seconds, leave them out
 * expected    values found independently (NumPy, ONNX's reference), by output as inputs are; `_`: the output is made
 *             and compared with the reference only; empty: one such output */
#ifndef GALE_OPS_CASES_H
#define GALE_OPS_CASES_H
#include "ops/ops.h"

#define GALE__CASE_VALUES 18 /* inputs or outputs of a case */

typedef struct gale__case {
    const char *op, *attrs, *types, *inputs, *tolerance, *expected;
} gale__case;
extern const gale__case gale__cases[];
extern const int gale__cases_count;

typedef struct gale__case_value {
    bool absent; /* an input left out; an output without expected values */
    bool plan;
    gale_type type;
    int rank;
    int64_t dims[GALE_MAX_RANK], elements;
    void *data; /* dense; in the arena */
} gale__case_value;

typedef struct gale__case_tolerance {
    char kind;
    double value;
} gale__case_tolerance; /* 'e', 'u', 'r' */

typedef struct gale__case_run {
    gale__arena arena;
    const char *name; /* "Conv f16 strides=2,2: T[1,2,5,5] ~1; ..." */
    const gale__op *op;
    gale_attr *attrs;
    int n_attrs, n_in, n_out;
    gale__case_value in[GALE__CASE_VALUES], out[GALE__CASE_VALUES];
    gale__case_tolerance tolerance;
} gale__case_run;

int gale__case_variants(const gale__case *c); /* how many types: at least 1 */
bool gale__case_is_large(const gale__case *c);
/* The name that the opened case has; NULL: out of memory. */
const char *gale__case_name(const gale__case *c, int variant, gale__arena *arena);
gale_status gale__case_open(const gale__case *c, int variant, gale__case_run *run);
void gale__case_close(gale__case_run *run);
/* Lowers the case into g (made by the caller); out[] as many as run->n_out. */
gale_status gale__case_lower(gale__case_run *run, gale__prim_graph *g, gale__node *out);
/* The scalar reference's results: run->n_out values with type, dims and data in the run's arena. */
gale_status gale__case_reference(gale__case_run *run, gale__case_value *results);
/* Whether `got` is `want` within the tolerance; else a sentence about the worst element. */
bool gale__case_equal(
    gale_type type, int64_t n, const void *got, const void *want, gale__case_tolerance t, char *text, size_t size);
#endif
