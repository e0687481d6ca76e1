/* Compressed files may contain several streams in a row (pigz and pzstd write them); reading continues with the next
 * one. */
#include "text/text_file.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#ifdef GALE_HAVE_ZLIB
#include <zlib.h>
#endif
#ifdef GALE_HAVE_ZSTD
#include <zstd.h>
#endif

enum { PIECE = 1 << 18 };

struct gale__text_file {
    FILE *file;
    char *path;
    uint8_t *in;
    size_t at, have;   /* of `in` */
    uint64_t taken;    /* bytes of the file */
    bool over, inside; /* the file is read; a packed stream is not at its end */
    enum { PLAIN, GZIP, ZSTD } kind;
#ifdef GALE_HAVE_ZLIB
    z_stream z;
    bool z_open;
#endif
#ifdef GALE_HAVE_ZSTD
    ZSTD_DCtx *zstd;
#endif
};

static gale_status fill(gale__text_file *f)
{
    if (f->at < f->have || f->over) return GALE_OK;
    f->at = 0;
    f->have = fread(f->in, 1, PIECE, f->file);
    f->taken += f->have;
    if (f->have) return GALE_OK;
    if (ferror(f->file)) return gale__fail(GALE_IO, "%s: cannot read: %s", f->path, strerror(errno));
    f->over = true;
    return GALE_OK;
}

#if defined GALE_HAVE_ZLIB || defined GALE_HAVE_ZSTD
static gale_status damaged(const gale__text_file *f, const char *why)
{
    return gale__fail(GALE_FORMAT, "%s: the %s stream is damaged: %s", f->path, f->kind == GZIP ? "gzip" : "zstd", why);
}
#endif

#ifdef GALE_HAVE_ZLIB
/* zlib's memory is the library's own, so that it is counted. */
static void *z_alloc(void *user, unsigned count, unsigned size)
{
    (void)user;
    return gale__calloc(count, size);
}
static void z_free(void *user, void *p)
{
    (void)user;
    gale__free(p);
}

static gale_status read_gzip(gale__text_file *f, void *to, size_t room, size_t *got)
{
    while (!*got) {
        GALE_TRY(fill(f));
        if (f->over) return f->inside ? damaged(f, "unexpected end") : GALE_OK;
        f->z.next_in = f->in + f->at;
        f->z.avail_in = (unsigned)(f->have - f->at);
        f->z.next_out = to;
        f->z.avail_out = (unsigned)(room < PIECE ? room : PIECE);
        size_t asked = f->z.avail_out;
        int result = inflate(&f->z, Z_NO_FLUSH);
        if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
            return result == Z_MEM_ERROR ? GALE_NO_MEMORY : damaged(f, f->z.msg ? f->z.msg : "invalid data");
        f->at = f->have - f->z.avail_in;
        *got = asked - f->z.avail_out;
        f->inside = result != Z_STREAM_END;
        if (result == Z_STREAM_END) inflateReset(&f->z);
    }
    return GALE_OK;
}
#endif

#ifdef GALE_HAVE_ZSTD
static gale_status read_zstd(gale__text_file *f, void *to, size_t room, size_t *got)
{
    while (!*got) {
        GALE_TRY(fill(f));
        if (f->over) return f->inside ? damaged(f, "unexpected end") : GALE_OK;
        ZSTD_inBuffer in = {f->in, f->have, f->at};
        ZSTD_outBuffer out = {to, room, 0};
        size_t result = ZSTD_decompressStream(f->zstd, &out, &in);
        if (ZSTD_isError(result)) return damaged(f, ZSTD_getErrorName(result));
        f->at = in.pos;
        *got = out.pos;
        f->inside = result != 0;
    }
    return GALE_OK;
}
#endif

static gale_status begin_gzip(gale__text_file *f)
{
#ifdef GALE_HAVE_ZLIB
    f->z.zalloc = z_alloc;
    f->z.zfree = z_free;
    f->z_open = inflateInit2(&f->z, 15 + 16) == Z_OK;
    return f->z_open ? GALE_OK : GALE_NO_MEMORY;
#else
    return gale__fail(GALE_UNSUPPORTED,
        "%s: compressed with gzip, which this build of gale does not support (install zlib1g-dev and rebuild)",
        f->path);
#endif
}

static gale_status begin_zstd(gale__text_file *f)
{
#ifdef GALE_HAVE_ZSTD
    f->zstd = ZSTD_createDCtx();
    return f->zstd ? GALE_OK : gale__fail(GALE_NO_MEMORY, "%s: out of memory for decompression", f->path);
#else
    return gale__fail(GALE_UNSUPPORTED,
        "%s: compressed with zstd, which this build of gale does not support (install libzstd-dev and rebuild)",
        f->path);
#endif
}

static gale_status find_kind(gale__text_file *f)
{
    GALE_TRY(fill(f));
    if (f->have >= 2 && f->in[0] == 0x1f && f->in[1] == 0x8b) {
        f->kind = GZIP;
        return begin_gzip(f);
    }
    if (f->have >= 4 && !memcmp(f->in, "\x28\xb5\x2f\xfd", 4)) {
        f->kind = ZSTD;
        return begin_zstd(f);
    }
    return GALE_OK;
}

gale_status gale__text_file_open(const char *path, gale__text_file **out)
{
    bool standard = !strcmp(path, "-");
    gale__text_file *f = gale__calloc(1, sizeof *f);
    if (!f) return GALE_NO_MEMORY;
    f->path = gale__strdup(standard ? "standard input" : path);
    f->in = gale__alloc(PIECE);
    gale_status status = f->path && f->in ? GALE_OK : GALE_NO_MEMORY;
    if (status == GALE_OK) {
        f->file = standard ? stdin : fopen(path, "rb");
        if (!f->file) status = gale__fail(errno == ENOENT ? GALE_NOT_FOUND : GALE_IO, "%s: %s", path, strerror(errno));
        else if (!standard) setvbuf(f->file, NULL, _IONBF, 0);
    }
    if (status == GALE_OK) status = find_kind(f);
    if (status == GALE_OK) *out = f;
    else gale__text_file_close(&f);
    return status;
}

void gale__text_file_close(gale__text_file **file)
{
    gale__text_file *f = *file;
    if (!f) return;
    if (f->file && f->file != stdin) fclose(f->file);
#ifdef GALE_HAVE_ZLIB
    if (f->z_open) inflateEnd(&f->z);
#endif
#ifdef GALE_HAVE_ZSTD
    ZSTD_freeDCtx(f->zstd);
#endif
    gale__free(f->in);
    gale__free(f->path);
    gale__free(f);
    *file = NULL;
}

uint64_t gale__text_file_taken(const gale__text_file *f) { return f->taken; }

gale_status gale__text_file_read(gale__text_file *f, void *to, size_t room, size_t *got)
{
    *got = 0;
#ifdef GALE_HAVE_ZLIB
    if (f->kind == GZIP) return read_gzip(f, to, room, got);
#endif
#ifdef GALE_HAVE_ZSTD
    if (f->kind == ZSTD) return read_zstd(f, to, room, got);
#endif
    GALE_TRY(fill(f));
    *got = f->have - f->at < room ? f->have - f->at : room;
    if (*got) memcpy(to, f->in + f->at, *got);
    f->at += *got;
    return GALE_OK;
}
