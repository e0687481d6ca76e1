/* Parses a pattern into a small tree. */
#include "graph/rewrite/pattern.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const char *at;
    gale__pattern *pattern;
    const char *error;
    int8_t part[26]; /* by letter: the node a name stands for, -1 */
} reader;

static int fail(reader *r, const char *why)
{
    if (!r->error) r->error = why;
    return 0;
}

static bool take(reader *r, char c)
{
    while (*r->at == ' ') r->at++;
    if (*r->at != c) return false;
    r->at++;
    while (*r->at == ' ') r->at++;
    return true;
}

static int new_node(reader *r, char kind)
{
    if (r->pattern->count == GALE__PATTERN_NODES) return fail(r, "too many nodes");
    r->pattern->nodes[r->pattern->count] = (gale__pattern_node){.kind = kind, .slot = -1};
    return r->pattern->count++;
}

int gale__pattern_slot(const gale__pattern *p, char letter)
{
    for (int i = 0; i < p->n_letters; i++)
        if (p->letters[i] == letter) return i;
    return -1;
}

static int8_t slot_of(reader *r, char letter)
{
    int slot = gale__pattern_slot(r->pattern, letter);
    if (slot >= 0) return (int8_t)slot;
    if (r->pattern->n_letters == GALE__PATTERN_LETTERS) return (int8_t)fail(r, "too many letters");
    r->pattern->letters[r->pattern->n_letters] = letter;
    return (int8_t)r->pattern->n_letters++;
}

static int read_part(reader *r);

/* The parts up to `end`, separated by `between`, as inputs of node n. */
static void read_inputs(reader *r, int n, char between, char end)
{
    do {
        int input = read_part(r);
        gale__pattern_node *node = &r->pattern->nodes[n];
        if (node->n_in == GALE__PATTERN_INPUTS) fail(r, "too many inputs");
        if (r->error) return;
        node->in[node->n_in++] = (int8_t)input;
    } while (take(r, between));
    if (!take(r, end)) fail(r, "missing bracket");
}

static int read_operator(reader *r)
{
    char name[64];
    size_t length = 0;
    while (isalnum((unsigned char)r->at[length])) length++;
    if (length >= sizeof name) return fail(r, "name too long");
    memcpy(name, r->at, length);
    name[length] = 0;
    r->at += length;
    int n = new_node(r, 'o');
    gale__pattern_node *node = &r->pattern->nodes[n];
    if (!(node->op = gale__op_find(name))) return fail(r, "unknown operator");
    if (*r->at == '[') {
        node->attrs = r->at + 1;
        while (*r->at && *r->at != ']') r->at++;
        node->attrs_length = (int)(r->at - node->attrs);
        if (!take(r, ']')) return fail(r, "missing bracket");
    }
    if (!take(r, '(')) return fail(r, "operator without inputs");
    read_inputs(r, n, ',', ')');
    return n;
}

static int read_part(reader *r)
{
    if (r->error) return 0;
    if (take(r, '<')) {
        int n = new_node(r, '|');
        read_inputs(r, n, '|', '>');
        return n;
    }
    if (*r->at == '#') {
        char *end;
        int n = new_node(r, '#');
        r->pattern->nodes[n].value = strtod(r->at + 1, &end);
        if (end == r->at + 1) return fail(r, "missing number after #");
        r->at = end;
        return n;
    }
    bool number = *r->at == '$';
    const char *letter = r->at + number;
    if (!isalpha((unsigned char)*letter)) return fail(r, "expected an operator, a letter or a number");
    if (!number && isalnum((unsigned char)letter[1])) return read_operator(r);
    r->at = letter + 1;
    if (!number && islower((unsigned char)*letter) && r->part[*letter - 'a'] >= 0) return r->part[*letter - 'a'];
    int n = new_node(r, number ? '$' : isupper((unsigned char)*letter) ? 'w' : 'v');
    r->pattern->nodes[n].slot = slot_of(r, *letter);
    return n;
}

const char *gale__pattern_parse(const char *text, gale__pattern *out)
{
    reader r = {.at = text, .pattern = out};
    memset(out, 0, sizeof *out);
    memset(r.part, -1, sizeof r.part);
    while (islower((unsigned char)r.at[0]) && r.at[1] == '=') {
        char letter = *r.at;
        r.at += 2;
        int n = read_part(&r);
        if (!take(&r, ';')) fail(&r, "missing ; after a named part");
        if (r.error) return r.error;
        r.part[letter - 'a'] = (int8_t)n;
    }
    out->root = read_part(&r);
    if (!r.error && *r.at) fail(&r, "unexpected text after the pattern");
    return r.error;
}
