/* Escaping and encoding for HTML pages. */
#include "cli/html.h"

void gale__html_add(gale__str *out, const char *text)
{
    for (; text && *text; text++) {
        if (*text == '<') gale__str_add(out, "&lt;");
        else if (*text == '&') gale__str_add(out, "&amp;");
        else if (*text == '"') gale__str_add(out, "&quot;");
        else if ((unsigned char)*text >= ' ') gale__str_add_n(out, text, 1);
    }
}

void gale__html_add_data(gale__str *out, const void *data, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *p = data;
    for (size_t i = 0; i < size; i += 3) {
        size_t n = size - i < 3 ? size - i : 3;
        uint32_t v = (uint32_t)p[i] << 16 | (n > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (n > 2 ? p[i + 2] : 0);
        char four[4] = {
            digits[v >> 18], digits[v >> 12 & 63], n > 1 ? digits[v >> 6 & 63] : '=', n > 2 ? digits[v & 63] : '='};
        gale__str_add_n(out, four, 4);
    }
}
