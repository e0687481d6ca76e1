/* An OpenEXR file as bytes, in memory or mapped, behind the library's context. */
#include "media/exr.h"
#include <stdio.h>
#include <string.h>

/* The first complaint.  A thread's own, since the library holds its lock while it complains, and would wait for it if
 * it were asked for our data. */
static _Thread_local char complaint[200];
static _Thread_local bool odd_compression, /* the library takes a method that it does not know for ZIP */
    ran_out; /* the library passes over some attributes for which there is no memory, and takes them for missing */

void gale__exr_hush(void)
{
    complaint[0] = 0;
    odd_compression = false;
    ran_out = false;
}

/* The library says what it was doing, in its own terms. */
static const char *in_plain_words(exr_result_t r, const char *said)
{
    if (strstr(said, "not an OpenEXR file")) return "not an OpenEXR file";
    if (r == EXR_ERR_READ_IO) return "the file ends too early";
    if (r == EXR_ERR_BAD_CHUNK_LEADER || r == EXR_ERR_CORRUPT_CHUNK) return "the file is damaged, or it ends too early";
    return NULL;
}

gale_status gale__exr_said(exr_result_t r)
{
    if (r == EXR_ERR_SUCCESS && !ran_out) return GALE_OK;
    if (r == EXR_ERR_OUT_OF_MEMORY || ran_out) return gale__fail(GALE_NO_MEMORY, "EXR: out of memory");
    const char *said = *complaint ? complaint : exr_get_default_error_message(r), *plain = in_plain_words(r, said);
    if (plain && strstr(said, plain)) return gale__fail(GALE_FORMAT, "%s", plain); /* it says nothing more */
    return plain ? gale__fail(GALE_FORMAT, "EXR: %s (%s)", plain, said) : gale__fail(GALE_FORMAT, "EXR: %s", said);
}

static void *take_memory(size_t size)
{
    void *p = gale__alloc(size);
    ran_out |= !p;
    return p;
}

static void on_error(exr_const_context_t c, exr_result_t code, const char *message)
{
    (void)c, (void)code;
    odd_compression |= strstr(message, "'compression'") != NULL;
    if (!*complaint) snprintf(complaint, sizeof complaint, "%s", message);
}

exr_context_initializer_t gale__exr_starter(void *user)
{
    exr_context_initializer_t s = EXR_DEFAULT_CONTEXT_INITIALIZER;
    s.error_handler_fn = on_error;
    s.alloc_fn = take_memory;
    s.free_fn = gale__free;
    s.user_data = user;
    return s;
}

static int64_t give_bytes(
    exr_const_context_t c, void *user, void *to, uint64_t n, uint64_t at, exr_stream_error_func_ptr_t error)
{
    const gale_exr *f = user;
    (void)c, (void)error;
    if (f->data) return (int64_t)gale__picture_memory_get(f->data, f->size, at, to, (size_t)n);
    uint64_t left = at < f->size ? f->size - at : 0;
    if (n > left) n = left;
    return n && gale__file_map_read(&f->map, at, (size_t)n, to) != GALE_OK ? -1 : (int64_t)n;
}

static int64_t give_size(exr_const_context_t c, void *user) { return (void)c, (int64_t)((gale_exr *)user)->size; }

static gale_status begin(gale_exr *f, const gale_exr_limits *limits)
{
    if (limits) f->limits = *limits;
    if (!f->limits.max_pixels) f->limits.max_pixels = (uint64_t)1 << 29;
    if (!f->limits.max_bytes) f->limits.max_bytes = (uint64_t)8 << 30;
    exr_context_initializer_t s = gale__exr_starter(f);
    s.read_fn = give_bytes;
    s.size_fn = give_size;
    gale__exr_hush();
    GALE_TRY(gale__exr_said(exr_start_read(&f->file, "picture", &s)));
    if (odd_compression)
        return gale__fail(GALE_UNSUPPORTED,
            "EXR: unknown compression, such as HTJ2K of OpenEXR 3.4 (%s); save the file with another, such as ZIP",
            complaint);
    return gale__exr_describe(f);
}

gale_status gale_exr_from_memory(const void *data, size_t size, const gale_exr_limits *limits, gale_exr **out)
{
    GALE__NEED({"data", data}, {"out", out});
    GALE__OPTIONS(limits);
    gale_exr *f = gale__calloc(1, sizeof *f);
    if (!f) return GALE_NO_MEMORY;
    f->map.fd = -1;
    f->data = data;
    f->size = size;
    gale_status status = begin(f, limits);
    if (status == GALE_OK) *out = f;
    else gale_exr_close(&f);
    return status;
}

gale_status gale_exr_open(const char *path, const gale_exr_limits *limits, gale_exr **out)
{
    GALE__NEED({"path", path}, {"out", out});
    GALE__OPTIONS(limits);
    gale_exr *f = gale__calloc(1, sizeof *f);
    if (!f) return GALE_NO_MEMORY;
    f->map.fd = -1;
    gale_status status = gale__file_map_open(path, &f->map);
    if (status == GALE_OK) {
        f->size = f->map.size;
        status = begin(f, limits);
        if (status != GALE_OK) status = gale__fail_within(status, "%s", path);
    }
    if (status == GALE_OK) *out = f;
    else gale_exr_close(&f);
    return status;
}

void gale_exr_close(gale_exr **file)
{
    gale_exr *f = file ? *file : NULL;
    if (!f) return;
    if (f->file) exr_finish(&f->file);
    if (f->map.fd >= 0) gale__file_map_close(&f->map);
    gale__arena_finish(&f->arena);
    gale__free(f);
    *file = NULL;
}

int gale_exr_part_count(const gale_exr *f)
{
    if (!f) return gale__lack(__func__, "file"), 0;
    return f->count;
}

const gale_exr_part *gale_exr_part_get(const gale_exr *f, int part)
{
    if (!f) return gale__lack(__func__, "file"), NULL;
    return part >= 0 && part < f->count ? &f->parts[part] : NULL;
}

uint64_t gale_exr_size_bytes(const gale_exr *f)
{
    if (!f) return gale__lack(__func__, "file"), 0;
    return f->size;
}
