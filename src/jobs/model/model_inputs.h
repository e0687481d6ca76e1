/* Shared by the jobs for models: opening one for the inputs that will be given, and the input values. */
#ifndef GALE_JOBS_MODEL_INPUTS_H
#define GALE_JOBS_MODEL_INPUTS_H
#include "gale/model_jobs.h"
#include "jobs/job.h"

/* Runs of a model tell a job's progress and ask whether to go on; stage NULL, or its control empty: they do not. */
void gale__model_follow(gale_model_options *options, gale__job_stage *stage);
/* A model whose inputs the options give: also those among them that have a value in the file.  stage: what its runs
 * tell and ask, NULL: nothing. */
gale_status gale__model_open_with(const char *path, gale_device *device, const gale_model_options *options,
    const gale_input_options *inputs, gale__job_stage *stage, gale_model **out);
/* One object per input of the model; `random`: what is not given is made up, whatever the options say. */
gale_status gale__model_inputs_make(
    gale_model *model, const gale_input_options *options, bool random, gale_object ***out);
/* Whether every text "NAME=FILE" names an output. */
gale_status gale__model_outputs_check(gale_model *model, const char *const *texts, int n);
/* Of texts such as NAME=TEXT: that for `key`, of the last one; without NAME= it is for the only key there is.  NULL:
 * none. */
const char *gale__text_for(const char *const *texts, int n, const char *key, bool only);
/* One run whose results are returned to the caller, or discarded if `outputs` is NULL.  seed: of its
 * random operators; 0 is a seed too, so that jobs can be repeated. */
gale_status gale__model_run_once(
    gale_model *model, gale_object **inputs, uint64_t seed, bool on_host, gale_object ***outputs);
/* One timed run whose results are discarded; *ms is unchanged on failure. */
gale_status gale__model_run_timed(gale_model *model, gale_object **inputs, double *ms);
void gale__objects_free(gale_object ***objects, int count);
/* "1x3x256x256"; -1 for an extent that is not known. */
const char *gale__shape_text(int rank, const int64_t *dims, const char *const *symbols, char buf[256]);
/* "1x3x8" to extents; false when it is not a shape. */
bool gale__shape_parse(const char *text, int *rank, int64_t *dims);

/* Of a host tensor of numbers; false: there are none in it.  Those that are not finite are only counted. */
typedef struct gale__statistics {
    double least, largest, mean, deviation;
    uint64_t not_finite;
} gale__statistics;
bool gale__tensor_statistics(gale_tensor *t, gale__statistics *out);
#endif
