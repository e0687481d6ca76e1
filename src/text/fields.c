/* Reading fields: a wrong type is an error with the field's name, never a default. */
#include "text/fields.h"
#include "base/utf8.h"
#include <stdio.h>
#include <string.h>

static const gale__json *member(const gale__json *object, const char *key)
{
    const gale__json *v = gale__json_get(object, key);
    return v && v->kind != GALE__JSON_NULL ? v : NULL;
}

static gale_status wrong(const char *key, const char *want)
{
    return gale__fail(GALE_FORMAT, "'%s' must be %s", key, want);
}

gale_status gale__field_bool(const gale__json *object, const char *key, bool *out)
{
    const gale__json *v = member(object, key);
    if (v && v->kind != GALE__JSON_BOOL) return wrong(key, "true or false");
    if (v) *out = v->boolean;
    return GALE_OK;
}

gale_status gale__field_u32(const gale__json *object, const char *key, uint32_t *out)
{
    const gale__json *v = member(object, key);
    if (!v) return GALE_OK;
    if (v->kind != GALE__JSON_NUMBER || !(v->number >= 0 && v->number < 4294967295.0) ||
        v->number != (double)(uint32_t)v->number)
        return wrong(key, "a non-negative integer");
    *out = (uint32_t)v->number;
    return GALE_OK;
}

gale_status gale__field_text(const gale__json *object, const char *key, const char **out, size_t *size)
{
    const gale__json *v = member(object, key);
    if (v && v->kind != GALE__JSON_STRING) return wrong(key, "a text");
    if (!v) return GALE_OK;
    *out = v->string;
    *size = v->string_size;
    return GALE_OK;
}

gale_status gale__field_character(const gale__json *object, const char *key, uint32_t *out)
{
    const char *text = NULL;
    size_t size = 0;
    GALE_TRY(gale__field_text(object, key, &text, &size));
    if (!text) return GALE_OK;
    const char *p = text;
    int32_t c = size ? gale__utf8_take(&p, text + size) : -1;
    if (c < 0 || p != text + size) return wrong(key, "one character");
    *out = (uint32_t)c;
    return GALE_OK;
}

gale_status gale__field_need(const gale__json *object, const char *key, const gale__json **out)
{
    const gale__json *v = member(object, key);
    if (!v) return gale__fail(GALE_FORMAT, "'%s' is missing", key);
    *out = v;
    return GALE_OK;
}

gale_status gale__field_need_text(const gale__json *object, const char *key, const char **out, size_t *size)
{
    const gale__json *v = NULL;
    GALE_TRY(gale__field_need(object, key, &v));
    return gale__field_text(object, key, out, size);
}

const char *gale__field_type(const gale__json *object) { return gale__json_text(object, "type", ""); }

static double power_of_ten(int64_t n)
{
    char text[8];
    double power = 1;
    snprintf(text, sizeof text, "1e%d", (int)n);
    gale__text_to_f64(text, &power);
    return power;
}

double gale__number_twice_rounded(const char *text)
{
    bool negative = *text == '-', point = false, full = false;
    uint64_t digits = 0;
    int64_t exponent = 0, written = 0;
    for (text += negative; (*text >= '0' && *text <= '9') || (*text == '.' && !point); text++) {
        uint64_t digit = (uint64_t)(*text - '0');
        if (*text == '.') {
            point = true;
            continue;
        }
        full = full || digits > (UINT64_MAX - digit) / 10; /* what no longer fits is left out */
        if (!full) digits = digits * 10 + digit;
        exponent += full ? !point : -(int)point;
    }
    if (*text == 'e' || *text == 'E') {
        bool small = text[1] == '-';
        for (text += 1 + (text[1] == '-' || text[1] == '+'); *text >= '0' && *text <= '9'; text++)
            if (written < 100000) written = written * 10 + (*text - '0');
        exponent += small ? -written : written;
    }
    double v = (double)digits;
    for (; exponent < -308 && v != 0; exponent += 308) v /= 1e308;
    int64_t size = exponent < 0 ? -exponent : exponent;
    double power = size > 308 ? 1 : power_of_ten(size);
    v = exponent < 0 ? v / power : v * power;
    return negative ? -v : v;
}

gale_status gale__copy_text(const char *text, size_t size, char **out)
{
    char *copy = gale__alloc(size + 1);
    if (!copy) return GALE_NO_MEMORY;
    memcpy(copy, text, size);
    copy[size] = 0;
    *out = copy;
    return GALE_OK;
}

int gale__word_index(const char *word, const char *const *list)
{
    for (int i = 0; list[i]; i++)
        if (!strcmp(word, list[i])) return i;
    return -1;
}
