/* Pixel stages of `gale exr` with their data on the device: the time of one picture, beside the least that its memory
 * traffic allows.
 *
 *     bench_exr_pixels PROVIDER|plan [WIDTHxHEIGHT [WORD]]
 *     bench_exr_pixels PROVIDER WIDTHxHEIGHT inflate    ZIP chunks of 1 to 16 pictures, unpacked by the device
 *
 * `plan` shows, on any machine, the kernels that an NVIDIA H200 would run, their bytes and the time that these take at
 * 4.1 TB/s; their texts go into the file that TEXTS names.  The floor is the input read once and the output written
 * once. */
#include "../tests/nvidia_caps.h"
#include "../tests/test.h"
#include "base/mem.h"
#include "base/num.h"
#include "device/null/null.h"
#include "device/profiler.h"
#include "device/registry.h"
#include "graph/run/time.h"
#include "jobs/exr/counts.h"
#include "jobs/exr/look.h"
#include "jobs/exr/mip.h"
#include "jobs/exr/unzip.h"
#include <math.h>
#include <stdlib.h>

#define PLAN_GBPS 4100.0

static gale_device *device;
static bool planning;
static double rate_gbps;
static int64_t width = 4096, height = 2160;
static gale__cube cube;

static gale__look_plan look_plan(gale_type type, int channels, gale_exr_tone tone)
{
    gale__look_plan p;
    memset(&p, 0, sizeof p);
    p.in_width = p.width = width, p.in_height = p.height = height;
    p.channels = p.kept = channels;
    p.type = type;
    p.tone = tone;
    p.bits = 8;
    return p;
}

static gale_status aces_f32(gale_program **out)
{
    gale__look_plan p = look_plan(GALE_F32, 4, GALE_EXR_ACES);
    return gale__look_program(&p, device, out);
}

static gale_status aces_half(gale_program **out)
{
    gale__look_plan p = look_plan(GALE_F16, 4, GALE_EXR_ACES);
    return gale__look_program(&p, device, out);
}

static gale_status aces_colours(gale_program **out)
{
    gale__look_plan p = look_plan(GALE_F16, 3, GALE_EXR_ACES);
    return gale__look_program(&p, device, out);
}

static gale_status aces_matrix(gale_program **out)
{
    static const double m[9] = {2.5, -1.1, -0.4, -0.3, 1.4, -0.1, 0, -0.2, 1.2};
    gale__look_plan p = look_plan(GALE_F16, 4, GALE_EXR_ACES);
    p.by_matrix = true;
    memcpy(p.matrix, m, sizeof m);
    return gale__look_program(&p, device, out);
}

static gale_status hable_half(gale_program **out)
{
    gale__look_plan p = look_plan(GALE_F16, 4, GALE_EXR_HABLE);
    return gale__look_program(&p, device, out);
}

static gale_status table_half(gale_program **out)
{
    gale__look_plan p = look_plan(GALE_F16, 4, GALE_EXR_LINEAR);
    p.cube = &cube;
    return gale__look_program(&p, device, out);
}

static gale_status local_half(gale_program **out)
{
    gale__look_plan p = look_plan(GALE_F16, 4, GALE_EXR_LOCAL);
    p.radius = 16;
    return gale__look_program(&p, device, out);
}

static gale_status thumbnail(gale_program **out)
{
    gale__look_plan p = look_plan(GALE_F16, 3, GALE_EXR_ACES);
    p.width = 256, p.height = height * 256 / width;
    return gale__look_program(&p, device, out);
}

static gale_status levels(gale_program **out)
{
    const gale__mip_plan p = {.width = width, .height = height, .channels = 4, .type = GALE_F16};
    return gale__mip_program(&p, device, out);
}

/* The counts from which histograms and percentiles of each channel are read. */
static gale_status histogram(gale_program **out) { return gale__exr_counts_program(device, GALE_F16, out); }

static gale_status statistics(gale_program **out) { return gale__exr_counts_program(device, GALE_F32, out); }

/* An identity of 33 x 33 x 33 entries. */
static gale_status make_cube(void)
{
    enum { N = 33 };
    cube = (gale__cube){.size = N, .high = {1, 1, 1}};
    cube.values = gale__calloc(3 * N * N * N, sizeof *cube.values);
    if (!cube.values) return GALE_NO_MEMORY;
    for (int i = 0; i < N * N * N; i++) {
        cube.values[i] = (float)(i % N) / (N - 1);
        cube.values[N * N * N + i] = (float)(i / N % N) / (N - 1);
        cube.values[2 * N * N * N + i] = (float)(i / N / N) / (N - 1);
    }
    return GALE_OK;
}

