/* Which pictures a job takes, and what each becomes: files, folders and patterns in, names of results out. */
#ifndef GALE_JOBS_INPUTS_H
#define GALE_JOBS_INPUTS_H
#include "base/str.h"

typedef struct gale__input {
    const char *path;
    const char *below;  /* folders between the one that was given and the file, "" or "a/b" */
    const char *output; /* the caller's, or of gale__inputs_name */
} gale__input;
/* Files of folders that were not taken, by the ends of their names. */
typedef struct gale__ignored {
    const char *extension; /* in lower case; "": none */
    bool irregular;        /* a pipe, a device, a link to nowhere: by no extension */
    size_t count;
    const char *example; /* the path of the first */
} gale__ignored;
typedef struct gale__inputs {
    gale__arena arena;
    gale__input *list;
    size_t count, capacity;
    gale__ignored *ignored;
    size_t ignored_count, ignored_capacity;
    const char
        *only;     /* of folders, files with this extension alone; NULL: all formats of pictures; set by the caller */
    size_t unread; /* folders below that could not be read: said in the log */
} gale__inputs;

/* A file as it is; of a folder its pictures by extension that are not hidden, in the order of their names, with those
 * of folders in it when `recursive`; of a pattern (*, ?, [...] in the last part of a path that is not a file) what
 * matches, of either regular files alone.  What else is in a folder and not hidden is counted in `ignored`.
 * GALE_NOT_FOUND where a folder or a pattern gives none. */

gale_status gale__inputs_add(gale__inputs *in, const char *argument, bool recursive);
/* Names of results, as gale__output_name makes them.  Those that would be the same become STEM-EXTENSION SUFFIX, and
 * where that is the same as well STEM-NUMBER SUFFIX, whatever order they are in.  In a folder that is there, names are
 * kept in its journal: a picture keeps the name that it had in an earlier run, and gets none of another's. */
gale_status gale__inputs_name(gale__inputs *in, const char *folder, const char *suffix, const char *extension);
/* With outputs in place: an input that is the result of another one was made by a run before; it is left out, and
 * counted.  GALE_INVALID where a result would replace its own input. */
gale_status gale__inputs_settle(gale__inputs *in, size_t *left_out);
void gale__inputs_finish(gale__inputs *in);
#endif
