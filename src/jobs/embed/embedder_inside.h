/* Internals of an embedder, for its own files. */
#ifndef GALE_JOBS_EMBED_EMBEDDER_INSIDE_H
#define GALE_JOBS_EMBED_EMBEDDER_INSIDE_H
#include "base/thread.h"
#include "jobs/embed/compose.h"
#include "jobs/embed/embedder.h"
#include "jobs/embed/encoder_folder.h"
#include <stdatomic.h>

enum { GALE__ROW_MAKERS = 16 };

/* The model on one device. */
typedef struct gale__encoder_place {
    gale_model *model;
    gale_device *device;
    bool own; /* the device was opened here */
    struct gale__encoder_place *before;
} gale__encoder_place;

struct gale_embedder {
    gale__encoder_folder folder;
    gale_tokenizer *tokenizer;
    bool heuristic; /* no model: rows are the vectors themselves, number by number */
    gale_model_options options;
    gale_embedder_info info;
    gale__composed composed;
    gale_pooling wanted;
    int64_t dims_wanted;
    uint32_t pad_id, prompt_tokens;
    size_t prompt_size;
    _Atomic(gale__encoder_place *) place;
    _Atomic size_t tokens; /* in a run */
    gale__mutex lock;      /* of changing place, and of makers */
    gale__row_maker makers[GALE__ROW_MAKERS];
    int n_makers;
};

/* encoder_run.c: rows through the model at one place, without a second try. */
gale_status gale__encoder_run_once(const gale_embedder *e, gale__encoder_place *p, const gale__row *rows, size_t count,
    size_t slots, size_t length, gale_tensor **out);
gale_status gale__encoder_run_at(
    const gale_embedder *e, gale__encoder_place *p, const gale__row *rows, size_t count, size_t slots, size_t length);
#endif
