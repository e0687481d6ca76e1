/* Folds views into affine maps.  Every case is exact: a view that strides and guards cannot express is rejected, and
 * the caller materialises the value instead. */
#include "graph/fuse/map.h"
#include <string.h>

bool gale__prim_is_view(int op) { return op >= GALE__PRIM_RESHAPE && op <= GALE__PRIM_UNWINDOW; }

void gale__map_identity(gale__map *m, const gale__map_domain *domain, int rank, const int64_t *dims, int *dim_of_axis)
{
    m->rank = rank;
    m->n = domain->n;
    m->n_guards = 0;
    for (int a = 0; a < rank; a++) {
        gale__map_axis *x = &m->axis[a];
        memset(x, 0, sizeof *x);
        x->div = 1;
        x->guard = -1;
        /* An axis is walked by consecutive dimensions, the last one fastest. */
        int64_t weight = 1;
        int first = dim_of_axis[a], last = dim_of_axis[a + 1];
        for (int d = last - 1; d >= first && dims[a] > 1; d--) {
            x->coef[d] = weight;
            weight *= domain->extent[d];
        }
    }
}

static void copy_guards(const gale__map *m, gale__map *out)
{
    out->n = m->n;
    out->n_guards = m->n_guards;
    memcpy(out->guards, m->guards, (size_t)m->n_guards * sizeof *m->guards);
}

static void axis_constant(gale__map_axis *x, int64_t value)
{
    memset(x, 0, sizeof *x);
    x->c0 = value;
    x->div = 1;
    x->guard = -1;
}

/* Smallest and largest value the numerator of an axis takes over the domain. */
static void axis_range(
    const gale__map *m, const gale__map_axis *x, const gale__map_domain *domain, int64_t *low, int64_t *high)
{
    *low = *high = x->c0;
    for (int d = 0; d < m->n; d++) {
        int64_t span = x->coef[d] * (domain->extent[d] - 1);
        if (span < 0) *low += span;
        else *high += span;
    }
}

/* Adds the guard "the coordinate of axis x is an integer in [0, n)", unless it always holds. */
static bool add_guard(gale__map *out, gale__map_axis *x, int64_t extent, const gale__map_domain *domain, bool *guarded)
{
    int64_t low, high;
    axis_range(out, x, domain, &low, &high);
    if (x->div == 1 && low >= 0 && high < extent) return true;
    if (out->n_guards == GALE__GUARDS) return false;
    gale__nest_guard *guard = &out->guards[out->n_guards];
    memset(guard, 0, sizeof *guard);
    memcpy(guard->coef, x->coef, (size_t)out->n * sizeof *x->coef);
    guard->c0 = x->c0;
    guard->extent = extent;
    guard->div = x->div;
    if (x->div > 1) x->guard = out->n_guards;
    out->n_guards++;
    *guarded = true;
    return true;
}

/* A digit of a mixed-radix number: a whole domain dimension (dim >= 0) or a fixed value. */
typedef struct digit {
    int dim;
    int64_t extent, value;
} digit;

/* Takes an axis of extent n apart into digits, most significant first; false when it is not a plain positional walk. */
static bool axis_digits(const gale__map *m, int a, int64_t n, const gale__map_domain *domain, digit *out, int *count)
{
    const gale__map_axis *x = &m->axis[a];
    if (x->div != 1) return false;
    int dims[GALE__NEST_DIMS], k = 0;
    for (int d = 0; d < m->n; d++) {
        if (x->coef[d] < 0) return false;
        if (x->coef[d] == 0 || domain->extent[d] == 1) continue;
        int at = k++;
        for (; at > 0 && x->coef[dims[at - 1]] < x->coef[d]; at--) dims[at] = dims[at - 1];
        dims[at] = d;
    }
    if (k == 0) {
        out[(*count)++] = (digit){-1, n, x->c0};
        return x->c0 >= 0 && x->c0 < n;
    }
    if (x->c0 != 0) return false;
    int64_t weight = 1;
    for (int i = k - 1; i >= 0; i--) {
        if (x->coef[dims[i]] != weight) return false;
        weight *= domain->extent[dims[i]];
    }
    if (weight != n) return false;
    for (int i = 0; i < k; i++) out[(*count)++] = (digit){dims[i], domain->extent[dims[i]], 0};
    return true;
}

