/* Devices as JSON, from a table of their features and their limits. */
#include "jobs/machine/machine.h"
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
    F(host_mapped),
    F(host_functions),
    F(in_place),
    F(spirv),
    F(capture),
    F(software),
#undef F
};
#define N_FEATURES (sizeof features / sizeof *features)

static bool has(const gale_device_caps *caps, size_t i) { return *(const bool *)((const char *)caps + features[i].at); }

const char *gale_device_feature(const gale_device_caps *caps, int index)
{
    if (!caps) return gale__lack(__func__, "caps"), NULL;
    for (size_t i = 0; i < N_FEATURES; i++)
        if (has(caps, i) && index-- == 0) return features[i].name;
    return NULL;
}

/* What is not measured is null. */
static void put_rate(gale__json_out *j, const char *key, double v)
{
    gale__json_key(j, key);
    if (v > 0) gale__json_f64(j, v);
    else gale__json_null(j);
}

static void json_limits(gale__json_out *j, const gale_device_caps *caps)
{
    gale__json_put_u64(j, "memory_bytes", caps->memory_bytes);
    gale__json_put_u64(j, "memory_free_bytes", caps->memory_free_bytes);
    gale__json_put_u64(j, "alloc_max_bytes", caps->alloc_max_bytes);
    gale__json_put_u64(j, "compute_units", caps->compute_units);
    gale__json_put_u64(j, "clock_mhz", caps->clock_mhz);
    gale__json_put_u64(j, "subgroup", caps->subgroup);
    gale__json_put_u64(j, "group_max", caps->group_max);
    gale__json_open(j, "groups_max", '[');
    for (int i = 0; i < 3; i++) gale__json_i64(j, caps->groups_max[i]);
    gale__json_close(j, ']');
    gale__json_put_u64(j, "groups_together", caps->groups_together);
    gale__json_put_u64(j, "loop_max", caps->loop_max);
    gale__json_put_u64(j, "shared_bytes", caps->shared_bytes);
    gale__json_put_u64(j, "shared_most_bytes", caps->shared_most_bytes);
    gale__json_put_u64(j, "push_bytes", caps->push_bytes);
    gale__json_put_u64(j, "arch", caps->arch);
    gale__json_put_u64(j, "products_side", caps->products_side);
    gale__json_put_u64(j, "kernels_per_module", caps->kernels_per_module);
    if (caps->dialect) gale__json_put_text(j, "dialect", caps->dialect);
}

static void json_matrix(gale__json_out *j, const gale_device_caps *caps)
{
    gale__json_open(j, "matrix", '[');
    for (uint32_t i = 0; i < caps->n_matrix; i++) {
        const gale_matrix_shape *shape = &caps->matrix[i];
        gale__json_object(j);
        gale__json_put_u64(j, "m", shape->m);
        gale__json_put_u64(j, "n", shape->n);
        gale__json_put_u64(j, "k", shape->k);
        gale__json_put_text(j, "operand", gale_type_name((gale_type)shape->operand));
        gale__json_put_text(j, "sum", gale_type_name((gale_type)shape->sum));
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
}

void gale__device_json(gale__json_out *j, const gale_device_info *info)
{
    gale__json_object(j);
    gale__json_put_text(j, "backend", info->backend);
    gale__json_put_u64(j, "index", (uint64_t)info->index);
    gale__json_put_text(j, "name", info->name);
    gale__json_put_text(j, "vendor", info->vendor);
    gale__json_put_text(j, "driver", info->driver);
    gale__json_put_text(j, "id", info->id);
    json_limits(j, &info->caps);
    gale__json_open(j, "features", '[');
    for (size_t i = 0; i < N_FEATURES; i++)
        if (has(&info->caps, i)) gale__json_string(j, features[i].name);
    gale__json_close(j, ']');
    json_matrix(j, &info->caps);
    gale__json_open(j, "ceilings", '{');
    put_rate(j, "copy_gbps", info->ceilings.copy_gbps);
    put_rate(j, "upload_gbps", info->ceilings.upload_gbps);
    put_rate(j, "download_gbps", info->ceilings.download_gbps);
    put_rate(j, "f32_gflops", info->ceilings.f32_gflops);
    put_rate(j, "launch_us", info->ceilings.launch_us);
    put_rate(j, "round_trip_us", info->ceilings.round_trip_us);
    put_rate(j, "efficiency", info->ceilings.efficiency);
    put_rate(j, "small_us", info->ceilings.small_us);
    put_rate(j, "large_us", info->ceilings.large_us);
    put_rate(j, "step_ns", info->ceilings.step_ns);
    gale__json_close(j, '}');
    gale__json_close(j, '}');
}
