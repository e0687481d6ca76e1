/* Child processes.  Parent and child share a pipe of lines; silence for too long counts as a hang. */
#include "cli/child.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int tell_fd = -1; /* in the child: where lines go */

void gale__child_tell(const char *format, ...)
{
    char line[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    for (char *p = line; *p; p++)
        if (*p == '\n') *p = ' '; /* one call, one line */
    strcat(line, "\n");
    for (size_t done = 0, n = strlen(line); done < n;) {
        ssize_t w = write(tell_fd, line + done, n - done);
        if (w < 0 && errno != EINTR) return;
        if (w > 0) done += (size_t)w;
    }
}

const char *gale__signal_name(int signal)
{
    static const struct {
        int number;
        const char *name;
    } names[] = {
        {SIGSEGV, "SIGSEGV (memory fault)"},
        {SIGABRT, "SIGABRT (it gave up)"},
        {SIGBUS, "SIGBUS (memory fault)"},
        {SIGILL, "SIGILL (instruction this processor lacks)"},
        {SIGFPE, "SIGFPE (arithmetic fault)"},
        {SIGKILL, "SIGKILL (killed, perhaps for lack of memory)"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].number == signal) return names[i].name;
    return "a signal";
}

/* Hands on the complete lines of buf; keeps the rest. */
static void split_lines(char *buf, size_t *used, gale__child_line *on_line, void *user)
{
    char *start = buf, *end;
    while ((end = memchr(start, '\n', *used - (size_t)(start - buf)))) {
        *end = 0;
        on_line(user, start);
        start = end + 1;
    }
    *used -= (size_t)(start - buf);
    memmove(buf, start, *used);
}

/* Reads until the child closes the pipe; false when it was silent for too long. */
static bool read_lines(int fd, gale__child_line *on_line, void *user, uint64_t timeout_ns)
{
    char buf[4096];
    size_t used = 0;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int ready = poll(&p, 1, (int)(timeout_ns / 1000000));
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) return false;
        if (used == sizeof buf) used = 0; /* a line longer than any we write */
        ssize_t n = read(fd, buf + used, sizeof buf - used);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return true;
        used += (size_t)n;
        split_lines(buf, &used, on_line, user);
    }
}

gale_status gale__child_run(
    gale__child_fn *fn, void *arg, gale__child_line *on_line, void *user, uint64_t timeout_ns, gale__child_end *out)
{
    int fds[2], state = 0;
    if (pipe(fds)) return gale__fail(GALE_IO, "cannot make a pipe: %s", strerror(errno));
    pid_t child = fork();
    if (child < 0) {
        close(fds[0]);
        close(fds[1]);
        return gale__fail(GALE_IO, "cannot start a child process: %s", strerror(errno));
    }
    if (child == 0) {
        close(fds[0]);
        tell_fd = fds[1];
        _exit(fn(arg)); /* without the parent's exit handlers and buffers */
    }
    close(fds[1]);
    out->timed_out = !read_lines(fds[0], on_line, user, timeout_ns);
    if (out->timed_out) kill(child, SIGKILL);
    close(fds[0]);
    while (waitpid(child, &state, 0) < 0 && errno == EINTR) continue;
    out->signal = WIFSIGNALED(state) && !out->timed_out ? WTERMSIG(state) : 0;
    out->code = WIFEXITED(state) ? WEXITSTATUS(state) : -1;
    return GALE_OK;
}
