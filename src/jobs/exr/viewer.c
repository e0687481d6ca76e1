/* Files to pictures for display: decoded into planes, uploaded once, and downloaded once as pixels.  Programs are
 * cached by configuration, since the pictures of a batch usually have the same size. */
#include "base/thread.h"
#include "device/front.h"
#include "gale/graph.h"
#include "graph/run/tensor.h"
#include "jobs/exr/colour.h"
#include "jobs/exr/look.h"
#include "jobs/exr/unzip.h"
#include "media/exr_image.h"
#include "media/picture.h"
#include <math.h>
#include <string.h>

enum { PROGRAMS_MOST = 8, SIDE_MOST = 1000000 };

/* Pictures on a GPU at a time: enough to keep its transfers and kernels busy.  Each takes a stream with pinned memory,
 * which is slow to make, and more of them only share the bus. */
enum { AT_ONCE = 4 };

typedef struct entry {
    gale__look_plan plan;
    gale_program *program;
    int users;
    uint64_t used; /* when: the oldest goes first */
} entry;

struct gale_exr_viewer {
    gale_device *device;
    gale_exr_look look;
    char *layer;
    gale__cube cube; /* without tables: none */
    gale__mutex lock;
    entry entries[PROGRAMS_MOST];
    uint64_t clock;
    gale__cond freed;
    int running, at_once; /* pictures on the device; 0: as many as come */
    gale__unzipper *unzipper;
};

static gale_status check_look(const gale_exr_look *l)
{
    if ((unsigned)l->tone >= GALE_EXR_TONE_COUNT || (unsigned)l->filter >= GALE_EXR_FILTER_COUNT)
        return gale__fail(GALE_INVALID, "exr: unknown tone map or filter");
    if (l->bits && l->bits != 8 && l->bits != 16)
        return gale__fail(GALE_INVALID, "exr: invalid number of bits %d; use 8 or 16", l->bits);
    if (!(fabs(l->exposure) <= 64))
        return gale__fail(GALE_INVALID, "exr: exposure %g is outside -64 to 64", l->exposure);
    if (!(l->gamma >= 0 && l->gamma <= 100))
        return gale__fail(GALE_INVALID, "exr: gamma %g is outside 0 to 100", l->gamma);
    if (!(l->radius >= 0 && l->radius <= 4096))
        return gale__fail(GALE_INVALID, "exr: radius %g is outside 0 to 4096", l->radius);
    if (l->width < 0 || l->height < 0 || l->side < 0 || l->width > SIDE_MOST || l->height > SIDE_MOST)
        return gale__fail(GALE_INVALID, "exr: invalid size %lld x %lld", (long long)l->width, (long long)l->height);
    return GALE_OK;
}

gale_status gale_exr_viewer_create(gale_device *device, const gale_exr_look *look, gale_exr_viewer **out)
{
    GALE__NEED({"device", device}, {"out", out});
    GALE__OPTIONS(look);
    GALE__WITHIN(device->context);
    static const gale_exr_look usual = {0};
    if (!look) look = &usual;
    GALE_TRY(check_look(look));
    gale_exr_viewer *v = gale__calloc(1, sizeof *v);
    if (!v) return GALE_NO_MEMORY;
    v->device = device;
    v->look = *look;
    v->layer = look->layer ? gale__strdup(look->layer) : NULL;
    v->look.layer = v->layer;
    gale__mutex_init(&v->lock);
    gale__cond_init(&v->freed);
    v->at_once = gale_device_get_info(device)->caps.host_functions ? 0 : AT_ONCE;
    gale_status status = look->layer && !v->layer ? GALE_NO_MEMORY : GALE_OK;
    if (status == GALE_OK) status = gale__unzipper_create(device, &v->unzipper);
    if (status == GALE_OK && look->lut) status = gale__cube_read(look->lut, &v->cube);
    if (status == GALE_OK) *out = v;
    else gale_exr_viewer_destroy(&v);
    return status;
}

void gale_exr_viewer_destroy(gale_exr_viewer **viewer)
{
    gale_exr_viewer *v = viewer ? *viewer : NULL;
    if (!v) return;
    for (int i = 0; i < PROGRAMS_MOST; i++) gale_program_destroy(&v->entries[i].program);
    gale__unzipper_destroy(&v->unzipper);
    gale__cond_finish(&v->freed);
    gale__mutex_finish(&v->lock);
    gale__free(v->layer);
    gale__cube_finish(&v->cube);
    gale__free(v);
    *viewer = NULL;
}

