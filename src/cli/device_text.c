/* Devices in words and as JSON, from tables of their features and limits. */
#include "cli/device_text.h"
#include "cli/cli.h"
#include "device/trust.h"
#include "device/workarounds.h"
#include <stddef.h>

static const struct {
    const char *name;
    size_t at;
} features[] = {
#define F(name)                                 \
    {                                           \
#name, offsetof(gale_device_caps, name) \
    }
    F(f16),
    F(bf16),
    F(f64),
    F(i64),
    F(subgroup_ops),
    F(storage8),
    F(storage16),
    F(denormals),
    F(nan_inf),
    F(memory_model),
    F(own_math),
    F(exact_division),
    F(corners),
    F(unified_memory),
    F(host_functions),
    F(in_place),
    F(spirv),
    F(products),
    F(capture),
    F(software),
#undef F
};
#define N_FEATURES (sizeof features / sizeof *features)

static bool has(const gale_device_caps *caps, size_t i) { return *(const bool *)((const char *)caps + features[i].at); }

void gale__features_text(const gale_device_caps *caps, gale__str *out)
{
    const char *blank = "";
    for (size_t i = 0; i < N_FEATURES; i++)
        if (has(caps, i)) gale__str_addf(out, "%s%s", blank, features[i].name), blank = " ";
}

void gale__ceilings_text(const gale_device_ceilings *c, gale__str *out)
{
    if (c->copy_gbps <= 0) {
        gale__str_add(out, "not measured yet (`gale devices --measure`)");
        return;
    }
    gale__str_addf(out, "copy %.1f GB/s, upload %.1f GB/s, download %.1f GB/s, launch %.2f us", c->copy_gbps,
        c->upload_gbps, c->download_gbps, c->launch_us);
    if (c->f32_gflops > 0) gale__str_addf(out, ", f32 %.0f GFLOP/s", c->f32_gflops);
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
static void trust_text(const gale_device_info *info, gale__str *out)
{
    static const char *const texts[] = {"not run yet: it runs when the device is opened", "passed", "FAILED: "};
    const gale__workaround *w = gale__workaround_find(info);
    gale__trust t;
    char state[256];
    if (!info->caps.holds_data || info->caps.host_functions) return;
    gale__trust_load(info, &t);
    gale__str_addf(out, "\n  self-test %s%s", texts[t.verdict], t.reason);
    gale__workaround_state(w, state, sizeof state);
    if (*state) gale__str_addf(out, "\n  setting   %s, since %s", state, w->fault);
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

void gale__device_describe(const gale_device_info *info, gale__str *out)
{
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
    gale__features_text(caps, out);
    if (caps->n_matrix) gale__str_add(out, "\n  matrix    ");
    matrix_text(caps, out);
    gale__str_add(out, "\n  ceilings  ");
    gale__ceilings_text(&info->ceilings, out);
    trust_text(info, out);
    gale__str_add(out, "\n");
}

static void key_f64(gale__json_out *j, const char *key, double v)
{
    gale__json_key(j, key);
    if (v > 0) gale__json_f64(j, v);
    else gale__json_null(j);
}

static void key_u64(gale__json_out *j, const char *key, uint64_t v)
{
    gale__json_key(j, key);
    gale__json_i64(j, (int64_t)v);
}

static void key_text(gale__json_out *j, const char *key, const char *v)
{
    gale__json_key(j, key);
    gale__json_string(j, v);
}

static void json_limits(gale__json_out *j, const gale_device_caps *caps)
{
    key_u64(j, "memory_bytes", caps->memory_bytes);
    key_u64(j, "memory_free_bytes", caps->memory_free_bytes);
    key_u64(j, "alloc_max_bytes", caps->alloc_max_bytes);
    key_u64(j, "compute_units", caps->compute_units);
    key_u64(j, "clock_mhz", caps->clock_mhz);
    key_u64(j, "subgroup", caps->subgroup);
    key_u64(j, "group_max", caps->group_max);
    gale__json_key(j, "groups_max");
    gale__json_array(j);
    for (int i = 0; i < 3; i++) gale__json_i64(j, caps->groups_max[i]);
    gale__json_close(j, ']');
    key_u64(j, "loop_max", caps->loop_max);
    key_u64(j, "shared_bytes", caps->shared_bytes);
    key_u64(j, "shared_most_bytes", caps->shared_most_bytes);
    key_u64(j, "push_bytes", caps->push_bytes);
    key_u64(j, "arch", caps->arch);
    key_u64(j, "kernels_per_module", caps->kernels_per_module);
    if (caps->dialect) key_text(j, "dialect", caps->dialect);
}

static void json_matrix(gale__json_out *j, const gale_device_caps *caps)
{
    gale__json_key(j, "matrix");
    gale__json_array(j);
    for (uint32_t i = 0; i < caps->n_matrix; i++) {
        const gale_matrix_shape *shape = &caps->matrix[i];
        gale__json_object(j);
        key_u64(j, "m", shape->m);
        key_u64(j, "n", shape->n);
        key_u64(j, "k", shape->k);
        key_text(j, "operand", gale_type_name((gale_type)shape->operand));
        key_text(j, "sum", gale_type_name((gale_type)shape->sum));
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
}

void gale__device_json(gale__json_out *j, const gale_device_info *info)
{
    gale__json_object(j);
    key_text(j, "backend", info->backend);
    key_u64(j, "index", (uint64_t)info->index);
    key_text(j, "name", info->name);
    key_text(j, "vendor", info->vendor);
    key_text(j, "driver", info->driver);
    key_text(j, "id", info->id);
    json_limits(j, &info->caps);
    gale__json_key(j, "features");
    gale__json_array(j);
    for (size_t i = 0; i < N_FEATURES; i++)
        if (has(&info->caps, i)) gale__json_string(j, features[i].name);
    gale__json_close(j, ']');
    json_matrix(j, &info->caps);
    gale__json_key(j, "ceilings");
    gale__json_object(j);
    key_f64(j, "copy_gbps", info->ceilings.copy_gbps);
    key_f64(j, "upload_gbps", info->ceilings.upload_gbps);
    key_f64(j, "download_gbps", info->ceilings.download_gbps);
    key_f64(j, "f32_gflops", info->ceilings.f32_gflops);
    key_f64(j, "launch_us", info->ceilings.launch_us);
    gale__json_close(j, '}');
    gale__json_close(j, '}');
}

const gale_device_info *gale__provider_device(const gale__provider *provider)
{
    const gale__probe *probe;
    if (gale__provider_probe(provider, &probe) != GALE_OK || !probe->count) return NULL;
    for (int i = 0; i < probe->count; i++)
        if (!probe->devices[i].caps.software) return &probe->devices[i];
    return &probe->devices[0];
}
