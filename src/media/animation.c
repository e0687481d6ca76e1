/* Animations of all formats: reading and writing frames, with the limits and metadata that still pictures have. */
#include "media/animation.h"
#include "base/file.h"
#include <string.h>

struct gale_animation {
    gale__bytes file;
    gale__picture_source in;
    const gale__format *format;
    gale_animation_info info;
    void *state;
};

gale_status gale__frame_copy(const gale_picture *canvas, gale_picture **out)
{
    size_t n = (size_t)canvas->width * (size_t)canvas->height;
    bool opaque = true;
    for (size_t i = 0; i < n && opaque; i++)
        opaque = canvas->type == GALE_U8 ? ((const uint8_t *)canvas->data)[4 * i + 3] == UINT8_MAX
                                         : ((const uint16_t *)canvas->data)[4 * i + 3] == UINT16_MAX;
    return gale_picture_convert(canvas, canvas->type, opaque ? 3 : 4, out);
}

static gale_status open_frames(gale_animation *a)
{
    if (!a->in.size) return gale__fail(GALE_FORMAT, "it is empty");
    a->format = gale__format_of_bytes(a->in.data, a->in.size);
    if (!a->format || !a->format->frames_in)
        return gale__fail(GALE_UNSUPPORTED, "reading animations from %s is not supported; use GIF, WebP or PNG",
            a->format ? a->format->about.name : "a file of an unknown format");
    a->info.format = a->format->about.name;
    return a->format->frames_in->open(&a->in, &a->info, &a->state);
}

gale_status gale_animation_open(const char *path, const gale_picture_read_options *options, gale_animation **out)
{
    GALE__NEED({"path", path}, {"out", out});
    gale_animation *a = gale__calloc(1, sizeof *a);
    if (!a) return GALE_NO_MEMORY;
    gale__picture_source_init(options, &a->in);
    gale_status status = gale__file_read(path, (size_t)a->in.max_bytes, &a->file);
    if (status == GALE_OK) {
        a->in.data = (const uint8_t *)a->file.data;
        a->in.size = a->file.size;
        status = open_frames(a);
        if (status != GALE_OK) gale__fail_within(status, "%s", path);
    }
    if (status == GALE_OK) *out = a;
    else gale_animation_close(&a);
    return status;
}

const gale_animation_info *gale_animation_get_info(const gale_animation *a)
{
    if (!a) return gale__lack(__func__, "animation"), NULL;
    return &a->info;
}

gale_status gale_animation_next(gale_animation *a, gale_picture **frame, int *milliseconds)
{
    GALE__NEED({"animation", a}, {"frame", frame}, {"milliseconds", milliseconds});
    gale_picture *p = NULL;
    int shown = 0;
    gale_status status = a->format->frames_in->next(a->state, &p, &shown);
    if (status == GALE_OK && p) {
        p->format = a->info.format;
        status = gale__picture_finish_reading(&a->in, false, &p);
    }
    if (status != GALE_OK) gale_picture_destroy(&p);
    else {
        *frame = p;
        *milliseconds = shown;
    }
    return status;
}

void gale_animation_close(gale_animation **animation)
{
    gale_animation *a = animation ? *animation : NULL;
    if (!a) return;
    if (a->state) a->format->frames_in->close(a->state);
    gale__bytes_finish(&a->file);
    gale__free(a);
    *animation = NULL;
}

struct gale_animation_writer {
    const gale__format *format;
    gale_picture_write_options options;
    int loops;
    void *state;
    int64_t width, height;
};

gale_status gale_animation_writer_create(
    const gale_picture_write_options *options, int loops, gale_animation_writer **out)
{
    GALE__NEED({"options", options}, {"out", out});
    const gale__format *f = options && options->format ? gale__format_of_name(options->format) : NULL;
    if (!f || !f->frames_out)
        return gale__fail(GALE_INVALID, "animations are written as GIF, WebP or PNG, not as %s",
            options && options->format ? options->format : "an unnamed format");
    gale_animation_writer *w = gale__calloc(1, sizeof *w);
    if (!w) return GALE_NO_MEMORY;
    *w = (gale_animation_writer){.format = f, .options = *options, .loops = loops < 0 ? 0 : loops};
    *out = w;
    return GALE_OK;
}

/* Whether the format may lose something is asked of the first frame, as of a still picture. */
static gale_status begin(gale_animation_writer *w, const gale_picture *frame)
{
    GALE_TRY(gale__format_check(w->format->about.name, frame->width, frame->height));
    w->width = frame->width;
    w->height = frame->height;
    gale__write_options_settle(w->format, frame, &w->options);
    return w->format->frames_out->open(&w->options, w->loops, &w->state);
}

gale_status gale_animation_writer_add(gale_animation_writer *w, const gale_picture *frame, int milliseconds)
{
    GALE__NEED({"writer", w}, {"frame", frame});
    GALE_TRY(gale__picture_check(frame));
    gale_picture *made = NULL;
    if (!w->state) GALE_TRY(begin(w, frame));
    if (frame->width != w->width || frame->height != w->height)
        return gale__fail(GALE_MISMATCH, "a frame of %lld x %lld does not fit into an animation of %lld x %lld",
            (long long)frame->width, (long long)frame->height, (long long)w->width, (long long)w->height);
    GALE_TRY(gale__picture_fit(w->format, w->format->about.name, frame, &made));
    gale_status status = w->format->frames_out->add(w->state, made ? made : frame, milliseconds);
    gale_picture_destroy(&made);
    return status;
}

static gale_status finish(gale_animation_writer *w, gale__str *out)
{
    if (!w->state) return gale__fail(GALE_INVALID, "an animation without frames cannot be written");
    return w->format->frames_out->finish(w->state, out);
}

gale_status gale_animation_writer_to_memory(gale_animation_writer *w, void **data, size_t *size)
{
    GALE__NEED({"writer", w}, {"data", data}, {"size", size});
    gale__str out = {0};
    gale_status status = finish(w, &out);
    if (status != GALE_OK) {
        gale__str_finish(&out);
        return status;
    }
    *data = out.text;
    *size = out.length;
    return GALE_OK;
}

gale_status gale_animation_writer_write(gale_animation_writer *w, const char *path)
{
    GALE__NEED({"writer", w}, {"path", path});
    gale__str out = {0};
    gale_status status = finish(w, &out);
    if (status == GALE_OK) status = gale__file_write(path, out.text, out.length);
    else gale__fail_within(status, "%s", path);
    gale__str_finish(&out);
    return status;
}

void gale_animation_writer_destroy(gale_animation_writer **writer)
{
    gale_animation_writer *w = writer ? *writer : NULL;
    if (!w) return;
    if (w->state) w->format->frames_out->close(w->state);
    gale__free(w);
    *writer = NULL;
}
