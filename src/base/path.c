/* A file may refer to others by names that its author chose, not its user; they must be in the same folder, whatever
 * the name says. */
#include "base/path.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Whether a path ever leaves the folder it starts in. */
static bool climbs_out(const char *path)
{
    int depth = 0;
    for (const char *p = path; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && !strncmp(p, "..", 2)) depth--;
        else if (n && !(n == 1 && *p == '.')) depth++;
        if (depth < 0) return true;
        p += n;
        p += strspn(p, "/");
    }
    return false;
}

static gale_status real_path(const char *path, char real[PATH_MAX])
{
    if (realpath(path, real)) return GALE_OK;
    return gale__fail(errno == ENOENT || errno == ENOTDIR ? GALE_NOT_FOUND : GALE_IO, "%s: %s", path, strerror(errno));
}

gale_status gale__path_inside(const char *folder, const char *location, gale__str *out)
{
    char inside[PATH_MAX], real[PATH_MAX];
    if (!*location) return gale__fail(GALE_INVALID, "the file name is empty");
    if (*location == '/')
        return gale__fail(
            GALE_INVALID, "'%s' is an absolute path: only files in the same folder may be read", location);
    if (climbs_out(location))
        return gale__fail(GALE_INVALID, "'%s' is outside its folder: only files inside may be read", location);
    GALE_TRY(real_path(*folder ? folder : ".", inside));
    gale__str path = {0};
    gale__str_addf(&path, "%s/%s", inside, location);
    gale_status status = gale__str_check(&path);
    if (status == GALE_OK) status = real_path(path.text, real);
    gale__str_finish(&path);
    GALE_TRY(status);
    size_t n = strlen(inside);
    if (strncmp(real, inside, n) || (real[n] != '/' && n > 1))
        return gale__fail(GALE_INVALID,
            "'%s' is a link to a file outside its folder: only files inside may be read; copy the file there",
            location);
    struct stat st;
    if (stat(real, &st) || !S_ISREG(st.st_mode)) return gale__fail(GALE_IO, "%s: not a regular file", real);
    gale__str_add(out, real);
    return gale__str_check(out);
}
