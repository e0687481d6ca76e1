/* The selected channels of a level as a picture: written directly if each pixel has a sample and everything is inside
 * the window, else through planes.  Luminance-chroma is converted to RGB here. */
#include "media/exr.h"
#include "base/num.h"
#include <math.h>
#include <string.h>

typedef struct plane {
    float *data; /* NULL: the channel goes straight onto the canvas */
    int64_t width, height;
    int x, y; /* sampling */
} plane;

typedef struct painting {
    gale_exr *f;
    const gale__exr_choice *c;
    const gale__exr_canvas *canvas;
    int64_t width, height; /* of the level */
    plane planes[4];
    gale_exr_target targets[4];
} painting;

static double determinant(const double a[3], const double b[3], const double c[3])
{
    return a[0] * (b[1] * c[2] - b[2] * c[1]) - b[0] * (a[1] * c[2] - a[2] * c[1]) + c[0] * (a[1] * b[2] - a[2] * b[1]);
}

/* As much of each primary as makes white.  Rec. 709 where the numbers are no triangle. */
void gale__exr_luminance(const double *p, double w[3])
{
    static const double usual[3] = {0.2126, 0.7152, 0.0722};
    memcpy(w, usual, sizeof usual);
    if (!p) return;
    const double r[3] = {p[0], p[1], 1 - p[0] - p[1]}, g[3] = {p[2], p[3], 1 - p[2] - p[3]},
                 b[3] = {p[4], p[5], 1 - p[4] - p[5]}, white[3] = {p[6] / p[7], 1, (1 - p[6] - p[7]) / p[7]},
                 all = determinant(r, g, b);
    const double found[3] = {determinant(white, g, b) / all * r[1], determinant(r, white, b) / all * g[1],
        determinant(r, g, white) / all * b[1]};
    if (isfinite(found[0] + found[1] + found[2]) && fabs(found[1]) > 1e-3) memcpy(w, found, sizeof found);
}

/* Between the samples next to the pixel, of which those at the edge are repeated. */
static float between(const plane *p, int64_t x, int64_t y)
{
    int64_t x0 = x / p->x, y0 = y / p->y;
    if (x0 >= p->width) x0 = p->width - 1;
    if (y0 >= p->height) y0 = p->height - 1;
    int64_t x1 = x0 + 1 < p->width ? x0 + 1 : x0, y1 = y0 + 1 < p->height ? y0 + 1 : y0;
    float fx = (float)(x % p->x) / (float)p->x, fy = (float)(y % p->y) / (float)p->y;
    const float *a = p->data + y0 * p->width, *b = p->data + y1 * p->width;
    float top = fx > 0 ? a[x0] + (a[x1] - a[x0]) * fx : a[x0];
    return fy > 0 ? top + ((fx > 0 ? b[x0] + (b[x1] - b[x0]) * fx : b[x0]) - top) * fy : top;
}

static float nearest(const plane *p, int64_t x, int64_t y)
{
    int64_t i = x / p->x, k = y / p->y;
    return p->data[(k < p->height ? k : p->height - 1) * p->width + (i < p->width ? i : p->width - 1)];
}

static void put(const gale__exr_canvas *to, int channel, int64_t x, int64_t y, float v)
{
    char *at = to->data + (size_t)channel * to->channel_bytes + (size_t)y * to->row_bytes + (size_t)x * to->pixel_bytes;
    gale__store_f64(to->type, at, (double)v);
}

/* The part of the level that is on the canvas. */
static gale_exr_box overlap(const painting *p)
{
    const gale__exr_canvas *c = p->canvas;
    int64_t x0 = c->left < 0 ? -c->left : 0, y0 = c->top < 0 ? -c->top : 0;
    int64_t x1 = p->width < c->width - c->left ? p->width : c->width - c->left;
    int64_t y1 = p->height < c->height - c->top ? p->height : c->height - c->top;
    return (gale_exr_box){(int32_t)x0, (int32_t)y0, (int32_t)x1 - 1, (int32_t)y1 - 1};
}

