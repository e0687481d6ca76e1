/* JPEG 2000 with OpenJPEG: files with boxes (jp2) and raw code streams (j2k).  Components may have 1 to 16 bits, may
 * be signed, and may be subsampled. */
#include "media/formats.h"
#include <openjpeg.h>
#include <string.h>

typedef struct memory {
    const gale__picture_source *in;
    gale__str *out;
    uint64_t at;
    char message[200];
} memory;

static OPJ_SIZE_T give_bytes(void *to, OPJ_SIZE_T n, void *user)
{
    memory *m = user;
    size_t got = gale__picture_memory_get(m->in->data, m->in->size, m->at, to, n);
    m->at += got;
    return got ? got : (OPJ_SIZE_T)-1;
}

static OPJ_SIZE_T take_bytes(void *from, OPJ_SIZE_T n, void *user)
{
    memory *m = user;
    if (!gale__picture_memory_put(m->out, m->at, from, n)) return (OPJ_SIZE_T)-1;
    m->at += n;
    return n;
}

static OPJ_BOOL seek_to(OPJ_OFF_T to, void *user)
{
    memory *m = user;
    if (to < 0 || (m->in && (uint64_t)to > m->in->size)) return OPJ_FALSE;
    m->at = (uint64_t)to;
    return OPJ_TRUE;
}

static OPJ_OFF_T skip_bytes(OPJ_OFF_T n, void *user)
{
    return seek_to((OPJ_OFF_T)((memory *)user)->at + n, user) ? n : -1;
}

static void on_error(const char *message, void *user)
{
    memory *m = user;
    size_t n = strcspn(message, "\n");
    if (*m->message) return;
    if (n >= sizeof m->message) n = sizeof m->message - 1;
    memcpy(m->message, message, n);
    m->message[n] = 0;
}

static void on_note(const char *message, void *user) { (void)message, (void)user; }

static opj_stream_t *open_stream(memory *m)
{
    opj_stream_t *s = opj_stream_create(1 << 16, m->in != NULL);
    if (!s) return NULL;
    opj_stream_set_user_data(s, m, NULL);
    opj_stream_set_user_data_length(s, m->in ? m->in->size : 0);
    opj_stream_set_read_function(s, give_bytes);
    opj_stream_set_write_function(s, take_bytes);
    opj_stream_set_seek_function(s, seek_to);
    opj_stream_set_skip_function(s, skip_bytes);
    return s;
}

static void listen(opj_codec_t *c, memory *m)
{
    opj_set_error_handler(c, on_error, m);
    opj_set_warning_handler(c, on_note, m);
    opj_set_info_handler(c, on_note, m);
}

static gale_status fail(const memory *m, gale_status status)
{
    return gale__fail(status, "JPEG 2000: %s", *m->message ? m->message : "damaged or truncated");
}

static gale_status begin(const gale__picture_source *in, const opj_image_t *image, gale_picture **out)
{
    uint32_t bits = 0, n = image->numcomps;
    if (n < 1 || n > 4)
        return gale__fail(GALE_UNSUPPORTED, "JPEG 2000: pictures with %u components are not supported", n);
    for (uint32_t i = 0; i < n; i++) {
        const opj_image_comp_t *c = &image->comps[i];
        if (c->prec < 1 || c->prec > 16 || !c->dx || !c->dy || c->dx % image->comps[0].dx || c->dy % image->comps[0].dy)
            return gale__fail(GALE_UNSUPPORTED,
                "JPEG 2000: components of %u bits, or of different sizes, are not supported", c->prec);
        if (c->prec > bits) bits = c->prec;
    }
    return gale__picture_begin(in, image->comps[0].w, image->comps[0].h, (int)n, bits > 8 ? GALE_U16 : GALE_U8, out);
}

