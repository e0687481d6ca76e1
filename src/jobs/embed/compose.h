/* Pooling and normalisation, appended to an encoder's own graph, so that only vectors leave the device.
 *
 * Mean, first token, last token and their kin are one thing: a product of a row of weights, one for each token, with
 * the tokens' vectors.  The weights are an input that the host fills; padding has weight 0. */
#ifndef GALE_JOBS_EMBED_COMPOSE_H
#define GALE_JOBS_EMBED_COMPOSE_H
#include "gale/embed.h"
#include "onnx/wire/proto.h"

#define GALE__POOL_INPUT "gale.weights" /* f32, [texts, 1, tokens]; for maxima [texts, tokens, 1] */
#define GALE__POOL_OUTPUT "gale.vectors"

typedef enum gale__text_input {
    GALE__TEXT_IDS,
    GALE__TEXT_MASK,
    GALE__TEXT_TYPES,
    GALE__TEXT_POSITIONS,
    GALE__TEXT_INPUTS
} gale__text_input;
extern const char *const gale__text_input_names[GALE__TEXT_INPUTS];

typedef struct gale__composed {
    bool takes[GALE__TEXT_INPUTS];
    gale_type types[GALE__TEXT_INPUTS]; /* i64 or i32 */
    gale_pooling pooling;
    int64_t vocabulary; /* rows of the embedding table; 0: not found */
} gale__composed;
/* Changes the messages of a file that was just opened.  dims: numbers to keep; 0: all.  Errors do not name the file. */
gale_status gale__compose(
    gale__onnx *file, gale_pooling wanted, gale_pooling folder, int64_t dims, bool normalize, gale__composed *out);
#endif
