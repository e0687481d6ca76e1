/* The portable formats: PBM, PGM, PPM as text or bytes, PAM with alpha, PFM with floats (bottom row first).  By hand,
 * since every build has them; libnetpbm reads from a FILE only, exits the program on damage, and has no PFM. */
#include "media/formats.h"
#include <stdlib.h>
#include <string.h>

typedef struct scan {
    const uint8_t *at, *end;
} scan;

static bool is_space(uint8_t c) { return c == ' ' || (c >= 9 && c <= 13); }

static void skip(scan *s)
{
    while (s->at < s->end && (is_space(*s->at) || *s->at == '#')) {
        if (*s->at++ != '#') continue;
        while (s->at < s->end && *s->at != '\n') s->at++;
    }
}

static gale_status number(scan *s, uint32_t *out)
{
    uint32_t v = 0;
    skip(s);
    const uint8_t *begin = s->at;
    while (s->at < s->end && *s->at >= '0' && *s->at <= '9' && v < 100000000) v = v * 10 + *s->at++ - '0';
    if (s->at == begin || (s->at < s->end && *s->at >= '0' && *s->at <= '9'))
        return gale__fail(
            GALE_FORMAT, s->at == s->end ? "the file is truncated" : "a number was expected in the header");
    *out = v;
    return GALE_OK;
}

/* One space parts the header from the samples. */
static gale_status end_header(scan *s)
{
    if (s->at >= s->end || !is_space(*s->at)) return gale__fail(GALE_FORMAT, "unterminated header");
    s->at++;
    return GALE_OK;
}

static gale_status need(const scan *s, uint64_t rows, uint64_t row_bytes)
{
    uint64_t left = (uint64_t)(s->end - s->at);
    if (row_bytes && rows > left / row_bytes)
        return gale__fail(GALE_FORMAT, "the file is truncated: %llu bytes of samples instead of %llu x %llu",
            (unsigned long long)left, (unsigned long long)rows, (unsigned long long)row_bytes);
    return GALE_OK;
}

/* Samples of one or two bytes, big end first, scaled to the whole range. */
static void unpack(gale_picture *p, const uint8_t *from, uint32_t most)
{
    size_t n = (size_t)p->width * (size_t)p->height * (size_t)p->channels;
    if (p->type == GALE_U8) {
        uint8_t *to = p->data;
        for (size_t i = 0; i < n; i++)
            to[i] = (uint8_t)(most == 255 ? from[i] : ((from[i] < most ? from[i] : most) * 255 + most / 2) / most);
        return;
    }
    uint16_t *to = p->data;
    for (size_t i = 0; i < n; i++) {
        uint64_t v = gale__be16(from + 2 * i);
        to[i] = (uint16_t)(most == 65535 ? v : ((v < most ? v : most) * 65535 + most / 2) / most);
    }
}

static gale_status read_samples(const gale__picture_source *in, scan *s, uint32_t w, uint32_t h, uint32_t channels,
    uint32_t most, gale_picture **out)
{
    if (most < 1 || most > 65535) return gale__fail(GALE_FORMAT, "invalid maximum value %u", most);
    GALE_TRY(need(s, h, (uint64_t)w * channels * (most > 255 ? 2 : 1)));
    GALE_TRY(gale__picture_begin(in, w, h, (int)channels, most > 255 ? GALE_U16 : GALE_U8, out));
    unpack(*out, s->at, most);
    return GALE_OK;
}

/* Bits, 1 being black; a row begins with a new byte. */
static gale_status read_bits(const gale__picture_source *in, scan *s, uint32_t w, uint32_t h, gale_picture **out)
{
    size_t row = ((size_t)w + 7) / 8;
    GALE_TRY(need(s, h, row));
    GALE_TRY(gale__picture_begin(in, w, h, 1, GALE_U8, out));
    for (size_t y = 0; y < h; y++) {
        uint8_t *to = gale__picture_row(*out, (int64_t)y);
        for (size_t x = 0; x < w; x++) to[x] = s->at[y * row + x / 8] >> (7 - x % 8) & 1 ? 0 : 255;
    }
    return GALE_OK;
}

static gale_status fill_text(scan *s, bool bits, uint32_t most, gale_picture *p)
{
    size_t n = (size_t)p->width * (size_t)p->height * (size_t)p->channels;
    uint32_t full = p->type == GALE_U8 ? 255 : 65535;
    for (size_t i = 0; i < n; i++) {
        uint32_t v = 0;
        skip(s);
        if (!bits) GALE_TRY(number(s, &v));
        else if (s->at < s->end && (*s->at == '0' || *s->at == '1')) v = *s->at++ == '0';
        else return gale__fail(GALE_FORMAT, s->at == s->end ? "the file is truncated" : "a bit is neither 0 nor 1");
        if (v > most) return gale__fail(GALE_FORMAT, "sample %u exceeds the maximum value %u", v, most);
        v = (uint32_t)(((uint64_t)v * full + most / 2) / most);
        if (p->type == GALE_U8) ((uint8_t *)p->data)[i] = (uint8_t)v;
        else ((uint16_t *)p->data)[i] = (uint16_t)v;
    }
    return GALE_OK;
}

static gale_status read_text(
    const gale__picture_source *in, scan *s, uint32_t w, uint32_t h, char kind, uint32_t most, gale_picture **out)
{
    uint64_t samples = (uint64_t)w * (kind == '3' ? 3 : 1);
    if (most < 1 || most > 65535) return gale__fail(GALE_FORMAT, "invalid maximum value %u", most);
    GALE_TRY(need(s, h, samples)); /* a digit each */
    GALE_TRY(gale__picture_begin(in, w, h, kind == '3' ? 3 : 1, most > 255 ? GALE_U16 : GALE_U8, out));
    return fill_text(s, kind == '1', most, *out);
}

