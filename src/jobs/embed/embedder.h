/* Building blocks of an embedder for pipelines: texts become rows of tokens, rows become batches, batches run. */
#ifndef GALE_JOBS_EMBED_EMBEDDER_H
#define GALE_JOBS_EMBED_EMBEDDER_H
#include "base/str.h"
#include "gale/embed.h"
#include "gale/text.h"

/* A text as the model takes it.  A token is its number, with its type in the highest 8 bits. */
typedef struct gale__row {
    const uint32_t *tokens;
    uint32_t count;
    uint32_t skip;   /* of them, tokens in front that pooling leaves out */
    float *out;      /* where its vector goes */
    uint32_t waited; /* how often it was left over */
} gale__row;

/* What one thread needs to make rows. */
typedef struct gale__row_maker {
    gale_encoder *encoder;
    gale__str text; /* with the prompt in front */
    bool made;
} gale__row_maker;
gale_status gale__row_maker_init(const gale_embedder *e, gale__row_maker *out);
void gale__row_maker_finish(gale__row_maker *m);
/* Appends the tokens of a text to a growing list; *count of them, of which pooling skips *skip. */
gale_status gale__row_make(const gale_embedder *e, gale__row_maker *m, const char *text, size_t size, uint32_t **tokens,
    size_t *used, size_t *capacity, uint32_t *count, uint32_t *skip);

/* token_batch.c: how rows that are sorted by length, the longest first, are cut into runs of few different shapes. */
typedef struct gale__batch {
    size_t first, count;  /* rows */
    size_t slots, length; /* the shape of the run: at least as many rows and tokens */
    size_t each, texts;   /* packed: most texts in a slot, and vectors of the run; 0: a slot is one text */
} gale__batch;
/* Shapes that runs have had, and for others how many tokens of padding they would have saved. */
typedef struct gale__batch_shapes {
    struct gale__batch_shape {
        size_t slots, length, missed;
        bool made;
    } list[256];
    int n;
    size_t price; /* of a new one, in tokens: it is made when padding that it would have saved has cost as much */
} gale__batch_shapes;
/* tokens: most in a run, padding included; 0 rows left: count 0.  shapes: NULL if they cost nothing. */
void gale__batch_next(const gale__row *sorted, size_t rows, size_t first, size_t tokens, size_t rows_most,
    size_t length_most, gale__batch_shapes *shapes, gale__batch *out);
/* The length that texts of n tokens are padded to. */
size_t gale__length_class(size_t n, bool single, size_t most);
/* token_pack.c: sorted rows in a new order, and the batches to run them in; batches: room for one per row.  Texts of
 * at most GALE__PACK_LENGTH tokens are in rows of one length, `each` is at least GALE__PACK_EACH_LEAST.  Those that
 * would not fill a batch are at the end: at most *left, which becomes their number; NULL: they are in a smaller one. */
enum { GALE__PACK_LENGTH = 64, GALE__PACK_EACH_LEAST = 16 };
gale_status gale__pack(gale__row *rows, size_t count, size_t tokens, size_t length_most, gale__batch *batches,
    size_t *n_batches, size_t *left);
/* Where the next text of a packed batch is: beside the one before it if it fits, else in the next slot.  From 0;
 * false: the batch has no more slots. */
typedef struct gale__slot {
    size_t number, at, end; /* the slot, and the text's tokens in it */
    size_t texts;           /* in the slot so far */
} gale__slot;
bool gale__slot_next(gale__slot *s, const gale__row *row, const gale__batch *b);
/* Sorts them, the longest first; equals keep their order. */
gale_status gale__rows_sort(gale__row *rows, size_t count);
/* Rows in a new order, and the batches to run them in, packed or not. */
typedef struct gale__batch_how {
    bool packs;
    size_t tokens, texts;       /* most in a run; texts 0: any number */
    gale__batch_shapes *shapes; /* as for gale__batch_next */
    size_t *left;               /* as for gale__pack */
} gale__batch_how;
gale_status gale__rows_batch(const gale_embedder *e, gale__row *rows, size_t count, const gale__batch_how *how,
    gale__batch *batches, size_t *n_batches);

/* Runs a batch, whose rows begin at `rows`; what they leave of its slots is padding.  Memory that is short halves the
 * batch, and a device that fails is left for the next of its chain. */
gale_status gale__embedder_run(gale_embedder *e, int site, const gale__row *rows, const gale__batch *b);
/* encoder_pack.c: prepares for packed batches.  *packs: whether they may be run; why: if not, the reason. */
gale_status gale__embedder_pack(gale_embedder *e, bool *packs, const char **why);
/* The shape of most packed batches, with one text in it; tokens: as for gale__embedder_tokens. */
gale__batch gale__batch_packed(const gale_embedder *e, size_t tokens);
/* Whether a text may share a slot with others. */
bool gale__embedder_shares(const gale_embedder *e, const gale__row *row);
/* Sites are the devices that run side by side, from 0. */
int gale__embedder_sites(const gale_embedder *e);
/* Tokens that a run should have on these devices: `wanted`, 0: what suits them, as far as memory has room. */
size_t gale__embedder_tokens(const gale_embedder *e, size_t wanted);
gale_device *gale__embedder_device(const gale_embedder *e, int site);
/* SHA-256 of what vectors depend on beside the text: the model's file, the tokenizer's and the settings. */
gale_status gale__embedder_key(gale_embedder *e, char hex[65]);
#endif
