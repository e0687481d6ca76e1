/* Compact vector types. */
#include "base/error.h"
#include "base/num.h"
#include "gale/embed.h"
#include <math.h>
#include <string.h>

const char *gale_vector_type_name(gale_vector_type type)
{
    static const char *const names[GALE_VECTOR_TYPE_COUNT] = {"f32", "f16", "int8", "binary"};
    return (unsigned)type < GALE_VECTOR_TYPE_COUNT ? names[type] : "?";
}

size_t gale_vector_bytes(gale_vector_type type, int64_t dims)
{
    size_t n = dims > 0 ? (size_t)dims : 0;
    switch (type) {
    case GALE_VECTOR_F16: return n * 2;
    case GALE_VECTOR_INT8: return n;
    case GALE_VECTOR_BINARY: return (n + 7) / 8;
    default: return n * 4;
    }
}

static int8_t to_int8(float v)
{
    float scaled = rintf(v * 127);
    return (int8_t)(scaled >= 127 ? 127 : scaled <= -127 ? -127 : scaled == scaled ? scaled : 0);
}

void gale_vector_pack(gale_vector_type type, int64_t dims, const float *vector, void *out)
{
    if (GALE__LACKS({"vector", vector}, {"out", out})) return;
    size_t n = dims > 0 ? (size_t)dims : 0;
    if (type == GALE_VECTOR_F32) {
        memcpy(out, vector, n * sizeof *vector);
        return;
    }
    if (type == GALE_VECTOR_BINARY) memset(out, 0, gale_vector_bytes(type, dims));
    for (size_t i = 0; i < n; i++) {
        if (type == GALE_VECTOR_F16) ((uint16_t *)out)[i] = gale__f32_to_f16(vector[i]);
        else if (type == GALE_VECTOR_INT8) ((int8_t *)out)[i] = to_int8(vector[i]);
        else if (vector[i] > 0) ((uint8_t *)out)[i / 8] |= (uint8_t)(128 >> i % 8);
    }
}
