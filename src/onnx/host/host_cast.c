/* Cast to and from strings.  Numbers become the shortest decimal text that reads back as the same number of their type,
 * written as NumPy does; texts become numbers with one rounding, to the type they are for. */
#include "base/num.h"
#include "onnx/host/host.h"
#include "onnx/run/session.h"
#include "onnx/run/texts.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Numbers to text. --- */

/* Whether v, read as a number of the type, is x. */
static bool reads_back(gale_type type, const char *text, double x)
{
    uint8_t bits[8];
    if (type == GALE_F32) {
        float f;
        return gale__text_to_f32(text, &f) && f == (float)x;
    }
    double v;
    if (!gale__text_to_real(text, &v)) return false;
    gale__store_f64(type, bits, v);
    return gale__load_f64(type, bits) == x;
}

/* Plain digits from 1e-4 up to 1e16, else an exponent of at least two digits. */
static void add_real(gale__str *out, gale_type type, double x)
{
    char text[40], digits[24];
    if (isnan(x)) return gale__str_add(out, "nan");
    if (isinf(x)) return gale__str_add(out, x < 0 ? "-inf" : "inf");
    int n = 1;
    for (; n <= 17; n++) {
        snprintf(text, sizeof text, "%.*e", n - 1, x);
        for (char *p = text; *p; p++)
            if (*p == ',') *p = '.'; /* a locale's */
        if (reads_back(type, text, x)) break;
    }
    const char *from = text + (*text == '-');
    int exponent = 0, count = 0;
    for (const char *p = from; *p && *p != 'e'; p++)
        if (*p != '.') digits[count++] = *p;
    sscanf(strchr(from, 'e') + 1, "%d", &exponent);
    while (count > 1 && digits[count - 1] == '0') count--;
    if (signbit(x)) gale__str_add(out, "-");
    if (x != 0 && (exponent < -4 || exponent >= 16)) {
        gale__str_add_n(out, digits, 1);
        if (count > 1) gale__str_add(out, "."), gale__str_add_n(out, digits + 1, (size_t)count - 1);
        gale__str_addf(out, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    for (int i = exponent < 0 ? exponent : 0; i < count || i <= exponent + 1; i++) {
        if (i == exponent + 1) gale__str_add(out, ".");
        gale__str_add_n(out, i >= 0 && i < count ? &digits[i] : "0", 1);
    }
}

static void add_number(gale__str *out, gale_type type, const void *p)
{
    if (type == GALE_BOOL) gale__str_add(out, *(const uint8_t *)p ? "True" : "False");
    else if (type == GALE_U64) gale__str_addf(out, "%llu", (unsigned long long)gale__load_i64(type, p));
    else if (gale__type_is_int(type)) gale__str_addf(out, "%lld", (long long)gale__load_i64(type, p));
    else add_real(out, type, gale__load_f64(type, p));
}

static gale_status to_strings(gale__onnx_host_call *call, const gale_tensor *x, gale_tensor **out)
{
    const void *data;
    gale__onnx_string_list list = {0};
    gale_status status = GALE_OK;
    GALE_TRY(gale__onnx_host_numbers(call, x, &data));
    for (int64_t i = 0; status == GALE_OK && i < gale__tensor_elements(x); i++) {
        add_number(&list.text, x->type, (const char *)data + (size_t)i * gale_type_size(x->type));
        status = gale__onnx_string_list_end(&list);
    }
    if (status == GALE_OK) status = gale__onnx_string_list_tensor(&list, x->rank, x->dims, out);
    gale__onnx_string_list_finish(&list);
    return status;
}

/* --- Text to numbers. --- */

static bool special(const char *text, double *out)
{
    bool minus = *text == '-';
    text += minus || *text == '+';
    if (gale__text_equal_nocase(text, "nan")) *out = NAN;
    else if (gale__text_equal_nocase(text, "inf") || gale__text_equal_nocase(text, "infinity"))
        *out = minus ? -INFINITY : INFINITY;
    else return false;
    return true;
}

/* Whole numbers in full; *wraps: the bits of a u64. */
static bool whole(const char *text, int64_t *out)
{
    bool minus = *text == '-';
    uint64_t v = 0;
    text += minus || *text == '+';
    if (!*text) return false;
    for (; *text; text++) {
        if (!isdigit((unsigned char)*text) || v > (UINT64_MAX - (uint64_t)(*text - '0')) / 10) return false;
        v = v * 10 + (uint64_t)(*text - '0');
    }
    *out = (int64_t)(minus ? 0 - v : v);
    return true;
}

static bool parse_number(gale_type type, const char *text, void *to)
{
    double v;
    float f;
    int64_t i;
    if (type == GALE_BOOL && (gale__text_equal_nocase(text, "true") || gale__text_equal_nocase(text, "false")))
        return *(uint8_t *)to = tolower((unsigned char)*text) == 't', true;
    if (gale__type_is_int(type) && whole(text, &i)) return gale__store_i64(type, to, i), true;
    if (special(text, &v)) {
        if (type == GALE_BOOL) *(uint8_t *)to = 1;
        else gale__store_f64(type, to, v);
        return true;
    }
    if (type == GALE_F32 && gale__text_to_f32(text, &f)) return memcpy(to, &f, sizeof f), true;
    if (!gale__text_to_real(text, &v)) return false;
    if (type == GALE_BOOL) *(uint8_t *)to = v != 0;
    else gale__store_f64(type, to, v);
    return true;
}

static gale_status from_string(gale_type type, const gale_tensor *x, int64_t i, void *to)
{
    char text[400]; /* the longest double written out has 342 digits and more would not change it */
    size_t size;
    const char *s = gale_tensor_string(x, i, &size);
    while (size && isspace((unsigned char)*s)) s++, size--;
    while (size && isspace((unsigned char)s[size - 1])) size--;
    if (size < sizeof text && !memchr(s, 0, size)) {
        memcpy(text, s, size);
        text[size] = 0;
        if (parse_number(type, text, to)) return GALE_OK;
    }
    return gale__fail(GALE_INVALID, "string %lld, '%.60s', is not a number", (long long)i, s);
}

static gale_status to_numbers(const gale_tensor *x, gale_type type, gale_tensor **out)
{
    gale_tensor *made = NULL;
    GALE_TRY(gale_tensor_create(NULL, type, x->rank, x->dims, &made));
    char *to = gale_tensor_data(made);
    for (int64_t i = 0; i < gale__tensor_elements(x); i++) {
        gale_status status = from_string(type, x, i, to + (size_t)i * gale_type_size(type));
        if (status != GALE_OK) return gale_tensor_destroy(&made), status;
    }
    *out = made;
    return GALE_OK;
}

/* --- The operators. --- */

static gale_status target_type(gale__onnx_host_call *call, gale_type *out)
{
    if (!strcmp(call->node->op, "CastLike")) {
        gale_tensor *like;
        GALE_TRY(gale__onnx_host_tensor(call, 1, &like));
        *out = like->type;
        return GALE_OK;
    }
    const gale_attr *to = gale__onnx_net_attr(call->node, "to");
    if (!to) return gale__fail(GALE_INVALID, "missing attribute to");
    if (to->kind == GALE_ATTR_STRING) return gale_type_parse(to->s, out);
    int type = gale__onnx_type(to->i);
    if (type < 0) return gale__fail(GALE_UNSUPPORTED, "%lld is not an element type", (long long)to->i);
    *out = (gale_type)type;
    return GALE_OK;
}

gale_status gale__onnx_host_cast_to(gale__onnx_host_call *call, gale_tensor *x, gale_type type, gale_tensor **out)
{
    if (x->type == type) return gale_tensor_reshape(x, x->rank, x->dims, out);
    if (type == GALE_STRING) return to_strings(call, x, out);
    if (x->type == GALE_STRING) return to_numbers(x, type, out);
    const gale_attr to[] = {GALE_INT("to", gale__onnx_type_number(type))};
    return gale__onnx_session_op(call->session, "Cast", &x, 1, to, 1, out, 1);
}

gale_status gale__onnx_host_cast(gale__onnx_host_call *call)
{
    gale_tensor *x, *made = NULL;
    gale_type type;
    GALE_TRY(gale__onnx_host_tensor(call, 0, &x));
    GALE_TRY(target_type(call, &type));
    GALE_TRY(gale__onnx_host_cast_to(call, x, type, &made));
    return gale__onnx_host_give(call, 0, &made);
}
