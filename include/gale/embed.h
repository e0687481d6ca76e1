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
 * part of the graph that runs on the device.  Padding never changes a vector, and a text gives the same vector in any
 * batch, up to rounding (1e-5 in fp32). */
#ifndef GALE_EMBED_H
#define GALE_EMBED_H

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gale_embedder gale_embedder; /* threads: any number at once */

/* How the vectors of a text's tokens become one. */
typedef enum gale_pooling {
    GALE_POOLING_AUTO, /* as the folder says; mean where it says nothing */
    GALE_POOLING_MEAN,
    GALE_POOLING_CLS,       /* the first token's */
    GALE_POOLING_MAX,       /* the largest number of each place */
    GALE_POOLING_LAST,      /* the last token's */
    GALE_POOLING_MEAN_SQRT, /* the sum divided by the square root of the number of tokens */
    GALE_POOLING_WEIGHTED,  /* the mean with weights 1, 2, 3 ... */
    GALE_POOLING_MODEL,     /* the model does it itself: its output sentence_embedding */
    GALE_POOLING_COUNT
} gale_pooling;
/* "mean", "cls" ...; "?" out of range. */
GALE_API const char *gale_pooling_name(gale_pooling pooling);

/* All zero: as the folder says. */
typedef struct gale_embedder_options {
    gale_pooling pooling;
    bool no_normalize;  /* vectors keep their length; else it is 1 */
    int64_t dims;       /* keep the first so many numbers (Matryoshka), then normalise; 0: all */
    int64_t max_length; /* tokens of a text, special ones included; longer texts are cut; 0: what the folder says */
    const char *prompt; /* text put in front of every text; NULL: that of prompt_name */
    const char *prompt_name; /* one of the folder's prompts, such as "query"; NULL: its default; "": none */
    const char *file;        /* the model's file inside the folder, such as "onnx/model_O3.onnx"; NULL: the usual one */
    gale_model_options model; /* precision and the like */
    uint64_t reserved[4];     /* 0 */
} gale_embedder_options;

/* path: a folder, an ONNX file in one, or a name in the folder of models (GALE_MODELS).  "heuristic" needs no model: 64
 * numbers from words, their trigrams and counts of characters, for texts that only have to be told apart.  options may
 * be NULL.
 * GALE_NOT_FOUND: no model or no tokenizer; GALE_MISMATCH: the tokenizer's vocabulary does not fit the model;
 * GALE_UNSUPPORTED: the model takes or gives something that an encoder of text does not, or the folder asks for a
 * module that gale has not got; messages say what. */
GALE_API gale_status gale_embedder_open(
    const char *path, gale_device *device, const gale_embedder_options *options, gale_embedder **out);
GALE_API void gale_embedder_close(gale_embedder **embedder);

/* The encoder of a level, "none", "low", "medium" or "high" in any case, as a path that is open to gale_embedder_open:
 * paraphrase-MiniLM-L3-v2, paraphrase-MiniLM-L6-v2 or all-MiniLM-L6-v2, all-mpnet-base-v2, or a folder called like the
 * level, in the folder of models.  A level that is not there steps down to the next, with a warning in the log.
 * GALE_NOT_FOUND: none of them is; GALE_INVALID: no such level, or "none". */
GALE_API gale_status gale_encoder_find_level(const char *level, char **path /* gale_free */);

typedef struct gale_embedder_info {
    const char *model;    /* path of the ONNX file; texts live as long as the embedder */
    const char *family;   /* "bert" ..., "" where the folder does not say */
    const char *prompt;   /* put in front of texts; "" */
    int64_t dims;         /* numbers in a vector */
    int64_t max_length;   /* tokens */
    int64_t vocabulary;   /* tokens that the model knows; 0: not found */
    gale_pooling pooling; /* never GALE_POOLING_AUTO */
    bool normalized;
    bool takes_mask, takes_types, takes_positions; /* inputs beside input_ids */
} gale_embedder_info;
GALE_API void gale_embedder_get_info(const gale_embedder *embedder, gale_embedder_info *out);
/* Where it runs.  A device that fails (out of memory with one text, lost, without something that the model needs) is
 * left for the next one of its chain, with a warning in the log; with `strict` that failure is the result. */
GALE_API const gale_device *gale_embedder_device(const gale_embedder *embedder);

/* Writes count rows of info.dims numbers.  sizes[i]: bytes of texts[i]; NULL: up to the zero.  Any number of threads at
 * once.  Texts are sorted and batched inside; memory that is short halves the batch. */
GALE_API gale_status gale_embed(
    gale_embedder *embedder, const char *const *texts, const size_t *sizes, size_t count, float *vectors);