/* Values of one component to their places, stretched to the whole range. */
static void place(const opj_image_t *image, uint32_t index, gale_picture *p)
{
    const opj_image_comp_t *c = &image->comps[index];
    uint32_t fx = c->dx / image->comps[0].dx, fy = c->dy / image->comps[0].dy, full = p->type == GALE_U8 ? 255 : 65535;
    int64_t most = (INT64_C(1) << c->prec) - 1, lift = c->sgnd ? INT64_C(1) << (c->prec - 1) : 0;
    for (int64_t y = 0; y < p->height; y++) {
        uint32_t sy = (uint32_t)y / fy < c->h ? (uint32_t)y / fy : c->h - 1;
        for (int64_t x = 0; x < p->width; x++) {
            uint32_t sx = (uint32_t)x / fx < c->w ? (uint32_t)x / fx : c->w - 1;
            int64_t v = c->data[(size_t)sy * c->w + sx] + lift;
            v = ((v < 0 ? 0 : v > most ? most : v) * full + most / 2) / most;
            size_t at = ((size_t)y * (size_t)p->width + (size_t)x) * (size_t)p->channels + index;
            if (p->type == GALE_U8) ((uint8_t *)p->data)[at] = (uint8_t)v;
            else ((uint16_t *)p->data)[at] = (uint16_t)v;
        }
    }
}

/* Luma and chroma of the whole range, as in JPEG. */
static void from_ycc(const gale_picture *p)
{
    float full = p->type == GALE_U8 ? 255 : 65535, half = p->type == GALE_U8 ? 128 : 32768;
    for (size_t i = 0, n = (size_t)p->width * (size_t)p->height; i < n; i++) {
        void *at = (char *)p->data + i * (size_t)p->channels * gale_type_size(p->type);
        float v[3], rgb[3];
        gale__samples_to_f32(p->type, at, v, 3);
        float cb = v[1] - half / full, cr = v[2] - half / full;
        rgb[0] = v[0] + 1.402f * cr;
        rgb[1] = v[0] - 0.344136f * cb - 0.714136f * cr;
        rgb[2] = v[0] + 1.772f * cb;
        gale__samples_from_f32(p->type, rgb, at, 3);
    }
}

static gale_status fill(const opj_image_t *image, gale_picture *p)
{
    for (uint32_t i = 0; i < image->numcomps; i++) {
        if (!image->comps[i].data || !image->comps[i].w || !image->comps[i].h)
            return gale__fail(GALE_FORMAT, "JPEG 2000: damaged or truncated");
        place(image, i, p);
    }
    if (image->color_space == OPJ_CLRSPC_SYCC && p->channels >= 3) from_ycc(p);
    return image->icc_profile_len ? gale__picture_bytes_set(&p->icc, image->icc_profile_buf, image->icc_profile_len)
                                  : GALE_OK;
}

static gale_status decode(gale__picture_source *in, OPJ_CODEC_FORMAT kind, gale_picture **out)
{
    memory m = {.in = in};
    opj_dparameters_t parameters;
    opj_image_t *image = NULL;
    gale_picture *p = NULL;
    opj_codec_t *codec = opj_create_decompress(kind);
    opj_stream_t *stream = open_stream(&m);
    gale_status status = codec && stream ? GALE_OK : gale__fail(GALE_NO_MEMORY, "JPEG 2000: out of memory");
    opj_set_default_decoder_parameters(&parameters);
    if (status == GALE_OK) {
        listen(codec, &m);
        if (!opj_setup_decoder(codec, &parameters) || !opj_read_header(stream, codec, &image))
            status = fail(&m, GALE_FORMAT);
    }
    if (status == GALE_OK) status = begin(in, image, &p);
    if (status == GALE_OK && (!opj_decode(codec, stream, image) || !opj_end_decompress(codec, stream) ||
                                 image->numcomps != (uint32_t)p->channels || image->comps[0].w != p->width ||
                                 image->comps[0].h != p->height))
        status = fail(&m, GALE_FORMAT);
    if (status == GALE_OK) status = fill(image, p);
    opj_image_destroy(image);
    opj_stream_destroy(stream);
    opj_destroy_codec(codec);
    if (status == GALE_OK) *out = p;
    else gale_picture_destroy(&p);
    return status;
}

