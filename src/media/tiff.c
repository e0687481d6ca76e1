/* TIFF through libtiff, from and to memory.  Samples of 8, 16 bits and floats are read as they are, in strips or tiles,
 * together or in planes, of 32 bits and doubles as the type that is nearest; what is stranger (palettes, bits, ...) is
 * left to libtiff's conversion to 8-bit colours.  Of several pages one is read: the first, or the one that is asked for
 * by its number. */
#include "media/formats.h"
#include "media/profile.h"
#include <stdio.h>
#include <string.h>
#include <tiffio.h>

enum { PAGES_COUNTED = 100, PAGES_MOST = 10000 };

/* Bytes that libtiff reads or writes at any place. */
typedef struct memory {
    const uint8_t *data; /* reading */
    gale__str *out;      /* writing */
    uint64_t size, at;
    char message[200]; /* its first complaint */
} memory;

static tmsize_t memory_read(thandle_t h, void *to, tmsize_t n)
{
    memory *m = h;
    size_t got = n > 0 ? gale__picture_memory_get(m->out ? (const uint8_t *)m->out->text : m->data,
                             m->out ? m->out->length : m->size, m->at, to, (size_t)n)
                       : 0;
    m->at += got;
    return (tmsize_t)got;
}

static tmsize_t memory_write(thandle_t h, void *from, tmsize_t n)
{
    memory *m = h;
    if (n < 0 || !gale__picture_memory_put(m->out, m->at, from, (size_t)n)) return -1;
    m->at += (uint64_t)n;
    return n;
}

static toff_t memory_size(thandle_t h)
{
    const memory *m = h;
    return m->out ? m->out->length : m->size;
}

static toff_t memory_seek(thandle_t h, toff_t to, int whence)
{
    memory *m = h;
    m->at = whence == SEEK_SET ? to : whence == SEEK_CUR ? m->at + to : memory_size(h) + to;
    return m->at;
}

static int memory_close(thandle_t h) { return (void)h, 0; }

static int on_error(TIFF *t, void *user, const char *module, const char *format, va_list args)
{
    memory *m = user;
    (void)t, (void)module;
    if (!*m->message) vsnprintf(m->message, sizeof m->message, format, args);
    return 1;
}

static int on_warning(TIFF *t, void *user, const char *module, const char *format, va_list args)
{
    char text[200];
    (void)t, (void)user, (void)module;
    vsnprintf(text, sizeof text, format, args);
    gale__log(GALE__DEBUG, "TIFF: %s", text);
    return 1;
}

static TIFF *open_tiff(memory *m, const char *mode, uint64_t most)
{
    TIFFOpenOptions *o = TIFFOpenOptionsAlloc();
    if (!o) return NULL;
    TIFFOpenOptionsSetErrorHandlerExtR(o, on_error, m);
    TIFFOpenOptionsSetWarningHandlerExtR(o, on_warning, m);
    TIFFOpenOptionsSetMaxSingleMemAlloc(o, most < INT32_MAX ? (tmsize_t)most : INT32_MAX);
    TIFF *t = TIFFClientOpenExt(
        "picture", mode, m, memory_read, memory_write, memory_seek, memory_close, memory_size, NULL, NULL, o);
    TIFFOpenOptionsFree(o);
    return t;
}

static gale_status fail(const memory *m, gale_status status)
{
    return gale__fail(status, "TIFF: %s", *m->message ? m->message : "damaged or truncated");
}

/* What the tags say. */
typedef struct about {
    uint32_t width, height;
    uint16_t bits, samples, format, light, planar, orientation, extras, compression;
    uint16_t *extra;
    gale_type type;
    int channels;         /* 0: needs libtiff's conversion */
    bool wide, inks, lab; /* samples are twice as wide as the type; the channels are CMYK, or Lab */
} about;

static void find_channels(TIFF *t, about *a)
{
    uint16_t inks = INKSET_CMYK;
    bool lab = a->light == PHOTOMETRIC_CIELAB || a->light == PHOTOMETRIC_ICCLAB;
    bool floats = a->format == SAMPLEFORMAT_IEEEFP, whole = a->format == SAMPLEFORMAT_UINT ||
                                                            a->format == SAMPLEFORMAT_VOID ||
                                                            (lab && a->format == SAMPLEFORMAT_INT);
    if (floats ? a->bits != 16 && a->bits != 32 && a->bits != 64
               : !whole || (a->bits != 8 && a->bits != 16 && a->bits != 32))
        return;
    a->type = floats ? (a->bits == 16 ? GALE_F16 : GALE_F32) : a->bits == 8 ? GALE_U8 : GALE_U16;
    a->wide = a->bits == (floats ? 64 : 32);
    TIFFGetFieldDefaulted(t, TIFFTAG_INKSET, &inks);
    a->inks = a->light == PHOTOMETRIC_SEPARATED && inks == INKSET_CMYK && !floats;
    a->lab = lab && !floats && a->bits <= 16;
    int colours = a->light == PHOTOMETRIC_RGB || a->lab                                      ? 3
                  : a->light == PHOTOMETRIC_MINISBLACK || a->light == PHOTOMETRIC_MINISWHITE ? 1
                  : a->inks                                                                  ? 4
                                                                                             : 0;
    if (colours && a->samples >= colours && a->samples - colours <= a->extras + 1)
        a->channels = a->inks ? 4 : colours + (a->samples > colours && !a->lab);
}

