/* Text to vectors: sentence encoders as ONNX models.
 *
 *     gale_embedder *e;
 *     gale_embedder_info info;
 *     gale_embedder_open("all-MiniLM-L6-v2", device, NULL, &e);
 *     gale_embedder_get_info(e, &info);
 *     float vector[384];                                         // info.dims
 *     gale_embed(e, &text, NULL, 1, vector);
 *
 * The folder is one that optimum or sentence-transformers exports: model.onnx or onnx/model.onnx, a tokenizer, and the
 * configuration that says how tokens become one vector (docs/text.md lists the files).  Pooling and normalisation are
 * part of the graph that runs on the device.  Padding never changes a vector, and a text has the same vector in any
 * batch, except for rounding (1e-5 in fp32). */
#ifndef GALE_EMBED_H
#define GALE_EMBED_H

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gale_embedder gale_embedder; /* threads: any number at once */

/* How the vectors of a text's tokens are combined. */
typedef enum gale_pooling {
    GALE_POOLING_AUTO, /* as the folder says; default: mean */
    GALE_POOLING_MEAN,
    GALE_POOLING_CLS,       /* the first token's */
    GALE_POOLING_MAX,       /* the maximum of each component */
    GALE_POOLING_LAST,      /* the last token's */
    GALE_POOLING_MEAN_SQRT, /* the sum divided by the square root of the number of tokens */
    GALE_POOLING_WEIGHTED,  /* the mean with weights 1, 2, 3 ... */
    GALE_POOLING_MODEL,     /* done by the model: its output sentence_embedding */
    GALE_POOLING_COUNT
} gale_pooling;
/* "mean", "cls" ...; "?" out of range. */
GALE_API const char *gale_pooling_name(gale_pooling pooling);

/* Whether several texts share a row of a batch, so that little is padding and batches have few shapes.  Auto: on GPUs,
 * for files above 1 MiB.  It is not done where the model is not understood, as a test of the model's results shows, or
 * where batch_texts is given. */
typedef enum gale_packing { GALE_PACKING_AUTO, GALE_PACKING_ON, GALE_PACKING_OFF, GALE_PACKING_COUNT } gale_packing;

/* All zero: as the folder says. */
typedef struct gale_embedder_options {
    gale_pooling pooling;
    bool no_normalize;  /* do not normalise vectors to length 1 */
    int64_t dims;       /* keep the first N numbers (Matryoshka), then normalise; 0: all */
    int64_t max_length; /* tokens per text, including special ones; longer texts are truncated; 0: as the folder says */
    const char *prompt; /* prepended to every text; NULL: that of prompt_name */
    const char *prompt_name;  /* one of the folder's prompts, such as "query"; NULL: its default; "": none */
    const char *file;         /* the model's file inside the folder, such as "onnx/model_O3.onnx"; NULL: the default */
    gale_model_options model; /* such as precision */
    gale_packing packing; /* GALE_PACKING_ON: gale_embed packs its texts, and gale_embed_files opens no second form */
    uint64_t reserved[4]; /* 0 */
} gale_embedder_options;

/* path: a folder, an ONNX file in one, or a name in the models folder (GALE_MODELS).  "heuristic" needs no model: 64
 * numbers from words, their trigrams and counts of characters, which distinguish texts but not meanings.  options may
 * be NULL.
 * GALE_NOT_FOUND: no model or no tokenizer; GALE_MISMATCH: the tokenizer's vocabulary does not match the model;
 * GALE_UNSUPPORTED: the model has inputs or outputs that a text encoder does not have, or the folder needs a module
 * that gale does not support. */
GALE_API gale_status gale_embedder_open(
    const char *path, gale_device *device, const gale_embedder_options *options, gale_embedder **out);
GALE_API void gale_embedder_close(gale_embedder **embedder);