gale_status gale__read_jp2(gale__picture_source *in, gale_picture **out) { return decode(in, OPJ_CODEC_JP2, out); }
gale_status gale__read_j2k(gale__picture_source *in, gale_picture **out) { return decode(in, OPJ_CODEC_J2K, out); }

static opj_image_t *to_image(const gale_picture *p)
{
    opj_image_cmptparm_t parts[4] = {0};
    for (int c = 0; c < p->channels; c++)
        parts[c] = (opj_image_cmptparm_t){.dx = 1,
            .dy = 1,
            .w = (OPJ_UINT32)p->width,
            .h = (OPJ_UINT32)p->height,
            .prec = p->type == GALE_U8 ? 8 : 16};
    opj_image_t *image =
        opj_image_create((OPJ_UINT32)p->channels, parts, p->channels > 2 ? OPJ_CLRSPC_SRGB : OPJ_CLRSPC_GRAY);
    if (!image) return NULL;
    image->x1 = (OPJ_UINT32)p->width;
    image->y1 = (OPJ_UINT32)p->height;
    if (p->channels % 2 == 0) image->comps[p->channels - 1].alpha = 1;
    for (size_t i = 0, n = (size_t)p->width * (size_t)p->height * (size_t)p->channels; i < n; i++)
        image->comps[i % (size_t)p->channels].data[i / (size_t)p->channels] =
            p->type == GALE_U8 ? ((uint8_t *)p->data)[i] : ((uint16_t *)p->data)[i];
    return image;
}

static void set_parameters(const gale_picture *p, const gale_picture_write_options *o, opj_cparameters_t *e)
{
    int64_t least = p->width < p->height ? p->width : p->height;
    opj_set_default_encoder_parameters(e);
    while (e->numresolution > 1 && least >> (e->numresolution - 1) == 0) e->numresolution--;
    e->tcp_numlayers = 1;
    e->tcp_mct = p->channels > 2;
    e->irreversible = !o->lossless;
    e->cp_fixed_quality = !o->lossless;
    e->cp_disto_alloc = o->lossless;
    e->tcp_distoratio[0] = o->lossless ? 0 : 20 + 0.3f * (float)o->quality; /* PSNR in dB */
}

static gale_status encode(
    const gale_picture *p, const gale_picture_write_options *o, OPJ_CODEC_FORMAT kind, gale__str *out)
{
    memory m = {.out = out};
    opj_cparameters_t parameters;
    opj_codec_t *codec = opj_create_compress(kind);
    opj_stream_t *stream = open_stream(&m);
    opj_image_t *image = to_image(p);
    gale_status status = codec && stream && image ? GALE_OK : gale__fail(GALE_NO_MEMORY, "JPEG 2000: out of memory");
    set_parameters(p, o, &parameters);
    if (status == GALE_OK) {
        listen(codec, &m);
        if (!opj_setup_encoder(codec, &parameters, image) || !opj_start_compress(codec, image, stream) ||
            !opj_encode(codec, stream) || !opj_end_compress(codec, stream))
            status = fail(&m, out->failed ? GALE_NO_MEMORY : GALE_UNSUPPORTED);
    }
    opj_image_destroy(image);
    opj_stream_destroy(stream);
    opj_destroy_codec(codec);
    return status;
}

gale_status gale__write_jp2(const gale_picture *p, const gale_picture_write_options *o, gale__str *out)
{
    return encode(p, o, OPJ_CODEC_JP2, out);
}
gale_status gale__write_j2k(const gale_picture *p, const gale_picture_write_options *o, gale__str *out)
{
    return encode(p, o, OPJ_CODEC_J2K, out);
}
