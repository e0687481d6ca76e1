/* Colours that need a profile: Lab and inks in TIFF, inks in JPEG.  The profile is made here, and it is a strange one:
 * cyan ink is red, no ink white and everything else black, which no rule of thumb would give. */
#include "base/file.h"
#include "base/str.h"
#include "picture_make.h"
#include "test.h"
#include <lcms2.h>
#include <stdlib.h>

/* Red is L 53.24, a 80.09, b 67.20 in D65, and a little else in D50, which profiles have. */
static const uint16_t lab_red[] = {35574, 53559, 50806}, lab_white[] = {65535, 32896, 32896},
                      lab_black[] = {0, 32896, 32896};

static void *make_profile(cmsUInt32Number *size)
{
    uint16_t table[16 * 3];
    void *data = NULL;
    for (int i = 0; i < 16; i++) /* cyan is the highest bit */
        memcpy(table + 3 * i, i == 8 ? lab_red : i == 0 ? lab_white : lab_black, 6);
    cmsHPROFILE p = cmsCreateProfilePlaceholder(NULL);
    cmsPipeline *way = cmsPipelineAlloc(NULL, 4, 3);
    cmsSetProfileVersion(p, 4.3);
    cmsSetDeviceClass(p, cmsSigOutputClass);
    cmsSetColorSpace(p, cmsSigCmykData);
    cmsSetPCS(p, cmsSigLabData);
    cmsPipelineInsertStage(way, cmsAT_END, cmsStageAllocToneCurves(NULL, 4, NULL));
    cmsPipelineInsertStage(way, cmsAT_END, cmsStageAllocCLut16bit(NULL, 2, 4, 3, table));
    cmsPipelineInsertStage(way, cmsAT_END, cmsStageAllocToneCurves(NULL, 3, NULL));
    CHECK(cmsWriteTag(p, cmsSigAToB0Tag, way));
    CHECK(cmsSaveProfileToMem(p, NULL, size));
    data = malloc(*size);
    CHECK(cmsSaveProfileToMem(p, data, size));
    cmsPipelineFree(way);
    cmsCloseProfile(p);
    return data;
}

static void put16(gale__str *s, unsigned v) { gale__str_add_n(s, (char[2]){(char)(v & 255), (char)(v >> 8)}, 2); }
static void put32(gale__str *s, uint32_t v) { put16(s, v & 65535), put16(s, v >> 16); }

static void tag(gale__str *s, unsigned number, unsigned type, uint32_t count, uint32_t value)
{
    put16(s, number);
    put16(s, type);
    put32(s, count);
    put32(s, value);
}

/* A TIFF of one pixel. */
static gale_picture *tiff(unsigned light, unsigned samples, unsigned bits, const void *pixel, const void *icc,
    uint32_t icc_size, gale_status wanted)
{
    enum { TAGS = 10, BITS_AT = 8 + 2 + TAGS * 12 + 4, PIXEL_AT = BITS_AT + 8, ICC_AT = PIXEL_AT + 8 };
    gale__str s = {0};
    gale_picture *p = NULL;
    gale__str_add_n(&s, "II*\0", 4);
    put32(&s, 8);
    put16(&s, icc ? TAGS : TAGS - 1);
    tag(&s, 256, 3, 1, 1);
    tag(&s, 257, 3, 1, 1);
    tag(&s, 258, 3, samples, BITS_AT);
    tag(&s, 259, 3, 1, 1);
    tag(&s, 262, 3, 1, light);
    tag(&s, 273, 4, 1, PIXEL_AT);
    tag(&s, 277, 3, 1, samples);
    tag(&s, 278, 3, 1, 1);
    tag(&s, 279, 4, 1, samples * bits / 8);
    if (icc) tag(&s, 34675, 7, icc_size, ICC_AT);
    put32(&s, 0);
    while (s.length < BITS_AT) gale__str_add_n(&s, "\0", 1);
    for (unsigned i = 0; i < 4; i++) put16(&s, bits);
    gale__str_add_n(&s, pixel, samples * bits / 8);
    while (s.length < ICC_AT) gale__str_add_n(&s, "\0", 1);
    if (icc) gale__str_add_n(&s, icc, icc_size);
    CHECK_EQ(gale_picture_from_memory(s.text, s.length, NULL, &p), wanted);
    gale__str_finish(&s);
    return p;
}

static bool is_colour(const gale_picture *p, int r, int g, int b, int step)
{
    const int wanted[] = {r, g, b};
    bool same = p && p->channels == 3;
    for (int c = 0; c < 3 && same; c++) {
        int v = p->type == GALE_U8 ? ((uint8_t *)p->data)[c] : ((uint16_t *)p->data)[c] / 257;
        same = abs(v - wanted[c]) <= step;
        if (!same) fprintf(stderr, "channel %d is %d, not %d\n", c, v, wanted[c]);
    }
    return same;
}

