/* Numbers and parameter words of kernels as C-family text. */
#include "kernel/print/print_number.h"
#include <math.h>
#include <string.h>

static void print_float(gale__str *s, gale_type type, uint64_t bits)
{
    double v;
    float narrow;
    uint32_t low = (uint32_t)bits;
    memcpy(&narrow, &low, sizeof narrow);
    memcpy(&v, &bits, sizeof v);
    if (type == GALE_F32) v = narrow;
    bool plain = type == GALE_F32 ? isnormal(narrow) || low << 1 == 0 : isnormal(v) || bits << 1 == 0;
    const char *suffix = type == GALE_F32 ? "f" : "";
    if (!plain)
        gale__str_addf(s, type == GALE_F32 ? "as_f32(0x%llxu)" : "as_f64((u64)0x%llx)", (unsigned long long)bits);
    else if (v == rint(v) && fabs(v) < 1e6) gale__str_addf(s, signbit(v) ? "(%.1f%s)" : "%.1f%s", v, suffix);
    else gale__str_addf(s, signbit(v) ? "(%a%s)" : "%a%s", v, suffix);
}

void gale__print_const(gale__str *s, gale_type type, uint64_t bits)
{
    int64_t v = type == GALE_I32 ? (int32_t)(uint32_t)bits : (int64_t)bits;
    switch (type) {
    case GALE_BOOL: gale__str_add(s, bits ? "true" : "false"); break;
    case GALE_F32:
    case GALE_F64: print_float(s, type, bits); break;
    case GALE_U32: gale__str_addf(s, "%lluu", (unsigned long long)bits); break;
    case GALE_U64: gale__str_addf(s, "(u64)0x%llx", (unsigned long long)bits); break;
    case GALE_I32:
        if (v == INT32_MIN) gale__str_add(s, "(-2147483647-1)");
        else gale__str_addf(s, v < 0 ? "(%lld)" : "%lld", (long long)v);
        break;
    default: gale__str_addf(s, "(i64)0x%llx", (unsigned long long)bits); break;
    }
}

void gale__print_word(gale__str *s, gale_type type, uint64_t at)
{
    unsigned low = (unsigned)at, high = low + 1;
    switch (type) {
    case GALE_U32: gale__str_addf(s, "P.w[%u]", low); break;
    case GALE_I32: gale__str_addf(s, "(i32)P.w[%u]", low); break;
    case GALE_F32: gale__str_addf(s, "as_f32(P.w[%u])", low); break;
    default:
        gale__str_addf(s, "%s(P.w[%u]|(u64)P.w[%u]<<32)",
            type == GALE_F64   ? "as_f64"
            : type == GALE_I64 ? "(i64)"
                               : "",
            low, high);
    }
}
