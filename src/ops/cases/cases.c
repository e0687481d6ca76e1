/* Parses the rows of cases: attributes, inputs and expected values from short text. */
#include "ops/cases/cases.h"
#include "ops/cases/case_body.h"
#include "base/str.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const gale__case gale__cases[] = {
#define CASE(...) {__VA_ARGS__},
#include "ops/cases/cases_arithmetic.def"
#include "ops/cases/cases_network.def"
#include "ops/cases/cases_quant.def"
#include "ops/cases/cases_sequence.def"
#include "ops/cases/cases_shape.def"
#include "ops/cases/cases_signal.def"
#include "ops/cases/cases_types.def"
#undef CASE
};
const int gale__cases_count = sizeof gale__cases / sizeof *gale__cases;

typedef struct reader {
    gale__case_run *run;
    const char *at;
    gale_type variant;
    bool failed;
} reader;

static void *take(reader *r, size_t size)
{
    void *p = gale__arena_alloc(&r->run->arena, size ? size : 1);
    if (!p) r->failed = true;
    return p;
}

static void skip(reader *r)
{
    while (*r->at == ' ') r->at++;
}

/* --- Generators: a number from seed and place, the same wherever it is computed. --- */

static uint64_t mix(uint64_t seed, uint64_t i)
{
    uint64_t x = seed * 0x9E3779B97F4A7C15ull + i * 0xBF58476D1CE4E5B9ull + 0x94D049BB133111EBull;
    x ^= x >> 31;
    x *= 0xD6E8FEB86659FD93ull;
    return x ^ x >> 32;
}

static const double float_corners[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1, -1, 0.5, -0.5, 2.5, -2.5, 3.5, 1e-40,
    -1e-40, 65504, 3e38, -3e38, 1e-7, 100, -100, 88.7, -104, 1e-3, 255, 256.5, -129};
static const int64_t int_corners[] = {
    0, 1, -1, INT64_MAX, INT64_MIN, 2, -7, 63, 64, 127, -128, 255, 32767, -32768, INT32_MAX, INT32_MIN, 3, 100};

static void corner(gale_type type, int64_t i, void *p)
{
    if (gale__type_is_float(type)) {
        gale__store_f64(type, p, float_corners[i % (int64_t)(sizeof float_corners / sizeof *float_corners)]);
        return;
    }
    int64_t v = int_corners[i % (int64_t)(sizeof int_corners / sizeof *int_corners)];
    bool low = v == INT64_MIN, high = v == INT64_MAX;
    if ((low || high) && type != GALE_I64 && type != GALE_U64)
        v = (int64_t)(low ? gale__type_min(type) : gale__type_max(type));
    gale__store_i64(type, p, v);
}

static void generate(gale_type type, char kind, int64_t low, int64_t high, uint64_t seed, int64_t i, void *p)
{
    uint64_t h = mix(seed, (uint64_t)i);
    bool real = gale__type_is_float(type), positive = kind == 'p', below = gale__type_table[type].kind == 'i';
    if (kind == 'c') corner(type, i, p);
    else if (kind == 'i') gale__store_i64(type, p, low + (int64_t)((h >> 8) % (uint64_t)(high - low + 1)));
    else if (kind == 'q' && real) gale__store_f64(type, p, (double)(h >> 11) * 0x1p-51 - 2);
    else if (kind == 'q') gale__store_i64(type, p, (int64_t)h);
    else if (real)
        gale__store_f64(type, p, positive ? (double)((h >> 8) % 32 + 1) / 8 : ((double)((h >> 8) % 33) - 16) / 8);
    else if (type == GALE_BOOL) gale__store_i64(type, p, h >> 8 & 1);
    else gale__store_i64(type, p, positive ? (int64_t)((h >> 8) % 7 + 1) : (int64_t)((h >> 8) % 15) - (below ? 7 : 0));
}

/* --- Values. --- */

