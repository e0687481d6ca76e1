/* Concurrent reading, processing and writing: one thread reads ahead, one writes, and counters under one lock record
 * the progress of each. */
#include "jobs/batch/files.h"
#include "base/thread.h"
#include <stdio.h>
#include <string.h>

enum { AHEAD = 3 };

typedef struct belt {
    const gale__file_job *job;
    gale__file_task *tasks;
    size_t count;
    gale__mutex lock;
    gale__cond moved;
    size_t read, worked, written; /* tasks that each has finished */
    bool stop;                    /* there is no writer: the reader need not go on */
} belt;

static void keep_message(gale__file_task *t, gale_status status)
{
    t->status = status;
    if (status != GALE_OK && *gale_error()) t->message = gale__strdup(gale_error());
    gale__error_clear(); /* messages about this file must not appear with the next */
}

/* Moves one counter on, and wakes whoever waits for it. */
static void step(belt *b, size_t *counter)
{
    gale__mutex_lock(&b->lock);
    ++*counter;
    gale__cond_broadcast(&b->moved);
    gale__mutex_unlock(&b->lock);
}

/* Until the counter is at least `least`; false when the job has stopped. */
static bool wait_for(belt *b, const size_t *counter, size_t least)
{
    gale__mutex_lock(&b->lock);
    while (*counter < least && !b->stop) gale__cond_wait(&b->moved, &b->lock);
    bool go = *counter >= least;
    gale__mutex_unlock(&b->lock);
    return go;
}

static void read_all(void *arg)
{
    belt *b = arg;
    for (size_t i = 0; i < b->count; i++) {
        if (i >= AHEAD && !wait_for(b, &b->worked, i - AHEAD + 1)) return;
        gale__file_task *t = &b->tasks[i];
        uint64_t begun = gale__time_ns();
        keep_message(t, gale_picture_read(t->input, &b->job->read, &t->picture));
        t->read_ns = gale__time_ns() - begun;
        step(b, &b->read);
    }
}

static void write_all(void *arg)
{
    belt *b = arg;
    for (size_t i = 0; i < b->count; i++) {
        if (!wait_for(b, &b->worked, i + 1)) return;
        gale__file_task *t = &b->tasks[i];
        uint64_t begun = gale__time_ns();
        gale_picture_write_options o = b->job->write;
        if (t->format) o.format = t->format;
        if (t->status == GALE_OK && t->output) keep_message(t, gale_picture_write(t->picture, t->output, &o));
        t->write_ns = gale__time_ns() - begun;
        gale_picture_destroy(&t->picture);
        step(b, &b->written);
    }
}

static void report_done(belt *b, gale__file_task *t)
{
    b->job->done(b->job->user, t);
    gale__free(t->message);
    t->message = NULL;
}

/* Processes all files, and reports finished ones in order. */
static void work_all(belt *b)
{
    size_t told = 0;
    for (size_t i = 0; i < b->count; i++) {
        gale__file_task *t = &b->tasks[i];
        wait_for(b, &b->read, i + 1);
        gale__error_clear();
        if (t->status == GALE_OK) keep_message(t, b->job->work(b->job->user, t));
        step(b, &b->worked);
        if (i + 1 > AHEAD) wait_for(b, &b->written, i + 1 - AHEAD);
        gale__mutex_lock(&b->lock);
        size_t written = b->written;
        gale__mutex_unlock(&b->lock);
        for (; told < written; told++) report_done(b, &b->tasks[told]);
    }
    wait_for(b, &b->written, b->count);
    for (; told < b->count; told++) report_done(b, &b->tasks[told]);
}

gale_status gale__files_run(const gale__file_job *job, gale__file_task *tasks, size_t count)
{
    belt b = {.job = job, .tasks = tasks, .count = count};
    gale__thread reader = {0}, writer = {0};
    gale__mutex_init(&b.lock);
    gale__cond_init(&b.moved);
    gale_status status = gale__thread_begin(&reader, read_all, &b);
    if (status == GALE_OK) {
        status = gale__thread_begin(&writer, write_all, &b);
        if (status == GALE_OK) {
            work_all(&b);
            gale__thread_end(&writer);
        } else {
            gale__mutex_lock(&b.lock);
            b.stop = true;
            gale__cond_broadcast(&b.moved);
            gale__mutex_unlock(&b.lock);
        }
        gale__thread_end(&reader);
    }
    for (size_t i = 0; i < count; i++) gale_picture_destroy(&tasks[i].picture);
    gale__cond_finish(&b.moved);
    gale__mutex_finish(&b.lock);
    return status;
}