/* Reads input axes [first, last) of extents `in` off the digits, least significant first. */
static gale__map_result digits_to_axes(
    digit *digits, int count, const int64_t *in, int first, int last, gale__map *out, gale__map_split *split)
{
    int at = count - 1;
    for (int a = last - 1; a >= first; a--) {
        gale__map_axis *x = &out->axis[a];
        axis_constant(x, 0);
        int64_t need = in[a], weight = 1;
        while (weight < need) {
            if (at < 0) return GALE__MAP_FAIL;
            digit *d = &digits[at];
            int64_t rest = need / weight;
            if (d->extent <= rest) {
                if (rest % d->extent != 0) return GALE__MAP_FAIL;
                if (d->dim >= 0) x->coef[d->dim] = weight;
                else x->c0 += d->value * weight;
                weight *= d->extent;
                at--;
            } else {
                if (d->extent % rest != 0) return GALE__MAP_FAIL;
                if (d->dim >= 0) {
                    *split = (gale__map_split){d->dim, rest};
                    return GALE__MAP_SPLIT;
                }
                x->c0 += d->value % rest * weight;
                d->value /= rest;
                d->extent /= rest;
                weight = need;
            }
        }
    }
    return GALE__MAP_OK;
}

/* Output axes [out_first, out_end) and input axes [in_first, in_end) of equal product. */
static gale__map_result reshape_group(const gale__map_domain *domain, const gale__map *m, const int64_t *od,
    int out_first, int out_end, const int64_t *id, int in_first, int in_end, gale__map *out, gale__map_split *split)
{
    int out_real = 0, in_real = 0, o1 = out_first, i1 = in_first;
    for (int a = out_first; a < out_end; a++)
        if (od[a] != 1) {
            out_real++;
            o1 = a;
        }
    for (int a = in_first; a < in_end; a++) {
        axis_constant(&out->axis[a], 0);
        if (id[a] != 1) {
            in_real++;
            i1 = a;
        }
    }
    if (in_real == 0) return GALE__MAP_OK;
    if (in_real == 1 && out_real == 1) {
        out->axis[i1] = m->axis[o1];
        return GALE__MAP_OK;
    }
    if (in_real == 1) { /* merging is always affine */
        gale__map_axis *x = &out->axis[i1];
        int64_t weight = 1;
        for (int a = out_end - 1; a >= out_first; a--) {
            if (m->axis[a].div != 1) return GALE__MAP_FAIL;
            x->c0 += m->axis[a].c0 * weight;
            for (int d = 0; d < m->n; d++) x->coef[d] += m->axis[a].coef[d] * weight;
            weight *= od[a];
        }
        return GALE__MAP_OK;
    }
    digit digits[GALE__NEST_DIMS + GALE_MAX_RANK];
    int count = 0;
    for (int a = out_first; a < out_end; a++)
        if (od[a] != 1 && !axis_digits(m, a, od[a], domain, digits, &count)) return GALE__MAP_FAIL;
    return digits_to_axes(digits, count, id, in_first, in_end, out, split);
}

static gale__map_result map_reshape(const gale__map_domain *domain, const gale__prim_node *n, const gale__prim_node *in,
    const gale__map *m, gale__map *out, gale__map_split *split)
{
    int out_first = 0, in_first = 0;
    while (out_first < n->rank || in_first < in->rank) {
        int out_end = out_first, in_end = in_first;
        int64_t po = 1, pi = 1;
        do {
            if (po <= pi && out_end < n->rank) po *= n->dims[out_end++];
            else if (in_end < in->rank) pi *= in->dims[in_end++];
            else if (out_end < n->rank) po *= n->dims[out_end++];
            else break;
        } while (po != pi || ((out_end < n->rank || in_end < in->rank) && po == 1 && pi == 1));
        if (po != pi) return GALE__MAP_FAIL;
        /* trailing ones belong to the last group */
        if (out_end == n->rank) in_end = in->rank;
        if (in_end == in->rank) out_end = n->rank;
        gale__map_result r =
            reshape_group(domain, m, n->dims, out_first, out_end, in->dims, in_first, in_end, out, split);
        if (r != GALE__MAP_OK) return r;
        out_first = out_end;
        in_first = in_end;
    }
    return GALE__MAP_OK;
}

