/* HEIC and AVIF through libheif, read only.  The library applies the file's own rotation, mirroring and cropping, so
 * the orientation that EXIF repeats is not applied a second time.  It is opened with the first such file: with its
 * decoders it would take half the time in which the program starts. */
#include "device/library.h"
#include "media/formats.h"
#include "media/profile.h"
#include <libheif/heif.h>
#include <string.h>

enum { SIDE_MOST = 65535, BLOCKS_MOST = 16, BLOCK_BYTES_MOST = 1 << 26 };

static struct {
#define X(name) __typeof__(name) *name;
#include "media/heif.def"
#undef X
} heif;

static gale_status load(void)
{
    static const char *const sonames[] = {"libheif.so.1", "libheif.so", NULL}, *const symbols[] = {
#define X(name) #name,
#include "media/heif.def"
#undef X
                                                                               };
    static gale__library library = {
        sonames, symbols, sizeof symbols / sizeof *symbols, &heif, "it is older than libheif 1.15", NULL};
    if (gale__library_load(&library) == GALE_OK) return GALE_OK;
    return gale__fail(GALE_UNSUPPORTED, "HEIF: %s; install libheif1", gale_error());
}

static gale_status failed(struct heif_error e)
{
    bool lacking = e.code == heif_error_Unsupported_filetype || e.code == heif_error_Unsupported_feature ||
                   e.code == heif_error_Decoder_plugin_error;
    gale_status status = e.code == heif_error_Memory_allocation_error ? GALE_NO_MEMORY
                         : lacking                                    ? GALE_UNSUPPORTED
                                                                      : GALE_FORMAT;
    return gale__fail(status, "HEIF: %s", e.message && *e.message ? e.message : "damaged or truncated");
}

#define HEIF_TRY(call)                                           \
    do {                                                         \
        struct heif_error error_ = call;                         \
        if (error_.code != heif_error_Ok) return failed(error_); \
    } while (0)

/* The first block of the kind; `size` 0: there is none, or none that could be one. */
static gale_status read_block(
    const struct heif_image_handle *h, const char *type, const char *content, gale_picture_bytes *out)
{
    heif_item_id ids[BLOCKS_MOST];
    int n = heif.heif_image_handle_get_list_of_metadata_block_IDs(h, type, ids, BLOCKS_MOST);
    for (int i = 0; i < n; i++) {
        size_t size = heif.heif_image_handle_get_metadata_size(h, ids[i]);
        const char *said = heif.heif_image_handle_get_metadata_content_type(h, ids[i]);
        if (!size || size > BLOCK_BYTES_MOST || (content && (!said || strcmp(said, content)))) continue;
        void *data = gale__alloc(size);
        if (!data) return GALE_NO_MEMORY;
        if (heif.heif_image_handle_get_metadata(h, ids[i], data).code != heif_error_Ok) {
            gale__free(data);
            continue;
        }
        *out = (gale_picture_bytes){data, size};
        return GALE_OK;
    }
    return GALE_OK;
}

/* Four bytes say how far after them EXIF begins. */
static gale_status read_exif(const struct heif_image_handle *h, gale_picture *p)
{
    gale_picture_bytes block = {0};
    GALE_TRY(read_block(h, "Exif", NULL, &block));
    gale_status status = GALE_OK;
    size_t skip = block.size > 8 ? gale__be32(block.data) : SIZE_MAX;
    const uint8_t *at = block.data;
    if (skip < block.size - 8 && block.size > 8 && (!memcmp(at + 4 + skip, "II", 2) || !memcmp(at + 4 + skip, "MM", 2)))
        status = gale__picture_bytes_set(&p->exif, at + 4 + skip, block.size - 4 - skip);
    gale__free(block.data);
    return status;
}

static gale_status read_profile(const struct heif_image_handle *h, gale_picture *p)
{
    size_t size = heif.heif_image_handle_get_raw_color_profile_size(h);
    struct heif_color_profile_nclx *numbers = NULL;
    if (size && size <= BLOCK_BYTES_MOST) {
        void *data = gale__alloc(size);
        if (!data) return GALE_NO_MEMORY;
        p->icc = (gale_picture_bytes){data, size};
        HEIF_TRY(heif.heif_image_handle_get_raw_color_profile(h, data));
        return GALE_OK;
    }
    struct heif_error e = heif.heif_image_handle_get_nclx_color_profile(h, &numbers);
    if (!numbers) return GALE_OK;
    int primaries = (int)numbers->color_primaries, transfer = (int)numbers->transfer_characteristics;
    heif.heif_nclx_color_profile_free(numbers); /* also where it has failed half-way */
    if (e.code != heif_error_Ok) return GALE_OK;
    return gale__profile_of_numbers(primaries, transfer, p);
}

static gale_status read_notes(const struct heif_image_handle *h, gale_picture *p)
{
    GALE_TRY(read_profile(h, p));
    GALE_TRY(read_exif(h, p));
    return read_block(h, "mime", "application/rdf+xml", &p->xmp);
}

