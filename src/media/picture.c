/* Pictures in memory, and reading and writing them: the format is detected, limits are checked before its reader is
 * called, and unsupported types are converted before its writer is called. */
#include "media/picture.h"
#include "base/file.h"
#include "base/num.h"
#include <math.h>
#include <string.h>

#define MAX_PIXELS (UINT64_C(1) << 29)
#define MAX_BYTES (UINT64_C(8) << 30)

size_t gale__picture_row_bytes(const gale_picture *p)
{
    return (size_t)p->width * (size_t)p->channels * gale_type_size(p->type);
}

/* The blocks of bytes that go with a picture. */
enum { NOTES = 6 };
static gale_picture_bytes *note(gale_picture *p, int i)
{
    return (gale_picture_bytes *[NOTES]){&p->icc, &p->exif, &p->xmp, &p->iptc, &p->texts, &p->exr}[i];
}

gale_status gale__picture_begin(
    const gale__picture_source *in, uint64_t width, uint64_t height, int channels, gale_type type, gale_picture **out)
{
    if (!width || !height || width > INT32_MAX || height > INT32_MAX || channels < 1 || channels > 4)
        return gale__fail(GALE_FORMAT, "invalid picture of %llu x %llu with %d channels", (unsigned long long)width,
            (unsigned long long)height, channels);
    if (width * height > in->max_pixels)
        return gale__fail(GALE_LIMIT, "%llu x %llu pixels exceed the limit of %llu", (unsigned long long)width,
            (unsigned long long)height, (unsigned long long)in->max_pixels);
    size_t bytes = (size_t)channels * gale_type_size(type);
    if (gale__mul_size(bytes, (size_t)width, &bytes) || gale__mul_size(bytes, (size_t)height, &bytes) ||
        bytes > in->max_bytes)
        return gale__fail(GALE_LIMIT, "%llu x %llu pixels exceed the limit of %llu bytes", (unsigned long long)width,
            (unsigned long long)height, (unsigned long long)in->max_bytes);
    gale_picture *p = gale__calloc(1, sizeof *p);
    if (!p) return GALE_NO_MEMORY;
    *p = (gale_picture){.width = (int64_t)width,
        .height = (int64_t)height,
        .channels = channels,
        .type = type,
        .data = gale__alloc(bytes)};
    if (!p->data) {
        gale__free(p);
        return GALE_NO_MEMORY;
    }
    *out = p;
    return GALE_OK;
}

static gale_status check_kind(int64_t width, int64_t height, int channels, gale_type type)
{
    if (width < 1 || height < 1 || channels < 1 || channels > 4)
        return gale__fail(GALE_INVALID, "invalid picture size: %lld x %lld pixels of %d channels", (long long)width,
            (long long)height, channels);
    if (type != GALE_U8 && type != GALE_U16 && type != GALE_F16 && type != GALE_F32)
        return gale__fail(GALE_INVALID, "pictures must be u8, u16, f16 or f32, not %s", gale_type_name(type));
    return GALE_OK;
}

gale_status gale__picture_check(const gale_picture *p)
{
    enum { PIXEL_MOST = 16 };
    GALE_TRY(check_kind(p->width, p->height, p->channels, p->type));
    if (!p->data) return gale__fail(GALE_INVALID, "the picture has no data");
    if (p->width <= INT64_MAX / PIXEL_MOST / p->height) return GALE_OK;
    return gale__fail(GALE_LIMIT, "a picture of %lld x %lld is too large", (long long)p->width, (long long)p->height);
}

gale_status gale_picture_create(int64_t width, int64_t height, int channels, gale_type type, gale_picture **out)
{
    GALE__NEED({"out", out});
    const gale__picture_source any = {.max_pixels = UINT64_MAX, .max_bytes = SIZE_MAX};
    GALE_TRY(check_kind(width, height, channels, type));
    GALE_TRY(gale__picture_begin(&any, (uint64_t)width, (uint64_t)height, channels, type, out));
    memset((*out)->data, 0, gale__picture_row_bytes(*out) * (size_t)height);
    return GALE_OK;
}

