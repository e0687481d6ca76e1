/* Pictures on the host, brought to the extents that a network takes: a triangle as wide as a pixel of the smaller of
 * both pictures, which is what most training pipelines call bilinear with antialiasing. */
#include "jobs/model/data_picture.h"
#include "base/error.h"
#include <math.h>
#include <string.h>

/* Along one axis: lines of `from` places become as many of `to`; a place is n floats beside each other. */
static void resize_axis(const float *in, float *out, int64_t lines, int64_t from, int64_t to, int64_t n)
{
    double ratio = (double)from / (double)to, reach = ratio > 1 ? ratio : 1;
    for (int64_t t = 0; t < to; t++) {
        double centre = ((double)t + 0.5) * ratio;
        int64_t first = (int64_t)floor(centre - reach), last = (int64_t)ceil(centre + reach);
        first = first < 0 ? 0 : first;
        last = last > from ? from : last;
        double sum = 0;
        for (int64_t s = first; s < last; s++) sum += fmax(0, 1 - fabs((double)s + 0.5 - centre) / reach);
        for (int64_t line = 0; line < lines; line++) {
            float *at = out + (line * to + t) * n;
            memset(at, 0, (size_t)n * sizeof *at);
            for (int64_t s = first; s < last; s++) {
                float weight = (float)(fmax(0, 1 - fabs((double)s + 0.5 - centre) / reach) / sum);
                const float *seen = in + (line * from + s) * n;
                for (int64_t i = 0; i < n; i++) at[i] += weight * seen[i];
            }
        }
    }
}

gale_status gale__picture_resize(gale_picture **picture, int64_t width, int64_t height)
{
    gale_picture *p = *picture, *wide = NULL, *made = NULL;
    if (p->width == width && p->height == height) return GALE_OK;
    GALE_TRY(gale_picture_create(width, p->height, p->channels, GALE_F32, &wide));
    gale_status status = gale_picture_create(width, height, p->channels, GALE_F32, &made);
    if (status == GALE_OK) {
        resize_axis(p->data, wide->data, p->height, p->width, width, p->channels);
        resize_axis(wide->data, made->data, 1, p->height, height, width * p->channels);
        gale_picture_destroy(picture);
        *picture = made;
    }
    gale_picture_destroy(&wide);
    return status;
}
