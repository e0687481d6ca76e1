/* What a model's plan costs on an NVIDIA H200, seen from any machine: kernels, bytes and operations, by kind of kernel.
 *
 *     bench_plan MODEL fp32|fp16|bf16 [NAME=]1x3x256x256 ...
 *
 * Inputs have the extents that are given, in order or by name; all their elements are 0.  The texts of the kernels go
 * into the file that TEXTS names; with DIALECT=opencl+ptx they are those of NVIDIA's OpenCL.  The time until the model
 * has been opened and has run once, without the card's own work, goes to stderr. */
#include "../tests/nvidia_caps.h"
#include "device/null/null.h"
#include "device/profiler.h"
#include "device/registry.h"
#include "onnx/run/session.h"
#include <gale/model.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TRY(call)                                              \
    do {                                                       \
        if ((call) != GALE_OK) {                               \
            fprintf(stderr, "bench_plan: %s\n", gale_error()); \
            exit(1);                                           \
        }                                                      \
    } while (0)

static int extents_of(const char *text, int64_t *dims)
{
    int rank = 0;
    while (*text && rank < GALE_MAX_RANK) {
        char *end;
        dims[rank++] = strtoll(text, &end, 10);
        if (end == text) return -1;
        text = *end ? end + 1 : end;
    }
    return rank;
}

static const char *shape_of(const char *name, int index, int argc, char **argv)
{
    size_t size = strlen(name);
    for (int i = 3; i < argc; i++)
        if (!strncmp(argv[i], name, size) && argv[i][size] == '=') return argv[i] + size + 1;
    return index + 3 < argc && !strchr(argv[index + 3], '=') ? argv[index + 3] : NULL;
}

static gale_object *make_input(gale_model *m, int i, int argc, char **argv)
{
    gale_model_value value;
    int64_t dims[GALE_MAX_RANK];
    gale_tensor *tensor = NULL;
    gale_object *object = NULL;
    TRY(gale_model_input(m, i, &value));
    const char *text = shape_of(value.name, i, argc, argv);
    int rank = text ? extents_of(text, dims) : -1;
    if (rank < 0) {
        fprintf(stderr, "bench_plan: give the extents of %s\n", value.name);
        exit(2);
    }
    TRY(gale_tensor_create(NULL, value.type, rank, dims, &tensor));
    memset(gale_tensor_data(tensor), 0, gale_tensor_size_bytes(tensor));
    TRY(gale_object_tensor(tensor, &object));
    gale_tensor_destroy(&tensor);
    return object;
}

/* Kernels of one kind that stand for the same operators, in one row. */
static void print_rows(const gale_profiler *p)
{
    double bytes = 0, operations = 0;
    for (size_t i = 0; i < p->count; i++) {
        const gale__profiler_record *r = &p->records[i];
        double row_bytes = 0, row_operations = 0;
        int kernels = 0, first = 1;
        bytes += r->bytes;
        operations += r->operations;
        for (size_t k = 0; k < p->count; k++) {
            const gale__profiler_record *o = &p->records[k];
            if (strcmp(o->name, r->name) || strcmp(o->op, r->op)) continue;
            if (k < i) first = 0;
            kernels++;
            row_bytes += o->bytes;
            row_operations += o->operations;
        }
        if (first)
            printf("%4d  %10.2f MB  %10.2f GFLOP  %-46s %s\n", kernels, row_bytes / 1e6, row_operations / 1e9, r->name,
                r->op);
    }
    printf("%zu kernels and copies, %.2f GB, %.1f GFLOP\n", p->count, bytes / 1e9, operations / 1e9);
}

/* Kernels one after the other into a file. */
static void keep_text(void *file, const char *text, size_t size) { fwrite(text, 1, size, file); }

int main(int argc, char **argv)
{
    gale_model_options options = {.allow_nonfinite = true};
    gale_device *null = NULL;
    gale_model *m = NULL;
    gale_object *inputs[16] = {0}, *outputs[16] = {0};
    gale_profiler *profiler = NULL;
    if (argc < 3) return fprintf(stderr, "usage: bench_plan MODEL fp32|fp16|bf16 [NAME=]1x3x256x256 ...\n"), 2;
    options.program.precision = !strcmp(argv[2], "fp16")   ? GALE_PRECISION_F16
                                : !strcmp(argv[2], "bf16") ? GALE_PRECISION_BF16
                                                           : GALE_PRECISION_AS_IT_IS;
    FILE *texts = getenv("TEXTS") ? fopen(getenv("TEXTS"), "w") : NULL;
    if (texts) gale__null_set_sink(keep_text, texts);
    gale_device_caps caps = nvidia;
    if (getenv("DIALECT"))
        caps.dialect = getenv("DIALECT"), caps.matrix_groups = false, caps.shared_most_bytes = caps.shared_bytes;
    gale__null_set_caps(&caps);
    TRY(gale__device_open_one(&gale__backend_null, 0, NULL, &null));
    clock_t start = clock();
    TRY(gale_model_open(argv[1], null, &options, &m));
    for (int i = 0; i < gale_model_inputs(m) && i < 16; i++) inputs[i] = make_input(m, i, argc, argv);
    TRY(gale_model_run(m, inputs, outputs, 0));
    fprintf(
        stderr, "opened and run once in %.1f ms of processor time\n", 1e3 * (double)(clock() - start) / CLOCKS_PER_SEC);
    TRY(gale_profiler_start(null, &profiler));
    TRY(gale_model_run(m, inputs, outputs, 0));
    TRY(gale_profiler_stop(profiler));
    print_rows(profiler);
    return 0;
}
