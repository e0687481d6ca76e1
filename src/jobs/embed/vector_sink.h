/* Destination of vectors: a file in one of several formats, new or resumed, or a function of the caller. */
#ifndef GALE_JOBS_EMBED_VECTOR_SINK_H
#define GALE_JOBS_EMBED_VECTOR_SINK_H
#include "base/file.h"
#include "base/thread.h"
#include "gale/embed.h"

typedef struct gale__vector_text {
    const char *at;
    size_t size;
} gale__vector_text;

typedef struct gale__vector_sink {
    const gale_embed_options *options;
    gale_vector_format format;
    int64_t dims;
    uint64_t rows, bytes; /* written */
    uint64_t pending;     /* bytes of rows that are being written */
    uint64_t first_row;   /* the number of the shard's first text */
    gale__file_out file;
    char *journal;       /* path; NULL: nothing is resumed */
    char settings[65];   /* what the output depends on, hashed */
    uint64_t input_hash; /* of the texts behind `rows` */
    /* Bringing bytes to the disk takes longer than making them: a thread of its own does it, and writes the journal. */
    gale__mutex lock; /* of rows, bytes, input_hash and what follows */
    gale__cond wake;
    gale__thread saver;
    bool saving, ending;
    gale_status save_status;
    char save_message[512];
} gale__vector_sink;

/* Checks format and type, finds what a run before has left.  settings: of model and inputs.  The sink stays where it
 * is: close it also where opening failed. */
gale_status gale__vector_sink_open(
    const gale_embed_options *options, int64_t dims, const char *settings, gale__vector_sink *s);
/* texts may be NULL. */
gale_status gale__vector_sink_add(
    gale__vector_sink *s, const float *vectors, const gale__vector_text *texts, size_t count, uint64_t input_hash);
gale_status gale__vector_sink_save(gale__vector_sink *s); /* now, so that the job can be resumed */
gale_status gale__vector_sink_end(gale__vector_sink *s);
void gale__vector_sink_close(gale__vector_sink *s);          /* keeps the files of an unfinished job for resuming */
gale_status gale__vector_sink_restart(gale__vector_sink *s); /* the inputs are others: all is forgotten */

/* vector_text.c: rows as text. */
void gale__vector_text_add(gale__str *out, gale_vector_format format, int64_t dims, uint64_t number,
    const float *vector, const gale__vector_text *text);
#endif
