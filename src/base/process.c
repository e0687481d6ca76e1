/* Runs a program with its output in a pipe.  Uses posix_spawn without a shell, so that arguments need no quoting and
 * other threads of this process do not matter. */
#include "base/process.h"
#include "base/file.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int spawn(const char *const *argv, int to, pid_t *child)
{
    posix_spawn_file_actions_t actions;
    int e = posix_spawn_file_actions_init(&actions);
    if (e) return e;
    e = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (!e) e = posix_spawn_file_actions_adddup2(&actions, to, 1);
    if (!e) e = posix_spawn_file_actions_adddup2(&actions, to, 2);
    if (!e) e = posix_spawnp(child, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return e;
}

static void read_all(int from, gale__str *output)
{
    char part[4096];
    for (;;) {
        ssize_t n = read(from, part, sizeof part);
        if (n > 0) gale__str_add_n(output, part, (size_t)n);
        else if (n == 0 || errno != EINTR) return;
    }
}

/* Starts the program; *from is the read end of the pipe for its output. */
static gale_status start(const char *const *argv, int *from, pid_t *child)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) return gale__fail(GALE_IO, "%s: cannot create a pipe: %s", argv[0], strerror(errno));
    int e = spawn(argv, ends[1], child);
    close(ends[1]);
    *from = ends[0];
    if (!e) return GALE_OK;
    close(ends[0]);
    return gale__fail(e == ENOENT ? GALE_NOT_FOUND : GALE_IO, "%s: %s", argv[0], strerror(e));
}

static gale_status wait_for(const char *name, pid_t child, int *state)
{
    while (waitpid(child, state, 0) < 0)
        if (errno != EINTR) return gale__fail(GALE_IO, "%s: %s", name, strerror(errno));
    return GALE_OK;
}

gale_status gale__process_run(const char *const *argv, gale__str *output, int *code)
{
    int from, state = 0;
    pid_t child;
    GALE_TRY(start(argv, &from, &child));
    read_all(from, output);
    close(from);
    GALE_TRY(wait_for(argv[0], child, &state));
    *code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    return gale__str_check(output);
}

/* Passes on the complete lines of buf; keeps the rest. */
static void split_lines(char *buf, size_t *used, gale__process_line *on_line, void *user)
{
    char *first = buf, *end;
    while ((end = memchr(first, '\n', *used - (size_t)(first - buf)))) {
        *end = 0;
        on_line(user, first);
        first = end + 1;
    }
    *used -= (size_t)(first - buf);
    memmove(buf, first, *used);
}

/* Reads until the pipe is closed; false on a timeout. */
static bool read_lines(int fd, uint64_t timeout_ns, gale__process_line *on_line, void *user)
{
    char buf[4096];
    size_t used = 0;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int ready = poll(&p, 1, (int)(timeout_ns / 1000000));
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) return false;
        if (used == sizeof buf) used = 0; /* a line longer than any that gale prints */
        ssize_t n = read(fd, buf + used, sizeof buf - used);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return true;
        used += (size_t)n;
        split_lines(buf, &used, on_line, user);
    }
}

gale_status gale__process_watch(
    const char *const *argv, uint64_t timeout_ns, gale__process_line *on_line, void *user, gale__process_end *out)
{
    int from, state = 0;
    pid_t child;
    GALE_TRY(start(argv, &from, &child));
    out->timed_out = !read_lines(from, timeout_ns, on_line, user);
    if (out->timed_out) kill(child, SIGKILL);
    close(from);
    GALE_TRY(wait_for(argv[0], child, &state));
    out->signal = WIFSIGNALED(state) && !out->timed_out ? WTERMSIG(state) : 0;
    out->code = WIFEXITED(state) ? WEXITSTATUS(state) : -1;
    return GALE_OK;
}

const char *gale__signal_name(int number)
{
    static const struct {
        int number;
        const char *name;
    } names[] = {
        {SIGSEGV, "SIGSEGV (memory fault)"},
        {SIGABRT, "SIGABRT (aborted)"},
        {SIGBUS, "SIGBUS (memory fault)"},
        {SIGILL, "SIGILL (instruction not supported by this processor)"},
        {SIGFPE, "SIGFPE (arithmetic fault)"},
        {SIGKILL, "SIGKILL (killed, possibly out of memory)"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].number == number) return names[i].name;
    return "a signal";
}

void gale__process_self(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    path[n > 0 ? n : 0] = 0;
}

gale_status gale__temp_folder_make(char *path, size_t size)
{
    const char *under = getenv("TMPDIR");
    int n = snprintf(path, size, "%s/gale-XXXXXX", under && *under ? under : "/tmp");
    if (n < 0 || (size_t)n >= size) return gale__fail(GALE_LIMIT, "TMPDIR is longer than %zu bytes", size);
    return mkdtemp(path) ? GALE_OK : gale__fail(GALE_IO, "%s: %s", path, strerror(errno));
}

void gale__temp_folder_remove(const char *path)
{
    gale__file_info *list = NULL;
    size_t count = 0;
    char file[4096];
    if (gale__folder_list(path, &list, &count) != GALE_OK) return;
    for (size_t i = 0; i < count; i++) {
        if (snprintf(file, sizeof file, "%s/%s", path, list[i].name) >= (int)sizeof file) continue;
        if (list[i].folder) gale__temp_folder_remove(file);
        else remove(file);
    }
    gale__folder_list_free(&list, count);
    remove(path);
}
