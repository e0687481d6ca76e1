/* JPEG with libjpeg-turbo, using its accurate DCT and smooth upsampling, like most programs.  Its errors jump to the
 * outermost function, whose struct holds everything that must be freed.  A file that ends before its last pixel is an
 * error; one that only lacks the end marker is not.  In tolerant mode the missing part is grey. */
#include "media/formats.h"
#include "media/profile.h"
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <jpeglib.h>
#include <jerror.h>

enum { ICC_HEAD = 14, ICC_MOST = 65533 - ICC_HEAD, MOST_SCANS = 400 };

typedef struct jpeg {
    struct jpeg_error_mgr errors; /* first: libjpeg gives it back */
    struct jpeg_decompress_struct d;
    struct jpeg_compress_struct c;
    struct jpeg_source_mgr source;
    struct jpeg_destination_mgr sink;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    gale_status status;
    bool ended;          /* the source has run dry */
    bool tolerant, said; /* of that; it was said */
    gale_picture *picture;
    uint8_t *row;           /* of CMYK */
    gale__profile *profile; /* that brings it to RGB; NULL: none */
    gale__str *out;
    uint8_t block[16384];
} jpeg;

static void leave(jpeg *j, gale_status status)
{
    j->status = status;
    longjmp(j->back, 1);
}

static void on_error(j_common_ptr c)
{
    char text[JMSG_LENGTH_MAX];
    jpeg *j = (jpeg *)c->err;
    c->err->format_message(c, text);
    leave(j, c->err->msg_code == JERR_OUT_OF_MEMORY ? gale__fail(GALE_NO_MEMORY, "JPEG: out of memory")
                                                    : gale__fail(GALE_FORMAT, "JPEG: %s", text));
}

/* The decoder leaves the blocks that are missing in the middle of the range. */
static void say_truncated(jpeg *j)
{
    if (!j->said) gale__log(GALE__WARN, "JPEG: the file is truncated; the missing part is grey");
    j->said = true;
}

static void on_message(j_common_ptr c, int level)
{
    char text[JMSG_LENGTH_MAX];
    jpeg *j = (jpeg *)c->err;
    if (level >= 0) return;
    c->err->num_warnings++;
    c->err->format_message(c, text);
    if (j->ended && !j->tolerant) leave(j, gale__fail(GALE_FORMAT, "JPEG: the file is truncated: %s", text));
    if (j->ended) say_truncated(j);
    else if (c->err->num_warnings == 1) gale__log(GALE__WARN, "JPEG: %s", text);
}

static void no_source(j_decompress_ptr d) { (void)d; }

/* At the end of the data an end marker is made up: where pixels are missing, the decoder warns of it. */
static boolean more_source(j_decompress_ptr d)
{
    static const JOCTET end[2] = {0xff, JPEG_EOI};
    jpeg *j = (jpeg *)d->err;
    if (j->ended && !j->tolerant) leave(j, gale__fail(GALE_FORMAT, "JPEG: the file is truncated"));
    if (j->ended) say_truncated(j);
    j->ended = true;
    d->src->next_input_byte = end;
    d->src->bytes_in_buffer = 2;
    return TRUE;
}

static void skip_source(j_decompress_ptr d, long n)
{
    if (n <= 0) return;
    jpeg *j = (jpeg *)d->err;
    if ((size_t)n > d->src->bytes_in_buffer && !j->tolerant)
        leave(j, gale__fail(GALE_FORMAT, "JPEG: the file is truncated"));
    if ((size_t)n > d->src->bytes_in_buffer) n = (long)d->src->bytes_in_buffer;
    d->src->next_input_byte += n;
    d->src->bytes_in_buffer -= (size_t)n;
}

/* A small file can ask for any number of passes over a large picture. */
static void on_progress(j_common_ptr c)
{
    if (c->is_decompressor && ((j_decompress_ptr)c)->input_scan_number > MOST_SCANS)
        leave((jpeg *)c->err, gale__fail(GALE_LIMIT, "JPEG: more than %d scans", MOST_SCANS));
}

