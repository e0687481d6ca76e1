/* The frame of a suite that runs over every backend in the binary: what works on one device must work on all.  A case
 * is named NAME@BACKEND; a backend without a device here is skipped aloud.  The includer defines `cases` after its
 * cases:
 *
 *     static const suite_case cases[] = {{"copies", copies}, {0}};
 *     SUITE(cases)
 */
#ifndef GALE_DEVICE_SUITE_H
#define GALE_DEVICE_SUITE_H
#include "test.h"
#include "device/poke.h"
#include "device/registry.h"
#include <stdlib.h>

typedef struct suite_case {
    const char *name;
    void (*fn)(void);
} suite_case;

static gale_device *device;
static gale_stream *stream;
static bool holds_data; /* the null device does not */
static bool computes;   /* nor do generated kernels run on it, or on stand-ins for drivers */

static inline void fill_random(uint8_t *p, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (uint8_t)(seed >> 24);
    }
}

static inline gale_buffer *make(size_t size)
{
    gale_buffer *b = NULL;
    CHECK_OK(gale_buffer_create(device, size, &b));
    return b;
}

static const suite_case *suite_cases;

/* Runs the case that the running test's name asks for: NAME@BACKEND. */
static inline void run_case(void)
{
    const suite_case *found = suite_cases;
    const char *mark = strchr(test_at, '@');
    int n;
    const gale__backend *const *all = gale__backends(&n);
    const gale__probe *probe;
    while (strncmp(found->name, test_at, (size_t)(mark - test_at)) || found->name[mark - test_at]) found++;
    while (strcmp((*all)->name, mark + 1)) all++;
    if (!CHECK_OK(gale__backend_probe(*all, &probe))) return;
    if (!probe->count) SKIP("%s", probe->reason);
    if (!CHECK_OK(gale__device_open_one(*all, 0, NULL, &device))) return;
    holds_data = device->info.caps.holds_data;
    computes = holds_data && strncmp(device->info.name, "Stand-in", 8) != 0;
    if (CHECK_OK(gale_stream_create(device, &stream))) found->fn();
    gale_stream_destroy(&stream);
    CHECK_EQ(device->refs, 1); /* nothing made from it is left */
    gale_device_close(&device);
}

static inline int suite_main(const suite_case *list, int argc, char **argv)
{
    static char names[256][64];
    static test_row rows[256];
    int n_backends, n = 0;
    suite_cases = list;
    const gale__backend *const *all = gale__backends(&n_backends);
    for (int b = 0; b < n_backends; b++)
        for (const suite_case *c = list; c->name; c++, n++) {
            snprintf(names[n], sizeof names[n], "%s@%s", c->name, all[b]->name);
            rows[n] = (test_row){names[n], run_case};
        }
    return test_main(rows, (size_t)n, argc, argv);
}

#define SUITE(list) \
    int main(int argc, char **argv) { return suite_main(list, argc, argv); }
#endif