/* Values as pictures have them, with smooth rows; noise: of each sample, up or down; flat: rows are not told apart. */
static gale_status make_input(gale_type type, int channels, double noise, bool flat, gale_tensor **out)
{
    const int64_t dims[3] = {channels, flat ? height * width : height, width};
    gale_tensor *host = NULL;
    GALE_TRY(gale_tensor_create(NULL, type, flat ? 2 : 3, dims, &host));
    size_t size = gale_type_size(type);
    char *data = gale_tensor_data(host);
    uint32_t state = 1;
    for (int64_t i = 0; i < channels * height * width; i++) {
        state = state * 1664525u + 1013904223u;
        double random = (double)(state >> 8) / 8388608.0 - 1, v = exp2(6 * (double)(i % width) / (double)width - 4);
        gale__store_f64(type, data + (size_t)i * size, i >= 3 * height * width ? 1 : v * (1 + noise * random));
    }
    gale_status status = gale_tensor_to_device(host, device, out);
    gale_tensor_destroy(&host);
    return status;
}

static gale_status show_plan(gale_program *program, gale_tensor *in, double floor_bytes)
{
    gale_profiler *p = NULL;
    gale_tensor *outputs[64] = {0};
    double bytes = 0;
    GALE_TRY(gale_program_run(program, &in, outputs, 0));
    GALE_TRY(gale_profiler_start(device, &p));
    gale_status status = gale_program_run(program, &in, outputs, 0);
    if (status == GALE_OK) status = gale_profiler_stop(p);
    for (size_t i = 0; i < p->count && status == GALE_OK; i++) {
        bytes += p->records[i].bytes;
        printf("    %9.2f MB %8.3f Gop  %s %s\n", p->records[i].bytes / 1e6, p->records[i].operations / 1e9,
            p->records[i].name, p->records[i].op);
    }
    printf("    %zu kernels, %.1f MB of at least %.1f\n", p->count, bytes / 1e6, floor_bytes / 1e6);
    gale_profiler_destroy(&p);
    for (int i = 0; i < 64; i++) gale_tensor_destroy(&outputs[i]);
    return status;
}

static double output_bytes(gale_program *program, gale_tensor *in)
{
    double bytes = 0;
    for (int i = 0; i < gale_program_outputs(program); i++) {
        int64_t dims[GALE_MAX_RANK], n = 1;
        gale_type type;
        int rank = 0;
        if (gale_program_output_shape(program, &in, i, &type, &rank, dims) != GALE_OK) return 0;
        for (int k = 0; k < rank; k++) n *= dims[k];
        bytes += (double)n * (double)gale_type_size(type);
    }
    return bytes;
}

static gale_status measure(const char *name, gale_status (*make)(gale_program **), gale_tensor *in)
{
    gale_program *program = NULL;
    gale__timing t = {0};
    gale_status status;
    GALE_GO(make(&program));
    double floor_bytes = (double)gale_tensor_size_bytes(in) + output_bytes(program, in),
           floor_us = floor_bytes / (rate_gbps * 1e3);
    if (planning) {
        printf("%s\n", name);
        GALE_GO(show_plan(program, in, floor_bytes));
        goto done;
    }
    GALE_GO(gale__program_time(program, &in, 40, UINT64_MAX, &t));
    printf("%-30s %2d kernels %7.1f us, in a row %7.1f, floor %6.1f us: %5.2fx, %5.2fx, %5.0f GB/s, moved %.2fx\n",
        name, t.kernels, t.median_us, t.row_us, floor_us, t.median_us / floor_us, t.row_us / floor_us,
        floor_bytes / t.row_us / 1e3, t.bytes / floor_bytes);
done:
    gale_program_destroy(&program);
    return status;
}

static gale_status open_device(const char *provider)
{
    gale_device_options options = GALE_DEVICE_OPTIONS;
    options.chain = provider;
    options.strict = true;
    planning = !strcmp(provider, "plan");
    if (!planning) return gale_device_open(&options, &device);
    gale_device_caps caps = nvidia;
    caps.corners = true;
    gale__null_set_caps(&caps);
    return gale__device_open_one(&gale__backend_null, 0, NULL, &device);
}

