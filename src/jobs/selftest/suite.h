/* The cases of an ONNX suite: folders with a model and sets of inputs and outputs. */
#ifndef GALE_JOBS_SUITE_H
#define GALE_JOBS_SUITE_H
#include "base/str.h"
#include "gale/model.h"
#include "gale/selftest.h"

typedef struct gale__suite_case {
    char *name, *group;   /* folder, and the folder around it: node, simple ... */
    char *folder, *model; /* paths; folder has test_data_set_0 ... */
    char *light_output;   /* of a light model: its only output's file up to the number; inputs are made up */
    double rtol, atol;
} gale__suite_case;
typedef struct gale__suite {
    gale__suite_case *cases;
    size_t count, capacity;
    char *unpacked; /* temporary folder, removed at the end */
} gale__suite;

/* path: a folder, or a tar archive that `tar` can open. */
gale_status gale__suite_open(const char *path, gale__suite *out);
void gale__suite_finish(gale__suite *suite);

typedef struct gale__suite_result {
    gale_case_outcome outcome;
    char op[64];
    char reason[400];
    bool random;
} gale__suite_result;
/* Runs one case; the reason says why it did not pass. */
void gale__suite_run(const gale__suite_case *c, gale_device *device, gale__suite_result *out);

/* object_compare.c: within |a - b| <= atol + rtol |b|; type and shape must be equal, NaN equals NaN.  GALE_MISMATCH
 * with the first place that differs. random: only type, shape and range (finite where b is). */
gale_status gale__object_compare(const gale_object *a, const gale_object *b, double rtol, double atol, bool random);
#endif