/* A profile is in numbered pieces, in any order. */
static gale_status join_icc(jpeg_saved_marker_ptr first, gale_picture *p)
{
    const jpeg_saved_marker_ptr none = NULL;
    jpeg_saved_marker_ptr pieces[256] = {none};
    size_t total = 0, count = 0, at = 0;
    for (jpeg_saved_marker_ptr m = first; m; m = m->next) {
        if (m->marker != JPEG_APP0 + 2 || m->data_length < ICC_HEAD || memcmp(m->data, "ICC_PROFILE", 12)) continue;
        if (!m->data[12] || m->data[12] > m->data[13] || pieces[m->data[12]])
            return GALE_OK; /* a broken profile is none */
        pieces[m->data[12]] = m;
        count = m->data[13];
        total += m->data_length - ICC_HEAD;
    }
    for (size_t i = 1; i <= count; i++)
        if (!pieces[i]) return GALE_OK;
    if (!total) return GALE_OK;
    uint8_t *joined = gale__alloc(total);
    if (!joined) return GALE_NO_MEMORY;
    for (size_t i = 1; i <= count; at += pieces[i++]->data_length - ICC_HEAD)
        memcpy(joined + at, pieces[i]->data + ICC_HEAD, pieces[i]->data_length - ICC_HEAD);
    p->icc = (gale_picture_bytes){joined, total};
    return GALE_OK;
}

static const char xmp_head[29] = "http://ns.adobe.com/xap/1.0/", blocks_head[14] = "Photoshop 3.0";

/* Photoshop's blocks: "8BIM", a number, a name of even length, a size; the one of number 0x404 holds IPTC. */
static gale_status find_iptc(const uint8_t *d, size_t n, gale_picture *p)
{
    if (n < sizeof blocks_head || memcmp(d, blocks_head, sizeof blocks_head)) return GALE_OK;
    for (size_t at = sizeof blocks_head; n - at >= 12 && !memcmp(d + at, "8BIM", 4);) {
        size_t name = (d[at + 6] + 2u) / 2 * 2, head = 6 + name + 4;
        if (n - at < head) break;
        size_t size = gale__be32(d + at + head - 4);
        if (size > n - at - head) break;
        if (gale__be16(d + at + 4) == 0x404) return gale__picture_bytes_set(&p->iptc, d + at + head, size);
        at += head + size + size % 2;
        if (at > n) break;
    }
    return GALE_OK;
}

static gale_status read_notes(jpeg *j)
{
    gale_picture *p = j->picture;
    double scale = j->d.density_unit == 2 ? 2.54 : 1;
    if (j->d.saw_JFIF_marker && j->d.density_unit) {
        p->dpi_x = j->d.X_density * scale;
        p->dpi_y = j->d.Y_density * scale;
    }
    for (jpeg_saved_marker_ptr m = j->d.marker_list; m; m = m->next) {
        if (m->marker == JPEG_APP0 + 1 && m->data_length > sizeof xmp_head &&
            !memcmp(m->data, xmp_head, sizeof xmp_head) && !p->xmp.size)
            GALE_TRY(gale__picture_bytes_set(&p->xmp, m->data + sizeof xmp_head, m->data_length - sizeof xmp_head));
        if (m->marker == JPEG_APP0 + 13 && !p->iptc.size) GALE_TRY(find_iptc(m->data, m->data_length, p));
        if (m->marker == JPEG_APP0 + 1 && m->data_length > 14 && !memcmp(m->data, "Exif\0\0", 6) && !p->exif.size)
            GALE_TRY(gale__picture_bytes_set(&p->exif, m->data + 6, m->data_length - 6));
    }
    return join_icc(j->d.marker_list, p);
}

/* Adobe's programs store inks inverted, which their marker indicates. */
static void from_cmyk(const uint8_t *from, uint8_t *to, size_t n, bool inverted)
{
    for (size_t i = 0; i < n; i++, from += 4)
        for (int c = 0; c < 3; c++) {
            unsigned ink = inverted ? from[c] : 255u - from[c], black = inverted ? from[3] : 255u - from[3];
            *to++ = (uint8_t)((ink * black + 127) / 255);
        }
}

static void read_pixels(jpeg *j)
{
    struct jpeg_decompress_struct *d = &j->d;
    bool inks = d->out_color_space == JCS_CMYK;
    while (d->output_scanline < d->output_height) {
        JSAMPROW to = gale__picture_row(j->picture, d->output_scanline), row = inks ? j->row : to;
        jpeg_read_scanlines(d, &row, 1);
        if (inks && j->profile) gale__profile_run(j->profile, j->row, to, d->output_width);
        else if (inks) from_cmyk(j->row, to, d->output_width, d->saw_Adobe_marker);
    }
}

/* Inks become RGB row by row; afterwards their profile means nothing. */
static gale_status prepare_inks(jpeg *j)
{
    gale_picture *p = j->picture;
    if (!(j->row = gale__alloc((size_t)p->width * 4))) return GALE_NO_MEMORY;
    GALE_TRY(gale__profile_open(
        &p->icc, j->d.saw_Adobe_marker ? GALE__PROFILE_CMYK_INVERTED : GALE__PROFILE_CMYK, GALE_U8, &j->profile));
    return gale__picture_bytes_set(&p->icc, NULL, 0);
}