/* Samples of `bits` bits to the whole range of 16, or bytes as they are. */
static void copy_row(const uint8_t *from, gale_picture *p, int64_t y, int bits)
{
    size_t n = (size_t)p->width * (size_t)p->channels;
    uint32_t most = (1u << bits) - 1;
    if (p->type == GALE_U8) memcpy(gale__picture_row(p, y), from, n);
    else
        for (size_t i = 0; i < n; i++) {
            uint32_t v = gale__le16(from + 2 * i);
            ((uint16_t *)gale__picture_row(p, y))[i] = (uint16_t)(((v < most ? v : most) * 65535u + most / 2) / most);
        }
}

static gale_status copy_pixels(const struct heif_image *image, gale_picture *p)
{
    int stride = 0, bits = heif.heif_image_get_bits_per_pixel_range(image, heif_channel_interleaved);
    const uint8_t *from = heif.heif_image_get_plane_readonly(image, heif_channel_interleaved, &stride);
    if (!from || heif.heif_image_get_width(image, heif_channel_interleaved) != p->width ||
        heif.heif_image_get_height(image, heif_channel_interleaved) != p->height || stride < 0 ||
        (size_t)stride < gale__picture_row_bytes(p) || bits < 8 || bits > 16)
        return gale__fail(GALE_FORMAT, "HEIF: the decoded size differs from the declared one");
    for (int64_t y = 0; y < p->height; y++) copy_row(from + (size_t)y * (size_t)stride, p, y, bits);
    return GALE_OK;
}

static gale_status decode(const struct heif_image_handle *h, gale_picture *p)
{
    struct heif_image *image = NULL;
    bool alpha = p->channels == 4, deep = p->type == GALE_U16;
    enum heif_chroma chroma = deep ? (alpha ? heif_chroma_interleaved_RRGGBBAA_LE : heif_chroma_interleaved_RRGGBB_LE)
                                   : (alpha ? heif_chroma_interleaved_RGBA : heif_chroma_interleaved_RGB);
    struct heif_decoding_options *options = heif.heif_decoding_options_alloc();
    if (!options) return gale__fail(GALE_NO_MEMORY, "HEIF: out of memory");
    options->strict_decoding = 1;
    struct heif_error e = heif.heif_decode_image(h, &image, heif_colorspace_RGB, chroma, options);
    heif.heif_decoding_options_free(options);
    gale_status status = e.code == heif_error_Ok ? copy_pixels(image, p) : failed(e);
    heif.heif_image_release(image);
    return status;
}

static gale_status read_picture(const gale__picture_source *in, const struct heif_image_handle *h, gale_picture **out)
{
    int width = heif.heif_image_handle_get_width(h), height = heif.heif_image_handle_get_height(h),
        bits = heif.heif_image_handle_get_luma_bits_per_pixel(h);
    bool alpha = heif.heif_image_handle_has_alpha_channel(h);
    if (width < 1 || height < 1) return gale__fail(GALE_FORMAT, "HEIF: damaged or truncated");
    GALE_TRY(
        gale__picture_begin(in, (uint64_t)width, (uint64_t)height, alpha ? 4 : 3, bits > 8 ? GALE_U16 : GALE_U8, out));
    (*out)->premultiplied = alpha && heif.heif_image_handle_is_premultiplied_alpha(h);
    GALE_TRY(decode(h, *out));
    return read_notes(h, *out);
}

static gale_status read_context(gale__picture_source *in, struct heif_context *context, gale_picture **out)
{
    struct heif_image_handle *h = NULL;
    heif.heif_context_set_maximum_image_size_limit(
        context, in->max_pixels < SIDE_MOST ? (int)in->max_pixels : SIDE_MOST);
    HEIF_TRY(heif.heif_context_read_from_memory_without_copy(context, in->data, in->size, NULL));
    HEIF_TRY(heif.heif_context_get_primary_image_handle(context, &h));
    int pictures = heif.heif_context_get_number_of_top_level_images(context);
    if (pictures > 1) gale__log(GALE__WARN, "HEIF: only the main one of %d pictures is read", pictures);
    gale_status status = read_picture(in, h, out);
    heif.heif_image_handle_release(h);
    in->orientation = 1;
    return status;
}

static gale_status read_file(gale__picture_source *in, gale_picture **out)
{
    gale_picture *p = NULL;
    GALE_TRY(load());
    struct heif_context *context = heif.heif_context_alloc();
    if (!context) return gale__fail(GALE_NO_MEMORY, "HEIF: out of memory");
    gale_status status = read_context(in, context, &p);
    heif.heif_context_free(context);
    if (status == GALE_OK) *out = p;
    else gale_picture_destroy(&p);
    return status;
}

gale_status gale__read_heic(gale__picture_source *in, gale_picture **out) { return read_file(in, out); }
gale_status gale__read_avif(gale__picture_source *in, gale_picture **out) { return read_file(in, out); }
