/* Operators that run on the host: strings, sequences, maps, pictures.  One row in host.def and one function each. */
#ifndef GALE_ONNX_HOST_H
#define GALE_ONNX_HOST_H
#include "onnx/import/net.h"
#include "onnx/run/object.h"

typedef struct gale__onnx_host_call {
    const gale__onnx_net_node *node;
    gale_object *const
        *in; /* NULL: left out.  Tensors are on the host, unless the row says that they may be anywhere */
    int n_in;
    gale_object **out; /* to be filled; the caller owns them; a result that the node leaves out may stay NULL */
    int n_out;
    struct gale__onnx_session *session;
    gale__arena arena; /* for the call */
} gale__onnx_host_call;
typedef gale_status gale__onnx_host_run(gale__onnx_host_call *call);

/* What a result is: one of gale__onnx_kind, or told by the first input or by the node's attributes. */
typedef enum gale__onnx_host_result {
    GALE__GIVES_NUMBERS,
    GALE__GIVES_STRINGS,
    GALE__GIVES_SEQUENCE, /* of the first input's kind */
    GALE__GIVES_MAPS,     /* a sequence of maps */
    GALE__GIVES_SAME,     /* as the first input */
    GALE__GIVES_OPTIONAL, /* as the first input, and it may be nothing */
    GALE__GIVES_PRESENT,  /* as the first input, and never nothing */
    GALE__GIVES_ELEMENT,  /* of the first input, a sequence or map */
    GALE__GIVES_NAMED     /* numbers or strings, as attributes say: to, values_strings, value ... */
} gale__onnx_host_result;
typedef struct gale__onnx_host_op {
    const char *domain, *name; /* domain "" for ai.onnx */
    int least, most;           /* inputs; most -1: any number */
    int results;               /* at most; -1 any number */
    uint8_t gives, rest;       /* gale__onnx_host_result of the first result, and of the others */
    bool anywhere;             /* accepts tensors in device memory: it moves elements and does not read them */
    bool strings_only; /* also a device operator: this one serves strings and sequences (gale__onnx_host_wanted) */
    gale__onnx_host_run *run;
} gale__onnx_host_op;
const gale__onnx_host_op *gale__onnx_host_find(const char *domain, const char *name);
size_t gale__onnx_host_rows(const gale__onnx_host_op **out); /* all of them */
#define X(domain, Name, least, most, results, gives, rest, anywhere, strings_only, run) \
    gale__onnx_host_run gale__onnx_host_##run;
#include "onnx/host/host.def"
#undef X
/* Fills kind, of and optional of the node's results from those of its inputs. */
void gale__onnx_host_kinds(const gale__onnx_host_op *op, gale__onnx_net *net, const gale__onnx_net_node *node);
/* Of a strings_only row: whether the node needs it, since something other than numbers goes in or comes out.  Kinds of
 * inputs must be known. */
bool gale__onnx_host_wanted(const gale__onnx_host_op *op, const gale__onnx_net *net, const gale__onnx_net_node *node);

/* Reading arguments; errors name the input. */
gale_status gale__onnx_host_tensor(gale__onnx_host_call *call, int i, gale_tensor **out); /* must be a tensor */
gale_status gale__onnx_host_strings(
    gale__onnx_host_call *call, int i, gale_tensor **out); /* must be a tensor of strings */
gale_status gale__onnx_host_int(
    gale__onnx_host_call *call, int i, int64_t fallback, int64_t *out); /* an integer tensor of one element */
bool gale__onnx_host_has(const gale__onnx_host_call *call, int i);      /* given, and not an empty optional */
gale_status gale__onnx_host_sequence(gale__onnx_host_call *call, int i, gale_object **out);
gale_status gale__onnx_host_map(gale__onnx_host_call *call, int i, gale_object **out);
/* The numbers of a tensor, wherever it is; valid while the call runs. */
gale_status gale__onnx_host_numbers(gale__onnx_host_call *call, const gale_tensor *tensor, const void **out);
int64_t gale__onnx_tensor_count(const gale_tensor *tensor);
/* An attribute's text, or the fallback. */
const char *gale__onnx_host_text(const gale__onnx_host_call *call, const char *name, const char *fallback);
/* Makes result i of a tensor, which it takes over, also on failure. */
gale_status gale__onnx_host_give(gale__onnx_host_call *call, int i, gale_tensor **tensor);
/* Axis of a tensor of that rank, negative ones counted from the end. */
gale_status gale__onnx_host_axis(int64_t axis, int rank, int *out);
/* An operator for numbers on tensors of which some hold strings.  strings: which results become strings again; ranked:
 * equal strings must have equal numbers. */
typedef struct gale__onnx_move {
    const char *op;
    gale_tensor *const *in;
    int n_in;
    const gale_attr *attrs;
    int n_attrs;
    bool ranked;
} gale__onnx_move;
gale_status gale__onnx_host_move_as(
    gale__onnx_host_call *call, const gale__onnx_move *move, const bool *strings, gale_tensor **out, int n_out);
/* Between strings and numbers, or as the device casts (host_cast.c). */
gale_status gale__onnx_host_cast_to(gale__onnx_host_call *call, gale_tensor *x, gale_type type, gale_tensor **out);
#endif