static void paint_chroma(const painting *p, const double w[3], int64_t x, int64_t y)
{
    const gale__exr_canvas *to = p->canvas;
    double luma = (double)nearest(&p->planes[0], x, y), r = ((double)between(&p->planes[1], x, y) + 1) * luma,
           b = ((double)between(&p->planes[2], x, y) + 1) * luma;
    put(to, 0, x + to->left, y + to->top, (float)r);
    put(to, 1, x + to->left, y + to->top, (float)((luma - r * w[0] - b * w[2]) / w[1]));
    put(to, 2, x + to->left, y + to->top, (float)b);
}

/* From planes to the canvas. */
static void paint(const painting *p)
{
    const gale_exr_part *part = &p->f->parts[p->c->part];
    const gale__exr_canvas *to = p->canvas;
    gale_exr_box box = overlap(p);
    double w[3];
    gale__exr_luminance(part->has_chromaticities ? part->chromaticities : NULL, w);
    for (int64_t y = box.y0; y <= box.y1; y++)
        for (int64_t x = box.x0; x <= box.x1; x++) {
            if (p->c->chroma) paint_chroma(p, w, x, y);
            for (int k = p->c->chroma ? 3 : 0; k < p->c->channels; k++)
                if (p->planes[k].data) put(to, k, x + to->left, y + to->top, nearest(&p->planes[k], x, y));
        }
}

/* Where channel k is read to. */
static gale_status aim(painting *p, int level_x, int level_y, int k)
{
    const gale_exr_part *part = &p->f->parts[p->c->part];
    const gale__exr_canvas *to = p->canvas;
    plane *s = &p->planes[k];
    for (int i = 0; i < part->channel_count; i++)
        if (!strcmp(part->channels[i].name, p->c->names[k]))
            s->x = part->channels[i].x_sampling, s->y = part->channels[i].y_sampling;
    GALE_TRY(gale_exr_channel_size(p->f, p->c->part, level_x, level_y, p->c->names[k], &s->width, &s->height));
    bool inside =
        to->left >= 0 && to->top >= 0 && to->left + p->width <= to->width && to->top + p->height <= to->height;
    bool whole = s->x == 1 && s->y == 1 && !(p->c->chroma && k < 3);
    p->targets[k] = (gale_exr_target){p->c->names[k], to->type, NULL, to->pixel_bytes, to->row_bytes};
    if (inside && whole) {
        p->targets[k].data = to->data + (size_t)k * to->channel_bytes + (size_t)to->top * to->row_bytes +
                             (size_t)to->left * to->pixel_bytes;
        return GALE_OK;
    }
    if (s->width < 1 || s->height < 1) return gale__fail(GALE_FORMAT, "EXR: channel %s has no samples", p->c->names[k]);
    if ((uint64_t)s->width * (uint64_t)s->height > p->f->limits.max_bytes / sizeof(float))
        return gale__fail(
            GALE_LIMIT, "EXR: %lld x %lld samples exceed the memory limit", (long long)s->width, (long long)s->height);
    s->data = gale__calloc((size_t)s->width * (size_t)s->height, sizeof *s->data);
    p->targets[k] = (gale_exr_target){p->c->names[k], GALE_F32, s->data, 0, 0};
    return s->data ? GALE_OK : GALE_NO_MEMORY;
}

gale_status gale__exr_paint(
    gale_exr *f, const gale__exr_choice *c, int level_x, int level_y, const gale__exr_canvas *canvas)
{
    painting p = {.f = f, .c = c, .canvas = canvas};
    GALE_TRY(gale_exr_level_size(f, c->part, level_x, level_y, &p.width, &p.height));
    gale_status status = GALE_OK;
    bool by_planes = false;
    for (int k = 0; k < c->channels && status == GALE_OK; k++) {
        status = aim(&p, level_x, level_y, k);
        by_planes |= p.planes[k].data != NULL;
    }
    if (status == GALE_OK) status = gale_exr_read(f, c->part, level_x, level_y, p.targets, c->channels);
    if (status == GALE_OK && by_planes) paint(&p);
    for (int k = 0; k < 4; k++) gale__free(p.planes[k].data);
    return status;
}
