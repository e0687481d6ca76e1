/* The configuration in an encoder's folder: location of model and tokenizer, pooling, maximum length, and prompts. */
#ifndef GALE_JOBS_EMBED_ENCODER_FOLDER_H
#define GALE_JOBS_EMBED_ENCODER_FOLDER_H
#include "base/json.h"
#include "gale/embed.h"
#include "jobs/embed/encoder_dense.h"

enum { GALE__DENSE_MOST = 4 };
typedef struct gale__encoder_folder {
    gale__arena arena;
    const char *path, *model;            /* the folder, and the ONNX file */
    const char *family;                  /* config.json's model_type, "" */
    gale_pooling pooling;                /* GALE_POOLING_AUTO: not specified */
    bool prompt_in_pooling;              /* tokens of the prompt count when pooling */
    const char *other_module;            /* one that only a model which pools by itself can have, or NULL */
    gale__dense dense[GALE__DENSE_MOST]; /* between pooling and normalisation */
    int n_dense;
    bool lower;                 /* texts are written in lower case first */
    int64_t max_length;         /* 0: not specified */
    int64_t pad_id, vocabulary; /* -1, 0: not specified */
    const gale__json *prompts;  /* texts by name, or NULL */
    const char *prompt_name;    /* the default one, or NULL */
} gale__encoder_folder;

/* path and file as in gale_embedder_open. */
gale_status gale__encoder_folder_open(const char *path, const char *file, gale__encoder_folder *out);
void gale__encoder_folder_finish(gale__encoder_folder *f);
/* The text in front of every text, never NULL.  GALE_NOT_FOUND lists the names there are. */
gale_status gale__encoder_folder_prompt(const gale__encoder_folder *f, const char *name, const char **out);
#endif
