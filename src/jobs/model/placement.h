/* The choice between devices for the runs of a job on a model file. */
#ifndef GALE_JOBS_MODEL_PLACEMENT_H
#define GALE_JOBS_MODEL_PLACEMENT_H
#include "gale/model_jobs.h"
#include "jobs/job.h"

typedef struct gale__placing {
    const gale_model_options *model;
    const gale_input_options *inputs_wanted;
    bool random; /* inputs that are not given are made up, whatever inputs_wanted says */
    gale__job_stage *stage;
    gale_device *const *devices; /* the preferred one first (gale__devices_for) */
    int n;
    gale_object **inputs; /* out: made for the model, also where the rest fails; the caller's */
    int n_inputs;
    const gale_placement *placements; /* out: by device, in the arena; none where there is one device only */
    size_t n_placements;
    gale_device *chosen; /* out */
    double predicted_us; /* out: of a run on it; negative: not known */
} gale__placing;

/* Fills in devices: the given one and others, or, if none are given, the CPU where the device was opened with
 * gale_device_options.place. */
gale_status gale__devices_for(
    gale_device *device, gale_device *const *others, int n_others, gale__arena *arena, gale__placing *out);
/* Opens the model on the device that is predicted to be fastest, or was when all were tried; *out is to be closed also
 * after a failure. */
gale_status gale__model_open_placed(gale__placing *p, const char *path, gale__arena *arena, gale_model **out);
/* The choice alone. */
gale_status gale__model_choose(gale__placing *p, const char *path, gale__arena *arena);
/* The member "placement", where there was a choice. */
void gale__placements_json(gale__json_out *j, const gale_placement *list, size_t n);
#endif