void gale_picture_destroy(gale_picture **picture)
{
    gale_picture *p = picture ? *picture : NULL;
    if (!p) return;
    gale__free(p->data);
    for (int i = 0; i < NOTES; i++) gale__free(note(p, i)->data);
    gale__free(p);
    *picture = NULL;
}

gale_status gale__picture_bytes_set(gale_picture_bytes *to, const void *data, size_t size)
{
    void *copy = NULL;
    if (size && !(copy = gale__alloc(size))) return GALE_NO_MEMORY;
    if (size) memcpy(copy, data, size);
    gale__free(to->data);
    *to = (gale_picture_bytes){copy, size};
    return GALE_OK;
}

gale_status gale__picture_notes_copy(const gale_picture *from, gale_picture *to)
{
    to->lossless = from->lossless;
    to->gamma = from->gamma;
    to->dpi_x = from->dpi_x;
    to->dpi_y = from->dpi_y;
    to->format = from->format;
    for (int i = 0; i < NOTES; i++) {
        const gale_picture_bytes *have = note((gale_picture *)from, i);
        GALE_TRY(gale__picture_bytes_set(note(to, i), have->data, have->size));
    }
    return GALE_OK;
}

gale_status gale__notes_extents(gale_picture *p)
{
    gale__exif_extents(&p->exif, p->width, p->height);
    return gale__xmp_extents(&p->xmp, p->width, p->height);
}

size_t gale__picture_memory_get(const void *data, uint64_t size, uint64_t at, void *to, size_t n)
{
    uint64_t left = at < size ? size - at : 0;
    if (n > left) n = (size_t)left;
    if (n) memcpy(to, (const char *)data + at, n);
    return n;
}

bool gale__picture_memory_put(gale__str *out, uint64_t at, const void *from, size_t n)
{
    static const char zeros[1024];
    while (at > out->length && !out->failed)
        gale__str_add_n(out, zeros, at - out->length < sizeof zeros ? (size_t)(at - out->length) : sizeof zeros);
    if (out->failed) return false;
    size_t inside = out->length - at < n ? (size_t)(out->length - at) : n;
    if (inside) memcpy(out->text + at, from, inside);
    gale__str_add_n(out, (const char *)from + inside, n - inside);
    return !out->failed;
}

/* A profile says for which colour space it is. */
bool gale__icc_fits(const gale_picture *p)
{
    return p->icc.size >= 128 && !memcmp((const char *)p->icc.data + 16, p->channels < 3 ? "GRAY" : "RGB ", 4);
}

/* NaN and infinite samples become 0. */
static void clear_strange(gale_picture *p)
{
    size_t n = (size_t)p->width * (size_t)p->height * (size_t)p->channels, found = 0;
    if (!gale__type_is_float(p->type)) return;
    for (size_t i = 0; i < n; i++) {
        uint16_t *half = (uint16_t *)p->data + i;
        float *whole = (float *)p->data + i;
        bool strange = p->type == GALE_F16 ? (*half & 0x7c00) == 0x7c00 : !isfinite(*whole);
        if (strange && p->type == GALE_F16) *half = 0;
        else if (strange) *whole = 0;
        found += strange;
    }
    if (found) gale__log(GALE__WARN, "%zu NaN or infinite sample%s replaced by 0", found, found == 1 ? "" : "s");
}

gale_status gale__picture_finish_reading(const gale__picture_source *in, bool keep_orientation, gale_picture **p)
{
    gale_picture_bytes *exif = &(*p)->exif;
    if (!gale__icc_fits(*p)) {
        if ((*p)->icc.size >= 128)
            gale__log(GALE__WARN,
                "the colour profile (%.4s) does not match the pixels and is dropped: colours may look different",
                (const char *)(*p)->icc.data + 16);
        GALE_TRY(gale__picture_bytes_set(&(*p)->icc, NULL, 0));
    }
    if ((*p)->dpi_x <= 0 || (*p)->dpi_y <= 0) gale__exif_dpi(exif, &(*p)->dpi_x, &(*p)->dpi_y);
    if (keep_orientation) return GALE_OK;
    int orientation = in->orientation ? in->orientation : gale__exif_orientation(exif);
    if (orientation > 1) GALE_TRY(gale__picture_turn(p, orientation));
    if (orientation) GALE_TRY(gale__xmp_upright(&(*p)->xmp));
    gale__exif_upright(&(*p)->exif);
    return GALE_OK;
}