/* Extents of the result for a picture of these. */
static void size_of(const gale_exr_look *l, int64_t width, int64_t height, int64_t *w, int64_t *h)
{
    double scale = 1, longer = (double)(width > height ? width : height);
    *w = l->width, *h = l->height;
    if (*w && *h) return;
    if (*w) scale = (double)*w / (double)width;
    else if (*h) scale = (double)*h / (double)height;
    else if (l->side && (double)l->side < longer) scale = (double)l->side / longer;
    if (!*w) *w = (int64_t)fmax(1, floor((double)width * scale + 0.5));
    if (!*h) *h = (int64_t)fmax(1, floor((double)height * scale + 0.5));
}

static gale__look_plan plan_for(const gale_exr_look *l, const gale__exr_image *i)
{
    gale__look_plan p;
    double matrix[3][3];
    memset(&p, 0, sizeof p);
    p.in_width = i->width, p.in_height = i->height;
    size_of(l, i->full_width, i->full_height, &p.width, &p.height);
    p.channels = i->channels;
    p.kept = l->no_alpha && i->channels % 2 == 0 ? i->channels - 1 : i->channels;
    p.type = i->type;
    p.tone = l->tone, p.filter = l->filter;
    p.exposure = l->exposure, p.gamma = l->gamma, p.radius = l->tone == GALE_EXR_LOCAL ? l->radius : 0;
    p.by_matrix =
        i->channels > 2 && i->has_chromaticities && !l->file_colours && gale__colour_matrix(i->chromaticities, matrix);
    if (p.by_matrix) memcpy(p.matrix, matrix, sizeof p.matrix);
    p.dither = l->dither;
    p.bits = l->bits ? l->bits : 8;
    return p;
}

/* An entry with the program, counted as in use; where all are in use, one of nobody's that the caller destroys.  Waits
 * until the device has room for a picture; give_program is called in any case. */
static gale_status take_program(gale_exr_viewer *v, const gale__look_plan *plan, entry **kept, gale_program **out)
{
    gale_status status = GALE_OK;
    entry *oldest = NULL;
    gale__mutex_lock(&v->lock);
    while (v->at_once && v->running >= v->at_once) gale__cond_wait(&v->freed, &v->lock);
    v->running++;
    *kept = NULL;
    for (entry *e = v->entries; e < v->entries + PROGRAMS_MOST && !*kept; e++) {
        if (e->program && !memcmp(&e->plan, plan, sizeof *plan)) *kept = e;
        else if (!e->users && (!oldest || e->used < oldest->used)) oldest = e;
    }
    if (!*kept && oldest) {
        gale_program_destroy(&oldest->program);
        status = gale__look_program(plan, v->device, &oldest->program);
        oldest->plan = *plan;
        if (status == GALE_OK) *kept = oldest;
    } else if (!*kept) status = gale__look_program(plan, v->device, out);
    if (*kept) {
        (*kept)->users++;
        (*kept)->used = ++v->clock;
        *out = (*kept)->program;
    }
    gale__mutex_unlock(&v->lock);
    return status;
}

static void give_program(gale_exr_viewer *v, entry *kept, gale_program **program)
{
    if (!kept) gale_program_destroy(program);
    gale__mutex_lock(&v->lock);
    if (kept) kept->users--;
    v->running--;
    gale__cond_signal(&v->freed);
    gale__mutex_unlock(&v->lock);
}

/* The CPU takes a fifth of the time for a 3D table if the colours of a pixel are made together. */
static void pad(const gale_exr_viewer *v, gale__look_plan *p)
{
    bool on_host = gale_device_get_info(v->device)->caps.host_functions;
    if (!on_host || !v->cube.size || p->kept != 3 || p->bits != 8 || p->tone == GALE_EXR_LOCAL) return;
    p->padded = true, p->kept = 4;
}

/* Three bytes of each four. */
static void unpad(const uint8_t *from, size_t pixels, uint8_t *to)
{
    for (size_t i = 0; i + 1 < pixels; i++) memcpy(to + 3 * i, from + 4 * i, 4);
    if (pixels) memcpy(to + 3 * (pixels - 1), from + 4 * (pixels - 1), 3);
}

/* From the planes, *in or the image's, to the picture's own memory. */
static gale_status run_program(gale_exr_viewer *v, const gale__look_plan *plan, const gale__exr_image *image,
    gale_tensor **in, gale_picture *picture)
{
    const int64_t dims[3] = {plan->channels, plan->in_height, plan->in_width};
    const size_t pixels = (size_t)(plan->height * plan->width), bytes = gale_type_size(picture->type);
    entry *kept = NULL;
    gale_program *program = NULL;
    gale_tensor *out = NULL;
    gale_status status;
    GALE_GO(take_program(v, plan, &kept, &program));
    if (!*in) GALE_GO(gale__tensor_borrow(image->type, 3, dims, image->data, NULL, NULL, in));
    GALE_GO(gale_program_run(program, in, &out, GALE_RUN_ON_HOST));
    if (plan->padded) unpad(gale_tensor_data(out), pixels, picture->data);
    else GALE_GO(gale_tensor_to_cpu(out, picture->data, pixels * (size_t)plan->kept * bytes));
done:
    gale_tensor_destroy(&out);
    give_program(v, kept, &program);
    return status;
}

