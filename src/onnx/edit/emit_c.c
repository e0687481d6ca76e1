/* A model as a C file: the bytes of the ONNX file as an array, so that a program can include its model. */
#include "onnx/edit/edit.h"
#include "base/file.h"
#include <string.h>

/* Text is put together in pieces of this size. */
enum { PER_LINE = 24, FLUSH = 1 << 16 };

static bool is_keyword(const char *s)
{
    static const char words[] =
        " auto break case char const continue default do double else enum extern float for goto if inline int long "
        "main register restrict return short signed sizeof static struct "
        "switch typedef union unsigned void volatile while ";
    size_t n = strlen(s);
    for (const char *at = words; (at = strstr(at, s)); at++)
        if (at[-1] == ' ' && at[n] == ' ') return true;
    return false;
}

bool gale__edit_is_c_name(const char *s)
{
    if (!*s || (*s >= '0' && *s <= '9') || is_keyword(s)) return false;
    for (; *s; s++)
        if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || *s == '_'))
            return false;
    return true;
}

static gale_status flush(gale__str *text, gale__file_out *out, size_t least)
{
    GALE_TRY(gale__str_check(text));
    if (text->length < least) return GALE_OK;
    gale_status status = gale__file_add(out, gale__str_text(text), text->length);
    text->length = 0;
    return status;
}

static gale_status write_bytes(const gale__str *bytes, const char *name, gale__str *text, gale__file_out *out)
{
    gale__str_addf(text,
        "/* An ONNX model of %zu bytes: gale_model_from_memory(%s, %s_size, 0, device, NULL, &model).\n"
        " *\n"
        " *     extern const unsigned char %s[];\n"
        " *     extern const size_t %s_size; */\n"
        "#include <stddef.h>\n\n"
        "extern const unsigned char %s[];\nextern const size_t %s_size;\n\n"
        "const size_t %s_size = %zu;\n"
        "_Alignas(64) const unsigned char %s[%zu] = {",
        bytes->length, name, name, name, name, name, name, name, bytes->length, name,
        bytes->length ? bytes->length : 1);
    for (size_t i = 0; i < bytes->length; i++) {
        unsigned v = (unsigned char)bytes->text[i];
        char digits[4] = {(char)('0' + v / 100), (char)('0' + v / 10 % 10), (char)('0' + v % 10), ','};
        int skip = v < 10 ? 2 : v < 100 ? 1 : 0; /* a leading zero would make it octal */
        if (i % PER_LINE == 0) gale__str_add(text, "\n    ");
        gale__str_add_n(text, digits + skip, (size_t)(4 - skip));
        GALE_TRY(flush(text, out, FLUSH));
    }
    gale__str_add(text, bytes->length ? "\n};\n" : "0};\n");
    return flush(text, out, 0);
}

gale_status gale__edit_emit_c(gale__onnx *file, const gale__pb_model *model, const char *name, const char *path)
{
    gale__str bytes = {0}, text = {0};
    gale__file_out out = {.fd = -1};
    if (!gale__edit_is_c_name(name)) return gale__fail(GALE_INVALID, "'%s' is not a valid name in C", name);
    gale_status status = gale__onnx_pack(file, model, &bytes);
    if (status == GALE_OK) status = gale__onnx_check_outside(file, path);
    if (status == GALE_OK) status = gale__file_begin(path, &out);
    if (status == GALE_OK) status = write_bytes(&bytes, name, &text, &out);
    if (status == GALE_OK) status = gale__file_end(&out);
    gale__file_drop(&out);
    gale__str_finish(&bytes);
    gale__str_finish(&text);
    return status;
}
