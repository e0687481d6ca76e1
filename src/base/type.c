/* Element types by name.  Names used by other libraries are accepted too. */
#include "base/num.h"
#include "base/str.h"

const gale__type_info gale__type_table[GALE_TYPE_COUNT] = {
#define X(NAME, text, bits, kind, e, m) {text, bits, ((bits) + 7) / 8, kind, e, m},
#include "gale/types.def"
#undef X
};

static const struct {
    const char *name;
    gale_type type;
} aliases[] = {
    {"float32", GALE_F32},
    {"float", GALE_F32},
    {"single", GALE_F32},
    {"fp32", GALE_F32},
    {"float64", GALE_F64},
    {"double", GALE_F64},
    {"fp64", GALE_F64},
    {"float16", GALE_F16},
    {"half", GALE_F16},
    {"fp16", GALE_F16},
    {"bfloat16", GALE_BF16},
    {"float8e4m3fn", GALE_F8E4M3FN},
    {"float8_e4m3fn", GALE_F8E4M3FN},
    {"fp8", GALE_F8E4M3FN},
    {"float8e4m3fnuz", GALE_F8E4M3FNUZ},
    {"float8_e4m3fnuz", GALE_F8E4M3FNUZ},
    {"float8e5m2", GALE_F8E5M2},
    {"float8_e5m2", GALE_F8E5M2},
    {"float8e5m2fnuz", GALE_F8E5M2FNUZ},
    {"float8_e5m2fnuz", GALE_F8E5M2FNUZ},
    {"float8e8m0", GALE_F8E8M0},
    {"float8_e8m0fnu", GALE_F8E8M0},
    {"float6e2m3", GALE_F6E2M3},
    {"float6_e2m3fn", GALE_F6E2M3},
    {"float6e3m2", GALE_F6E3M2},
    {"float6_e3m2fn", GALE_F6E3M2},
    {"float4e2m1", GALE_F4E2M1},
    {"float4_e2m1fn", GALE_F4E2M1},
    {"int8", GALE_I8},
    {"int16", GALE_I16},
    {"int32", GALE_I32},
    {"int", GALE_I32},
    {"int64", GALE_I64},
    {"long", GALE_I64},
    {"uint8", GALE_U8},
    {"byte", GALE_U8},
    {"uint16", GALE_U16},
    {"uint32", GALE_U32},
    {"uint64", GALE_U64},
    {"int4", GALE_I4},
    {"uint4", GALE_U4},
    {"int2", GALE_I2},
    {"uint2", GALE_U2},
    {"boolean", GALE_BOOL},
    {"str", GALE_STRING},
};

const char *gale_type_name(gale_type type)
{
    return (unsigned)type < GALE_TYPE_COUNT ? gale__type_table[type].name : "?";
}
size_t gale_type_size(gale_type type)
{
    return (unsigned)type < GALE_TYPE_COUNT ? (size_t)gale__type_table[type].size : 0;
}

gale_status gale_type_parse(const char *name, gale_type *type)
{
    GALE__NEED({"name", name}, {"type", type});
    for (int i = 0; i < GALE_TYPE_COUNT; i++)
        if (gale__text_equal_nocase(name, gale__type_table[i].name)) {
            *type = (gale_type)i;
            return GALE_OK;
        }
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (gale__text_equal_nocase(name, aliases[i].name)) {
            *type = aliases[i].type;
            return GALE_OK;
        }
    return gale__fail(GALE_INVALID,
        "unknown element type '%s'; supported are f32, f64, f16, bf16, i8 to i64, u8 to u64, bool and the f8 family",
        name);
}