static gale__map_result map_slice(const gale__prim_node *n, const gale__map *m, gale__map *out)
{
    for (int a = 0; a < n->rank; a++) {
        gale__map_axis *x = &out->axis[a];
        *x = m->axis[a];
        int64_t start = n->attr[2 * a], step = n->attr[2 * a + 1];
        if (start == 0 && step == 1) continue;
        if (x->div != 1) return GALE__MAP_FAIL;
        x->c0 = start + step * x->c0;
        for (int d = 0; d < m->n; d++) x->coef[d] *= step;
    }
    return GALE__MAP_OK;
}

static gale__map_result map_pad(const gale__map_domain *domain, const gale__prim_node *n, const gale__prim_node *in,
    const gale__map *m, gale__map *out, bool *guarded)
{
    for (int a = 0; a < n->rank; a++) {
        gale__map_axis *x = &out->axis[a];
        *x = m->axis[a];
        int64_t low = n->attr[3 * a], high = n->attr[3 * a + 1], interior = n->attr[3 * a + 2];
        if (low == 0 && high == 0 && interior == 0) continue;
        if (x->div != 1) return GALE__MAP_FAIL;
        x->c0 -= low;
        x->div = interior + 1;
        if (!add_guard(out, x, in->dims[a], domain, guarded)) return GALE__MAP_FAIL;
    }
    return GALE__MAP_OK;
}

static gale__map_result map_window(const gale__map_domain *domain, const gale__prim_node *n, const gale__prim_node *in,
    const gale__map *m, gale__map *out, bool *guarded)
{
    int axis = (int)n->attr[0];
    for (int a = 0; a < in->rank; a++) out->axis[a] = m->axis[a <= axis ? a : a + 1];
    gale__map_axis *x = &out->axis[axis];
    const gale__map_axis *o = &m->axis[axis], *k = &m->axis[axis + 1];
    if (o->div != 1 || k->div != 1) return GALE__MAP_FAIL;
    x->c0 = o->c0 * n->attr[1] + k->c0 * n->attr[2] + n->attr[3];
    for (int d = 0; d < m->n; d++) x->coef[d] = o->coef[d] * n->attr[1] + k->coef[d] * n->attr[2];
    return add_guard(out, x, in->dims[axis], domain, guarded) ? GALE__MAP_OK : GALE__MAP_FAIL;
}

static void drop_guard(gale__map *m, int guard)
{
    m->n_guards--;
    memmove(&m->guards[guard], &m->guards[guard + 1], (size_t)(m->n_guards - guard) * sizeof *m->guards);
    for (int a = 0; a < m->rank; a++) m->axis[a].guard -= m->axis[a].guard > guard;
}

bool gale__map_roll(gale__map *m, const gale__map_domain *domain, int axis, int64_t extent, int64_t shift)
{
    gale__map_axis *x = &m->axis[axis];
    int64_t low, high;
    if (x->div == GALE__WRAPS) {
        int guard = x->guard;
        x->div = 1;
        x->guard = -1;
        drop_guard(m, guard);
    }
    if (x->div != 1) return false;
    x->c0 += shift;
    axis_range(m, x, domain, &low, &high);
    int64_t turns = (low - (low % extent + extent) % extent) / extent;
    x->c0 -= turns * extent;
    if (high - turns * extent < extent) return true;
    if (high - turns * extent >= 2 * extent || m->n_guards == GALE__GUARDS) return false;
    gale__nest_guard *guard = &m->guards[m->n_guards];
    *guard = (gale__nest_guard){.c0 = x->c0, .extent = extent, .div = GALE__WRAPS};
    memcpy(guard->coef, x->coef, (size_t)m->n * sizeof *x->coef);
    x->div = GALE__WRAPS;
    x->guard = m->n_guards++;
    return true;
}

static gale__map_result map_roll(
    const gale__map_domain *domain, const gale__prim_node *n, const gale__map *m, gale__map *out)
{
    int axis = (int)n->attr[0];
    for (int a = 0; a < n->rank; a++) out->axis[a] = m->axis[a];
    return gale__map_roll(out, domain, axis, n->dims[axis], n->attr[1]) ? GALE__MAP_OK : GALE__MAP_FAIL;
}