static void read_about(TIFF *t, about *a)
{
    *a = (about){0};
    TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &a->width);
    TIFFGetField(t, TIFFTAG_IMAGELENGTH, &a->height);
    TIFFGetFieldDefaulted(t, TIFFTAG_BITSPERSAMPLE, &a->bits);
    TIFFGetFieldDefaulted(t, TIFFTAG_SAMPLESPERPIXEL, &a->samples);
    TIFFGetFieldDefaulted(t, TIFFTAG_SAMPLEFORMAT, &a->format);
    TIFFGetFieldDefaulted(t, TIFFTAG_PLANARCONFIG, &a->planar);
    TIFFGetFieldDefaulted(t, TIFFTAG_ORIENTATION, &a->orientation);
    TIFFGetFieldDefaulted(t, TIFFTAG_EXTRASAMPLES, &a->extras, &a->extra);
    TIFFGetFieldDefaulted(t, TIFFTAG_COMPRESSION, &a->compression);
    if (!TIFFGetField(t, TIFFTAG_PHOTOMETRIC, &a->light))
        a->light = a->samples >= 3 ? PHOTOMETRIC_RGB : PHOTOMETRIC_MINISBLACK;
    if (a->light == PHOTOMETRIC_YCBCR && a->compression == COMPRESSION_JPEG) {
        TIFFSetField(t, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
        a->light = PHOTOMETRIC_RGB;
    }
    find_channels(t, a);
}

/* The high half of 32 bits, doubles as floats: in their own place. */
static void narrow(const about *a, uint8_t *samples, size_t bytes)
{
    for (size_t i = 0; a->wide && i < bytes / gale_type_size(a->type) / 2; i++) {
        double d;
        uint32_t v;
        memcpy(&d, samples + 8 * i, a->type == GALE_F32 ? sizeof d : 0);
        memcpy(&v, samples + 4 * i, sizeof v);
        if (a->type == GALE_F32) memcpy(samples + 4 * i, &(float){(float)d}, 4);
        else memcpy(samples + 2 * i, &(uint16_t){(uint16_t)(v >> 16)}, 2);
    }
}

/* Samples of a row of the file to their place in the picture: all channels, or the plane-th.  Samples beyond the
 * channels are passed over. */
static void place(const about *a, gale_picture *p, const uint8_t *row, int plane, int64_t x, int64_t y, size_t n)
{
    size_t bytes = gale_type_size(p->type), pixel = (size_t)p->channels * bytes;
    bool apart = a->planar == PLANARCONFIG_SEPARATE;
    uint8_t *to = (uint8_t *)gale__picture_row(p, y) + (size_t)x * pixel + (apart ? (size_t)plane * bytes : 0);
    size_t step = apart ? bytes : a->samples * bytes, take = apart ? bytes : pixel;
    for (size_t i = 0; i < n; i++, row += step, to += pixel) memcpy(to, row, take);
}

static gale_status read_rows(TIFF *t, memory *m, const about *a, gale_picture *p, uint8_t *buffer)
{
    int planes = a->planar == PLANARCONFIG_SEPARATE ? p->channels : 1;
    for (int plane = 0; plane < planes; plane++)
        for (uint32_t y = 0; y < a->height; y++) {
            if (TIFFReadScanline(t, buffer, y, (uint16_t)plane) < 0) return fail(m, GALE_FORMAT);
            narrow(a, buffer, (size_t)TIFFScanlineSize64(t));
            place(a, p, buffer, plane, 0, y, a->width);
        }
    return GALE_OK;
}

