/* What the manifest beside a model says about pictures, for jobs on model files.  The publisher of a model writes it
 * once, and users do not have to repeat means and ranges. */
#include "jobs/model/data_picture.h"
#include "jobs/models/manifest.h"

static gale_status list_text(const double *numbers, int n, gale__arena *arena, const char **out)
{
    gale__str text = {0};
    for (int i = 0; i < n; i++) gale__str_addf(&text, "%s%.9g", i ? "," : "", numbers[i]);
    *out = text.failed ? NULL : gale__arena_strdup(arena, gale__str_text(&text));
    gale__str_finish(&text);
    return *out ? GALE_OK : GALE_NO_MEMORY;
}

static gale_pixel_range range_of(const gale__manifest *m)
{
    if (m->low == 0 && m->high == 255) return GALE_PIXEL_RANGE_BYTES;
    return m->low == -1 && m->high == 1 ? GALE_PIXEL_RANGE_SIGNED : GALE_PIXEL_RANGE_ONE;
}

/* Other ranges become a mean and a deviation: low + pixel * (high - low). */
static bool is_odd(const gale__manifest *m)
{
    return range_of(m) == GALE_PIXEL_RANGE_ONE && (m->low != 0 || m->high != 1);
}

static gale_status apply_manifest(const gale__manifest *m, gale__arena *arena, gale_pixel_options *p)
{
    double width = m->high - m->low, mean = -m->low / width, std = 1 / width;
    bool odd = p->range == GALE_PIXEL_RANGE_AUTO && m->range_said && is_odd(m), normal = p->mean || p->std;
    if (odd && (m->n_mean || m->n_std || normal))
        return gale__fail(GALE_UNSUPPORTED, "range [%g, %g] cannot be combined with mean and std", m->low, m->high);
    if (p->layout == GALE_PIXEL_LAYOUT_AUTO && m->layout)
        p->layout = m->layout == GALE__MANIFEST_LAYOUT_NHWC ? GALE_PIXEL_LAYOUT_NHWC : GALE_PIXEL_LAYOUT_NCHW;
    if (p->colours == GALE_PIXEL_COLOURS_AUTO && m->colours == GALE__COLOURS_BGR) p->colours = GALE_PIXEL_COLOURS_BGR;
    if (p->range == GALE_PIXEL_RANGE_AUTO && m->range_said) p->range = range_of(m);
    if (!normal && (odd || m->n_mean)) GALE_TRY(list_text(odd ? &mean : m->mean, odd ? 1 : m->n_mean, arena, &p->mean));
    if (!normal && (odd || m->n_std)) GALE_TRY(list_text(odd ? &std : m->std, odd ? 1 : m->n_std, arena, &p->std));
    return GALE_OK;
}

gale_status gale__pixels_complete(const char *model_path, gale__arena *arena, gale_pixel_options *pixels)
{
    gale__manifest m;
    GALE_TRY(gale__manifest_read(model_path, &m));
    gale_status status = m.absent ? GALE_OK : apply_manifest(&m, arena, pixels);
    if (status != GALE_OK && m.path) gale__fail_within(status, "%s", m.path);
    else if (!m.absent && m.path)
        gale__log(GALE__INFO, "%s: pictures are normalised as stated in %s (mean %s, std %s)", model_path, m.path,
            pixels->mean ? pixels->mean : "0", pixels->std ? pixels->std : "1");
    gale__manifest_finish(&m);
    return status;
}

gale_status gale__inputs_complete(const char *model_path, gale__arena *arena, gale_input_options *inputs)
{
    for (int i = 0; i < inputs->n_files; i++)
        if (gale__is_picture(inputs->files[i])) return gale__pixels_complete(model_path, arena, &inputs->pixels);
    return GALE_OK;
}
