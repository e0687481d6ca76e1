/* Tokenizer of com.microsoft, which pipelines of scikit-learn begin with: strings become rows of tokens, found by an
 * expression or between separators. */
#include "base/regex.h"
#include "base/utf8.h"
#include "graph/run/tensor.h"
#include "onnx/host/host.h"
#include <string.h>

typedef struct piece {
    const char *text;
    size_t size;
} piece;
typedef struct pieces {
    piece *at;
    size_t count, capacity;
} pieces;

static gale_status add(pieces *p, const char *text, size_t size)
{
    GALE_TRY(gale__grow((void **)&p->at, &p->capacity, p->count + 1, sizeof *p->at));
    p->at[p->count++] = (piece){text, size};
    return GALE_OK;
}

/* What matches, or what is between; nothing empty. */
static gale_status cut(gale__regex *regex, piece x, bool between, pieces *out)
{
    size_t from = 0, begin, end;
    while (gale__regex_find(regex, x.text, x.size, from, &begin, &end)) {
        if (!between) GALE_TRY(add(out, x.text + begin, end - begin));
        else if (begin > from) GALE_TRY(add(out, x.text + from, begin - from));
        from = end;
    }
    return between && from < x.size ? add(out, x.text + from, x.size - from) : GALE_OK;
}

static gale_status by_characters(piece x, pieces *out)
{
    for (const char *at = x.text, *end = x.text + x.size; at < end;) {
        const char *next = at;
        gale__utf8_take(&next, end);
        GALE_TRY(add(out, at, (size_t)(next - at)));
        at = next;
    }
    return GALE_OK;
}

/* The tokens of one string, by one separator after the other. */
static gale_status tokens_of(piece x, gale__regex **rules, size_t n, bool between, pieces *from, pieces *to)
{
    to->count = 0;
    if (!n) return by_characters(x, to);
    GALE_TRY(add(to, x.text, x.size));
    for (size_t i = 0; i < n; i++) {
        pieces swap = *from;
        *from = *to, *to = swap;
        to->count = 0;
        for (size_t k = 0; k < from->count; k++) GALE_TRY(cut(rules[i], from->at[k], between, to));
    }
    return GALE_OK;
}

static int64_t characters(piece x)
{
    int64_t n = 0;
    for (const char *at = x.text, *end = x.text + x.size; at < end; n++) gale__utf8_take(&at, end);
    return n;
}

typedef struct tokenizer {
    gale__regex **rules;
    size_t n_rules;
    bool between;
    const char *pad;
    int64_t least;
    bool mark;
    pieces all, from, to; /* all: rows one after another, each as long as its count */
    int64_t *counts, width;
} tokenizer;

static gale_status read_rules(gale__onnx_host_call *call, tokenizer *t)
{
    const gale_attr *separators = gale__onnx_net_attr(call->node, "separators");
    const char *expression = gale__onnx_host_text(call, "tokenexp", NULL);
    bool listed = separators && separators->kind == GALE_ATTR_STRINGS && separators->count;
    if (listed == (expression && *expression))
        return gale__fail(GALE_INVALID, "exactly one of the attributes separators and tokenexp is needed");
    t->between = listed;
    if (listed && separators->count == 1 && !*separators->strings[0]) return GALE_OK; /* every character is a token */
    size_t n = listed ? separators->count : 1;
    if (!(t->rules = gale__calloc(n, sizeof *t->rules))) return GALE_NO_MEMORY;
    for (; t->n_rules < n; t->n_rules++)
        GALE_TRY(gale__regex_create(listed ? separators->strings[t->n_rules] : expression, &t->rules[t->n_rules]));
    return GALE_OK;
}

static gale_status find_all(const gale_tensor *x, tokenizer *t)
{
    size_t marks = t->mark ? 2 : 0, found = 0;
    for (int64_t i = 0; i < gale__tensor_elements(x); i++) {
        piece row = {.size = 0};
        row.text = gale_tensor_string(x, i, &row.size);
        size_t before = t->all.count;
        if (t->mark) GALE_TRY(add(&t->all, "\2", 1));
        GALE_TRY(tokens_of(row, t->rules, t->n_rules, t->between, &t->from, &t->to));
        for (size_t k = 0; k < t->to.count; k++)
            if (characters(t->to.at[k]) >= t->least) GALE_TRY(add(&t->all, t->to.at[k].text, t->to.at[k].size));
        if (t->mark) GALE_TRY(add(&t->all, "\3", 1));
        t->counts[i] = (int64_t)(t->all.count - before);
        found += t->all.count - before - marks;
        if (t->counts[i] > t->width) t->width = t->counts[i];
    }
    if (!found) t->width = 0; /* not even marks, where there is no token at all */
    return GALE_OK;
}

/* Rows as long as the longest, the others filled up. */
static gale_status rows_of(const gale_tensor *x, const tokenizer *t, gale_tensor **out)
{
    int64_t dims[GALE_MAX_RANK], elements;
    size_t bytes, at = 0;
    if (x->rank == GALE_MAX_RANK) return gale__fail(GALE_LIMIT, "the result would have rank %d", GALE_MAX_RANK + 1);
    memcpy(dims, x->dims, sizeof dims);
    dims[x->rank] = t->width;
    GALE_TRY(gale__shape_size(GALE_STRING, x->rank + 1, dims, &elements, &bytes));
    const char **texts = gale__calloc((size_t)elements + 1, sizeof *texts);
    size_t *sizes = gale__calloc((size_t)elements + 1, sizeof *sizes);
    gale_status status = texts && sizes ? GALE_OK : GALE_NO_MEMORY;
    for (int64_t i = 0; status == GALE_OK && i < elements; i++) {
        bool there = i % t->width < t->counts[i / t->width];
        piece p = there ? t->all.at[at++] : (piece){t->pad, strlen(t->pad)};
        texts[i] = p.text, sizes[i] = p.size;
    }
    if (status == GALE_OK) status = gale_tensor_from_strings(x->rank + 1, dims, texts, sizes, out);
    gale__free(texts), gale__free(sizes);
    return status;
}

gale_status gale__onnx_host_tokenizer(gale__onnx_host_call *call)
{
    tokenizer t = {.pad = gale__onnx_host_text(call, "pad_value", ""),
        .least = gale__onnx_net_attr_i(call->node, "mincharnum", 1),
        .mark = gale__onnx_net_attr_i(call->node, "mark", 0)};
    gale_tensor *x, *made = NULL;
    GALE_TRY(gale__onnx_host_strings(call, 0, &x));
    gale_status status = read_rules(call, &t);
    if (status == GALE_OK && !(t.counts = gale__calloc((size_t)gale__tensor_elements(x) + 1, sizeof *t.counts)))
        status = GALE_NO_MEMORY;
    if (status == GALE_OK) status = find_all(x, &t);
    if (status == GALE_OK) status = rows_of(x, &t, &made);
    for (size_t i = 0; i < t.n_rules; i++) gale__regex_destroy(&t.rules[i]);
    gale__free(t.rules), gale__free(t.counts), gale__free(t.all.at), gale__free(t.from.at), gale__free(t.to.at);
    return status == GALE_OK ? gale__onnx_host_give(call, 0, &made) : status;
}
