/* File access checks, for device nodes: the group that owns a node is the remedy. */
#ifndef GALE_BASE_ACCESS_H
#define GALE_BASE_ACCESS_H
#include "error.h"
typedef enum gale__file_access { GALE__ACCESS_MISSING, GALE__ACCESS_DENIED, GALE__ACCESS_OK } gale__file_access;
/* Reading and writing; `group` gets the name (or number) of the file's group, "" when it is missing. */
gale__file_access gale__path_access(const char *path, char *group, size_t size);
#endif