gale_status gale__read_pnm(gale__picture_source *in, gale_picture **out)
{
    scan s = {in->data + 2, in->data + in->size};
    char kind = (char)in->data[1];
    uint32_t w, h, most = 1;
    GALE_TRY(number(&s, &w));
    GALE_TRY(number(&s, &h));
    if (kind != '1' && kind != '4') GALE_TRY(number(&s, &most));
    GALE_TRY(end_header(&s));
    if (kind < '4') return read_text(in, &s, w, h, kind, most, out);
    return kind == '4' ? read_bits(in, &s, w, h, out) : read_samples(in, &s, w, h, kind == '6' ? 3 : 1, most, out);
}

static bool word(scan *s, const char *text)
{
    size_t n = strlen(text);
    if ((size_t)(s->end - s->at) <= n || memcmp(s->at, text, n) || !is_space(s->at[n])) return false;
    s->at += n;
    return true;
}

gale_status gale__read_pam(gale__picture_source *in, gale_picture **out)
{
    static const char *const names[] = {"WIDTH", "HEIGHT", "DEPTH", "MAXVAL"};
    scan s = {in->data + 2, in->data + in->size};
    uint32_t v[4] = {0};
    for (;;) {
        skip(&s);
        int k = 0;
        if (s.at == s.end) return gale__fail(GALE_FORMAT, "the header is truncated");
        if (word(&s, "ENDHDR")) break;
        while (k < 4 && !word(&s, names[k])) k++;
        if (k < 4) GALE_TRY(number(&s, &v[k]));
        else
            while (s.at < s.end && *s.at != '\n') s.at++; /* TUPLTYPE: the depth says it as well */
    }
    if (v[2] < 1 || v[2] > 4) return gale__fail(GALE_UNSUPPORTED, "%u channels are not supported", v[2]);
    while (s.at < s.end && *s.at != '\n') s.at++;
    GALE_TRY(end_header(&s));
    return read_samples(in, &s, v[0], v[1], v[2], v[3], out);
}

gale_status gale__read_pfm(gale__picture_source *in, gale_picture **out)
{
    scan s = {in->data + 2, in->data + in->size};
    uint32_t w, h;
    char text[40] = "";
    size_t n = 0;
    double scale;
    GALE_TRY(number(&s, &w));
    GALE_TRY(number(&s, &h));
    skip(&s);
    while (s.at < s.end && !is_space(*s.at) && n + 1 < sizeof text) text[n++] = (char)*s.at++;
    GALE_TRY(end_header(&s));
    if (!gale__text_to_f64(text, &scale) || scale == 0) return gale__fail(GALE_FORMAT, "\"%s\" is not a scale", text);
    GALE_TRY(need(&s, h, (uint64_t)w * (in->data[1] == 'F' ? 12 : 4)));
    GALE_TRY(gale__picture_begin(in, w, h, in->data[1] == 'F' ? 3 : 1, GALE_F32, out));
    (*out)->linear = true;
    size_t row = (size_t)w * (size_t)(*out)->channels;
    for (int64_t y = (int64_t)h - 1; y >= 0; y--) {
        uint32_t *to = gale__picture_row(*out, y);
        for (size_t i = 0; i < row; i++, s.at += 4) to[i] = scale < 0 ? gale__le32(s.at) : gale__be32(s.at);
    }
    return GALE_OK;
}

static void add_samples(const gale_picture *p, gale__str *out)
{
    size_t row = (size_t)p->width * (size_t)p->channels;
    uint8_t block[4096];
    for (int64_t y = 0; y < p->height; y++) {
        const uint16_t *from = gale__picture_row(p, y);
        if (p->type == GALE_U8) gale__str_add_n(out, gale__picture_row(p, y), row);
        for (size_t i = 0; i < row && p->type == GALE_U16;) {
            size_t n = 0;
            for (; n < sizeof block && i < row; i++, n += 2)
                block[n] = (uint8_t)(from[i] >> 8), block[n + 1] = (uint8_t)from[i];
            gale__str_add_n(out, (char *)block, n);
        }
    }
}

gale_status gale__write_pnm(const gale_picture *p, const gale_picture_write_options *o, gale__str *out)
{
    (void)o;
    gale__str_addf(out, "P%d\n%lld %lld\n%d\n", p->channels == 3 ? 6 : 5, (long long)p->width, (long long)p->height,
        p->type == GALE_U8 ? 255 : 65535);
    add_samples(p, out);
    return GALE_OK;
}

gale_status gale__write_pam(const gale_picture *p, const gale_picture_write_options *o, gale__str *out)
{
    static const char *const kinds[] = {"", "GRAYSCALE", "GRAYSCALE_ALPHA", "RGB", "RGB_ALPHA"};
    (void)o;
    gale__str_addf(out, "P7\nWIDTH %lld\nHEIGHT %lld\nDEPTH %d\nMAXVAL %d\nTUPLTYPE %s\nENDHDR\n", (long long)p->width,
        (long long)p->height, p->channels, p->type == GALE_U8 ? 255 : 65535, kinds[p->channels]);
    add_samples(p, out);
    return GALE_OK;
}

gale_status gale__write_pfm(const gale_picture *p, const gale_picture_write_options *o, gale__str *out)
{
    (void)o;
    gale__str_addf(out, "P%c\n%lld %lld\n%s\n", p->channels == 3 ? 'F' : 'f', (long long)p->width, (long long)p->height,
        gale__host_is_little() ? "-1.0" : "1.0");
    for (int64_t y = p->height - 1; y >= 0; y--)
        gale__str_add_n(out, gale__picture_row(p, y), gale__picture_row_bytes(p));
    return GALE_OK;
}