/* The encoder of a level ("none", "low", "medium" or "high", in any case), as a path for gale_embedder_open. In the
 * models folder these are paraphrase-MiniLM-L3-v2, paraphrase-MiniLM-L6-v2 or all-MiniLM-L6-v2, and all-mpnet-base-v2,
 * or a folder named after the level.  If the encoder of a level is missing, the next lower level is used, with a
 * warning in the log. GALE_NOT_FOUND: none is present; GALE_INVALID: unknown level, or "none". */
GALE_API gale_status gale_encoder_find_level(const char *level, char **path /* gale_free */);

typedef struct gale_embedder_info {
    const char *model;    /* path of the ONNX file; strings live as long as the embedder */
    const char *family;   /* "bert" ..., "" if unknown */
    const char *prompt;   /* prepended to texts; may be "" */
    int64_t dims;         /* numbers in a vector */
    int64_t max_length;   /* tokens */
    int64_t vocabulary;   /* number of tokens of the model; 0: unknown */
    gale_pooling pooling; /* never GALE_POOLING_AUTO */
    bool normalized;
    bool takes_mask, takes_types, takes_positions; /* inputs in addition to input_ids */
} gale_embedder_info;
GALE_API void gale_embedder_get_info(const gale_embedder *embedder, gale_embedder_info *out);
/* Where it runs.  A device that fails (out of memory with one text, lost, without something that the model needs) is
 * replaced by the next one of its chain, with a warning in the log.  With `strict` that is an error. */
GALE_API const gale_device *gale_embedder_device(const gale_embedder *embedder);
/* One more device for gale_embed_files, whose batches then run on all of them side by side; rows keep their order. They
 * should be equally fast: batches have the size that suits the smallest.  If a device fails, the others take its work.
 * Before the embedder is used; `device` must outlive it.  At most GALE_EMBED_DEVICES in all (GALE_LIMIT). */
enum { GALE_EMBED_DEVICES = 16 };
GALE_API gale_status gale_embedder_add_device(gale_embedder *embedder, gale_device *device);

/* Writes count rows of info.dims numbers.  sizes[i]: bytes of texts[i]; NULL: zero-terminated.  May be called from any
 * number of threads.  Texts are sorted and batched internally; if memory runs out, the batch is halved. */
GALE_API gale_status gale_embed(
    gale_embedder *embedder, const char *const *texts, const size_t *sizes, size_t count, float *vectors);

/* Runs batches of usual lengths and sizes, so that later runs need not wait for kernels to be compiled. */
GALE_API gale_status gale_embedder_warm(gale_embedder *embedder);

/* Smaller vectors.  int8: round(127 x), for vectors of length 1; binary: one bit per number, 1 if it is greater
 * than 0, the first in the highest bit, as NumPy's packbits. */
typedef enum gale_vector_type {
    GALE_VECTOR_F32,
    GALE_VECTOR_F16,
    GALE_VECTOR_INT8,
    GALE_VECTOR_BINARY,
    GALE_VECTOR_TYPE_COUNT
} gale_vector_type;
GALE_API const char *gale_vector_type_name(gale_vector_type type);
GALE_API size_t gale_vector_bytes(gale_vector_type type, int64_t dims);
GALE_API void gale_vector_pack(gale_vector_type type, int64_t dims, const float *vector, void *out);

/* Files of texts to a file of vectors, row for row in the same order.  Reading, tokenizing, computing and writing run
 * concurrently; memory use does not grow with the files.
 *
 * The result is written as OUT.part beside OUT.journal and renamed at the end.  An interrupted job resumes from the
 * journal if inputs and settings are the same. */
typedef enum gale_vector_format {
    GALE_VECTORS_AUTO, /* by the extension of the output, else .npy */
    GALE_VECTORS_NPY,
    GALE_VECTORS_JSONL,    /* {"index": 0, "vector": [...]} */
    GALE_VECTORS_CSV,      /* comma-separated numbers */
    GALE_VECTORS_RAW,      /* numbers only, row by row */
    GALE_VECTORS_FVECS,    /* each row preceded by its length in 32 bits */
    GALE_VECTORS_PGVECTOR, /* PostgreSQL's COPY: number, tab, [...] */
    GALE_VECTOR_FORMAT_COUNT
} gale_vector_format;
GALE_API const char *gale_vector_format_name(gale_vector_format format);