static gale__map_result map_unwindow(const gale__map_domain *domain, const gale__prim_node *n,
    const gale__prim_node *in, const gale__map *m, gale__map *out, bool *guarded)
{
    int axis = (int)n->attr[0];
    for (int a = 0; a < in->rank; a++) out->axis[a] = m->axis[a];
    gale__map_axis *x = &out->axis[axis];
    const gale__map_axis *k = &m->axis[axis + 1];
    if (x->div != 1 || k->div != 1) return GALE__MAP_FAIL;
    x->c0 = x->c0 - k->c0 * n->attr[2] - n->attr[3];
    for (int d = 0; d < m->n; d++) x->coef[d] -= k->coef[d] * n->attr[2];
    x->div = n->attr[1];
    return add_guard(out, x, in->dims[axis], domain, guarded) ? GALE__MAP_OK : GALE__MAP_FAIL;
}

gale__map_result gale__map_view(const gale__prim_graph *g, gale__node node, const gale__map_domain *domain,
    const gale__map *m, gale__map *out, bool *guarded, gale__map_split *split)
{
    const gale__prim_node *n = gale__prim_at(g, node), *in = gale__prim_at(g, n->in[0]);
    copy_guards(m, out);
    out->rank = in->rank;
    *guarded = false;
    switch (n->op) {
    case GALE__PRIM_RESHAPE: return map_reshape(domain, n, in, m, out, split);
    case GALE__PRIM_SLICE: return map_slice(n, m, out);
    case GALE__PRIM_PAD: return map_pad(domain, n, in, m, out, guarded);
    case GALE__PRIM_WINDOW: return map_window(domain, n, in, m, out, guarded);
    case GALE__PRIM_ROLL: return map_roll(domain, n, m, out);
    case GALE__PRIM_UNWINDOW: return map_unwindow(domain, n, in, m, out, guarded);
    case GALE__PRIM_PERMUTE:
        for (int a = 0; a < n->rank; a++) out->axis[n->attr[a]] = m->axis[a];
        return GALE__MAP_OK;
    case GALE__PRIM_EXPAND:
        for (int a = 0; a < n->rank; a++) {
            if (in->dims[a] == 1 && n->dims[a] != 1) axis_constant(&out->axis[a], 0);
            else out->axis[a] = m->axis[a];
        }
        return GALE__MAP_OK;
    default: return GALE__MAP_FAIL;
    }
}

bool gale__map_equal(const gale__map *a, const gale__map *b)
{
    if (a == b) return true;
    if (a->rank != b->rank || a->n_guards != b->n_guards) return false;
    int n = a->n > b->n ? a->n : b->n;
    for (int x = 0; x < a->rank; x++) {
        if (a->axis[x].c0 != b->axis[x].c0 || a->axis[x].div != b->axis[x].div) return false;
        for (int d = 0; d < n; d++)
            if (gale__map_coef(a, x, d) != gale__map_coef(b, x, d)) return false;
    }
    return memcmp(a->guards, b->guards, (size_t)a->n_guards * sizeof *a->guards) == 0;
}

void gale__map_access(const gale__map *m, const int64_t *strides, gale__nest_access *out)
{
    memset(out->stride, 0, sizeof out->stride);
    out->offset = 0;
    out->n_guards = m->n_guards;
    memcpy(out->guards, m->guards, (size_t)m->n_guards * sizeof *m->guards);
    for (int a = 0; a < m->rank; a++) {
        const gale__map_axis *x = &m->axis[a];
        if (x->div > 1) {
            out->guards[x->guard].stride += strides[a];
            continue;
        }
        if (x->div == GALE__WRAPS) out->guards[x->guard].stride += out->guards[x->guard].extent * strides[a];
        out->offset += x->c0 * strides[a];
        for (int d = 0; d < m->n; d++) out->stride[d] += x->coef[d] * strides[a];
    }
}

bool gale__map_dims(const gale__map *m, const gale__map_domain *domain, const int64_t *dims, uint32_t *walked)
{
    digit digits[GALE__NEST_DIMS + GALE_MAX_RANK];
    *walked = 0;
    if (m->n_guards > 0) return false;
    for (int a = 0; a < m->rank; a++) {
        if (dims[a] == 1) continue;
        int count = 0;
        if (!axis_digits(m, a, dims[a], domain, digits, &count)) return false;
        for (int i = 0; i < count; i++) {
            if (digits[i].dim < 0 || (*walked >> digits[i].dim & 1)) return false;
            *walked |= 1u << digits[i].dim;
        }
    }
    return true;
}
