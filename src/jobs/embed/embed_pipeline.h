/* Internals of the pipeline: windows of texts go around a ring, from the reader to the tokenizer, to lanes that run
 * batches, to the writer.  A window is sorted by length, and its batches may run in any order and concurrently with
 * those of the next one; windows are written in the order they were read. */
#ifndef GALE_JOBS_EMBED_EMBED_PIPELINE_H
#define GALE_JOBS_EMBED_EMBED_PIPELINE_H
#include "base/thread.h"
#include "jobs/embed/embedder.h"
#include "jobs/embed/vector_cache.h"
#include "jobs/embed/vector_sink.h"
#include "text/records.h"
#include <stdatomic.h>

enum { GALE__WINDOWS_MOST = 8, GALE__LANES_MOST = 64, GALE__WINDOW_TEXT = 16 << 20, GALE__WAITING_MOST = 16384 };

typedef enum gale__window_state {
    GALE__WINDOW_FREE,
    GALE__WINDOW_READ,
    GALE__WINDOW_READY, /* tokenized, sorted and cut into batches */
    GALE__WINDOW_DONE   /* all of its texts ran */
} gale__window_state;

/* Tokens of some neighbouring texts, made by one thread. */
typedef struct gale__token_chunk {
    uint32_t *tokens;
    size_t used, capacity;
    uint64_t empty, truncated;
    gale_status status;
} gale__token_chunk;

typedef struct gale__window {
    gale__window_state state;
    bool last; /* nothing comes after it */
    char *text;
    size_t text_size, text_capacity;
    gale__vector_text *texts; /* into `text`, once it no longer grows */
    size_t count;
    uint64_t hash;   /* of the texts up to its end */
    gale__row *rows; /* of the texts that have to run; then those of its batches, with texts of the window before */
    size_t n_rows;
    uint32_t *numbers;      /* of their texts */
    gale__vector_key *keys; /* of the texts; NULL without a cache */
    gale__token_chunk *chunks;
    float *vectors; /* [count, dims] */
    gale__batch *batches;
    size_t n_batches, next;
    size_t left; /* of its texts, in whichever window's batches they are */
    bool taken;  /* all of its batches were */
    uint64_t tokens, padding;
} gale__window;

struct gale__pipeline;
typedef struct gale__lane {
    struct gale__pipeline *pipeline;
    int site;
    bool alone; /* it keeps to its core */
} gale__lane;

typedef struct gale__pipeline {
    gale_embedder *e;
    const gale_embed_options *options;
    gale_embedder_info info;
    gale__records *records;
    gale__vector_sink sink;
    gale__vector_cache *cache;                /* NULL: none */
    char settings[65];                        /* of the model, for its keys */
    gale__window windows[GALE__WINDOWS_MOST]; /* a ring */
    size_t n_windows, window_texts;
    gale__lane lane[GALE__LANES_MOST];
    int lanes;
    uint64_t first, most;              /* of the shard: texts to pass over, texts to take */
    gale__batch_shapes known, *shapes; /* NULL: a batch takes much longer than its plan */
    bool packs;                        /* texts share rows */
    gale__row *waiting; /* texts of the window before that did not fill a batch; they are in the next one's */
    size_t n_waiting;
    gale__row_maker *makers; /* one for each worker of the pool, made by the worker */
    gale__mutex lock;
    gale__cond changed;
    bool stop;
    size_t taking;  /* the window whose batches are being taken */
    bool all_taken; /* there will be no more batches */
    gale_status status;
    char message[1024];
    gale_embed_report report; /* under the lock */
} gale__pipeline;

/* From any thread: the first failure stays, and everybody stops. */
void gale__pipeline_fail(gale__pipeline *p, gale_status status);
bool gale__pipeline_stopped(gale__pipeline *p);
/* Waits until the window is in the state, or all stops (false). */
bool gale__pipeline_wait(gale__pipeline *p, const gale__window *w, gale__window_state state);
void gale__pipeline_set(gale__pipeline *p, gale__window *w, gale__window_state state);

/* embed_read.c: threads' functions; arg is the pipeline. */
void gale__pipeline_read(void *arg);
void gale__pipeline_tokenize(void *arg);
gale_status gale__pipeline_count(gale__pipeline *p, uint64_t *texts);               /* reads all inputs once */
gale_status gale__pipeline_skip(gale__pipeline *p, uint64_t texts, uint64_t *hash); /* passes over what was done */
gale_status gale__pipeline_open_records(gale__pipeline *p, gale__records **out);
#endif
