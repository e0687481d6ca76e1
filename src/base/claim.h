/* Several processes that want to write the same files share the work: the one that holds the claim writes. A claim is a
 * lock on a hidden file beside the result, which the system releases when the process ends, however it ends. */
#ifndef GALE_BASE_CLAIM_H
#define GALE_BASE_CLAIM_H
#include "mem.h"

typedef struct gale__work_claim {
    char *path;
    int fd;
} gale__work_claim; /* begins as zero: none */
/* *taken: no other process holds it. In a folder that does not support locks, every process gets it. */
gale_status gale__work_claim_take(const char *output, gale__work_claim *out, bool *taken);
void gale__work_claim_release(gale__work_claim *c);
#endif
