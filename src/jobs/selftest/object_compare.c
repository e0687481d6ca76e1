/* Comparing results with what a suite expects, by its rule: |a - b| <= atol + rtol |b|, types and shapes equal. */
#include "base/num.h"
#include "jobs/selftest/suite.h"
#include "onnx/host/host.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static gale_status shape_differs(const gale_tensor *a, const gale_tensor *b)
{
    char text[2][160] = {"", ""};
    for (int k = 0; k < 2; k++) {
        const gale_tensor *t = k ? b : a;
        for (int i = 0; i < gale_tensor_rank(t); i++)
            snprintf(text[k] + strlen(text[k]), sizeof text[k] - strlen(text[k]), "%s%lld", i ? "x" : "",
                (long long)gale_tensor_dims(t)[i]);
    }
    return gale__fail(GALE_MISMATCH, "%s [%s], expected %s [%s]", gale_type_name(gale_tensor_type(a)), text[0],
        gale_type_name(gale_tensor_type(b)), text[1]);
}

static gale_status compare_strings(const gale_tensor *a, const gale_tensor *b)
{
    for (int64_t i = 0, n = gale__onnx_tensor_count(a); i < n; i++) {
        size_t sa, sb;
        const char *ta = gale_tensor_string(a, i, &sa), *tb = gale_tensor_string(b, i, &sb);
        if (sa != sb || memcmp(ta, tb, sa))
            return gale__fail(GALE_MISMATCH, "element %lld is \"%.*s\", expected \"%.*s\"", (long long)i,
                (int)(sa < 60 ? sa : 60), ta, (int)(sb < 60 ? sb : 60), tb);
    }
    return GALE_OK;
}

#define BF16_RTOL 0.015625 /* the suite's own for bfloat16: two units in the last place */

static bool near(double x, double y, double rtol, double atol)
{
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
    if (isinf(x) || isinf(y)) return x == y;
    return fabs(x - y) <= atol + rtol * fabs(y);
}

static gale_status compare_numbers(gale_tensor *a, gale_tensor *b, double rtol, double atol, bool random)
{
    gale_type type = gale_tensor_type(a);
    size_t size = gale_type_size(type);
    const char *pa = gale_tensor_data(a), *pb = gale_tensor_data(b);
    double low = INFINITY, high = -INFINITY;
    if (type == GALE_BF16) rtol = fmax(rtol, BF16_RTOL);
    int64_t n = gale__onnx_tensor_count(a);
    for (int64_t i = 0; random && i < n; i++) {
        double y = gale__load_f64(type, pb + (size_t)i * size);
        if (y < low) low = y;
        if (y > high) high = y;
    }
    for (int64_t i = 0; i < n; i++) {
        double x = gale__load_f64(type, pa + (size_t)i * size), y = gale__load_f64(type, pb + (size_t)i * size);
        if (random ? isfinite(x) && x >= low && x <= high : near(x, y, rtol, atol)) continue;
        if (!random && (type == GALE_I64 || type == GALE_U64) &&
            !memcmp(pa + (size_t)i * size, pb + (size_t)i * size, size))
            continue;
        return gale__fail(
            GALE_MISMATCH, "element %lld of %lld is %.9g, expected %.9g", (long long)i, (long long)n, x, y);
    }
    return GALE_OK;
}

static gale_status compare_tensors(gale_tensor *a, gale_tensor *b, double rtol, double atol, bool random)
{
    int rank = gale_tensor_rank(a);
    bool same = gale_tensor_type(a) == gale_tensor_type(b) && rank == gale_tensor_rank(b) &&
                (!rank || !memcmp(gale_tensor_dims(a), gale_tensor_dims(b), (size_t)rank * sizeof(int64_t)));
    if (!same) return shape_differs(a, b);
    if (gale_tensor_type(a) == GALE_STRING) return compare_strings(a, b);
    return compare_numbers(a, b, rtol, atol, random);
}

gale_status gale__object_compare(const gale_object *a, const gale_object *b, double rtol, double atol, bool random)
{
    if (a->kind != b->kind) return gale__fail(GALE_MISMATCH, "it is of another kind than expected");
    if (a->count != b->count) return gale__fail(GALE_MISMATCH, "it has %zu items, expected %zu", a->count, b->count);
    if (a->tensor) GALE_TRY(compare_tensors(a->tensor, b->tensor, rtol, atol, random));
    for (size_t i = 0; i < a->count; i++) GALE_TRY(gale__object_compare(a->items[i], b->items[i], rtol, atol, random));
    return GALE_OK;
}