typedef enum gale_text_kind {
    GALE_TEXTS_AUTO, /* by the extension of a file, else lines */
    GALE_TEXTS_LINES,
    GALE_TEXTS_JSONL,
    GALE_TEXTS_CSV,
    GALE_TEXTS_TSV,
    GALE_TEXTS_FOOTPRINT /* one JSON object per line, embedded as plugin: X, operation: Y, key: value, meta.key: value
                          */
} gale_text_kind;

/* What has been done so far, and the final report. */
typedef struct gale_embed_report {
    uint64_t texts, resumed;          /* rows in the output; of these, from the previous run */
    uint64_t tokens, padding;         /* processed by the model in this run: tokens of texts, and padding */
    uint64_t empty, truncated, cut;   /* texts without tokens; with more tokens than the model accepts; above 64 MiB */
    uint64_t batches, bytes;          /* runs of the model; bytes written */
    uint64_t cached;                  /* texts whose vectors were in the cache */
    uint64_t read_bytes, input_bytes; /* of the files: so far, and in total; 0: unknown */
    double seconds, read_s, tokenize_s, compute_s, write_s; /* the last four overlap; compute_s is the sum over lanes */
    int lanes, devices;
    bool packed;                                    /* several texts share a row of a batch */
    uint64_t lengths[16];                           /* texts by tokens: up to 4, 8, 16 ... */
    uint64_t batches_by_device[GALE_EMBED_DEVICES]; /* in the order in which they were given */
} gale_embed_report;

/* Zero means the default, except for `files` and `output`. */
typedef struct gale_embed_options {
    const char *const *files; /* "-": standard input; gzip and zstd are detected by their first bytes */
    size_t file_count;
    gale_text_kind kind;
    const char *field; /* JSONL: a key; CSV, TSV: a column's name or number; NULL: "text" */
    const char *output;
    /* If not NULL, receives the bytes instead of `output`, without resuming.  Returns false on failure. */
    bool (*write)(void *user, const void *data, size_t size);
    gale_vector_format format;
    gale_vector_type type;
    int64_t batch_texts, batch_tokens; /* maximum per run; 0: chosen by device */
    int lanes;                         /* concurrent runs; 0: chosen by device */
    gale_packing packing;
    int64_t window;        /* texts sorted together; 0: chosen by device */
    int64_t shard, shards; /* part `shard` (from 0) of `shards` equal ones; 0 shards: all */
    bool cache;            /* store vectors in the cache folder and reuse them (SQLite) */
    bool restart;          /* start over instead of resuming */
    bool text;             /* JSONL: write the text too */
    /* Called from the calling thread a few times a second; false cancels (GALE_CANCELLED), and the job can be
     * resumed. */
    bool (*progress)(void *user, const gale_embed_report *so_far);
    void *user;
    /* May be set from another thread or a signal handler: a value other than 0 cancels too.  May be NULL. */
    const volatile int *cancel;
    uint64_t reserved[4]; /* 0 */
} gale_embed_options;
/* The cosine of the two texts of each line, which are separated by a tab, in order.  A TSV file is read as lines, all
 * of them pairs: it has no header.  Of the options, files, kind, field, progress and user are used.  GALE_FORMAT: a
 * line without a tab. */
typedef bool gale_pair_sink(void *user, uint64_t number, float similarity); /* false cancels */
GALE_API gale_status gale_embed_pairs(gale_embedder *embedder, const gale_embed_options *options, gale_pair_sink *sink);

GALE_API gale_status gale_embed_files(
    gale_embedder *embedder, const gale_embed_options *options, gale_embed_report *report /* may be NULL */);

/* The report as JSON, with the output and the encoder. */
GALE_API gale_status gale_embed_report_json(const gale_embedder *embedder, const gale_embed_options *options,
    const gale_embed_report *report, char **text /* gale_free */);

#ifdef __cplusplus
}
#endif
#endif
