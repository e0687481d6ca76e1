/* Runs a program with its output in a pipe.  posix_spawn and no shell: arguments need no quoting, and threads of this
 * process do not matter. */
#include "base/program.h"
#include "base/file.h"
#include <errno.h>
#include <fcntl.h>
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

gale_status gale__program_run(const char *const *argv, gale__str *output, int *code)
{
    int ends[2], state = 0;
    pid_t child;
    if (pipe2(ends, O_CLOEXEC)) return gale__fail(GALE_IO, "%s: no pipe: %s", argv[0], strerror(errno));
    int e = spawn(argv, ends[1], &child);
    close(ends[1]);
    if (e) {
        close(ends[0]);
        return gale__fail(e == ENOENT ? GALE_NOT_FOUND : GALE_IO, "%s: %s", argv[0], strerror(e));
    }
    read_all(ends[0], output);
    close(ends[0]);
    while (waitpid(child, &state, 0) < 0)
        if (errno != EINTR) return gale__fail(GALE_IO, "%s: %s", argv[0], strerror(errno));
    *code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    return gale__str_check(output);
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
