/* Building blocks of all jobs: progress reports, and results that are a single allocation to their owner. */
#ifndef GALE_JOBS_JOB_H
#define GALE_JOBS_JOB_H
#include "base/json.h"
#include "gale/job.h"

/* Reports the progress of a stage; GALE_CANCELLED if the caller asked to stop. control may be NULL. */
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
/* Ends a job: passes the result to the caller through its T **out, or destroys it if the job has failed. */
gale_status gale__result_give(gale_status status, void *result, void *out);
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

/* Defines the public function that writes results of a type as JSON, an object `{` or an array `[`.  The block that
 * follows adds its members or items: it has the result `r` and the text under way, `j`. */
#define GALE__RESULT_JSON(type, bracket)                      \
    static void add_result(gale__json_out *j, const type *r); \
    gale_status type##_json(const type *r, char **text)       \
    {                                                         \
        GALE__NEED({"result", r}, {"text", text});            \
        gale__str s = {0};                                    \
        gale__json_out j;                                     \
        gale__json_begin(&j, &s);                             \
        if ((bracket) == '{') gale__json_object(&j);          \
        else gale__json_array(&j);                            \
        add_result(&j, r);                                    \
        gale__json_close(&j, (bracket) == '{' ? '}' : ']');   \
        return gale__str_give(&s, text);                      \
    }                                                         \
    static void add_result(gale__json_out *j, const type *r)

/* Hands a finished text to a caller that frees it with gale_free. */
gale_status gale__str_give(gale__str *s, char **out);
#endif