static gale_status read_tiles(TIFF *t, memory *m, const about *a, gale_picture *p, uint8_t *buffer)
{
    uint32_t w = 0, h = 0;
    int planes = a->planar == PLANARCONFIG_SEPARATE ? p->channels : 1;
    TIFFGetField(t, TIFFTAG_TILEWIDTH, &w);
    TIFFGetField(t, TIFFTAG_TILELENGTH, &h);
    size_t row = (size_t)TIFFTileRowSize64(t) / (a->wide ? 2 : 1);
    for (int plane = 0; plane < planes; plane++)
        for (uint64_t y = 0; y < a->height; y += h)
            for (uint64_t x = 0; x < a->width; x += w) {
                if (TIFFReadTile(t, buffer, (uint32_t)x, (uint32_t)y, 0, (uint16_t)plane) < 0)
                    return fail(m, GALE_FORMAT);
                narrow(a, buffer, (size_t)TIFFTileSize64(t));
                for (uint64_t i = 0; i < h && y + i < a->height; i++)
                    place(a, p, buffer + i * row, plane, (int64_t)x, (int64_t)(y + i),
                        (size_t)(a->width - x < w ? a->width - x : w));
            }
    return GALE_OK;
}

static gale_status read_samples(const gale__picture_source *in, TIFF *t, memory *m, const about *a, gale_picture **out)
{
    bool tiled = TIFFIsTiled(t);
    uint64_t size = tiled ? TIFFTileSize64(t) : TIFFScanlineSize64(t), row = tiled ? TIFFTileRowSize64(t) : size;
    uint32_t w = a->width, h = 0;
    if (tiled && (!TIFFGetField(t, TIFFTAG_TILEWIDTH, &w) || !TIFFGetField(t, TIFFTAG_TILELENGTH, &h) || !w || !h))
        return fail(m, GALE_FORMAT);
    uint64_t samples = a->planar == PLANARCONFIG_SEPARATE ? 1 : a->samples;
    if (!size || size > in->max_bytes || row < w * samples * (a->bits / 8) || (tiled && size / row < h))
        return fail(m, GALE_FORMAT);
    GALE_TRY(gale__picture_begin(in, a->width, a->height, a->channels, a->type, out));
    uint8_t *buffer = gale__alloc((size_t)size);
    if (!buffer) return GALE_NO_MEMORY;
    gale_status status = tiled ? read_tiles(t, m, a, *out, buffer) : read_rows(t, m, a, *out, buffer);
    gale__free(buffer);
    return status;
}

/* White is zero: turned round. */
static void invert(gale_picture *p)
{
    size_t n = (size_t)p->width * (size_t)p->height;
    for (size_t i = 0; i < n; i++) {
        size_t at = i * (size_t)p->channels;
        if (p->type == GALE_U8) ((uint8_t *)p->data)[at] ^= 0xff;
        else if (p->type == GALE_U16) ((uint16_t *)p->data)[at] ^= 0xffff;
        else if (p->type == GALE_F32) ((float *)p->data)[at] = 1 - ((float *)p->data)[at];
    }
}

/* On to the next page that is a picture of its own, not a smaller copy or a mask. */
static bool next_page(TIFF *t)
{
    uint32_t kind = 0;
    for (int i = 0; i < PAGES_MOST && TIFFReadDirectory(t); i++, kind = 0)
        if (!TIFFGetField(t, TIFFTAG_SUBFILETYPE, &kind) || !(kind & (FILETYPE_REDUCEDIMAGE | FILETYPE_MASK)))
            return true;
    return false;
}

/* The page that is asked for; true where it is the first. */
static gale_status find_page(const gale__picture_source *in, TIFF *t, bool *first)
{
    int64_t page = 1;
    if (in->layer && (!gale__text_to_i64(in->layer, &page) || page < 1 || page > PAGES_MOST))
        return gale__fail(GALE_NOT_FOUND, "TIFF: its pages are counted from 1, and \"%s\" is none", in->layer);
    *first = page == 1;
    for (int64_t i = 1; i < page; i++)
        if (!next_page(t))
            return gale__fail(
                GALE_NOT_FOUND, "TIFF: there is no page %lld; it has %lld", (long long)page, (long long)i);
    return GALE_OK;
}

static void say_pages(TIFF *t)
{
    int pages = 1;
    while (pages <= PAGES_COUNTED && next_page(t)) pages++;
    if (pages > 1)
        gale__log(GALE__WARN, "TIFF: of %s%d pages the first is read, unless another is asked for by its number",
            pages > PAGES_COUNTED ? "more than " : "", pages - (pages > PAGES_COUNTED));
}

