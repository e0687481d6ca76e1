/* Building blocks of all jobs: progress reports, and results that are a single allocation to their owner. */
#ifndef GALE_JOBS_JOB_H
#define GALE_JOBS_JOB_H
#include "base/json.h"
#include "gale/job.h"

/* Tells how far a stage is; GALE_CANCELLED where the caller wants no more.  control may be NULL. */
gale_status gale__job_tell(
    const gale_job_control *control, const char *stage, const char *unit, uint64_t done, uint64_t total);

/* For gale_model_options.progress, with one of these as its user: runs of models can be cancelled between steps. */
typedef struct gale__job_stage {
    const gale_job_control *control;
    const char *name;
} gale__job_stage;
bool gale__job_step(void *stage, int step, int steps);

/* A zeroed result and the arena that everything it points to is in; NULL: no memory. */
void *gale__result_create(size_t size_bytes);
gale__arena *gale__result_arena(void *result);
void gale__result_destroy(void *result); /* accepts NULL */
/* Defines the public function that destroys results of a type. */
#define GALE__RESULT_DESTROY(type)     \
    void type##_destroy(type **result) \
    {                                  \
        if (!result) return;           \
        gale__result_destroy(*result); \
        *result = NULL;                \
    }
/* One more item of a list in an arena, zeroed: `items` is a T **, and *count counts it.  NULL: no memory. */
void *gale__arena_add(gale__arena *arena, void *items, size_t *count, size_t item_bytes);

/* Members of objects in one call each. */
void gale__json_put_text(gale__json_out *j, const char *key, const char *text); /* NULL: null */
void gale__json_put_i64(gale__json_out *j, const char *key, int64_t v);
void gale__json_put_u64(gale__json_out *j, const char *key, uint64_t v); /* at most INT64_MAX */
void gale__json_put_f64(gale__json_out *j, const char *key, double v);
void gale__json_put_bool(gale__json_out *j, const char *key, bool v);
/* Hands a finished text to a caller that frees it with gale_free. */
gale_status gale__str_give(gale__str *s, char **out);
#endif
