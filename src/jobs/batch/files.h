/* Many picture files, one after another: while one picture is processed, the next is decoded and the previous one
 * encoded. */
#ifndef GALE_JOBS_FILES_H
#define GALE_JOBS_FILES_H
#include "media/picture.h"

typedef struct gale__file_task {
    const char *input;     /* the caller's */
    const char *output;    /* NULL: nothing is written */
    const char *format;    /* to write it in; NULL: the job's */
    gale_picture *picture; /* on its way: read, then what `work` has made of it; gone when done */
    gale_status status;
    char *message; /* why it failed, until `done` returns; NULL: no more is known than the status */
    uint64_t read_ns, write_ns;
    void *user;
} gale__file_task;

typedef struct gale__file_job {
    gale_picture_read_options read;
    gale_picture_write_options write;
    /* Both are called from the thread that runs the job, in order.  work: takes task->picture and puts another there; a
     * failure is its return.  done: after writing, or after a failure, which ends this file alone.  */
    gale_status (*work)(void *user, gale__file_task *task);
    void (*done)(void *user, gale__file_task *task);
    void *user;
} gale__file_job;
/* At most three pictures wait before the work and three after it.  Fails only if no thread can be started;
 * files fail by themselves. */
gale_status gale__files_run(const gale__file_job *job, gale__file_task *tasks, size_t count);
#endif