/* libtiff's own conversion gives 8-bit RGBA, the lowest byte red. */
static gale_status read_converted(
    const gale__picture_source *in, TIFF *t, memory *m, const about *a, gale_picture **out)
{
    char why[1024] = "";
    int grey = a->light == PHOTOMETRIC_MINISBLACK || a->light == PHOTOMETRIC_MINISWHITE;
    gale_picture *wide = NULL;
    if (a->format == SAMPLEFORMAT_INT)
        return gale__fail(GALE_UNSUPPORTED,
            "TIFF: samples with a sign are not read; convert it to 8 or 16 bits without one, or to floats");
    if (!TIFFRGBAImageOK(t, why))
        return gale__fail(GALE_UNSUPPORTED, "TIFF: %s; convert it to 8 or 16 bits, or to floats", why);
    GALE_TRY(gale__picture_begin(in, a->width, a->height, 4, GALE_U8, &wide));
    gale_status status = GALE_OK;
    if (!TIFFReadRGBAImageOriented(t, a->width, a->height, wide->data, in->orientation, 1))
        status = fail(m, GALE_FORMAT); /* as it lies in the file */
    if (status == GALE_OK) status = gale__picture_begin(in, a->width, a->height, grey ? 1 : 3, GALE_U8, out);
    for (size_t i = 0, n = (size_t)a->width * a->height; i < n && status == GALE_OK; i++) {
        uint32_t v = ((uint32_t *)wide->data)[i];
        uint8_t *to = (uint8_t *)(*out)->data + i * (grey ? 1 : 3);
        to[0] = (uint8_t)TIFFGetR(v);
        if (!grey) to[1] = (uint8_t)TIFFGetG(v), to[2] = (uint8_t)TIFFGetB(v);
    }
    gale_picture_destroy(&wide);
    return status;
}

static gale_status read_notes(const gale__picture_source *in, TIFF *t, const about *a, bool first, gale_picture *p)
{
    float x = 0, y = 0;
    uint16_t unit = RESUNIT_INCH;
    uint32_t size = 0;
    void *bytes = NULL;
    TIFFGetFieldDefaulted(t, TIFFTAG_RESOLUTIONUNIT, &unit);
    if (TIFFGetField(t, TIFFTAG_XRESOLUTION, &x) && TIFFGetField(t, TIFFTAG_YRESOLUTION, &y) && unit != RESUNIT_NONE &&
        x > 0 && y > 0) {
        p->dpi_x = x * (unit == RESUNIT_CENTIMETER ? 2.54 : 1);
        p->dpi_y = y * (unit == RESUNIT_CENTIMETER ? 2.54 : 1);
    }
    if (TIFFGetField(t, TIFFTAG_ICCPROFILE, &size, &bytes) && size)
        GALE_TRY(gale__picture_bytes_set(&p->icc, bytes, size));
    if (TIFFGetField(t, TIFFTAG_XMLPACKET, &size, &bytes) && size)
        GALE_TRY(gale__picture_bytes_set(&p->xmp, bytes, size));
    if (first)
        GALE_TRY(
            gale__iptc_from_tiff(in->data, in->size, &p->iptc)); /* those of the first page, found without libtiff */
    if (first) GALE_TRY(gale__exif_from_tiff(in->data, in->size, &p->exif));
    p->linear = (p->type == GALE_F16 || p->type == GALE_F32) && !gale__icc_fits(p);
    p->premultiplied =
        a->channels % 2 == 0 && a->channels && !a->inks && a->extras && a->extra[0] == EXTRASAMPLE_ASSOCALPHA;
    return GALE_OK;
}

gale_status gale__read_tiff(gale__picture_source *in, gale_picture **out)
{
    memory m = {.data = in->data, .size = in->size};
    about a;
    gale_picture *p = NULL;
    TIFF *t = open_tiff(&m, "rm", in->max_bytes);
    if (!t) return fail(&m, GALE_FORMAT);
    bool first = true;
    gale_status status = find_page(in, t, &first);
    read_about(t, &a);
    if (status == GALE_OK && (!a.width || !a.height || (uint64_t)a.width * a.height > in->max_pixels))
        status = gale__picture_begin(in, a.width, a.height, 4, GALE_U8, &p);
    if (status == GALE_OK) {
        in->orientation = a.orientation >= 1 && a.orientation <= 8 ? a.orientation : 1;
        status = a.channels ? read_samples(in, t, &m, &a, &p) : read_converted(in, t, &m, &a, &p);
    }
    if (status == GALE_OK) status = read_notes(in, t, &a, first, p);
    if (status == GALE_OK && a.inks && a.channels) status = gale__picture_from_inks(p);
    if (status == GALE_OK && a.lab && a.channels) status = gale__picture_from_lab(p, a.light == PHOTOMETRIC_ICCLAB);
    if (status == GALE_OK && a.channels && a.light == PHOTOMETRIC_MINISWHITE) invert(p);
    if (status == GALE_OK && !in->layer) say_pages(t);
    TIFFClose(t);
    if (status == GALE_OK) *out = p;
    else gale_picture_destroy(&p);
    return status;
}

