/* Pooling and normalisation, appended to an encoder's own graph, so that only vectors leave the device.
 *
 * Mean, first token, last token and their kin are one thing: a product of a row of weights, one for each token, with
 * the tokens' vectors.  The weights are an input that the host fills; padding has weight 0. */
#ifndef GALE_JOBS_EMBED_COMPOSE_H
#define GALE_JOBS_EMBED_COMPOSE_H
#include "gale/embed.h"
#include "jobs/embed/encoder_dense.h"
#include "onnx/wire/proto.h"

#define GALE__POOL_INPUT "gale.weights" /* f32, [texts, 1, tokens]; for maxima [texts, tokens, 1] */
#define GALE__POOL_NOTHING (-1e30f)     /* of maxima: what is added where nothing counts; below all numbers */
#define GALE__POOL_OUTPUT "gale.vectors"
/* Packed rows hold several texts one after the other.  Then weights are [rows, tokens] for any pooling, and more is
 * given, all i32: */
#define GALE__PACK_SEGMENTS "gale.segments" /* [rows, tokens]: which text of the row, from 0; padding is -1 */
#define GALE__PACK_EACH "gale.each"         /* [most texts in a row]: 0, 1, 2 ... */
#define GALE__PACK_TEXTS "gale.texts"       /* [texts]: row * most texts in a row + which of the row */
#define GALE__PACK_PLACES "gale.places"     /* [rows, tokens]: which token of its text, from 0 */

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
    int64_t vocabulary;  /* rows of the embedding table; 0: not found */
    bool packed, places; /* places: GALE__PACK_PLACES is an input */
} gale__composed;
typedef struct gale__compose_how {
    gale_pooling wanted, folder;
    int64_t dims; /* numbers to keep; 0: all */
    bool normalize;
    bool packed;              /* GALE_UNSUPPORTED where that cannot be done */
    bool wide;                /* halves of the model are f32 */
    const gale__dense *dense; /* applied to what is pooled here; they outlive the file */
    int n_dense;
} gale__compose_how;
/* Changes the messages of a file that was just opened.  Errors do not name the file. */
gale_status gale__compose(gale__onnx *file, const gale__compose_how *how, gale__composed *out);
#endif