static void read_generator(reader *r, gale__case_value *v)
{
    char *end;
    char kind = isalpha((unsigned char)*++r->at) ? *r->at++ : 'e';
    int64_t low = 0, high = 0;
    if (kind == 'i') {
        low = strtoll(r->at, &end, 10);
        high = strtoll(end + 1, &end, 10);
        r->at = end + 1;
    }
    uint64_t seed = strtoull(r->at, &end, 10);
    r->at = end;
    size_t size = gale_type_size(v->type);
    for (int64_t i = 0; i < v->elements; i++) generate(v->type, kind, low, high, seed, i, (char *)v->data + i * size);
}

static void read_elements(reader *r, gale__case_value *v)
{
    size_t size = gale_type_size(v->type);
    for (int64_t i = 0; i < v->elements; i++) {
        char *p = (char *)v->data + i * size, *end;
        skip(r);
        if (gale__type_is_float(v->type)) gale__store_f64(v->type, p, strtod(r->at, &end));
        else if (*r->at == '-') gale__store_i64(v->type, p, strtoll(r->at, &end, 10));
        else gale__store_i64(v->type, p, (int64_t)strtoull(r->at, &end, 10));
        if (end == r->at) {
            r->failed = true;
            return;
        }
        r->at = end;
    }
}

static void read_type(reader *r, gale__case_value *v)
{
    char name[24] = "";
    size_t n = strcspn(r->at, "[");
    if (n == 1 && *r->at == 'T') v->type = r->variant;
    else if (n < sizeof name) {
        memcpy(name, r->at, n);
        if (gale_type_parse(name, &v->type) != GALE_OK) r->failed = true;
    } else r->failed = true;
    r->at += n + (r->at[n] == '[');
}

static void read_value(reader *r, gale__case_value *v)
{
    *v = (gale__case_value){0};
    skip(r);
    v->plan = *r->at == '!';
    r->at += v->plan;
    v->absent = *r->at == '-' || *r->at == '_';
    if (v->absent) r->at++;
    else {
        read_type(r, v);
        v->elements = 1;
        while (!r->failed && *r->at && *r->at != ']') {
            char *end;
            int64_t extent = strtoll(r->at, &end, 10);
            if (end == r->at || v->rank == GALE_MAX_RANK) r->failed = true;
            v->dims[v->rank++] = extent;
            v->elements *= extent;
            r->at = end + (*end == ',');
        }
        r->at += *r->at == ']';
        if (!r->failed) v->data = take(r, (size_t)v->elements * gale_type_size(v->type));
        skip(r);
        if (!r->failed && *r->at == '~') read_generator(r, v);
        else if (!r->failed) read_elements(r, v);
    }
    skip(r);
    if (*r->at == ';') r->at++;
    else if (*r->at) r->failed = true;
}

static int read_values(reader *r, const char *text, gale__case_value *values)
{
    int n = 0;
    r->at = text;
    skip(r);
    while (*r->at && !r->failed) {
        if (n == GALE__CASE_VALUES) r->failed = true;
        else read_value(r, &values[n++]);
        skip(r);
    }
    return n;
}

/* --- Attributes. --- */

static void read_list(reader *r, gale_attr *a, const char *text, bool real)
{
    size_t n = 0;
    for (const char *p = text; *p; p++) n += *p == ',';
    n += text[strlen(text) - 1] != ',';
    int64_t *ints = take(r, n * sizeof *ints);
    double *floats = take(r, n * sizeof *floats);
    for (size_t i = 0; i < n && !r->failed; i++) {
        char *end;
        floats[i] = strtod(text, &end);
        ints[i] = strtoll(text, NULL, 10);
        text = end + (*end == ',');
    }
    a->kind = real ? GALE_ATTR_FLOATS : GALE_ATTR_INTS;
    a->ints = ints, a->floats = floats, a->count = n;
}