/* Smaller vectors.  int8: round(127 x), for vectors of length 1; binary: a bit for each number, 1 where it is greater
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
 * side by side; memory does not grow with the files.
 *
 * The result is written as OUT.part beside OUT.journal and renamed at the end.  A job that was killed goes on where the
 * journal says, if inputs and settings are the same. */
typedef enum gale_vector_format {
    GALE_VECTORS_AUTO, /* by the end of the output's name, else .npy */
    GALE_VECTORS_NPY,
    GALE_VECTORS_JSONL,    /* {"index": 0, "vector": [...]} */
    GALE_VECTORS_CSV,      /* numbers with commas between */
    GALE_VECTORS_RAW,      /* rows of numbers and nothing else */
    GALE_VECTORS_FVECS,    /* each row behind its length in 32 bits */
    GALE_VECTORS_PGVECTOR, /* PostgreSQL's COPY: number, tab, [...] */
    GALE_VECTOR_FORMAT_COUNT
} gale_vector_format;
GALE_API const char *gale_vector_format_name(gale_vector_format format);

typedef enum gale_text_kind {
    GALE_TEXTS_AUTO, /* by the end of a file's name, else lines */
    GALE_TEXTS_LINES,
    GALE_TEXTS_JSONL,
    GALE_TEXTS_CSV,
    GALE_TEXTS_TSV,
    GALE_TEXTS_FOOTPRINT /* a JSON object a line, as the lines plugin: X, operation: Y, key: value, meta.key: value */
} gale_text_kind;

/* What was done so far, and in the end. */
typedef struct gale_embed_report {
    uint64_t texts, resumed;  /* rows in the output; of them, from the run before */
    uint64_t tokens, padding; /* that went through the model in this run, without and with texts' padding alone */
    uint64_t empty, truncated,
        cut; /* texts without a token of their own; with more tokens than the model takes; above 64 MiB */
    uint64_t batches, bytes;                                /* runs of the model; bytes written */
    uint64_t cached;                                        /* texts whose vectors the cache had */
    uint64_t read_bytes, input_bytes;                       /* of the files: so far, and all; 0: not known */
    double seconds, read_s, tokenize_s, compute_s, write_s; /* the last four overlap; compute_s is the sum over lanes */
    int lanes;
    uint64_t lengths[16]; /* texts by tokens: up to 4, 8, 16 ... */
} gale_embed_report;

/* All zero but `files` and `output`: defaults. */
typedef struct gale_embed_options {
    const char *const *files; /* "-": standard input; gzip and zstd are found by their first bytes */
    size_t file_count;
    gale_text_kind kind;
    const char *field; /* of JSONL a key, of CSV and TSV a column's name or number; NULL: "text" */
    const char *output;
    /* Where it is not NULL, bytes go there instead of `output`; nothing is resumed then.  Returns false on failure. */
    bool (*write)(void *user, const void *data, size_t size);
    gale_vector_format format;
    gale_vector_type type;
    int64_t batch_texts, batch_tokens; /* most in a run; 0: by device */
    int lanes;                         /* runs side by side; 0: by device */
    int64_t window;                    /* texts that are sorted together; 0: by device */
    int64_t shard, shards;             /* part `shard` (from 0) of `shards` equal ones; 0 shards: all */
    bool cache;                        /* keep vectors in the cache folder, and take those that are there (SQLite) */
    bool restart;                      /* begin anew, whatever there is */
    bool text;                         /* JSONL: the text as well */
    /* Called from the calling thread a few times a second; false cancels (GALE_CANCELLED): what is written stays, to be
     * gone on with. */
    bool (*progress)(void *user, const gale_embed_report *so_far);
    void *user;
    /* May be set from another thread or a signal handler: anything but 0 cancels too.  May be NULL. */
    const volatile int *cancel;
    uint64_t reserved[4]; /* 0 */
} gale_embed_options;
/* How alike the two texts of each line are, which a tab divides: the cosine, in order.  Of the options, files, kind,
 * field, progress and user are used.  GALE_FORMAT: a line without a tab. */
typedef bool gale_pair_sink(void *user, uint64_t number, float similarity); /* false cancels */
GALE_API gale_status gale_embed_pairs(gale_embedder *embedder, const gale_embed_options *options, gale_pair_sink *sink);

GALE_API gale_status gale_embed_files(
    gale_embedder *embedder, const gale_embed_options *options, gale_embed_report *report /* may be NULL */);

/* The report as JSON, with where the vectors went and what made them. */
GALE_API gale_status gale_embed_report_json(const gale_embedder *embedder, const gale_embed_options *options,
    const gale_embed_report *report, char **text /* gale_free */);

#ifdef __cplusplus
}
#endif
#endif
