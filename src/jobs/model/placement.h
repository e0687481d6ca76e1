/* The choice between devices for one run of a model. */
#ifndef GALE_JOBS_MODEL_PLACEMENT_H
#define GALE_JOBS_MODEL_PLACEMENT_H
#include "gale/model_jobs.h"
#include "jobs/job.h"

typedef struct gale__placing {
    gale_device *const *devices; /* the preferred one first */
    int n;
    const gale_model_job_options *job;
    gale__job_stage *stage;
    gale_object **inputs; /* out: made for the model, also where the rest fails; the caller's */
    int n_inputs;
    const gale_placement *placements; /* out: by device, in the arena */
    gale_device *chosen;              /* out */
} gale__placing;
/* Opens the model on the device that is predicted to be fastest; *out is to be closed also after a failure. */
gale_status gale__model_place(gale__placing *p, const char *path, gale__arena *arena, gale_model **out);
#endif
