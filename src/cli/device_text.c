/* Descriptions of devices. */
#include "cli/device_text.h"

static void features_text(const gale_device_caps *caps, gale__str *out)
{
    const char *name;
    for (int i = 0; (name = gale_device_feature(caps, i)); i++) gale__str_addf(out, "%s%s", i ? " " : "", name);
}

static void ceilings_text(const gale_device_ceilings *c, gale__str *out)
{
    if (c->copy_gbps <= 0) {
        gale__str_add(out, "not measured yet (`gale devices --measure`)");
        return;
    }
    gale__str_addf(out, "copy %.1f GB/s, upload %.1f GB/s, download %.1f GB/s, launch %.2f us", c->copy_gbps,
        c->upload_gbps, c->download_gbps, c->launch_us);
    if (c->round_trip_us > 0) gale__str_addf(out, ", round trip %.1f us", c->round_trip_us);
    if (c->f32_gflops > 0) gale__str_addf(out, ", f32 %.0f GFLOP/s", c->f32_gflops);
    if (c->efficiency > 0) gale__str_addf(out, ", networks reach %.0f %%", c->efficiency * 100);
    if (c->small_us > 0)
        gale__str_addf(out, ", a kernel takes %.1f to %.1f us more than its work", c->small_us, c->large_us);
}

static void limits_text(const gale_device_caps *caps, gale__str *out)
{
    if (caps->compute_units) gale__str_addf(out, "%u units", caps->compute_units);
    if (caps->compute_units && caps->clock_mhz) gale__str_addf(out, " at %u MHz", caps->clock_mhz);
    gale__str_addf(
        out, "%ssubgroup %u, work-group %u", caps->compute_units ? ", " : "", caps->subgroup, caps->group_max);
    if (caps->shared_bytes) gale__str_addf(out, ", shared memory %u KiB", caps->shared_bytes >> 10);
    if (caps->arch) gale__str_addf(out, ", compute capability %u.%u", caps->arch / 10, caps->arch % 10);
}

/* Nothing for devices without a driver. */
static void trust_text(const gale_device_state *d, gale__str *out)
{
    static const char *const texts[] = {"not run yet; runs when the device is first opened", "passed", "FAILED: "};
    if (!d->has_driver) return;
    gale__str_addf(out, "\n  self-test %s%s", texts[d->verdict], d->verdict_reason);
    if (*d->setting) gale__str_addf(out, "\n  setting   %s, because %s", d->setting, d->fault);
}

/* "16x16x16 f16 -> f32": m, n and k of each shape. */
static void shape_text(const gale_matrix_shape *shape, gale__str *out)
{
    gale__str_addf(out, "%ux%ux%u %s -> %s", shape->m, shape->n, shape->k, gale_type_name((gale_type)shape->operand),
        gale_type_name((gale_type)shape->sum));
}

static void matrix_text(const gale_device_caps *caps, gale__str *out)
{
    for (uint32_t i = 0; i < caps->n_matrix; i++) {
        if (i) gale__str_add(out, ", ");
        shape_text(&caps->matrix[i], out);
    }
}

void gale__device_describe(const gale_device_state *state, gale__str *out)
{
    const gale_device_info *info = &state->info;
    const gale_device_caps *caps = &info->caps;
    char total[32], left[32], most[32];
    gale__str_addf(out, "%s:%d  %s\n  driver    %s\n", info->backend, info->index, info->name, info->driver);
    gale__str_addf(out, "  memory    %s", gale__bytes_text(caps->memory_bytes, total));
    if (caps->memory_free_bytes) gale__str_addf(out, ", free %s", gale__bytes_text(caps->memory_free_bytes, left));
    if (caps->alloc_max_bytes)
        gale__str_addf(out, ", largest allocation %s", gale__bytes_text(caps->alloc_max_bytes, most));
    gale__str_add(out, "\n  limits    ");
    limits_text(caps, out);
    gale__str_add(out, "\n  features  ");
    features_text(caps, out);
    if (caps->n_matrix) gale__str_add(out, "\n  matrix    ");
    matrix_text(caps, out);
    gale__str_add(out, "\n  ceilings  ");
    ceilings_text(&info->ceilings, out);
    trust_text(state, out);
    gale__str_add(out, "\n");
}
