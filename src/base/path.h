/* File names from untrusted sources. */
#ifndef GALE_BASE_PATH_H
#define GALE_BASE_PATH_H
#include "str.h"

/* The file that `location` refers to inside `folder`, with all links resolved. GALE_INVALID if it is outside of the
 * folder (by an absolute path, ".." or a link); GALE_NOT_FOUND if it does not exist; GALE_IO if it is not a regular
 * file. */
gale_status gale__path_inside(const char *folder, const char *location, gale__str *out);
#endif
