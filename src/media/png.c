/* PNG with libpng, except for the compressed rows (png_pack.c).  Its errors jump: everything that must be freed is in
 * a struct of the outermost function, which owns the jump buffer. */
#include "media/formats.h"
#include "media/png_pack.h"
#include <math.h>
#include <png.h>
#include <setjmp.h>
#include <string.h>

#define XMP_KEY "XML:com.adobe.xmp"

typedef struct png {
    jmp_buf back;
    gale_status status; /* of the failure that jumped */
    png_structp png;
    png_infop info;
    gale__picture_source *in;
    size_t at;
    gale_picture *picture;
    gale__str *out;
} png;

static void on_error(png_structp s, png_const_charp message)
{
    png *p = png_get_error_ptr(s);
    if (p->status == GALE_OK) p->status = gale__fail(GALE_FORMAT, "PNG: %s", message);
    longjmp(p->back, 1);
}

static void on_warning(png_structp s, png_const_charp message)
{
    (void)s;
    gale__log(GALE__DEBUG, "PNG: %s", message);
}

static png_voidp take_memory(png_structp s, png_alloc_size_t size) { return (void)s, gale__alloc(size); }
static void free_memory(png_structp s, png_voidp p) { (void)s, gale__free(p); }

/* Leaves by the jump with a failure of our own. */
static void check(png *p, gale_status status)
{
    if (status == GALE_OK) return;
    p->status = status;
    longjmp(p->back, 1);
}

static void give_bytes(png_structp s, png_bytep to, size_t n)
{
    png *p = png_get_io_ptr(s);
    if (p->in->size - p->at < n) check(p, gale__fail(GALE_FORMAT, "PNG: the file is truncated"));
    memcpy(to, p->in->data + p->at, n);
    p->at += n;
}

/* Texts as they stand in the file: what generators and editors leave there is nobody else's to read.  XMP has a place
 * of its own, and EXIF as a text is none where EXIF is.  With them goes what colours mean where no profile says it. */
static void keep_texts(png *p)
{
    static const char *const kinds[] = {"tEXt", "zTXt", "iTXt", "cHRM", "sRGB", "cICP"};
    const gale__picture_source *in = p->in;
    gale__str kept = {0};
    for (size_t at = 8; in->size - at >= 12 && memcmp(in->data + at + 4, "IEND", 4);
         at += gale__be32(in->data + at) + 12) { /* which check_chunks has gone through */
        const char *data = (const char *)in->data + at + 8;
        size_t size = gale__be32(in->data + at);
        bool text = false;
        for (int k = 0; k < (p->picture->icc.size ? 3 : 6); k++) text |= !memcmp(data - 4, kinds[k], 4);
        bool xmp = size >= sizeof XMP_KEY && !memcmp(data, XMP_KEY, sizeof XMP_KEY),
             exif = p->picture->exif.size && size > 21 && !memcmp(data, "Raw profile type exif", 21);
        if (text && !xmp && !exif) gale__str_add_n(&kept, data - 8, size + 12);
    }
    gale_status status =
        kept.failed ? GALE_NO_MEMORY : gale__picture_bytes_set(&p->picture->texts, kept.text, kept.length);
    gale__str_finish(&kept);
    check(p, status);
}

static void read_notes(png *p)
{
    gale_picture *pic = p->picture;
    png_charp name;
    png_bytep data;
    png_uint_32 size, x, y;
    int how, unit;
    if (png_get_iCCP(p->png, p->info, &name, &how, &data, &size))
        check(p, gale__picture_bytes_set(&pic->icc, data, size));
    if (png_get_eXIf_1(p->png, p->info, &size, &data)) check(p, gale__picture_bytes_set(&pic->exif, data, size));
    if (png_get_pHYs(p->png, p->info, &x, &y, &unit) && unit == PNG_RESOLUTION_METER) {
        pic->dpi_x = x * 0.0254;
        pic->dpi_y = y * 0.0254;
    }
    png_get_gAMA(p->png, p->info, &pic->gamma);
    png_textp texts;
    int count = 0;
    png_get_text(p->png, p->info, &texts, &count);
    for (int i = 0; i < count; i++)
        if (!strcmp(texts[i].key, XMP_KEY) && !pic->xmp.size)
            check(p, gale__picture_bytes_set(&pic->xmp, texts[i].text,
                         texts[i].compression > 0 ? texts[i].itxt_length : texts[i].text_length));
    keep_texts(p);
}

static void read_picture(png *p)
{
    png_set_read_fn(p->png, p, give_bytes);
    png_set_user_limits(p->png, INT32_MAX, INT32_MAX);
    png_set_chunk_malloc_max(p->png, 64 << 20);
    png_read_info(p->png, p->info);
    png_set_expand(p->png);
    if (gale__host_is_little()) png_set_swap(p->png);
    int passes = png_set_interlace_handling(p->png);
    png_read_update_info(p->png, p->info);
    int64_t height = png_get_image_height(p->png, p->info);
    check(p, gale__picture_begin(p->in, png_get_image_width(p->png, p->info), (uint64_t)height,
                 png_get_channels(p->png, p->info), png_get_bit_depth(p->png, p->info) == 16 ? GALE_U16 : GALE_U8,
                 &p->picture));
    if (png_get_rowbytes(p->png, p->info) != gale__picture_row_bytes(p->picture))
        check(p, gale__fail(GALE_INTERNAL, "PNG: damaged: a row has an unexpected size"));
    for (int pass = 0; pass < passes; pass++)
        for (int64_t y = 0; y < height; y++) png_read_row(p->png, gale__picture_row(p->picture, y), NULL);
    png_read_end(p->png, p->info);
    read_notes(p);
}