/* Bytes read and written by the driver's own copy, unless the ceilings tell. */
static gale_status find_rate(void)
{
    const size_t size = (size_t)256 << 20;
    double us = 0;
    rate_gbps = PLAN_GBPS;
    if (planning) return GALE_OK;
    rate_gbps = gale_device_get_info(device)->ceilings.copy_gbps;
    if (rate_gbps > 0) return GALE_OK;
    GALE_TRY(gale__copy_time(device, size, 5, &us));
    rate_gbps = 2 * (double)size / us / 1e3;
    return GALE_OK;
}

/* --- ZIP chunks. --- */

typedef struct zipped {
    gale_exr *file;
    gale__exr_image image;
    gale__exr_packed packed;
    double host_ms; /* on all cores */
} zipped;

/* Into a file that stays, for benchmarks of the program. */
static gale_status zip_picture(int kind, double noise, zipped *z)
{
    static const char *const names[] = {"R", "G", "B", "A"};
    const char *folder = getenv("TMPDIR");
    char path[300];
    gale_exr_source channels[4];
    gale_tensor *in = NULL, *host = NULL;
    gale_status status;
    snprintf(path, sizeof path, "%s/gale_bench_zip_%d.exr", folder ? folder : "/tmp", kind);
    GALE_GO(make_input(GALE_F16, 4, noise, false, &in));
    GALE_GO(gale_tensor_to_device(in, NULL, &host));
    for (int c = 0; c < 4; c++)
        channels[c] = (gale_exr_source){names[c], GALE_F16, (char *)gale_tensor_data(host) + c * width * height * 2};
    const gale_exr_new_part part = {
        .data = {0, 0, (int32_t)width - 1, (int32_t)height - 1}, .channels = channels, .channel_count = 4};
    GALE_GO(gale_exr_write(path, &part, 1));
    GALE_GO(gale_exr_open(path, NULL, &z->file));
    for (int i = 0; i < 5; i++) {
        uint64_t begun = gale__time_ns();
        GALE_GO(gale__exr_image_read(z->file, &(gale__exr_wish){0}, &z->image));
        double ms = (double)(gale__time_ns() - begun) / 1e6;
        if (!i || ms < z->host_ms) z->host_ms = ms;
    }
    if (!gale__exr_image_pack(z->file, &(gale__exr_wish){0}, &z->image, &z->packed) ||
        !gale__exr_packed_load(z->file, &z->image, &z->packed))
        status = gale__fail(GALE_INTERNAL, "the file does not have chunks for the device");
done:
    gale_tensor_destroy(&in);
    gale_tensor_destroy(&host);
    return status;
}

/* The same picture `copies` times, one below another. */
static gale_status measure_inflate(const zipped *z, int copies, gale__inflate_args a)
{
    const int64_t n = a.chunks * copies;
    uint32_t *table = malloc((size_t)a.channels * 4 + (size_t)n * sizeof(gale__inflate_chunk));
    gale__inflate_chunk *to = (gale__inflate_chunk *)(table + a.channels);
    gale_stream *stream = NULL;
    gale_buffer *planes = NULL;
    gale__unzip u = {0};
    gale_status status;
    double best = 1e9;
    size_t bad = 0;
    for (int64_t i = 0; i < a.channels; i++) table[i] = z->packed.table[i] * (uint32_t)copies;
    for (int64_t i = 0; i < n; i++) {
        to[i] = ((gale__inflate_chunk *)(z->packed.table + a.channels))[i % a.chunks];
        to[i].place += (uint32_t)(i / a.chunks * height * width);
        to[i].space += (uint32_t)(i / a.chunks * a.space_bytes);
    }
    a.chunks = n, a.height *= copies, a.space_bytes *= copies;
    GALE_GO(gale_stream_create(device, &stream));
    GALE_GO(gale_buffer_create(device, (size_t)(a.width * a.height) * 8, &planes));
    GALE_GO(gale__unzip_begin(&u, stream, &a, table, z->image.data));
    for (int i = 0; i < 3; i++) {
        GALE_GO(gale_stream_sync(stream));
        uint64_t begun = gale__time_ns();
        GALE_GO(gale__unzip_launch(&u, planes));
        GALE_GO(gale__unzip_wait(&u, NULL, &bad));
        best = fmin(best, (double)(gale__time_ns() - begun) / 1e6);
    }
    printf("    %5lld chunks: %7.2f ms, %5.1f GB/s, %zu bad\n", (long long)n, best,
        (double)(a.width * a.height * 8) / best / 1e6, bad);
done:
    gale__unzip_end(&u);
    gale_buffer_destroy(&planes);
    gale_stream_destroy(&stream);
    free(table);
    return status;
}

