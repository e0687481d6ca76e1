/* A model as a graph: names resolved to numbers, functions inlined, every node brought to the meaning it has in the
 * newest opset.
 *
 * The importer (import.c) reads messages and appends; adapt*.c rewrites older forms on the way in; expand*.c splits
 * operators that devices do not know as one.  What the executor runs (session.c) is this. */
#ifndef GALE_ONNX_NET_H
#define GALE_ONNX_NET_H
#include "onnx/wire/proto.h"

typedef struct gale__onnx_net gale__onnx_net;
#define GALE__OPSET_NEWEST 28

/* What a value is, as far as it is known before a run: a kind, and for sequences and maps the kind of their elements.
 */
typedef enum gale__onnx_kind {
    GALE__KIND_NUMBERS,
    GALE__KIND_STRINGS,
    GALE__KIND_SEQUENCE,
    GALE__KIND_MAP
} gale__onnx_kind;
/* What the elements of a value in a body depend on, which decides whether a plan can know them. */
typedef enum gale__onnx_origin {
    GALE__ORIGIN_SHAPES,  /* and constants */
    GALE__ORIGIN_OUTSIDE, /* what a body takes from there too */
    GALE__ORIGIN_STEP     /* what a step is given, or computes */
} gale__onnx_origin;
typedef struct gale__onnx_net_value {
    const char *name; /* as in the file; "" for one of our own */
    uint8_t kind, of; /* gale__onnx_kind; of: of the elements */
    bool optional;    /* may be nothing at all */
    gale_type type;   /* of inputs as declared, and of constants */
    uint8_t from;     /* gale__onnx_origin */
    bool typed;       /* also of a result, where it follows from the inputs' (learn.c); the same holds for rank */
    int rank;         /* -1: not specified */
    int64_t dims[GALE_MAX_RANK]; /* -1: not specified */
    const char *symbols[GALE_MAX_RANK];
    gale_tensor *constant; /* host; owned; numbers or strings */
    int32_t node;          /* which makes it; -1: input or constant */
    int32_t input;         /* which input; -1 */
} gale__onnx_net_value;

typedef struct gale__onnx_net_node {
    const char *op; /* the newest operator's name; "MSGelu" for com.microsoft's, "MLScaler" never: ai.onnx.ml has names
                       of its own */
    const char *domain; /* as in the file: "", "ai.onnx.ml" ... */
    int opset;          /* of its domain, as imported */
    int32_t *in, *out;  /* values; -1: left out */
    int n_in, n_out;
    gale_attr *attrs; /* without graphs */
    int n_attrs;
    struct {
        const char *name;
        gale__onnx_net *net;
    } * bodies; /* graph attributes */
    int n_bodies;
    const gale__pb_node *from; /* what it was in the file; nodes of our own have that of the node they serve */
    const char *where;         /* for messages: "node 3 'conv1' (Conv)" */
} gale__onnx_net_node;

struct gale__onnx_net {
    gale__arena *arena; /* the model's */
    gale__onnx *file;
    gale__onnx_net *outer; /* of a body: the graph around it */
    const gale__pb_graph
        *from;  /* what it was in the file; its initialisers are the first values.  NULL: a body of our own */
    bool plain; /* not expanded: for writing it again (export.c), not for running */
    int opset;  /* plain: whose forms nodes are brought to; 0: the newest's */
    gale__onnx_net_value *values;
    int n_values;
    size_t values_capacity;
    gale__onnx_net_node *nodes;
    int n_nodes;
    size_t nodes_capacity;
    uint8_t planned_by; /* gale__onnx_origin: the most that its nodes must know when they are planned */
    int32_t *inputs;
    int n_inputs; /* declared ones first, then what a body takes from outside */
    int32_t *captures;
    int n_captures;
    size_t inputs_capacity, captures_capacity; /* values of `outer` that the last n_captures inputs stand for */
    int32_t *outputs;
    int n_outputs;
    gale__onnx_net_value *declared; /* by output: as the file says, with its name */
    void *exec;                     /* how it runs, made by session.c */
};

/* --- Appending, for the importer, adapters and expanders.  All copy what they are given into the arena. --- */
gale_status gale__onnx_net_new_value(gale__onnx_net *net, const char *name, int32_t *out);
/* Takes the tensor over, also on failure. */
gale_status gale__onnx_net_constant(gale__onnx_net *net, const char *name, gale_tensor **tensor, int32_t *out);
gale_status gale__onnx_net_ints(gale__onnx_net *net, const int64_t *values, int n, int32_t *out);   /* i64 [n] */
gale_status gale__onnx_net_scalar(gale__onnx_net *net, gale_type type, double value, int32_t *out); /* rank 0 */
gale_status gale__onnx_net_push(gale__onnx_net *net, const gale__onnx_net_node *node);
/* kinds.c: what the results of a node are, from what its inputs are. */
gale_status gale__onnx_net_settle(gale__onnx_net *net, const gale__onnx_net_node *node);
/* Attribute by name, or NULL. */
const gale_attr *gale__onnx_net_attr(const gale__onnx_net_node *node, const char *name);
int64_t gale__onnx_net_attr_i(const gale__onnx_net_node *node, const char *name, int64_t fallback);
/* Changing a node that is being made (adapters): its arrays are in the arena and are replaced. */
gale_status gale__onnx_net_set_attr(gale__onnx_net *net, gale__onnx_net_node *node, gale_attr attr);
void gale__onnx_net_drop_attr(gale__onnx_net_node *node, const char *name);
gale_status gale__onnx_net_set_input(
    gale__onnx_net *net, gale__onnx_net_node *node, int index, int32_t value); /* grows the list; gaps are -1 */
/* An error that names the node. */
gale_status gale__onnx_net_fail(const gale__onnx_net_node *node, gale_status status, const char *format, ...)
    GALE__PRINTF(3, 4);

/* --- Adapters (adapt*.c): a node of an older opset becomes the newest one's.  Changes `node` in place and leaves *done
 * false; or appends what it needs itself (with node->out as results) and sets *done. --- */
gale_status gale__onnx_adapt(gale__onnx_net *net, gale__onnx_net_node *node, bool *done);
/* --- Expanders (expand*.c): the same for operators that are made of others: com.microsoft's, data-dependent shapes,
 * ... --- */
gale_status gale__onnx_expand(gale__onnx_net *net, gale__onnx_net_node *node, bool *done);

/* import.c: the main graph of an opened model.  The net lives in the arena of `file`, which it holds. */
gale_status gale__onnx_net_import(gale__onnx *file, gale__onnx_net **out);
gale_status gale__onnx_net_import_plain(gale__onnx *file, int opset,
    gale__onnx_net **out); /* without expansions: operators in the forms of `opset` (0: the newest) alone */
void gale__onnx_net_destroy(gale__onnx_net **net); /* constants and bodies too */
void gale__onnx_net_finish(gale__onnx_net *net);   /* of a body that no node holds */
#endif