static void read_attribute(reader *r, char *word, gale_attr *a)
{
    char *text = strchr(word, '='), *end;
    if (!text) {
        r->failed = true;
        return;
    }
    *text++ = 0;
    a->name = word;
    bool number =
        *text && strspn(text, "+-.0123456789eE,na") == strlen(text) && (isdigit((unsigned char)*text) || text[1]);
    bool real = number && strpbrk(text, ".eEn");
    if (*text == '{') {
        gale_graph *graph = NULL;
        a->kind = GALE_ATTR_GRAPH;
        if (gale__case_body(text, &graph) != GALE_OK) r->failed = true;
        a->graph = graph;
    } else if (number && strchr(text, ',')) read_list(r, a, text, real);
    else if (real) a->kind = GALE_ATTR_FLOAT, a->f = strtod(text, &end);
    else if (number) a->kind = GALE_ATTR_INT, a->i = strtoll(text, &end, 10);
    else a->kind = GALE_ATTR_STRING, a->s = text;
}

static void read_attributes(reader *r, const char *text)
{
    char *copy = gale__arena_strdup(&r->run->arena, text), *save = NULL;
    r->run->attrs = take(r, (strlen(text) / 2 + 1) * sizeof *r->run->attrs);
    if (!copy) r->failed = true;
    for (char *word = r->failed ? NULL : strtok_r(copy, " ", &save); word && !r->failed;
         word = strtok_r(NULL, " ", &save))
        read_attribute(r, word, &r->run->attrs[r->run->n_attrs++]);
}

/* --- Rows. --- */

bool gale__case_is_large(const gale__case *c) { return strstr(c->tolerance, ", large") != NULL; }

int gale__case_variants(const gale__case *c)
{
    int n = *c->types != 0;
    for (const char *p = c->types; *p; p++) n += *p == ' ';
    return n ? n : 1;
}

static bool find_variant(const gale__case *c, int variant, char name[24], gale_type *type)
{
    const char *p = c->types;
    for (int i = 0; i < variant && p; i++) p = strchr(p, ' ') + 1;
    snprintf(name, 24, "%.*s", (int)strcspn(p, " "), p);
    return !*name || gale_type_parse(name, type) == GALE_OK;
}

static const gale__op *find_op(const char *name)
{
    for (int i = 0; i < gale__ops_count; i++)
        if (!strcmp(gale__ops_table[i]->name, name)) return gale__ops_table[i];
    return NULL;
}

const char *gale__case_name(const gale__case *c, int variant, gale__arena *arena)
{
    char type[24];
    gale_type unused;
    find_variant(c, variant, type, &unused);
    return gale__arena_printf(
        arena, "%s%s%s%s%s: %s", c->op, *type ? " " : "", type, *c->attrs ? " " : "", c->attrs, c->inputs);
}

gale_status gale__case_open(const gale__case *c, int variant, gale__case_run *run)
{
    char type[24];
    reader r = {run, NULL, GALE_F32, false};
    memset(run, 0, sizeof *run);
    bool known = find_variant(c, variant, type, &r.variant);
    run->op = find_op(c->op);
    run->name = gale__case_name(c, variant, &run->arena);
    read_attributes(&r, c->attrs);
    if (!r.failed) run->n_in = read_values(&r, c->inputs, run->in);
    if (!r.failed) run->n_out = read_values(&r, *c->expected ? c->expected : "_", run->out);
    run->tolerance = (gale__case_tolerance){c->tolerance[0], c->tolerance[1] ? strtod(c->tolerance + 1, NULL) : 0};
    if (known && run->op && run->name && !r.failed) return GALE_OK;
    gale_status status = gale__fail(
        GALE_FORMAT, "case %s %s: %s: cannot be read near '%.20s'", c->op, c->attrs, c->inputs, r.at ? r.at : "");
    gale__case_close(run);
    return status;
}

void gale__case_close(gale__case_run *run)
{
    for (int i = 0; i < run->n_attrs; i++) gale_graph_destroy((gale_graph **)&run->attrs[i].graph);
    run->n_attrs = 0;
    gale__arena_finish(&run->arena);
}