static gale_status run_inflate(void)
{
    static const double noise[] = {0.1, 0.01, 0};
    for (int kind = 0; kind < 3; kind++) {
        zipped z = {0};
        GALE_TRY(zip_picture(kind, noise[kind], &z));
        double bytes = (double)(width * height * 8);
        printf("inflate, noise %g: %.1f of %.1f MB; the host with all cores %.2f ms, %.1f GB/s\n", noise[kind],
            (double)z.packed.args.input_bytes / 1e6, bytes / 1e6, z.host_ms, bytes / z.host_ms / 1e6);
        for (int copies = 1; copies <= 16; copies *= copies == 1 ? 4 : 2)
            GALE_TRY(measure_inflate(&z, copies, z.packed.args));
        gale__free(z.packed.table);
        gale__exr_image_finish(&z.image);
        gale_exr_close(&z.file);
    }
    return GALE_OK;
}

static void keep_text(void *file, const char *text, size_t size) { fwrite(text, 1, size, file); }

static gale_status run(const char *word)
{
    static const struct {
        const char *name;
        gale_status (*make)(gale_program **);
        gale_type type;
        int channels;
        double noise;
    } rows[] = {
        {"aces f32 rgba", aces_f32, GALE_F32, 4, 0.1},
        {"aces half rgba", aces_half, GALE_F16, 4, 0.1},
        {"aces half rgb", aces_colours, GALE_F16, 3, 0.1},
        {"aces half rgba, matrix", aces_matrix, GALE_F16, 4, 0.1},
        {"hable half rgba", hable_half, GALE_F16, 4, 0.1},
        {"lut 33 half rgba", table_half, GALE_F16, 4, 0.1},
        {"lut 33 half rgba, 1 % noise", table_half, GALE_F16, 4, 0.01},
        {"mip half rgba", levels, GALE_F16, 4, 0.1},
        {"histogram half rgba", histogram, GALE_F16, 4, 0.1},
        {"histogram half rgba, 1 % noise", histogram, GALE_F16, 4, 0.01},
        {"statistics f32 rgba", statistics, GALE_F32, 4, 0.1},
        {"local 16 half rgba", local_half, GALE_F16, 4, 0.1},
        {"thumbnail 256 half rgb", thumbnail, GALE_F16, 3, 0.1},
    };
    if (word && !strcmp(word, "inflate")) return run_inflate();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gale_tensor *in = NULL;
        if (word && !strstr(rows[i].name, word)) continue;
        gale_status status = make_input(rows[i].type, rows[i].channels, rows[i].noise,
            rows[i].make == histogram || rows[i].make == statistics, &in);
        if (status == GALE_OK) status = measure(rows[i].name, rows[i].make, in);
        gale_tensor_destroy(&in);
        if (status != GALE_OK) printf("%s: %s\n", rows[i].name, gale_error());
        fflush(stdout);
    }
    return GALE_OK;
}

int main(int argc, char **argv)
{
    long long w = width, h = height;
    if (argc < 2 || (argc > 2 && sscanf(argv[2], "%lldx%lld", &w, &h) != 2))
        return fprintf(stderr, "usage: bench_exr_pixels PROVIDER|plan [WIDTHxHEIGHT [WORD]]\n"), 2;
    width = w, height = h;
    FILE *texts = getenv("TEXTS") ? fopen(getenv("TEXTS"), "w") : NULL;
    if (texts) gale__null_set_sink(keep_text, texts);
    gale_status status;
    GALE_GO(open_device(argv[1]));
    GALE_GO(find_rate());
    GALE_GO(make_cube());
    printf("%s, %lld x %lld, floor at %.0f GB/s\n", gale_device_get_info(device)->name, w, h, rate_gbps);
    GALE_GO(run(argc > 3 ? argv[3] : NULL));
done:
    if (status != GALE_OK) fprintf(stderr, "bench_exr_pixels: %s\n", gale_error());
    gale__cube_finish(&cube);
    gale_device_close(&device);
    if (texts) fclose(texts);
    return status != GALE_OK;
}
