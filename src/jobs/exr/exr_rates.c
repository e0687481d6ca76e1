/* Rates of the pixel stages.  They are kept in the record of the CPU, whose name is known without looking for GPUs:
 * that alone takes longer than a few small pictures on the CPU. */
#include "jobs/exr/exr_rates.h"
#include "base/cpu.h"
#include "base/env.h"
#include "base/thread.h"
#include "device/record.h"
#include "media/exr_image.h"

/* Assumed until a batch was measured: a core's rate, and a GPU behind PCI Express 4. */
#define CPU_CORE_RATE 6e-9
#define GPU_RATE 2e-10
#define GPU_START 0.5

enum { SAMPLE = 16, BYTES_A_PIXEL = 8 };

static gale_status open_cpu(gale_device **out)
{
    gale_device_options o = GALE_DEVICE_OPTIONS;
    o.chain = "cpu";
    o.index = GALE_DEVICE_FIRST;
    return gale_device_open(&o, out);
}

static double sane(double v, double usual) { return v > 1e-14 && v < 100 ? v : usual; }

/* Pictures whose stages cost about the same for a byte. */
static const char *kind_of(const gale_exr_look *l)
{
    if (l && l->tone == GALE_EXR_LOCAL) return "local";
    return l && (l->side || l->width || l->height) ? "resized" : "whole";
}

static void load(const gale_device *cpu, const gale_exr_look *look, gale__exr_rates *out)
{
    gale__arena arena = {0};
    gale__json *root = NULL;
    gale__record_read(gale_device_get_info(cpu), "exr", kind_of(look), &arena, &root);
    *out = (gale__exr_rates){CPU_CORE_RATE / gale__parallel_width(), GPU_RATE, GPU_START, root != NULL};
    if (root) {
        out->cpu = sane(gale__json_number(root, "cpu_seconds_per_byte", 0), out->cpu);
        out->gpu = sane(gale__json_number(root, "gpu_seconds_per_byte", 0), out->gpu);
        out->start = sane(gale__json_number(root, "gpu_start_seconds", 0), out->start);
    }
    gale__arena_finish(&arena);
}

void gale__exr_rates_load(const gale_exr_look *look, gale__exr_rates *out)
{
    gale_device *cpu = NULL;
    *out = (gale__exr_rates){CPU_CORE_RATE / gale__parallel_width(), GPU_RATE, GPU_START, false};
    if (open_cpu(&cpu) == GALE_OK) load(cpu, look, out);
    else gale__error_clear();
    gale_device_close(&cpu);
}

static void fill(gale__json_out *j, const void *user)
{
    const gale__exr_rates *r = user;
    gale__json_key(j, "cpu_seconds_per_byte"), gale__json_f64(j, r->cpu);
    gale__json_key(j, "gpu_seconds_per_byte"), gale__json_f64(j, r->gpu);
    gale__json_key(j, "gpu_start_seconds"), gale__json_f64(j, r->start);
}

/* A rate from a few files is mostly noise. */
static void mix(double *rate, const gale_exr_share *s, int jobs, bool measured)
{
    const uint64_t least = 4 << 20;
    if (s->decoded_bytes < least || !(s->pixel_seconds > 0)) return;
    double now = s->pixel_seconds / jobs / (double)s->decoded_bytes;
    *rate = measured ? (2 * *rate + now) / 3 : now;
}

void gale__exr_rates_learn(const gale_exr_look *look, const gale_exr_batch *b, const gale_device *first)
{
    const gale_device_caps *caps = &gale_device_get_info(first)->caps;
    bool first_is_cpu = caps->host_functions;
    gale_device *cpu = NULL;
    gale__exr_rates r;
    if (caps->software) return;
    if (open_cpu(&cpu) == GALE_OK) {
        load(cpu, look, &r);
        mix(first_is_cpu ? &r.cpu : &r.gpu, &b->shares[0], b->jobs, r.measured);
        if (!first_is_cpu) mix(&r.cpu, &b->shares[1], b->jobs, r.measured);
        if (!first_is_cpu && b->start_seconds > 0) r.start = b->start_seconds;
        if (gale__record_write(gale_device_get_info(cpu), "exr", kind_of(look), fill, &r) != GALE_OK)
            gale__log(GALE__DEBUG, "rates of the pixel stages are not stored: %s", gale_error());
    }
    gale__error_clear();
    gale_device_close(&cpu);
}

double gale__exr_rates_predict(const gale__exr_rates *r, uint64_t bytes, bool gpu)
{
    return (double)bytes * (gpu ? r->gpu : r->cpu) + (gpu ? r->start : 0);
}

/* Decoded bytes of all files, by the headers of some. */
static uint64_t estimate_bytes(const char *const *inputs, size_t count)
{
    size_t step = count > SAMPLE ? count / SAMPLE : 1, seen = 0;
    double sum = 0;
    for (size_t i = 0; i < count && seen < SAMPLE; i += step) {
        gale_exr *f = NULL;
        int64_t w = 0, h = 0;
        if (gale_exr_open(inputs[i], NULL, &f) == GALE_OK && gale__exr_image_size(f, NULL, &w, &h) == GALE_OK)
            sum += (double)w * (double)h * BYTES_A_PIXEL, seen++;
        gale_exr_close(&f);
    }
    gale__error_clear();
    return seen ? (uint64_t)(sum / (double)seen * (double)count) : 0;
}

gale_status gale_exr_devices_open(const char *const *inputs, size_t count, const gale_exr_look *look,
    gale_device **first, gale_device **second, double *seconds)
{
    GALE__NEED({"inputs", !count || inputs}, {"first", first}, {"second", second});
    gale__exr_rates r;
    gale_device *cpu = NULL, *other = NULL;
    uint64_t begun = gale__time_ns();
    if (seconds) *seconds = 0;
    if (*gale__env_get(GALE__ENV_PROVIDER)) return gale_device_open(NULL, first);
    GALE_TRY(open_cpu(&cpu));
    load(cpu, look, &r);
    uint64_t bytes = estimate_bytes(inputs, count);
    bool alone = gale__exr_rates_predict(&r, bytes, false) <= gale__exr_rates_predict(&r, bytes, true);
    gale_status status = alone ? GALE_OK : gale_device_open(NULL, &other);
    if (status != GALE_OK) {
        gale_device_close(&cpu);
        return status;
    }
    if (other && gale_device_get_info(other)->caps.host_functions) gale_device_close(&other);
    *first = other ? other : cpu;
    *second = other ? cpu : NULL;
    if (seconds && other) *seconds = (double)(gale__time_ns() - begun) / 1e9;
    return GALE_OK;
}
