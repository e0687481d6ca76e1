/* File names from untrusted sources. */
#ifndef GALE_BASE_PATH_H
#define GALE_BASE_PATH_H
#include "str.h"

/* The file that `location` names inside `folder`, with all links followed.  GALE_INVALID when it leads out of the
 * folder, by an absolute path, by ".." or by a link; GALE_NOT_FOUND when there is none; GALE_IO for what is not a plain
 * file. */
gale_status gale__path_inside(const char *folder, const char *location, gale__str *out);
#endif