/* libpng allocates what a chunk says it holds before it looks for it: all must be in the file. */
static gale_status check_chunks(gale__picture_source *in)
{
    for (size_t at = 8; in->size - at >= 12;) {
        uint64_t size = (uint64_t)gale__be32(in->data + at) + 12;
        if (size > in->size - at) break;
        if (size >= 16 && !memcmp(in->data + at + 4, "acTL", 4) && gale__be32(in->data + at + 8) < INT32_MAX)
            in->frames = (int)gale__be32(in->data + at + 8);
        if (!memcmp(in->data + at + 4, "IEND", 4)) return GALE_OK;
        at += (size_t)size;
    }
    return gale__fail(GALE_FORMAT, "PNG: the file is truncated");
}

gale_status gale__read_png(gale__picture_source *in, gale_picture **out)
{
    png p = {.in = in};
    GALE_TRY(check_chunks(in));
    p.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &p, on_error, on_warning, NULL, take_memory, free_memory);
    if (!p.png) return gale__fail(GALE_NO_MEMORY, "PNG: out of memory");
    if (!setjmp(p.back)) {
        p.info = png_create_info_struct(p.png);
        if (!p.info) check(&p, GALE_NO_MEMORY);
        read_picture(&p);
    }
    png_destroy_read_struct(&p.png, &p.info, NULL);
    if (p.status == GALE_OK) *out = p.picture;
    else gale_picture_destroy(&p.picture);
    return p.status;
}

static void take_bytes(png_structp s, png_bytep from, size_t n)
{
    png *p = png_get_io_ptr(s);
    gale__str_add_n(p->out, (const char *)from, n);
    if (p->out->failed) check(p, GALE_NO_MEMORY);
}

static void flush(png_structp s) { (void)s; }

static void write_notes(png *p)
{
    gale_picture *pic = p->picture;
    if (gale__icc_fits(pic)) png_set_iCCP(p->png, p->info, "ICC profile", 0, pic->icc.data, (png_uint_32)pic->icc.size);
    else if (pic->gamma > 0) png_set_gAMA(p->png, p->info, pic->gamma);
    if (pic->exif.size) png_set_eXIf_1(p->png, p->info, (png_uint_32)pic->exif.size, pic->exif.data);
    if (pic->dpi_x > 0 && pic->dpi_y > 0)
        png_set_pHYs(p->png, p->info, (png_uint_32)lround(pic->dpi_x / 0.0254),
            (png_uint_32)lround(pic->dpi_y / 0.0254), PNG_RESOLUTION_METER);
}

/* XMP as a text without compression, as its standard has it; and the texts. */
static void write_texts(png *p)
{
    const gale_picture *pic = p->picture;
    png_uint_32 size = (png_uint_32)(sizeof XMP_KEY + 4 + pic->xmp.size);
    if (pic->xmp.size && pic->xmp.size < INT32_MAX / 2) {
        png_write_chunk_start(p->png, (png_const_bytep) "iTXt", size);
        png_write_chunk_data(p->png, (png_const_bytep)XMP_KEY "\0\0\0\0", sizeof XMP_KEY + 4);
        png_write_chunk_data(p->png, pic->xmp.data, pic->xmp.size);
        png_write_chunk_end(p->png);
    }
    if (pic->texts.size) take_bytes(p->png, pic->texts.data, pic->texts.size);
}

/* All that stands before the rows. */
static void write_head(png *p)
{
    static const int colours[] = {
        0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
    const gale_picture *pic = p->picture;
    png_set_write_fn(p->png, p, take_bytes, flush);
    png_set_user_limits(p->png, INT32_MAX, INT32_MAX);
    png_set_IHDR(p->png, p->info, (png_uint_32)pic->width, (png_uint_32)pic->height, pic->type == GALE_U16 ? 16 : 8,
        colours[pic->channels], PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    write_notes(p);
    png_write_info(p->png, p->info);
    write_texts(p);
}

gale_status gale__write_png(const gale_picture *picture, const gale_picture_write_options *o, gale__str *out)
{
    png p = {.out = out, .picture = (gale_picture *)picture};
    p.png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &p, on_error, on_warning, NULL, take_memory, free_memory);
    if (!p.png) return gale__fail(GALE_NO_MEMORY, "PNG: out of memory");
    if (!setjmp(p.back)) {
        p.info = png_create_info_struct(p.png);
        if (!p.info) check(&p, GALE_NO_MEMORY);
        write_head(&p);
    }
    png_destroy_write_struct(&p.png, &p.info);
    return p.status == GALE_OK ? gale__png_pack(picture, o->effort, out) : p.status;
}
