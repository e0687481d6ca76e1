/* Frames of an animation on their way to a file. */
#include "cli/upscale_frames.h"
#include "media/picture.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct sink {
    gale__frames_task *task;
    gale_animation_writer *writer; /* NULL: numbered files */
} sink;

/* The number in a name: "%", digits, "d", once; NULL: there is none. */
static const char *find_number(const char *name, size_t *length)
{
    const char *at = name ? strchr(name, '%') : NULL;
    size_t digits = at ? strspn(at + 1, "0123456789") : 0;
    if (!at || digits > 2 || at[1 + digits] != 'd' || strchr(at + 1, '%')) return NULL;
    *length = digits + 2;
    return at;
}

bool gale__upscale_is_numbered(const char *output)
{
    size_t length;
    return find_number(output, &length) != NULL;
}

bool gale__upscale_takes_frames(const char *output, const char *format)
{
    const gale__format *f = format ? gale__format_of_name(format) : NULL;
    return gale__upscale_is_numbered(output) || (f && f->frames_out);
}

static gale_status write_numbered(const gale__frames_task *t, const gale_picture *frame)
{
    gale__str name = {0};
    size_t length = 0;
    const char *at = find_number(t->output, &length);
    int width = length > 2 ? (int)strtol(at + 1, NULL, 10) : 0;
    gale__str_addf(&name, "%.*s%0*d%s", (int)(at - t->output), t->output, width, t->frames + 1, at + length);
    gale_status status = gale__str_check(&name);
    if (status == GALE_OK) status = gale_picture_write(frame, name.text, &t->write);
    gale__str_finish(&name);
    return status;
}

static gale_status write_frame(void *user, const gale_picture *before, const gale_picture *after, int milliseconds)
{
    sink *s = user;
    gale__frames_task *t = s->task;
    if (!t->frames && t->first) t->first(t->user, before, after);
    memcpy(t->size, (int64_t[4]){before->width, before->height, after->width, after->height}, sizeof t->size);
    GALE_TRY(s->writer ? gale_animation_writer_add(s->writer, after, milliseconds) : write_numbered(t, after));
    t->frames++;
    return GALE_OK;
}

static gale_status write_stdout(gale_animation_writer *w)
{
    void *data = NULL;
    size_t size = 0;
    GALE_TRY(gale_animation_writer_to_memory(w, &data, &size));
    bool written = fwrite(data, 1, size, stdout) == size && !fflush(stdout);
    gale_free(data);
    return written ? GALE_OK : gale__fail(GALE_IO, "standard output: cannot write");
}

gale_status gale__upscale_frames(gale_upscaler *u, gale__frames_task *t, gale_upscale_report *report)
{
    gale_animation *in = NULL;
    sink s = {.task = t};
    gale_status status;
    GALE_GO(gale_animation_open(t->input, &t->read, &in));
    if (!gale__upscale_is_numbered(t->output))
        GALE_GO(gale_animation_writer_create(&t->write, gale_animation_get_info(in)->loops, &s.writer));
    GALE_GO(gale_upscale_animation(u, in, &t->options, report, write_frame, &s));
    if (s.writer) status = t->output ? gale_animation_writer_write(s.writer, t->output) : write_stdout(s.writer);
done:
    gale_animation_writer_destroy(&s.writer);
    gale_animation_close(&in);
    return status;
}
