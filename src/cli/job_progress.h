/* The line of progress for jobs of the library: a stage is a label. */
#ifndef GALE_CLI_JOB_PROGRESS_H
#define GALE_CLI_JOB_PROGRESS_H
#include "cli/progress.h"
#include "gale/job.h"

typedef struct gale__job_progress {
    gale__progress line;
    const char *stage; /* of the line; NULL: none */
} gale__job_progress;  /* begins as zero */
/* For gale_job_control.progress, with a gale__job_progress as its user. */
bool gale__job_progress_show(void *user, const gale_job_progress *now);
void gale__job_progress_end(gale__job_progress *p); /* wipes the line */
#endif