static void set_tags(TIFF *t, const gale_picture *p, int effort)
{
    bool floats = p->type == GALE_F16 || p->type == GALE_F32;
    size_t row = gale__picture_row_bytes(p), rows = row < 1 << 18 ? (1 << 18) / row : 1;
    uint16_t extra = p->premultiplied ? EXTRASAMPLE_ASSOCALPHA : EXTRASAMPLE_UNASSALPHA;
    TIFFSetField(t, TIFFTAG_IMAGEWIDTH, (uint32_t)p->width);
    TIFFSetField(t, TIFFTAG_IMAGELENGTH, (uint32_t)p->height);
    TIFFSetField(t, TIFFTAG_BITSPERSAMPLE, (int)gale_type_size(p->type) * 8);
    TIFFSetField(t, TIFFTAG_SAMPLESPERPIXEL, p->channels);
    TIFFSetField(t, TIFFTAG_SAMPLEFORMAT, floats ? SAMPLEFORMAT_IEEEFP : SAMPLEFORMAT_UINT);
    TIFFSetField(t, TIFFTAG_PHOTOMETRIC, p->channels > 2 ? PHOTOMETRIC_RGB : PHOTOMETRIC_MINISBLACK);
    TIFFSetField(t, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
    TIFFSetField(t, TIFFTAG_ORIENTATION,
        gale__exif_orientation(&p->exif) > 1 ? gale__exif_orientation(&p->exif) : ORIENTATION_TOPLEFT);
    TIFFSetField(t, TIFFTAG_ROWSPERSTRIP, (uint32_t)rows);
    if (p->channels % 2 == 0) TIFFSetField(t, TIFFTAG_EXTRASAMPLES, 1, &extra);
    if (TIFFIsCODECConfigured(COMPRESSION_ADOBE_DEFLATE)) {
        TIFFSetField(t, TIFFTAG_COMPRESSION, COMPRESSION_ADOBE_DEFLATE);
        TIFFSetField(t, TIFFTAG_PREDICTOR, floats ? PREDICTOR_FLOATINGPOINT : PREDICTOR_HORIZONTAL);
        TIFFSetField(t, TIFFTAG_ZIPQUALITY, effort ? effort : 5);
    }
    if (p->dpi_x > 0 && p->dpi_y > 0) {
        TIFFSetField(t, TIFFTAG_RESOLUTIONUNIT, RESUNIT_INCH);
        TIFFSetField(t, TIFFTAG_XRESOLUTION, p->dpi_x);
        TIFFSetField(t, TIFFTAG_YRESOLUTION, p->dpi_y);
    }
    if (gale__icc_fits(p)) TIFFSetField(t, TIFFTAG_ICCPROFILE, (uint32_t)p->icc.size, p->icc.data);
    if (p->xmp.size && p->xmp.size < UINT32_MAX) TIFFSetField(t, TIFFTAG_XMLPACKET, (uint32_t)p->xmp.size, p->xmp.data);
}

gale_status gale__write_tiff(const gale_picture *p, const gale_picture_write_options *o, gale__str *out)
{
    size_t bytes = gale__picture_row_bytes(p) * (size_t)p->height;
    memory m = {.out = out};
    TIFF *t = open_tiff(&m, bytes > UINT32_MAX / 8 * 7 ? "w8" : "w", UINT64_MAX);
    uint8_t *row = gale__alloc(gale__picture_row_bytes(p)); /* the predictor works in place */
    gale_status status = row && t ? GALE_OK : gale__fail(GALE_NO_MEMORY, "TIFF: out of memory");
    if (status == GALE_OK) set_tags(t, p, o->effort);
    for (int64_t y = 0; y < p->height && status == GALE_OK; y++) {
        memcpy(row, gale__picture_row(p, y), gale__picture_row_bytes(p));
        if (TIFFWriteScanline(t, row, (uint32_t)y, 0) < 0)
            status = fail(&m, out->failed ? GALE_NO_MEMORY : GALE_UNSUPPORTED);
    }
    if (status == GALE_OK && !TIFFFlush(t)) status = fail(&m, out->failed ? GALE_NO_MEMORY : GALE_IO);
    if (t) TIFFClose(t);
    gale__free(row);
    if (status == GALE_OK) status = gale__exif_into_tiff(&p->exif, out);
    return status == GALE_OK ? gale__iptc_into_tiff(&p->iptc, out) : status;
}
