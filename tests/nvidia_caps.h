/* What an H200 says of itself, for the null device. */
#ifndef GALE_TEST_NVIDIA_CAPS_H
#define GALE_TEST_NVIDIA_CAPS_H
#include "device/device.h"

static const gale_device_caps nvidia = {
    .memory_bytes = (uint64_t)128 << 30,
    .memory_free_bytes = (uint64_t)128 << 30,
    .alloc_max_bytes = (uint64_t)128 << 30,
    .compute_units = 132,
    .clock_mhz = 1980,
    .subgroup = 32,
    .group_max = 1024,
    .groups_max = {INT32_MAX, 65535, 65535},
    .groups_together = 132,
    .shared_bytes = 48 << 10,
    .shared_most_bytes = 227 << 10,
    .arch = 90,
    .n_matrix = 4,
    .matrix = {{16, 16, 16, GALE_F16, GALE_F32}, {16, 16, 16, GALE_BF16, GALE_F32}, {16, 16, 32, GALE_I8, GALE_I32},
        {16, 16, 32, GALE_U8, GALE_I32}},
    .matrix_quads = true,
    .matrix_groups = true,
    .matrix_maps = true,
    .begins_early = true,
    .matrix_f32 = true,
    .f16 = true,
    .bf16 = true,
    .f64 = true,
    .i64 = true,
    .subgroup_ops = true,
    .memory_model = true,
    .capture = true,
    .storage8 = true,
    .storage16 = true,
    .own_math = true,
    .corners = true,
    .denormals = true,
    .exact_division = true,
    .dialect = "cuda",
};
#endif
