/* A function run in a child process, so that a driver that takes its process down does not take ours. */
#ifndef GALE_CLI_CHILD_H
#define GALE_CLI_CHILD_H
#include "base/error.h"

/* Called in the child; may tell the parent lines with gale__child_tell.  The result is the exit code. */
typedef int gale__child_fn(void *arg);
/* Called in the parent for each line as it comes. */
typedef void gale__child_line(void *user, const char *line);

typedef struct gale__child_end {
    int code, signal;
    bool timed_out;
} gale__child_end; /* signal: 0 when it ended by itself */

/* Forks: call it before this process has threads or has opened drivers.  The child is ended after timeout_ns without a
 * line. */
gale_status gale__child_run(
    gale__child_fn *fn, void *arg, gale__child_line *on_line, void *user, uint64_t timeout_ns, gale__child_end *out);
void gale__child_tell(const char *format, ...) GALE__PRINTF(1, 2);
const char *gale__signal_name(int signal); /* "SIGSEGV"; never NULL */
#endif
