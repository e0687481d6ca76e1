/* Bodies in the rows of cases: a graph from a word like {2:Add(0,1);Mul(2,#0.5)>2,3}. */
#include "ops/cases/case_body.h"
#include "base/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MAX = 32, ARGUMENTS_MAX = 4 };

typedef struct body {
    gale_graph *graph;
    gale_value value[VALUES_MAX];
    int n;
    const char *at;
} body;

static gale_status unreadable(const body *b)
{
    return gale__fail(GALE_FORMAT, "a case's body cannot be read near '%.20s'", b->at);
}

/* A value by its number, or a constant of rank 0. */
static gale_status read_operand(body *b, gale_value *out)
{
    char *end;
    bool constant = *b->at == '#';
    double number = strtod(b->at + constant, &end);
    float single = (float)number;
    if (end == b->at + constant || (!constant && (number < 0 || number >= b->n))) return unreadable(b);
    b->at = end;
    if (constant) return gale_graph_constant(b->graph, GALE_F32, 0, NULL, &single, out);
    *out = b->value[(int)number];
    return GALE_OK;
}

/* Operands up to `stop`, with commas between. */
static gale_status read_operands(body *b, char stop, int most, gale_value *out, int *n)
{
    for (*n = 0; *b->at && *b->at != stop; b->at += *b->at == ',') {
        if (*n == most) return unreadable(b);
        GALE_TRY(read_operand(b, &out[(*n)++]));
        if (*b->at != ',' && *b->at != stop) return unreadable(b);
    }
    if (*b->at != stop) return unreadable(b);
    b->at++;
    return GALE_OK;
}

static gale_status read_op(body *b)
{
    char name[32];
    size_t length = strcspn(b->at, "(");
    gale_value in[ARGUMENTS_MAX];
    int n = 0;
    if (!b->at[length] || length >= sizeof name || b->n == VALUES_MAX) return unreadable(b);
    memcpy(name, b->at, length);
    name[length] = 0;
    b->at += length + 1;
    GALE_TRY(read_operands(b, ')', ARGUMENTS_MAX, in, &n));
    GALE_TRY(gale_graph_op(b->graph, name, in, n, NULL, 0, &b->value[b->n], 1));
    b->n++;
    b->at += *b->at == ';';
    return GALE_OK;
}

static gale_status read_body(body *b)
{
    char *end, name[16];
    gale_value out[VALUES_MAX];
    long inputs = strtol(b->at, &end, 10);
    int n = 0;
    if (*end != ':' || inputs < 0 || inputs > VALUES_MAX) return unreadable(b);
    b->at = end + 1;
    for (; b->n < inputs; b->n++) {
        snprintf(name, sizeof name, "in%d", b->n);
        GALE_TRY(gale_graph_input(b->graph, name, GALE_F32, 0, NULL, NULL, &b->value[b->n]));
    }
    while (*b->at && *b->at != '>') GALE_TRY(read_op(b));
    if (!*b->at++) return unreadable(b);
    GALE_TRY(read_operands(b, '}', VALUES_MAX, out, &n));
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "out%d", i);
        GALE_TRY(gale_graph_output(b->graph, name, out[i]));
    }
    return GALE_OK;
}

gale_status gale__case_body(const char *text, gale_graph **out)
{
    body b = {.at = text + 1};
    GALE_TRY(gale_graph_create(&b.graph));
    gale_status status = read_body(&b);
    if (status != GALE_OK) return gale_graph_destroy(&b.graph), status;
    *out = b.graph;
    return GALE_OK;
}
