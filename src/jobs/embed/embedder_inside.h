/* Internals of an embedder, for its own files. */
#ifndef GALE_JOBS_EMBED_EMBEDDER_INSIDE_H
#define GALE_JOBS_EMBED_EMBEDDER_INSIDE_H
#include "base/context.h"
#include "base/thread.h"
#include "jobs/embed/compose.h"
#include "jobs/embed/embedder.h"
#include "jobs/embed/encoder_folder.h"
#include <stdatomic.h>

/* GALE__LANES_DEVICE: runs that share a GPU. */
enum {
    GALE__LANES_DEVICE = 5,
    GALE__ROW_MAKERS = 16,
    GALE__SITES = GALE_EMBED_DEVICES,
    GALE__HEURISTIC_TOKENS = 32768
};

/* The model on one device. */
typedef struct gale__encoder_place {
    gale_model *model, *packed; /* NULL until a batch is run that needs it; under the lock */
    gale_device *device;
    bool own; /* the device was opened here */
    struct gale__encoder_place *before;
} gale__encoder_place;
/* A device that the encoder was given, and above it what it was left for. */
typedef struct gale__encoder_site {
    _Atomic(gale__encoder_place *) place;
    _Atomic bool lost; /* its work goes to the other sites */
} gale__encoder_site;

struct gale_embedder {
    double predicted_us;   /* of GALE__PLACE_TOKENS tokens, where the device was chosen by that; else -1 */
    gale_context *context; /* held: of the device that it was opened with */
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
    gale__encoder_site sites[GALE__SITES];
    int n_sites;
    _Atomic size_t tokens; /* in a run by default, */
    _Atomic size_t fits;   /* and what memory has room for; 0: more was never tried */
    gale__mutex lock;      /* of changing place, and of makers */
    gale__row_maker makers[GALE__ROW_MAKERS];
    int n_makers;
    struct {
        bool wanted, tried, on;
        char why[512]; /* it is off */
        gale__composed composed;
    } pack; /* under the lock until it was tried */
};

/* SHA-256 of the model's file and of what its graph is composed for. */
gale_status gale__embedder_model_key(const gale_embedder *e, char hex[65]);
/* encoder_pack.c: whether packed batches are known to be right on such a device.  Then models are opened packed, and
 * otherwise only when they are needed. */
gale_status gale__embedder_recall_packing(gale_embedder *e, const gale_device *device);

/* encoder_choice.c: moves an encoder that is open on `other`, the CPU, to the device if a batch is predicted to be done
 * first there. */
enum { GALE__PLACE_TOKENS = 1024 };
gale_status gale__encoder_choose(gale_embedder *e, gale_device *device, gale_device *other);
/* encoder_place.c: one more device; what to do after a failure that is the device's; the end. */
gale_status gale__encoder_site_open(gale_embedder *e, gale_device *device);
void gale__encoder_site_close(gale__encoder_site *s);
bool gale__encoder_may_move(gale_status status);
gale_status gale__encoder_move(
    gale_embedder *e, gale__encoder_site *s, gale__encoder_place *failed, gale_status status);

/* Its model for a device, as it is or packed, or with f32 for halves (out NULL: only how it is composed); and packed at
 * all sites. */
gale_status gale__encoder_model(gale_embedder *e, gale_device *device, const gale_model_options *options, bool packed,
    bool wide, gale__composed *composed, gale_model **out);
gale_status gale__encoder_open_packed(gale_embedder *e);

/* encoder_run.c: rows of tokens as the model's inputs; to be finished also after a failure. */
typedef struct gale__encoder_feed {
    gale_tensor *tensors[GALE__TEXT_INPUTS + 5];
    const char *names[GALE__TEXT_INPUTS + 5];
    int n;
} gale__encoder_feed;
gale_status gale__encoder_feed_make(
    const gale_embedder *e, const gale__row *rows, const gale__batch *b, gale__encoder_feed *out);
void gale__encoder_feed_finish(gale__encoder_feed *f);
/* The same of a packed batch (encoder_pack.c). */
gale_status gale__encoder_feed_packed(
    const gale_embedder *e, const gale__row *rows, const gale__batch *b, gale__encoder_feed *out);
/* Of token i, if pooling begins at `first` of `count`; of maxima, what is added to it. */
float gale__pooling_weight(gale_pooling pooling, size_t i, size_t first, size_t count);
/* Rows through the model at one place, without a second try. */
gale_status gale__encoder_run_once(
    const gale_embedder *e, gale__encoder_place *p, const gale__row *rows, const gale__batch *b, gale_tensor **out);
gale_status gale__encoder_run_at(
    const gale_embedder *e, gale__encoder_place *p, const gale__row *rows, const gale__batch *b);
#endif