/* The quality in libjpeg's scale whose luma table has nearly the same sum.  Other programs have tables of their own;
 * their sum is still a measure of how much was lost. */
static int find_quality(const JQUANT_TBL *table)
{
    static const uint8_t standard[DCTSIZE2] = {16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13,
        16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81,
        104, 113, 92, 49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99};
    long sum = 0;
    for (int i = 0; table && i < DCTSIZE2; i++) sum += table->quantval[i];
    for (int quality = 100; sum && quality > 1; quality--) {
        long here = 0, next = 0;
        for (int i = 0; i < DCTSIZE2; i++) {
            int steps[2] = {(standard[i] * jpeg_quality_scaling(quality) + 50) / 100,
                (standard[i] * jpeg_quality_scaling(quality - 1) + 50) / 100};
            here += steps[0] < 1 ? 1 : steps[0] > 255 ? 255 : steps[0];
            next += steps[1] < 1 ? 1 : steps[1] > 255 ? 255 : steps[1];
        }
        if (2 * sum <= here + next) return quality;
    }
    return sum ? 1 : 0;
}

static void read_picture(jpeg *j, gale__picture_source *in)
{
    struct jpeg_decompress_struct *d = &j->d;
    jpeg_create_decompress(d);
    j->source = (struct jpeg_source_mgr){
        in->data, in->size, no_source, more_source, skip_source, jpeg_resync_to_restart, no_source};
    j->progress.progress_monitor = on_progress;
    d->src = &j->source;
    d->progress = &j->progress;
    jpeg_save_markers(d, JPEG_APP0 + 1, 0xffff);
    jpeg_save_markers(d, JPEG_APP0 + 2, 0xffff);
    jpeg_save_markers(d, JPEG_APP0 + 13, 0xffff);
    jpeg_read_header(d, TRUE);
    if (d->jpeg_color_space == JCS_CMYK || d->jpeg_color_space == JCS_YCCK) d->out_color_space = JCS_CMYK;
    else d->out_color_space = d->num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    gale_status status = gale__picture_begin(
        in, d->image_width, d->image_height, d->out_color_space == JCS_GRAYSCALE ? 1 : 3, GALE_U8, &j->picture);
    if (status == GALE_OK) status = read_notes(j);
    if (status == GALE_OK && d->out_color_space == JCS_CMYK) status = prepare_inks(j);
    if (status != GALE_OK) leave(j, status);
    jpeg_start_decompress(d);
    int table = d->comp_info[0].quant_tbl_no;
    in->jpeg_quality = table >= 0 && table < NUM_QUANT_TBLS ? find_quality(d->quant_tbl_ptrs[table]) : 0;
    read_pixels(j);
    jpeg_finish_decompress(d);
}

gale_status gale__read_jpeg(gale__picture_source *in, gale_picture **out)
{
    jpeg *j = gale__calloc(1, sizeof *j);
    if (!j) return GALE_NO_MEMORY;
    j->d.err = jpeg_std_error(&j->errors);
    j->errors.error_exit = on_error;
    j->errors.emit_message = on_message;
    j->tolerant = in->tolerant;
    if (!setjmp(j->back)) read_picture(j, in);
    jpeg_destroy_decompress(&j->d);
    gale_status status = j->status;
    if (status == GALE_OK) *out = j->picture;
    else gale_picture_destroy(&j->picture);
    gale__profile_close(&j->profile);
    gale__free(j->row);
    gale__free(j);
    return status;
}

static void begin_sink(j_compress_ptr c)
{
    c->dest->next_output_byte = ((jpeg *)c->err)->block;
    c->dest->free_in_buffer = sizeof((jpeg *)c->err)->block;
}

static boolean more_sink(j_compress_ptr c)
{
    jpeg *j = (jpeg *)c->err;
    gale__str_add_n(j->out, (const char *)j->block, sizeof j->block);
    if (j->out->failed) leave(j, GALE_NO_MEMORY);
    begin_sink(c);
    return TRUE;
}

static void end_sink(j_compress_ptr c)
{
    jpeg *j = (jpeg *)c->err;
    gale__str_add_n(j->out, (const char *)j->block, sizeof j->block - c->dest->free_in_buffer);
}

