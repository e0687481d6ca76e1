/* Internals of an opened file: the source of its bytes, and access for the rest of the room. */
#ifndef GALE_ONNX_FILE_H
#define GALE_ONNX_FILE_H
#include "base/file.h"
#include "base/thread.h"
#include "onnx/wire/schema.h"

/* Bytes by number: memory, or a file that is read piece by piece.  Mapped memory is never touched, so that a file that
 * shrinks meanwhile is an error and not the end of the process. */
typedef struct gale__pb_source {
    const char *name;      /* for messages */
    const uint8_t *memory; /* NULL: in the map */
    gale__file_map map;
    uint64_t size;
} gale__pb_source;
gale_status gale__pb_source_read(const gale__pb_source *source, uint64_t offset, size_t size, void *to);

/* A file of external data; they stay open as long as the model's. */
typedef struct gale__pb_outside {
    struct gale__pb_outside *next;
    char *location;
    gale__pb_source source;
    char wanted[41],
        found[41];    /* SHA-1: as the model says, "" when it does not; as it is, "" before anything was read */
    char *tensor;     /* the first one with that checksum */
    gale__mutex lock; /* of `found` */
} gale__pb_outside;

struct gale__onnx {
    _Atomic int refs;
    gale__arena arena;
    gale__pb_kind kind;
    void *root;
    char *path, *folder; /* folder NULL: no external data */
    void *copy;          /* owned memory, or NULL */
    gale__onnx *base;    /* whose bytes these are, held; NULL: its own */
    gale__pb_source source;
    gale__mutex lock; /* of `outside` */
    gale__pb_outside *outside;
    _Atomic uint64_t dense_bytes,
        sparse_bytes; /* of sparse tensors that were made dense so far: then, and their values */
};

/* read.c: the whole source as one message. */
gale_status gale__pb_read(const gale__pb_source *source, gale__pb_which which, gale__arena *arena, void **out);

/* Where the raw bytes of a tensor are: in memory, else in a source. */
typedef struct gale__pb_place {
    const void *memory;
    const gale__pb_source *source;
    uint64_t offset, size;
} gale__pb_place;
gale_status gale__onnx_place(gale__onnx *file, const gale__pb_tensor *tensor, gale__pb_place *out);
/* How many bytes its shape asks for (tensor_data.c). */
gale_status gale__pb_raw_bytes(const gale__pb_tensor *tensor, size_t *out);
/* external.c: the same for external data. */
bool gale__pb_is_external(const gale__pb_tensor *tensor);
gale_status gale__onnx_place_outside(gale__onnx *file, const gale__pb_tensor *tensor, gale__pb_place *out);
void gale__onnx_close_outside(gale__onnx *file);
gale_status gale__pb_place_read(const gale__pb_place *place, uint64_t offset, size_t size, void *to);
#endif
