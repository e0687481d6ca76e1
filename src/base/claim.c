/* Claims by flock. The file is removed together with the claim; a process that had opened it before notices that the
 * name now refers to another file, and tries again. */
#include "base/claim.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 20 };

static char *claim_path(const char *output)
{
    const char *slash = strrchr(output, '/');
    size_t folder = slash ? (size_t)(slash - output) + 1 : 0;
    gale__str s = {0};
    gale__str_add_n(&s, output, folder);
    gale__str_addf(&s, ".%s.claim", output + folder);
    if (!s.failed) return s.text;
    gale__str_finish(&s);
    return NULL;
}

static bool is_current(int fd, const char *path)
{
    struct stat ours, named;
    return !fstat(fd, &ours) && !stat(path, &named) && ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

gale_status gale__work_claim_take(const char *output, gale__work_claim *out, bool *taken)
{
    char *path = claim_path(output);
    if (!path) return GALE_NO_MEMORY;
    *taken = false;
    for (int i = 0; i < TRIES; i++) {
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        bool locked = fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB), held = fd >= 0 && !locked && errno == EWOULDBLOCK;
        if (locked && is_current(fd, path)) {
            *taken = true;
            *out = (gale__work_claim){path, fd};
            return GALE_OK;
        }
        if (fd >= 0) close(fd);
        if (held) break;
        if (!locked) { /* locks are not supported here */
            *taken = true;
            break;
        }
    }
    gale__free(path);
    return GALE_OK;
}

void gale__work_claim_release(gale__work_claim *c)
{
    if (!c->path) return;
    unlink(c->path);
    close(c->fd);
    gale__free(c->path);
    *c = (gale__work_claim){0};
}
