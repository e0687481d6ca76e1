/* One table of arguments per command.  It serves parsing, `--help`, shell completion and the manual page alike.
 *
 *     static const gale__arg args[] = {
 *         {"json", 'j', GALE__ARG_FLAG, NULL, NULL, NULL, "print JSON"},
 *         {"limit", 0, GALE__ARG_INT, "MB", "512", "1..1048576", "largest size"},
 *         {"ACTION", 0, GALE__ARG_CHOICE, NULL, "stats", "stats|clean|clear", "what to do"},
 *         {0},
 *     };
 *
 * A name in capitals is positional, in the order of the table. */
#ifndef GALE_CLI_ARGS_H
#define GALE_CLI_ARGS_H
#include "base/str.h"

typedef enum gale__arg_type {
    GALE__ARG_FLAG, /* given or not */
    GALE__ARG_INT,
    GALE__ARG_REAL,
    GALE__ARG_TEXT,
    GALE__ARG_FILE,   /* a path: completion offers files */
    GALE__ARG_CHOICE, /* one of the words in `range` */
} gale__arg_type;

typedef struct gale__arg {
    const char *name;
    char letter; /* 0: no short form */
    gale__arg_type type;
    const char *value;    /* what help calls the value; NULL: by its type */
    const char *fallback; /* the default as text; NULL: none */
    const char *range;    /* "LOW..HIGH" for numbers, "a|b|c" for choices; NULL: any */
    const char *help;
    const char *env; /* the variable of env.def that this argument sets; NULL: none */
    bool required;   /* a positional that must be given */
    bool many;       /* may be given again; a positional takes all that are left */
    bool empty;      /* a text may be empty */
    bool writes;     /* a file to write, perhaps after NAME= */
} gale__arg;

/* Rows that several commands share. */
#define GALE__ARG_JSON                                                                 \
    {                                                                                  \
        "json", 'j', GALE__ARG_FLAG, NULL, NULL, NULL, "print JSON instead of a table" \
    }
#define GALE__ARGS_DEVICE                                                                                              \
    {"provider", 'p', GALE__ARG_TEXT, "CHAIN", NULL, NULL, "providers to try in order, such as cuda,vulkan,cpu",       \
        "GALE_PROVIDER"},                                                                                              \
        {"device", 'd', GALE__ARG_INT, "N", NULL, "0..1023", "device index, counted per provider", "GALE_DEVICE"},     \
        {"strict", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "a fallback to the next provider is an error", "GALE_STRICT"}, \
        {"allow-untrusted", 0, GALE__ARG_FLAG, NULL, NULL, NULL,                                                       \
            "use a device even if its driver failed the self-test", "GALE_ALLOW_UNTRUSTED"},                           \
    {                                                                                                                  \
        "debug-layer", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "enable the driver's own validation", "GALE_DEBUG_LAYER"   \
    }
#define GALE__ARG_OVERWRITE                                                                               \
    {                                                                                                     \
        "overwrite", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "allow an output file to replace an input file" \
    }
#define GALE__ARG_THREADS                                                                           \
    {                                                                                               \
        "threads", 't', GALE__ARG_INT, "N", NULL, "1..256", "number of CPU threads", "GALE_THREADS" \
    }

/* The arguments every command takes. */
extern const gale__arg gale__args_common[];

/* What was given.  Arguments that name a variable have set it, so that the library sees them. */
typedef struct gale__args {
    const gale__arg *table;
    struct gale__args_entry {
        const gale__arg *arg;
        const char *text;
    } * items;
    size_t count;
} gale__args;

/* GALE_INVALID with a message for the user.  `argv` has to live as long as the result. */
gale_status gale__args_parse(const gale__arg *table, int argc, char **argv, gale__args *out);
void gale__args_finish(gale__args *a);
/* GALE_INVALID where a file to write is also one that another argument names, by whatever path, unless --overwrite is
 * given. */
gale_status gale__args_check_overwrites(const gale__args *a);

/* The last value given, else the default.  A name that is not in the table gives 0, NULL or false. */
bool gale__args_given(const gale__args *a, const char *name);
bool gale__args_flag(const gale__args *a, const char *name);
int64_t gale__args_int(const gale__args *a, const char *name);
double gale__args_real(const gale__args *a, const char *name);
const char *gale__args_text(const gale__args *a, const char *name); /* NULL when neither given nor defaulted */
/* --part K/N, K from 1 to N, as 0 to N - 1 of N; 0 of 0 if it was not given.  false: it is not of that form. */
bool gale__args_part(const gale__args *a, int *part, int *parts);
/* For arguments that may be given again: the i-th value, NULL past the end. */
const char *gale__args_item(const gale__args *a, const char *name, size_t i);

static inline bool gale__arg_is_positional(const gale__arg *arg) { return arg->name[0] >= 'A' && arg->name[0] <= 'Z'; }
/* What help calls the value: "N", "FILE", "stats|clean|clear". */
const char *gale__arg_value_name(const gale__arg *arg);

/* The word of the NULL-ended list most like `word`; NULL when none is near. */
const char *gale__nearest(const char *word, const char *const *list);
#endif
