/* Dense layers between pooling and normalisation, as sentence-transformers writes them: a folder with config.json and
 * model.safetensors. */
#ifndef GALE_JOBS_EMBED_ENCODER_DENSE_H
#define GALE_JOBS_EMBED_ENCODER_DENSE_H
#include "gale/base.h"
#include "base/json.h"

typedef struct gale__dense {
    int64_t in, out;
    const float *weight;    /* [out][in] */
    const float *bias;      /* [out] */
    const char *activation; /* ONNX's name; "": none */
    const char *file;       /* of the weights */
} gale__dense;
/* Everything is in the arena.  config: of this layer; NULL: there is none. */
gale_status gale__dense_read(gale__arena *arena, const char *folder, const gale__json *config, gale__dense *out);
#endif
