/* Checks whether a device node may be used, and which group owns it, because drivers fail without giving this reason.
 * */
#include "base/access.h"
#include <grp.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

gale__file_access gale__path_access(const char *path, char *group, size_t size)
{
    struct stat st;
    if (size) group[0] = 0;
    if (stat(path, &st)) return GALE__ACCESS_MISSING;
    struct group entry, *found = NULL;
    char room[4096];
    if (getgrgid_r(st.st_gid, &entry, room, sizeof room, &found) == 0 && found)
        snprintf(group, size, "%s", found->gr_name);
    else snprintf(group, size, "%u", (unsigned)st.st_gid);
    return access(path, R_OK | W_OK) ? GALE__ACCESS_DENIED : GALE__ACCESS_OK;
}
