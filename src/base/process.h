/* Runs other programs and waits for them: compilers that exist only as programs, and gale itself, if a driver may
 * crash or hang. */
#ifndef GALE_BASE_PROCESS_H
#define GALE_BASE_PROCESS_H
#include "base/str.h"

/* Runs argv[0], looked up on PATH, without a shell and without input; argv ends with NULL.  `output` gets what it
 * prints, on either channel, and `code` how it ended (128 + signal when killed).  GALE_NOT_FOUND when there is no such
 * program. */
gale_status gale__process_run(const char *const *argv, gale__str *output, int *code);

/* The same, passing on each line as it arrives. A process that prints nothing for timeout_ns is killed. */
typedef void gale__process_line(void *user, const char *line);
typedef struct gale__process_end {
    int code, signal; /* signal: 0 if it exited normally */
    bool timed_out;
} gale__process_end;
gale_status gale__process_watch(
    const char *const *argv, uint64_t timeout_ns, gale__process_line *on_line, void *user, gale__process_end *out);
const char *gale__signal_name(int signal); /* "SIGSEGV (memory fault)"; never NULL */

/* The path of the running program, "" if unknown. */
void gale__process_self(char *path, size_t size);

/* A new private folder under TMPDIR or /tmp; removed with the files in it. */
gale_status gale__temp_folder_make(char *path, size_t size);
void gale__temp_folder_remove(const char *path);
#endif
