/* Lookups by value: keys are sorted when planning, and each element is found by binary search on the device. */
#include "ops/ml/ml.h"
#include "ops/select.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A key with its place in the list; places decide which of equal keys counts. */
typedef struct entry {
    double real;
    int64_t whole, place;
} entry;

static int by_key(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->real != y->real) return x->real < y->real ? -1 : 1;
    if (x->whole != y->whole) return x->whole < y->whole ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* Keys without NaN, ascending, each once with its last place; *nan: place of the last NaN, -1 none. */
static entry *sorted_keys(gale__lower *L, const gale__ml_list *keys, int64_t *count, int64_t *nan)
{
    bool real = gale__type_is_float(keys->type);
    entry *e = gale__arena_alloc(&L->g->arena, (size_t)(keys->count + 1) * sizeof *e);
    int64_t n = 0, kept = 0;
    *nan = -1;
    if (!e) L->g->status = GALE_NO_MEMORY;
    for (int64_t i = 0; e && i < keys->count; i++) {
        double v = real ? gale__ml_list_f(keys, i) : 0;
        if (isnan(v)) *nan = i;
        else e[n++] = (entry){v, real ? 0 : gale__ml_list_i(keys, i), i};
    }
    if (e) qsort(e, (size_t)n, sizeof *e, by_key);
    for (int64_t i = 0; i < n; i++) {
        bool last = i + 1 == n || e[i].real != e[i + 1].real || e[i].whole != e[i + 1].whole;
        if (last) e[kept++] = e[i];
    }
    *count = kept;
    return e;
}

/* For each element of x the place of its key in the list, or -1: I64. */
static gale__node find_keys(gale__lower *L, gale__node x, const gale__ml_list *keys)
{
    gale__prim_graph *g = L->g;
    int64_t n, nan;
    gale_type type = gale__lower_type_of(g, x);
    entry *e = sorted_keys(L, keys, &n, &nan);
    size_t size = gale_type_size(type);
    char *values = gale__arena_alloc(&g->arena, (size_t)(n + 1) * size);
    int64_t *places = gale__arena_alloc(&g->arena, (size_t)(n + 1) * sizeof *places);
    if (!values || !places) g->status = GALE_NO_MEMORY;
    if (!gale__lower_good(L)) return GALE__NIL;
    for (int64_t i = 0; i < n; i++) {
        if (gale__type_is_float(keys->type)) gale__store_f64(type, values + (size_t)i * size, e[i].real);
        else gale__store_i64(type, values + (size_t)i * size, e[i].whole);
        places[i] = e[i].place;
    }
    gale__prim_node p = gale__lower_peek(g, x);
    gale__node found = gale__prim_splat_i(g, GALE_I64, p.rank, p.dims, -1);
    if (n > 0) {
        gale__node sorted = gale__prim_const(g, type, 1, &n, values), at = gale__lower_search(L, sorted, x);
        gale__node same = gale__prim_binary(g, GALE__EQ, gale__prim_take(g, sorted, at), x);
        found = gale__prim_select(g, same, gale__prim_take(g, gale__prim_const(g, GALE_I64, 1, &n, places), at), found);
    }
    if (nan >= 0) found = gale__prim_select(g, gale__prim_binary(g, GALE__NE, x, x), gale__lower_index(L, nan), found);
    return found;
}

/* The first of these attributes that is given. */
static gale__ml_list first_given(gale__lower *L, const char *const *names, int n, const char **name)
{
    for (int i = 0; i < n; i++) {
        gale__ml_list list = gale__ml_list_read(L, *name = names[i]);
        if (list.count) return list;
    }
    return (gale__ml_list){GALE_F32, 0, NULL};
}

LOWER(LabelEncoder)
{
    static const char *const key_names[] = {"keys_tensor", "keys_int64s", "keys_floats"}, *const value_names[] = {
                                                                                              "values_tensor",
                                                                                              "values_int64s",
                                                                                              "values_floats"};
    gale__prim_graph *g = L->g;
    const char *name;
    gale__ml_list keys = first_given(L, key_names, 3, &name), values = first_given(L, value_names, 3, &name);
    if (gale__lower_good(L) && (!keys.count || keys.count != values.count))
        gale__lower_refuse(L, "%lld keys but %lld values", (long long)keys.count, (long long)values.count);
    if (!gale__lower_good(L)) return;
    bool real = gale__type_is_float(values.type), tensor = !strcmp(name, "values_tensor");
    gale__ml_list other = gale__ml_list_read(L, tensor ? "default_tensor" : real ? "default_float" : "default_int64");
    gale__node fallback = other.count ? gale__ml_list_node(L, &other, "default", values.type, 1, &(int64_t){1})
                                      : gale__prim_scalar(g, values.type, real ? -0.0 : -1);
    gale__node at = find_keys(L, L->in[0], &keys), found = gale__prim_binary(g, GALE__GE, at, gale__lower_index(L, 0));
    gale__node value = gale__prim_take(g, gale__ml_list_node(L, &values, name, values.type, 1, &values.count), at);
    L->out[0] = gale__prim_select(g, found, value, gale__prim_reshape(g, fallback, 0, NULL));
}

/* A value of no category has zeros only. */
LOWER(OneHotEncoder)
{
    gale__prim_graph *g = L->g;
    gale__ml_list categories = gale__ml_list_read(L, "cats_int64s");
    gale__prim_node p = gale__lower_peek(g, L->in[0]);
    if (!categories.count || p.rank >= GALE_MAX_RANK)
        gale__lower_refuse(L, "missing attribute 'cats_int64s', or the input has too many axes");
    if (!gale__lower_good(L)) return;
    gale__node x = gale__prim_unsqueeze(g, gale__prim_cast(g, L->in[0], GALE_I64), 1u << p.rank);
    gale__node all = gale__lower_along(
        L, gale__ml_list_node(L, &categories, "cats_int64s", GALE_I64, 1, &categories.count), p.rank + 1, p.rank);
    L->out[0] = gale__prim_cast(g, gale__prim_binary(g, GALE__EQ, x, all), GALE_F32);
}
