/* Times a program on its device, without host overhead; for benchmarks. */
#ifndef GALE_GRAPH_TIME_H
#define GALE_GRAPH_TIME_H
#include "graph/run/program.h"

typedef struct gale__timing {
    double median_us, least_us; /* one run, by the device's own clock */
    double row_us;              /* one of many in a row, each of which begins while the one before ends; 0 on the CPU */
    double bytes, operations;   /* of one run, as planned */
    double predicted_us;        /* at least, by the device's ceilings */
    int kernels;
    bool replayed;
} gale__timing;
/* How long to run before times count: until a card's clock has risen (one that has waited for a compiler was seen at a
 * quarter of its speed for that long); 0 elsewhere. */
uint64_t gale__warm_ns(const gale_device *device);
/* Runs `repeats` times, of a slow program three times at least and until enough_ns are over, on tensors of the device
 * (outputs made here), each run between two events, after warming up; then some more in a row. */
gale_status gale__program_time(
    gale_program *program, gale_tensor *const *inputs, int repeats, uint64_t enough_ns, gale__timing *out);
/* Median device time of a copy of `size` bytes. */
gale_status gale__copy_time(gale_device *device, size_t size, int repeats, double *median_us);
#endif
