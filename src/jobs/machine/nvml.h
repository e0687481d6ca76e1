/* NVIDIA's management library, loaded at run time: load of its GPUs over all processes. */
#ifndef GALE_JOBS_NVML_H
#define GALE_JOBS_NVML_H
#include "base/file.h"

typedef struct gale__nvml gale__nvml;
typedef struct gale__nvml_state {
    char name[96];
    uint64_t total_bytes, used_bytes;
    unsigned busy_percent, celsius, watts;
} gale__nvml_state;
/* NULL when the library is not there. */
gale__nvml *gale__nvml_open(void);
void gale__nvml_close(gale__nvml **nvml);
unsigned gale__nvml_count(const gale__nvml *nvml);
bool gale__nvml_get(const gale__nvml *nvml, unsigned index, gale__nvml_state *out);
#endif