static gale_status lacks(const gale__format *f, const char *what)
{
    return gale__fail(GALE_UNSUPPORTED, "%s cannot be %s: this build does not include it; install %s and rebuild",
        f->about.name, what, f->about.package);
}

/* What people try that is not read: its name helps more than that it is unknown. */
static gale_status unknown(const uint8_t *data, size_t size)
{
    static const struct {
        size_t at;
        const char *bytes, *name;
    } others[] = {{4, "JXL \r\n", "JPEG XL"}, {0, "\xff\x0a", "JPEG XL"}, {0, "8BPS", "Photoshop's own format"},
        {0, "qoif", "QOI"}, {0, "<svg", "SVG"}, {0, "<?xml", "XML"}, {0, "%PDF", "PDF"},
        {0, "#?RADIANCE", "Radiance HDR"}, {4, "ftypcrx", "a camera's raw format"},
        {0, "FUJIFILM", "a camera's raw format"}, {4, "ftyp", "a video"}, {0, "\x1a\x45\xdf\xa3", "a video"},
        {0, "PK\3\4", "a ZIP archive"}, {0, "<!DOCTYPE", "a web page"}, {0, "<!doctype", "a web page"},
        {0, "<html", "a web page"}, {0, "version https://git-lfs", "a Git LFS pointer, not the file itself"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        size_t n = strlen(others[i].bytes);
        if (size >= others[i].at + n && !memcmp(data + others[i].at, others[i].bytes, n))
            return gale__fail(GALE_FORMAT,
                "it is %s, which is not supported; convert it to PNG, TIFF or another supported format",
                others[i].name);
    }
    return gale__fail(GALE_FORMAT, "not a picture in a supported format");
}

void gale__picture_source_init(const gale_picture_read_options *options, gale__picture_source *out)
{
    const gale_picture_read_options none = {0}, *o = options ? options : &none;
    *out = (gale__picture_source){.max_pixels = o->max_pixels ? o->max_pixels : MAX_PIXELS,
        .max_bytes = o->max_bytes ? o->max_bytes : MAX_BYTES,
        .layer = o->layer,
        .tolerant = o->tolerant};
}

gale_status gale_picture_from_memory(
    const void *data, size_t size, const gale_picture_read_options *options, gale_picture **out)
{
    GALE__NEED({"data", data}, {"out", out});
    GALE__OPTIONS(options);
    const gale_picture_read_options none = {0}, *o = options ? options : &none;
    gale__picture_source in;
    gale__picture_source_init(options, &in);
    in.data = data;
    in.size = size;
    gale_picture *p = NULL;
    if (!size) return gale__fail(GALE_FORMAT, "it is empty");
    const gale__format *f = gale__format_of_bytes(data, size);
    if (!f) return unknown(data, size);
    if (!f->read) return lacks(f, "read");
    if (o->layer && strcmp(f->about.name, "exr") && strcmp(f->about.name, "tiff"))
        gale__log(GALE__WARN, "%s has no layers: --layer is ignored", f->about.name);
    gale_status status = f->read(&in, &p);
    if (status == GALE_OK) {
        p->format = f->about.name;
        p->frames = in.frames;
        if (in.frames > 1 && !o->first_frame)
            gale__log(GALE__WARN, "%s: only the first of %d animation frames is read", f->about.name, in.frames);
        if (o->tolerant) clear_strange(p);
        status = gale__picture_finish_reading(&in, o->keep_orientation, &p);
    }
    if (status == GALE_OK) p->jpeg_quality = in.jpeg_quality;
    if (status == GALE_OK) *out = p;
    else gale_picture_destroy(&p);
    return status;
}

gale_status gale_picture_read(const char *path, const gale_picture_read_options *options, gale_picture **out)
{
    GALE__NEED({"path", path}, {"out", out});
    GALE__OPTIONS(options);
    gale__bytes file = {0};
    GALE_TRY(
        gale__file_read(path, options && options->max_bytes ? (size_t)options->max_bytes : (size_t)MAX_BYTES, &file));
    const char *before = gale__log_about(path);
    gale_status status = gale_picture_from_memory(file.data, file.size, options, out);
    gale__log_about(before);
    gale__bytes_finish(&file);
    return status == GALE_OK ? status : gale__fail_within(status, "%s", path);
}

/* The first of the types, nearest first, that the format has. */
static gale_type type_for(const gale__format *f, gale_type type)
{
    static const gale_type near[4][4] = {
        {GALE_U8, GALE_U16, GALE_F16, GALE_F32},
        {GALE_U16, GALE_F32, GALE_U8, GALE_F16},
        {GALE_F16, GALE_F32, GALE_U16, GALE_U8},
        {GALE_F32, GALE_U16, GALE_F16, GALE_U8},
    };
    const gale_type *row = near[type == GALE_U8 ? 0 : type == GALE_U16 ? 1 : type == GALE_F16 ? 2 : 3];
    for (int i = 0; i < 4; i++) {
        unsigned bit = row[i] == GALE_U8    ? GALE__PIC_U8
                       : row[i] == GALE_U16 ? GALE__PIC_U16
                       : row[i] == GALE_F16 ? GALE__PIC_F16
                                            : GALE__PIC_F32;
        if (f->types & bit) return row[i];
    }
    return GALE_U8;
}

static int channels_for(unsigned held, int channels)
{
    static const int near[5][4] = {{0}, {1, 3, 2, 4}, {2, 4, 1, 3}, {3, 4, 1}, {4, 3, 1}};
    for (int i = 0; i < 4 && near[channels][i]; i++)
        if (held & 1u << near[channels][i]) return near[channels][i];
    return 3;
}

/* Names of one format that stand for a part of what it holds. */
static unsigned channels_of_name(const gale__format *f, const char *name)
{
    bool grey = gale__text_equal_nocase(name, "pgm"), colour = gale__text_equal_nocase(name, "ppm");
    return grey ? 1u << 1 : colour ? 1u << 3 : f->channels;
}

/* What the format, by the name it is asked for, holds of this picture. */
static gale__picture_kind kind_for(const gale__format *f, const char *name, const gale_picture *p)
{
    unsigned channels = channels_of_name(f, name);
    gale__picture_kind k = {.type = type_for(f, p->type), .channels = channels_for(channels, p->channels)};
    if (p->channels > 2 && k.channels < 3)
        gale__log(GALE__WARN, "%s does not support colour: the picture is written in grey", name);
    bool by_profile = f->keeps_icc && gale__icc_fits(p) && !p->linear;
    k.linear = gale__type_is_float(k.type) && f->linear_floats && !by_profile;
    k.premultiplied = k.channels % 2 == 0 && f->premultiplied;
    if (p->channels % 2 == 0 && k.channels % 2)
        gale__log(GALE__WARN, "%s does not support alpha: the picture is blended over white", f->about.name);
    return k;
}

static gale_status can_hold(const gale__format *f, int64_t width, int64_t height)
{
    if (!f->write)
        return f->about.reads ? gale__fail(GALE_UNSUPPORTED, "%s can be read but not written; use %s", f->about.name,
                                    f->instead ? f->instead : "PNG")
                              : lacks(f, "written");
    if (!f->side_most || (width <= f->side_most && height <= f->side_most)) return GALE_OK;
    return gale__fail(GALE_LIMIT,
        "%s is limited to %lld pixels a side, not %lld x %lld; choose another format, or a smaller picture",
        f->about.name, (long long)f->side_most, (long long)width, (long long)height);
}

static gale_status only_read(void)
{
    return gale__fail(GALE_UNSUPPORTED, "PBM (black and white) can be read but not written; use PGM");
}

void gale__write_options_settle(const gale__format *f, const gale_picture *p, gale_picture_write_options *o)
{
    if (!o->quality && p->lossless && p->format == f->about.name) o->lossless = true;
    if (!o->quality) o->quality = 92;
}

gale_status gale__picture_fit(const gale__format *f, const char *name, const gale_picture *p, gale_picture **out)
{
    gale__picture_kind k = kind_for(f, name, p);
    bool fits = k.type == p->type && k.channels == p->channels && k.linear == p->linear &&
                (k.premultiplied == p->premultiplied || p->channels % 2);
    *out = NULL;
    return fits ? GALE_OK : gale__picture_make(p, k, out);
}

static gale_status encode(const gale__format *f, const char *name, const gale_picture *p,
    const gale_picture_write_options *options, gale__str *out)
{
    if (gale__text_equal_nocase(name, "pbm")) return only_read();
    GALE_TRY(can_hold(f, p->width, p->height));
    gale_picture_write_options o = *options;
    if (o.quality < 0 || o.quality > 100) return gale__fail(GALE_INVALID, "quality %d is not in 1..100", o.quality);
    gale__write_options_settle(f, p, &o);
    if (!f->keeps_icc && gale__icc_fits(p))
        gale__log(GALE__WARN, "%s is written without the colour profile", f->about.name);
    gale_picture *made = NULL;
    GALE_TRY(gale__picture_fit(f, name, p, &made));
    gale_status status = f->write(made ? made : p, &o, out);
    gale_picture_destroy(&made);
    return status == GALE_OK ? gale__str_check(out) : status;
}

static gale_status format_for(const char *name, const gale__format **out)
{
    gale__str known = {0};
    *out = gale__format_of_name(name);
    if (*out) return GALE_OK;
    for (int i = 0; i < gale__format_count; i++)
        gale__str_addf(&known, "%s%s", i ? ", " : "", gale__formats[i].about.name);
    gale_status status =
        gale__fail(GALE_INVALID, "unknown picture format \"%s\"; supported are %s", name, gale__str_text(&known));
    gale__str_finish(&known);
    return status;
}

gale_status gale__format_check(const char *name, int64_t width, int64_t height)
{
    const gale__format *f;
    GALE_TRY(format_for(name, &f));
    if (gale__text_equal_nocase(name, "pbm")) return only_read();
    return can_hold(f, width, height);
}

gale_status gale_picture_to_memory(
    const gale_picture *picture, const gale_picture_write_options *options, void **data, size_t *size)
{
    GALE__NEED({"picture", picture}, {"options", options}, {"data", data}, {"size", size});
    GALE_TRY(gale__picture_check(picture));
    GALE__OPTIONS(options);
    const gale__format *f;
    gale__str out = {0};
    if (!options || !options->format) return gale__fail(GALE_INVALID, "writing a picture to memory needs a format");
    GALE_TRY(format_for(options->format, &f));
    gale_status status = encode(f, options->format, picture, options, &out);
    if (status != GALE_OK) {
        gale__str_finish(&out);
        return status;
    }
    *data = out.text;
    *size = out.length;
    return GALE_OK;
}

gale_status gale_picture_write(const gale_picture *picture, const char *path, const gale_picture_write_options *options)
{
    GALE__NEED({"picture", picture}, {"path", path});
    GALE_TRY(gale__picture_check(picture));
    GALE__OPTIONS(options);
    const gale_picture_write_options none = {0}, *o = options ? options : &none;
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    const gale__format *f;
    gale__str out = {0};
    if (!o->format && (!dot || (slash && dot < slash)))
        return gale__fail(GALE_INVALID, "%s: the extension does not name a picture format", path);
    const char *name = o->format ? o->format : dot + 1;
    gale_status status = format_for(name, &f);
    const char *before = gale__log_about(path);
    if (status == GALE_OK) status = encode(f, name, picture, o, &out);
    gale__log_about(before);
    if (status != GALE_OK) gale__fail_within(status, "%s", path);
    else status = gale__file_write(path, out.text, out.length);
    gale__str_finish(&out);
    return status;
}
