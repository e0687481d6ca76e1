/* Another program, run and waited for: compilers that exist as programs only. */
#ifndef GALE_BASE_PROGRAM_H
#define GALE_BASE_PROGRAM_H
#include "str.h"

/* Runs argv[0], looked up on PATH, without a shell and without input; argv ends with NULL.  `output` gets what it
 * prints, on either channel, and `code` how it ended (128 + signal when killed).  GALE_NOT_FOUND when there is no such
 * program. */
gale_status gale__program_run(const char *const *argv, gale__str *output, int *code);

/* A new folder of this process alone, under TMPDIR or /tmp; removed with the files in it. */
gale_status gale__temp_folder_make(char *path, size_t size);
void gale__temp_folder_remove(const char *path);
#endif
