/* Which files are complete. */
#include "jobs/batch/folder_watch.h"
#include "base/file.h"
#include <string.h>

enum { LOOKS_STILL = 2, LOOKS_FINAL = 10 };

static struct gale__folder_watched *find(gale__folder_watch *w, const char *path)
{
    for (size_t i = 0; i < w->count; i++)
        if (!strcmp(w->files[i].path, path)) return &w->files[i];
    return NULL;
}

static gale_status look_at(gale__folder_watch *w, const char *path, bool *ready)
{
    gale__file_identity file = {0};
    struct gale__folder_watched *f = find(w, path);
    *ready = false;
    if (!gale__file_identify(path, &file)) return GALE_OK; /* gone again */
    if (!f) {
        GALE_TRY(gale__grow((void **)&w->files, &w->capacity, w->count + 1, sizeof *w->files));
        char *copy = gale__strdup(path);
        if (!copy) return GALE_NO_MEMORY;
        f = &w->files[w->count++];
        *f = (struct gale__folder_watched){.path = copy, .size_bytes = file.size_bytes};
    }
    if (f->size_bytes != file.size_bytes) { /* also one that was done: it is written anew */
        f->size_bytes = file.size_bytes;
        f->looks = 0;
        f->done = f->failed = false;
    }
    f->looks++;
    bool again = f->failed && f->looks == LOOKS_FINAL;
    *ready = f->ready = !f->done && file.size_bytes && f->looks >= LOOKS_STILL && (!f->failed || again);
    return GALE_OK;
}

gale_status gale__folder_watch_look(gale__folder_watch *w, const gale__inputs *in, bool *ready)
{
    for (size_t i = 0; i < in->count; i++) GALE_TRY(look_at(w, in->list[i].path, &ready[i]));
    return GALE_OK;
}

bool gale__folder_watch_is_ready(gale__folder_watch *w, const char *path)
{
    struct gale__folder_watched *f = find(w, path);
    return f && f->ready;
}

bool gale__folder_watch_note(gale__folder_watch *w, const char *path, gale_status status)
{
    struct gale__folder_watched *f = find(w, path);
    if (!f) return status != GALE_OK;
    f->done = status == GALE_OK || f->looks >= LOOKS_FINAL;
    f->failed = status != GALE_OK;
    f->ready = false;
    return f->failed && f->done;
}

void gale__folder_watch_finish(gale__folder_watch *w)
{
    for (size_t i = 0; i < w->count; i++) gale__free(w->files[i].path);
    gale__free(w->files);
    *w = (gale__folder_watch){0};
}