TEST(lab)
{
    enum { CIE = 8, ICC = 9 };
    gale_picture *p = tiff(CIE, 3, 8, (uint8_t[]){138, 81, 70}, NULL, 0, GALE_OK);
    CHECK(is_colour(p, 255, 0, 0, 8));
    gale_picture_destroy(&p);
    p = tiff(CIE, 3, 8, (uint8_t[]){138, (uint8_t)-81, 70}, NULL, 0, GALE_OK); /* a has a sign: green */
    CHECK(is_colour(p, 0, 155, 0, 12));
    gale_picture_destroy(&p);
    p = tiff(ICC, 3, 8, (uint8_t[]){138, 128 + 81, 128 + 70}, NULL, 0, GALE_OK);
    CHECK(is_colour(p, 255, 0, 0, 8) && p->type == GALE_U8);
    gale_picture_destroy(&p);
    p = tiff(CIE, 3, 16, (uint16_t[]){65535, 0, 0}, NULL, 0, GALE_OK);
    CHECK(is_colour(p, 255, 255, 255, 1) && p->type == GALE_U16);
    gale_picture_destroy(&p);
    p = tiff(ICC, 3, 16, (uint16_t[]){0xff00, 0x8000, 0x8000}, NULL, 0, GALE_OK);
    CHECK(is_colour(p, 255, 255, 255, 1));
    gale_picture_destroy(&p);
}

TEST(inks_in_tiff)
{
    enum { INKS = 5 };
    cmsUInt32Number size = 0;
    void *icc = make_profile(&size);
    gale_picture *p = tiff(INKS, 4, 8, (uint8_t[]){255, 0, 0, 0}, icc, size, GALE_OK);
    CHECK(is_colour(p, 255, 0, 0, 8));
    if (p) CHECK_EQ(p->icc.size, 0); /* what was read is sRGB */
    gale_picture_destroy(&p);
    p = tiff(INKS, 4, 16, (uint16_t[]){0, 0, 0, 0}, icc, size, GALE_OK);
    CHECK(is_colour(p, 255, 255, 255, 1));
    gale_picture_destroy(&p);
    p = tiff(INKS, 4, 8, (uint8_t[]){255, 0, 0, 0}, NULL, 0, GALE_OK); /* by the rule of thumb */
    CHECK(is_colour(p, 0, 255, 255, 0));
    gale_picture_destroy(&p);
    for (uint32_t n = 0; n < size; n += 7) { /* of a damaged profile nothing is left but the rule */
        p = tiff(INKS, 4, 8, (uint8_t[]){255, 0, 0, 0}, icc, n ? n : 1, GALE_OK);
        CHECK(p && p->channels == 3);
        gale_picture_destroy(&p);
    }
    free(icc);
}

TEST(inks_in_jpeg)
{
    const char *folder = getenv("GALE_TEST_CORPUS");
    char path[1024];
    gale__bytes file = {0};
    gale__str s = {0};
    gale_picture *p = NULL;
    cmsUInt32Number size = 0;
    if (!gale__format_of_name("jpeg")->read) SKIP("built without JPEG");
    snprintf(path, sizeof path, "%s/picture/jpeg-cmyk.jpg", folder ? folder : "fuzz/corpus");
    if (!CHECK_OK(gale__file_read(path, 1 << 20, &file))) return;
    CHECK_OK(gale_picture_from_memory(file.data, file.size, NULL, &p));
    CHECK(is_colour(p, 0, 255, 255, 3));
    gale_picture_destroy(&p);
    void *icc = make_profile(&size);
    gale__str_add_n(&s, (const char *)file.data, 2);
    gale__str_add_n(&s, "\xff\xe2", 2);
    gale__str_add_n(&s, (char[2]){(char)((size + 16) >> 8), (char)(size + 16)}, 2);
    gale__str_add_n(&s, "ICC_PROFILE\0\1\1", 14);
    gale__str_add_n(&s, icc, size);
    gale__str_add_n(&s, (const char *)file.data + 2, file.size - 2);
    CHECK_OK(gale_picture_from_memory(s.text, s.length, NULL, &p));
    CHECK(is_colour(p, 255, 0, 0, 8));
    gale_picture_destroy(&p);
    gale__str_finish(&s);
    gale__bytes_finish(&file);
    free(icc);
}

TESTS(ROW(lab), ROW(inks_in_tiff), ROW(inks_in_jpeg))