/* Copies are those that this thread has made since. */
static void fill_report(const gale_exr_viewer *v, const gale__copy_stats *since, const gale_exr *f,
    const gale__exr_image *i, const gale_picture *p, gale_exr_report *r)
{
    gale__copy_stats now;
    gale__copy_get_stats(&now);
    r->width = i->width, r->height = i->height;
    r->level_x = i->level_x, r->level_y = i->level_y;
    r->file_bytes = gale_exr_size_bytes(f);
    r->decoded_bytes = (uint64_t)(i->width * i->height * i->channels) * gale_type_size(i->type);
    if (gale_device_get_info(v->device)->caps.host_functions) return;
    r->uploads = (int)(now.uploads - since->uploads), r->downloads = (int)(now.downloads - since->downloads);
    r->upload_bytes = now.upload_bytes - since->upload_bytes;
    r->download_bytes = now.download_bytes - since->download_bytes;
    r->needed_bytes = (r->packed_bytes ? r->packed_bytes : r->decoded_bytes) +
                      (uint64_t)(p->width * p->height * p->channels) * gale_type_size(p->type);
}

/* Into the image, or to planes on the device. */
static gale_status decode(
    gale_exr_viewer *v, gale_exr *f, gale__exr_image *image, bool *could, gale_tensor **planes, uint64_t *packed_bytes)
{
    gale__exr_wish wish = {.layer = v->look.layer, .no_alpha = v->look.no_alpha};
    int64_t w, h;
    if ((v->look.width || v->look.height || v->look.side) && !v->look.full) {
        GALE_TRY(gale__exr_image_size(f, v->look.layer, &w, &h));
        size_of(&v->look, w, h, &wish.least_width, &wish.least_height);
    }
    gale__copy_stats before, after;
    gale__copy_get_stats(&before);
    GALE_TRY(gale__unzipper_run(v->unzipper, f, &wish, image, could, planes));
    gale__copy_get_stats(&after);
    if (!*planes) return gale__exr_image_read(f, &wish, image);
    *packed_bytes = after.upload_bytes - before.upload_bytes;
    return GALE_OK;
}

gale_status gale__exr_viewer_run(
    gale_exr_viewer *v, gale_exr *f, gale__exr_image *image, gale_exr_report *report, gale_picture **out)
{
    GALE__WITHIN(v->device->context);
    gale_picture *p = NULL;
    gale_tensor *planes = NULL;
    bool could = false;
    gale_exr_report r = {0};
    gale__copy_stats before;
    gale_status status;
    uint64_t begun = gale__time_ns();
    gale__copy_get_stats(&before);
    GALE_GO(decode(v, f, image, &could, &planes, &r.packed_bytes));
    r.decode_seconds = (double)(gale__time_ns() - begun) / 1e9;
    begun = gale__time_ns();
    gale__look_plan plan = plan_for(&v->look, image);
    plan.cube = v->cube.size || v->cube.curve_size ? &v->cube : NULL;
    GALE_GO(gale_picture_create(plan.width, plan.height, plan.kept, plan.bits == 16 ? GALE_U16 : GALE_U8, &p));
    pad(v, &plan);
    GALE_GO(run_program(v, &plan, image, &planes, p));
    r.pixel_seconds = (double)(gale__time_ns() - begun) / 1e9;
    fill_report(v, &before, f, image, p, &r);
    if (could)
        gale__unzipper_note(v->unzipper, r.packed_bytes > 0, r.decoded_bytes, r.decode_seconds + r.pixel_seconds);
    if (report) *report = r;
done:
    gale_tensor_destroy(&planes);
    if (status == GALE_OK) *out = p;
    else gale_picture_destroy(&p);
    return status;
}

gale_status gale_exr_viewer_run(gale_exr_viewer *v, gale_exr *f, gale_exr_report *report, gale_picture **out)
{
    GALE__NEED({"viewer", v}, {"file", f}, {"out", out});
    gale__exr_image image = {0};
    gale_status status = gale__exr_viewer_run(v, f, &image, report, out);
    gale__exr_image_finish(&image);
    return status;
}
