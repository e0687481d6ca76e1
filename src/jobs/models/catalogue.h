/* Catalogues: files that list models to fetch by name.
 *
 *     models:
 *       - name: zoom2x
 *         url: https://example.org/zoom2x.onnx
 *         sha256: 9f86d0...
 *         size: 3194426
 *         licence: CC0
 *         manifest: https://example.org/zoom2x.yml
 *         manifest_sha256: 60303a...
 *
 * YAML or JSON; name and url are needed. */
#ifndef GALE_JOBS_CATALOGUE_H
#define GALE_JOBS_CATALOGUE_H
#include "base/str.h"

typedef struct gale__offer {
    const char *name, *url, *licence, *manifest; /* the last two "" where not specified */
    const char *sha256, *manifest_sha256;        /* in lower case; NULL: not specified */
    uint64_t size_bytes;                         /* 0: not specified */
} gale__offer;
typedef struct gale__catalogue {
    gale__arena arena;
    gale__offer *offers;
    size_t count;
} gale__catalogue;
gale_status gale__catalogue_parse(
    const char *text, size_t size, gale__catalogue *out); /* the message names the model and the key */
gale_status gale__catalogue_read(const char *path, gale__catalogue *out);
void gale__catalogue_finish(gale__catalogue *c);
/* GALE_NOT_FOUND lists those that are there. */
gale_status gale__catalogue_find(const gale__catalogue *c, const char *name, const gale__offer **out);

/* The name of the file for a model called `name`: with .onnx unless it ends so or as a manifest does.  A name comes
 * from outside and must stay inside its folder: GALE_INVALID for one with a separator, a leading dot or control
 * characters. */
gale_status gale__model_file_name(const char *name, gale__str *out);
/* The last part of a URL's path: what the file is called there. */
gale_status gale__url_name(const char *url, gale__str *out);
#endif