static void write_marker(jpeg *j, int marker, const char *head, size_t head_size, const uint8_t *data, size_t size)
{
    bool odd = marker == JPEG_APP0 + 13 && size % 2; /* whose blocks are of even length */
    jpeg_write_m_header(&j->c, marker, (unsigned)(head_size + size + odd));
    for (size_t i = 0; i < head_size; i++) jpeg_write_m_byte(&j->c, head[i]);
    for (size_t i = 0; i < size; i++) jpeg_write_m_byte(&j->c, data[i]);
    if (odd) jpeg_write_m_byte(&j->c, 0);
}

/* XMP and IPTC; a marker holds 65533 bytes. */
static void write_more(jpeg *j)
{
    const gale_picture *p = j->picture;
    char head[sizeof blocks_head + 12] = {0};
    if (p->xmp.size && p->xmp.size <= 65533 - sizeof xmp_head)
        write_marker(j, JPEG_APP0 + 1, xmp_head, sizeof xmp_head, p->xmp.data, p->xmp.size);
    else if (p->xmp.size) gale__log(GALE__WARN, "JPEG: XMP of %zu bytes is too large and is dropped", p->xmp.size);
    if (!p->iptc.size || p->iptc.size > 65532 - sizeof head) return;
    memcpy(head, blocks_head, sizeof blocks_head);
    memcpy(head + sizeof blocks_head, "8BIM\4\4", 6);
    for (int i = 0; i < 4; i++) head[sizeof blocks_head + 8 + (size_t)i] = (char)(p->iptc.size >> 8 * (3 - i));
    write_marker(j, JPEG_APP0 + 13, head, sizeof head, p->iptc.data, p->iptc.size);
}

static void write_notes(jpeg *j)
{
    const gale_picture *p = j->picture;
    char head[ICC_HEAD] = "ICC_PROFILE";
    size_t count = (p->icc.size + ICC_MOST - 1) / ICC_MOST;
    if (p->exif.size && p->exif.size <= 65533 - 6)
        write_marker(j, JPEG_APP0 + 1, "Exif\0\0", 6, p->exif.data, p->exif.size);
    else if (p->exif.size) gale__log(GALE__WARN, "JPEG: EXIF of %zu bytes is too large and is dropped", p->exif.size);
    write_more(j);
    if (!gale__icc_fits(p) || count > 255) return;
    for (size_t i = 0, at = 0; i < count; i++, at += ICC_MOST) {
        head[12] = (char)(i + 1);
        head[13] = (char)count;
        write_marker(j, JPEG_APP0 + 2, head, ICC_HEAD, (const uint8_t *)p->icc.data + at,
            p->icc.size - at < ICC_MOST ? p->icc.size - at : ICC_MOST);
    }
}

static void write_picture(jpeg *j, const gale_picture_write_options *o)
{
    struct jpeg_compress_struct *c = &j->c;
    const gale_picture *p = j->picture;
    jpeg_create_compress(c);
    j->sink = (struct jpeg_destination_mgr){NULL, 0, begin_sink, more_sink, end_sink};
    c->dest = &j->sink;
    c->image_width = (JDIMENSION)p->width;
    c->image_height = (JDIMENSION)p->height;
    c->input_components = p->channels;
    c->in_color_space = p->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(c);
    jpeg_set_quality(c, o->quality, TRUE);
    if (p->channels == 3 && o->quality >= 90)
        c->comp_info[0].h_samp_factor = c->comp_info[0].v_samp_factor = 1; /* colour at full size */
    c->optimize_coding = TRUE;
    if (p->dpi_x > 0 && p->dpi_x < 65535 && p->dpi_y > 0 && p->dpi_y < 65535) {
        c->density_unit = 1;
        c->X_density = (UINT16)lround(p->dpi_x);
        c->Y_density = (UINT16)lround(p->dpi_y);
    }
    jpeg_start_compress(c, TRUE);
    write_notes(j);
    while (c->next_scanline < c->image_height) {
        JSAMPROW row = gale__picture_row(p, c->next_scanline);
        jpeg_write_scanlines(c, &row, 1);
    }
    jpeg_finish_compress(c);
}

gale_status gale__write_jpeg(const gale_picture *p, const gale_picture_write_options *o, gale__str *out)
{
    jpeg *j = gale__calloc(1, sizeof *j);
    if (!j) return GALE_NO_MEMORY;
    j->out = out;
    j->picture = (gale_picture *)p;
    j->c.err = jpeg_std_error(&j->errors);
    j->errors.error_exit = on_error;
    j->errors.emit_message = on_message;
    if (!setjmp(j->back)) write_picture(j, o);
    jpeg_destroy_compress(&j->c);
    gale_status status = j->status;
    gale__free(j);
    return status;
}
