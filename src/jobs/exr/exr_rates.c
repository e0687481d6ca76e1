/* Rates of batches.  They are kept in the record of the CPU, whose name is known without looking for GPUs:
 * that alone takes longer than a few small pictures on the CPU. */
#include "jobs/exr/exr_rates.h"
#include "base/cpu.h"
#include "base/env.h"
#include "base/thread.h"
#include "device/record.h"
#include "media/exr_image.h"
#include <string.h>

/* Assumed until a batch was measured: a core's rate, and a GPU behind PCI Express 4; the same with ZIP. */
#define CPU_CORE_RATE 6e-9
#define GPU_RATE 2e-10
#define CPU_CORE_ZIP_RATE 4e-9
#define GPU_ZIP_RATE 1e-10
#define GPU_START 0.5

enum { SAMPLE = 16 };

static gale_status open_cpu(gale_device **out)
{
    gale_device_options o = GALE_DEVICE_OPTIONS;
    o.chain = "cpu";
    o.index = GALE_DEVICE_FIRST;
    return gale_device_open(&o, out);
}

static bool is_sane(double v) { return v > 1e-14 && v < 100; }

/* Pictures whose stages cost about the same for a byte. */
static const char *kind_of(const gale_exr_look *l, bool zip)
{
    if (l && l->tone == GALE_EXR_LOCAL) return zip ? "local-zip" : "local";
    if (l && (l->side || l->width || l->height)) return zip ? "resized-zip" : "resized";
    return zip ? "whole-zip" : "whole";
}

static gale__exr_rates assumed(bool zip)
{
    int width = gale__parallel_width();
    if (zip) return (gale__exr_rates){.cpu = CPU_CORE_ZIP_RATE / width, .gpu = GPU_ZIP_RATE, .start = GPU_START};
    return (gale__exr_rates){.cpu = CPU_CORE_RATE / width, .gpu = GPU_RATE, .start = GPU_START};
}

static void load(const gale_device *cpu, const gale_exr_look *look, bool zip, gale__exr_rates *out)
{
    gale__arena arena = {0};
    gale__json *root = NULL;
    gale__record_read(gale_device_get_info(cpu), "exr", kind_of(look, zip), &arena, &root);
    *out = assumed(zip);
    if (root) {
        double by_cpu = gale__json_number(root, "cpu_seconds_per_byte", 0),
               by_gpu = gale__json_number(root, "gpu_seconds_per_byte", 0),
               start = gale__json_number(root, "gpu_start_seconds", 0);
        if (is_sane(by_cpu)) out->cpu = by_cpu, out->cpu_bytes = gale__json_number(root, "cpu_bytes", 0);
        if (is_sane(by_gpu)) out->gpu = by_gpu, out->gpu_bytes = gale__json_number(root, "gpu_bytes", 0);
        if (is_sane(start)) out->start = start;
    }
    gale__arena_finish(&arena);
}

void gale__exr_rates_load(const gale_exr_look *look, bool zip, gale__exr_rates *out)
{
    gale_device *cpu = NULL;
    *out = assumed(zip);
    if (open_cpu(&cpu) == GALE_OK) load(cpu, look, zip, out);
    else gale__error_clear();
    gale_device_close(&cpu);
}

static void fill(gale__json_out *j, const void *user)
{
    const gale__exr_rates *r = user;
    gale__json_put_f64(j, "cpu_seconds_per_byte", r->cpu);
    gale__json_put_f64(j, "cpu_bytes", r->cpu_bytes);
    gale__json_put_f64(j, "gpu_seconds_per_byte", r->gpu);
    gale__json_put_f64(j, "gpu_bytes", r->gpu_bytes);
    gale__json_put_f64(j, "gpu_start_seconds", r->start);
}

/* Earlier bytes count half, so that the last batches matter most, and large ones, on which more depends, more. */
static void mix(double *rate, const gale_exr_share *s, bool zip, int jobs, double *before)
{
    double bytes = (double)s->decoded_bytes, all = *before / 2 + bytes,
           now = (*rate * *before / 2 + gale__exr_rates_seconds(s, zip) / jobs) / (all + 1);
    if (s->files && is_sane(now)) *rate = now, *before = all;
}

double gale__exr_rates_seconds(const gale_exr_share *s, bool zip)
{
    return s->pixel_seconds + (zip ? s->decode_seconds : 0);
}

void gale__exr_rates_learn(const gale_exr_look *look, bool zip, const gale_exr_batch *b, const gale_device *first)
{
    const gale_device_caps *caps = &gale_device_get_info(first)->caps;
    bool first_is_cpu = caps->host_functions;
    gale_device *cpu = NULL;
    gale__exr_rates r;
    if (caps->software) return;
    if (open_cpu(&cpu) == GALE_OK) {
        load(cpu, look, zip, &r);
        if (first_is_cpu) mix(&r.cpu, &b->shares[0], zip, b->jobs, &r.cpu_bytes);
        else mix(&r.gpu, &b->shares[0], zip, b->jobs, &r.gpu_bytes);
        if (r.cpu_bytes == 0) mix(&r.cpu, &b->shares[1], zip, b->jobs, &r.cpu_bytes); /* without all cores busy */
        if (!first_is_cpu && b->start_seconds > 0) r.start = b->start_seconds;
        if (gale__record_write(gale_device_get_info(cpu), "exr", kind_of(look, zip), fill, &r) != GALE_OK)
            gale__log(GALE__DEBUG, "rates of the batch are not stored: %s", gale_error());
    }
    gale__error_clear();
    gale_device_close(&cpu);
}

double gale__exr_rates_predict(const gale__exr_rates *r, uint64_t bytes, bool gpu)
{
    return (double)bytes * (gpu ? r->gpu : r->cpu) + (gpu ? r->start : 0);
}

uint64_t gale__exr_rates_bytes(gale_exr *f, const gale_exr_look *look, bool *zip)
{
    const gale__exr_wish wish = {.layer = look ? look->layer : NULL, .no_alpha = look && look->no_alpha};
    gale__exr_image i = {0};
    bool suits = false;
    gale_status status = gale__exr_image_describe(f, &wish, &i, &suits);
    gale__error_clear();
    *zip = suits && strcmp(gale__env_get(GALE__ENV_UNZIP), "host");
    return status == GALE_OK ? (uint64_t)(i.width * i.height * i.channels) * gale_type_size(i.type) : 0;
}

/* Decoded bytes of all files, by the headers of some; *zip: whether a GPU may inflate most of them. */
static uint64_t estimate_bytes(const char *const *inputs, size_t count, const gale_exr_look *look, bool *zip)
{
    size_t step = count > SAMPLE ? count / SAMPLE : 1, seen = 0, zipped = 0;
    double sum = 0;
    for (size_t i = 0; i < count && seen < SAMPLE; i += step) {
        gale_exr *f = NULL;
        bool one = false;
        uint64_t bytes = gale_exr_open(inputs[i], NULL, &f) == GALE_OK ? gale__exr_rates_bytes(f, look, &one) : 0;
        if (bytes) sum += (double)bytes, seen++, zipped += one;
        gale_exr_close(&f);
    }
    gale__error_clear();
    *zip = 2 * zipped > seen;
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
    bool zip = false;
    uint64_t bytes = estimate_bytes(inputs, count, look, &zip);
    load(cpu, look, zip, &r);
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
