/* Files of a folder that other programs are still writing: which are ready now.  A file is taken when its size has been
 * the same for two looks; one that cannot be read then is tried again when its size changes, and is reported when it
 * has not changed for a while. */
#ifndef GALE_JOBS_FOLDER_WATCH_H
#define GALE_JOBS_FOLDER_WATCH_H
#include "jobs/batch/inputs.h"

typedef struct gale__folder_watch {
    struct gale__folder_watched {
        char *path;
        uint64_t size_bytes;
        int looks; /* at the same size */
        bool done, failed, ready;
    } * files;
    size_t count, capacity;
} gale__folder_watch;
/* Looks at the files once.  ready[i] tells whether in->list[i] is to be read now. */
gale_status gale__folder_watch_look(gale__folder_watch *w, const gale__inputs *in, bool *ready);
/* The same by path, as the last look found it: for lists that have been shortened since. */
bool gale__folder_watch_is_ready(gale__folder_watch *w, const char *path);
/* Records the outcome of a file.  True if a failure should be reported, because the file will not be tried again at
 * this size. */
bool gale__folder_watch_note(gale__folder_watch *w, const char *path, gale_status status);
void gale__folder_watch_finish(gale__folder_watch *w);
#endif
