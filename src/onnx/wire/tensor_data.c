/* TensorProto and tensors.  A file may hold numbers in raw bytes, in one of six lists, or in another file; here they
 * become what gale computes with. The data must fit the shape exactly: whatever does not is an error and not a guess.
 */
#include "base/num.h"
#include "graph/run/tensor.h"
#include "onnx/wire/model_file.h"
#include <stdatomic.h>
#include <string.h>

enum {
    BORROWED_LEAST = 64 << 10,
    PIECE = 3 << 10, /* a multiple of what types under a byte are packed into */
    SPARSE_FLOOR = 64 << 20,
    SPARSE_FLOOR_ALL = 1 << 30,
    SPARSE_PER_BYTE = 4096
};

static const int8_t type_of_number[] = {-1, GALE_F32, GALE_U8, GALE_I8, GALE_U16, GALE_I16, GALE_I32, GALE_I64,
    GALE_STRING, GALE_BOOL, GALE_F16, GALE_F64, GALE_U32, GALE_U64, -1, -1, GALE_BF16, GALE_F8E4M3FN, GALE_F8E4M3FNUZ,
    GALE_F8E5M2, GALE_F8E5M2FNUZ, GALE_U4, GALE_I4, GALE_F4E2M1, GALE_F8E8M0, GALE_U2, GALE_I2, GALE_F6E2M3,
    GALE_F6E3M2};
enum { NUMBERS = sizeof type_of_number };

int gale__onnx_type(int64_t number) { return number >= 0 && number < NUMBERS ? type_of_number[number] : -1; }

int gale__onnx_type_number(gale_type type)
{
    for (int i = 0; i < NUMBERS; i++)
        if (type_of_number[i] == (int)type) return i;
    return -1;
}

typedef struct decoded {
    const gale__pb_tensor *from;
    gale_type type;
    int rank;
    int64_t elements;
    size_t bytes;  /* in our memory */
    size_t packed; /* as raw data */
} decoded;

static size_t packed_bytes(gale_type type, int64_t elements)
{
    size_t bits = (size_t)gale__type_table[type].bits, n = (size_t)elements;
    return n / 8 * bits + (n % 8 * bits + 7) / 8;
}
static bool is_packed(gale_type type) { return type != GALE_STRING && gale__type_table[type].bits < 8; }

static gale_status look_at(const gale__pb_tensor *m, decoded *d)
{
    int type = gale__onnx_type(m->data_type);
    if (m->data_type == 14 || m->data_type == 15)
        return gale__fail(GALE_UNSUPPORTED, "complex numbers are not supported");
    if (type < 0) return gale__fail(GALE_FORMAT, "unknown element type %d", (int)m->data_type);
    if (m->segment) return gale__fail(GALE_UNSUPPORTED, "segmented tensors are not supported");
    if (m->dims.n > GALE_MAX_RANK)
        return gale__fail(GALE_LIMIT, "rank %zu exceeds the limit of %d", m->dims.n, GALE_MAX_RANK);
    *d = (decoded){.from = m, .type = (gale_type)type, .rank = (int)m->dims.n};
    GALE_TRY(gale__shape_size(d->type, d->rank, m->dims.at, &d->elements, &d->bytes));
    d->packed = is_packed(d->type) ? packed_bytes(d->type, d->elements) : d->bytes;
    return GALE_OK;
}

gale_status gale__pb_raw_bytes(const gale__pb_tensor *tensor, size_t *out)
{
    decoded d;
    GALE_TRY(look_at(tensor, &d));
    *out = d.packed;
    return GALE_OK;
}

/* --- Types under eight bits: a stream of bits, the first lowest.  Those of 6 bits cross from a byte to the next. ---
 */

static void unpack(gale_type type, const uint8_t *packed, size_t n, uint8_t *to)
{
    unsigned bits = (unsigned)gale__type_table[type].bits, mask = (1u << bits) - 1,
             sign = gale__type_table[type].kind == 'i' ? 1u << (bits - 1) : 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = i * bits / 8, shift = i * bits % 8;
        unsigned v = packed[at] >> shift;
        if (shift + bits > 8) v |= (unsigned)packed[at + 1] << (8 - shift);
        to[i] = (uint8_t)(((v & mask) ^ sign) - sign);
    }
}

static void pack(gale_type type, const uint8_t *from, size_t n, uint8_t *packed)
{
    unsigned bits = (unsigned)gale__type_table[type].bits, mask = (1u << bits) - 1;
    memset(packed, 0, packed_bytes(type, (int64_t)n));
    for (size_t i = 0; i < n; i++) {
        size_t at = i * bits / 8, shift = i * bits % 8;
        packed[at] |= (uint8_t)((from[i] & mask) << shift);
        if (shift + bits > 8) packed[at + 1] |= (uint8_t)((from[i] & mask) >> (8 - shift));
    }
}

static void booleans(uint8_t *at, size_t n)
{
    for (size_t i = 0; i < n; i++) at[i] = at[i] != 0;
}

/* --- Raw data. --- */

static void release(void *owner)
{
    gale__onnx *file = owner;
    gale__onnx_close(&file);
}

static gale_status borrow(gale__onnx *file, const decoded *d, const gale__pb_place *p, gale_tensor **out)
{
    gale__onnx_hold(file);
    gale_status status = p->memory
                             ? gale__tensor_borrow(d->type, d->rank, d->from->dims.at, p->memory, release, file, out)
                             : gale__tensor_borrow_map(
                                   d->type, d->rank, d->from->dims.at, &p->source->map, p->offset, release, file, out);
    if (status != GALE_OK) release(file);
    return status;
}

static gale_status read_packed(const decoded *d, const gale__pb_place *p, uint8_t *to)
{
    uint8_t piece[PIECE];
    size_t most = sizeof piece * 8 / (size_t)gale__type_table[d->type].bits, all = (size_t)d->elements;
    for (size_t at = 0; at < all; at += most) {
        size_t n = all - at < most ? all - at : most;
        GALE_TRY(gale__pb_place_read(p, packed_bytes(d->type, (int64_t)at), packed_bytes(d->type, (int64_t)n), piece));
        unpack(d->type, piece, n, to + at);
    }
    return GALE_OK;
}

static gale_status from_raw(gale__onnx *file, const decoded *d, gale_tensor **out)
{
    gale__pb_place p = {0};
    gale_tensor *t = NULL;
    GALE_TRY(gale__onnx_place(file, d->from, &p));
    if (p.size != d->packed)
        return gale__fail(GALE_FORMAT, "has %llu bytes of data instead of %zu for its %lld elements of %s",
            (unsigned long long)p.size, d->packed, (long long)d->elements, gale_type_name(d->type));
    bool as_it_is = !is_packed(d->type) && d->type != GALE_BOOL;
    if (as_it_is && d->bytes >= BORROWED_LEAST && (!p.memory || (uintptr_t)p.memory % gale_type_size(d->type) == 0))
        return borrow(file, d, &p, out);
    GALE_TRY(gale_tensor_create(NULL, d->type, d->rank, d->from->dims.at, &t));
    uint8_t *data = t->host;
    gale_status status = is_packed(d->type) ? read_packed(d, &p, data) : gale__pb_place_read(&p, 0, d->bytes, data);
    if (status != GALE_OK) return gale_tensor_destroy(&t), status;
    if (d->type == GALE_BOOL) booleans(data, d->bytes);
    *out = t;
    return GALE_OK;
}

/* --- Lists. --- */

static gale_status expect(const decoded *d, const char *list, size_t have, size_t want)
{
    if (have == want) return GALE_OK;
    return gale__fail(GALE_FORMAT, "has %zu values in %s instead of %zu for its %lld elements of %s", have, list, want,
        (long long)d->elements, gale_type_name(d->type));
}

static gale_status from_strings(const decoded *d, gale_tensor **out)
{
    size_t n = d->from->string_data.n;
    GALE_TRY(expect(d, "string_data", n, (size_t)d->elements));
    const char **texts = gale__calloc(n, sizeof *texts);
    size_t *sizes = gale__calloc(n, sizeof *sizes);
    gale_status status = texts && sizes ? GALE_OK : GALE_NO_MEMORY;
    for (size_t i = 0; i < n && status == GALE_OK; i++) {
        texts[i] = d->from->string_data.at[i].at;
        sizes[i] = d->from->string_data.at[i].size;
    }
    if (status == GALE_OK) status = gale_tensor_from_strings(d->rank, d->from->dims.at, texts, sizes, out);
    gale__free(texts);
    gale__free(sizes);
    return status;
}

/* int32_data serves every type of at most 16 bits: the low bits count.  Types of 4 and 2 bits are packed there as in
 * raw data, those of 6 are not. */
static bool packed_in_list(gale_type type) { return is_packed(type) && gale__type_table[type].bits != 6; }

static void from_int32(const decoded *d, void *to)
{
    const int32_t *v = d->from->int32_data.at;
    uint8_t *bytes = to;
    size_t n = (size_t)d->elements;
    if (packed_in_list(d->type)) {
        size_t per = (size_t)(8 / gale__type_table[d->type].bits);
        for (size_t i = 0; i < n; i += per) {
            const uint8_t packed[2] = {(uint8_t)v[i / per]};
            unpack(d->type, packed, n - i < per ? n - i : per, bytes + i);
        }
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (gale_type_size(d->type) == 2) ((uint16_t *)to)[i] = (uint16_t)v[i];
        else bytes[i] = d->type == GALE_BOOL ? v[i] != 0 : (uint8_t)(is_packed(d->type) ? v[i] & 63 : v[i]);
    }
}

/* The list that a type is kept in, and whether its layout there is that of memory. */
typedef struct held {
    const char *name;
    const void *at;
    size_t n;
    bool same;
} held;
static held find_list(const decoded *d)
{
    const gale__pb_tensor *m = d->from;
    switch (d->type) {
    case GALE_F32: return (held){"float_data", m->float_data.at, m->float_data.n, true};
    case GALE_F64: return (held){"double_data", m->double_data.at, m->double_data.n, true};
    case GALE_I64: return (held){"int64_data", m->int64_data.at, m->int64_data.n, true};
    case GALE_U64: return (held){"uint64_data", m->uint64_data.at, m->uint64_data.n, true};
    case GALE_U32: return (held){"uint64_data", m->uint64_data.at, m->uint64_data.n, false};
    default: return (held){"int32_data", m->int32_data.at, m->int32_data.n, d->type == GALE_I32};
    }
}

static gale_status from_lists(const decoded *d, gale_tensor **out)
{
    gale_tensor *t = NULL;
    held list = find_list(d);
    GALE_TRY(expect(d, list.name, list.n, packed_in_list(d->type) ? d->packed : (size_t)d->elements));
    GALE_TRY(gale_tensor_create(NULL, d->type, d->rank, d->from->dims.at, &t));
    if (list.same && d->bytes) memcpy(t->host, list.at, d->bytes);
    else if (d->type == GALE_U32)
        for (size_t i = 0; i < list.n; i++) ((uint32_t *)t->host)[i] = (uint32_t)d->from->uint64_data.at[i];
    else if (!list.same) from_int32(d, t->host);
    *out = t;
    return GALE_OK;
}

static gale_status decode(gale__onnx *file, const gale__pb_tensor *m, gale_tensor **out)
{
    decoded d;
    GALE_TRY(look_at(m, &d));
    if (d.type == GALE_STRING && (m->raw_data.size || gale__pb_is_external(m)))
        return gale__fail(GALE_FORMAT, "string tensors have no raw data");
    if (d.type == GALE_STRING) return from_strings(&d, out);
    return m->raw_data.size || gale__pb_is_external(m) ? from_raw(file, &d, out) : from_lists(&d, out);
}

gale_status gale__onnx_tensor(gale__onnx *file, const gale__pb_tensor *m, gale_tensor **out)
{
    gale_status status = decode(file, m, out);
    return status == GALE_OK ? status : gale__fail_within(status, "tensor '%s'", m->name.size ? m->name.at : "");
}

/* --- Sparse tensors. --- */

/* The place of entry i: its index, or its coordinates folded into one. */
static gale_status sparse_index(const decoded *dense, const gale_tensor *indices, size_t i, bool linear, size_t *out)
{
    const int64_t *at = indices->host, *dims = dense->from->dims.at;
    int64_t index = 0;
    if (linear) {
        index = at[i];
        if (index < 0 || index >= dense->elements)
            return gale__fail(GALE_FORMAT, "index %lld of a sparse tensor is outside 0 .. %lld", (long long)index,
                (long long)dense->elements - 1);
    } else {
        for (int k = 0; k < dense->rank; k++) {
            int64_t c = at[i * (size_t)dense->rank + (size_t)k];
            if (c < 0 || c >= dims[k])
                return gale__fail(GALE_FORMAT, "coordinate %lld of axis %d of a sparse tensor is outside 0 .. %lld",
                    (long long)c, k, (long long)dims[k] - 1);
            index = index * dims[k] + c;
        }
    }
    *out = (size_t)index;
    return GALE_OK;
}

static gale_status scatter(const decoded *dense, const gale_tensor *values, const gale_tensor *indices, gale_tensor *to)
{
    size_t n = (size_t)gale__tensor_elements(values), size = gale_type_size(dense->type);
    bool linear = indices->rank == 1;
    if (values->rank != 1)
        return gale__fail(GALE_FORMAT, "values of a sparse tensor have rank %d instead of 1", values->rank);
    if (indices->type != GALE_I64 || indices->rank < 1 || indices->rank > 2 || indices->dims[0] != (int64_t)n ||
        (!linear && indices->dims[1] != dense->rank))
        return gale__fail(GALE_FORMAT, "indices of a sparse tensor are not i64 [%zu] or [%zu, %d]", n, n, dense->rank);
    memset(to->host, 0, dense->bytes);
    for (size_t i = 0; i < n; i++) {
        size_t at = 0;
        GALE_TRY(sparse_index(dense, indices, i, linear, &at));
        memcpy((char *)to->host + at * size, (char *)values->host + i * size, size);
    }
    return GALE_OK;
}

/* Borrowed data of a mapped file cannot be looked at in place. */
static gale_status own(gale_tensor **t)
{
    gale_tensor *copy = NULL;
    if (!gale__tensor_mapped(*t)) return GALE_OK;
    GALE_TRY(gale_tensor_to_device(*t, NULL, &copy));
    gale_tensor_destroy(t);
    *t = copy;
    return GALE_OK;
}

/* Few bytes may stand for a shape that no memory holds, or for many that together none does. */
static gale_status check_density(gale__onnx *file, size_t dense, size_t sparse)
{
    if (dense > SPARSE_FLOOR && dense / SPARSE_PER_BYTE > sparse)
        return gale__fail(
            GALE_LIMIT, "sparse tensor too large: %zu bytes when dense, for %zu bytes of values", dense, sparse);
    uint64_t all_dense = atomic_fetch_add(&file->dense_bytes, dense) + dense,
             all_sparse = atomic_fetch_add(&file->sparse_bytes, sparse) + sparse;
    if (all_dense <= SPARSE_FLOOR_ALL || all_dense / SPARSE_PER_BYTE <= all_sparse) return GALE_OK;
    return gale__fail(GALE_LIMIT, "sparse tensors too large: %llu bytes in total when dense, for %llu bytes of values",
        (unsigned long long)all_dense, (unsigned long long)all_sparse);
}

gale_status gale__onnx_sparse(gale__onnx *file, const gale__pb_sparse *m, gale_tensor **out)
{
    gale_tensor *values = NULL, *indices = NULL, *dense = NULL;
    if (!m->values || !m->indices) return gale__fail(GALE_FORMAT, "a sparse tensor has no values or no indices");
    const char *name = m->values->name.size ? m->values->name.at : "";
    gale__pb_tensor shape = {.data_type = m->values->data_type};
    shape.dims.at = m->dims.at;
    shape.dims.n = m->dims.n;
    decoded d = {0};
    gale_status status = look_at(&shape, &d);
    if (status == GALE_OK && d.type == GALE_STRING)
        status = gale__fail(GALE_UNSUPPORTED, "sparse string tensors are not supported");
    GALE_GO(status);
    GALE_GO(gale__onnx_tensor(file, m->values, &values));
    GALE_GO(gale__onnx_tensor(file, m->indices, &indices));
    GALE_GO(own(&values));
    GALE_GO(own(&indices));
    GALE_GO(check_density(file, d.bytes, values->size_bytes));
    GALE_GO(gale_tensor_create(NULL, d.type, d.rank, m->dims.at, &dense));
    GALE_GO(scatter(&d, values, indices, dense));
done:
    gale_tensor_destroy(&values);
    gale_tensor_destroy(&indices);
    if (status != GALE_OK) {
        gale_tensor_destroy(&dense);
        return gale__fail_within(status, "sparse tensor '%s'", name);
    }
    *out = dense;
    return GALE_OK;
}

/* --- The other way. --- */

static gale_status put_strings(gale__arena *arena, const gale_tensor *t, gale__pb_tensor *m)
{
    size_t n = (size_t)gale__tensor_elements(t);
    m->string_data.at = gale__arena_alloc(arena, n * sizeof *m->string_data.at);
    if (!m->string_data.at) return GALE_NO_MEMORY;
    m->string_data.n = n;
    for (size_t i = 0; i < n; i++) {
        size_t size = 0;
        const char *text = gale_tensor_string(t, (int64_t)i, &size);
        char *copy = gale__arena_copy(arena, text, size + 1);
        if (!copy) return GALE_NO_MEMORY;
        m->string_data.at[i] = (gale__pb_text){copy, size};
    }
    return GALE_OK;
}

static gale_status put_numbers(gale__arena *arena, const gale_tensor *t, gale__pb_tensor *m)
{
    size_t size = is_packed(t->type) ? packed_bytes(t->type, gale__tensor_elements(t)) : t->size_bytes;
    uint8_t *raw = gale__arena_alloc(arena, size), *plain = raw;
    if (!raw) return GALE_NO_MEMORY;
    if (is_packed(t->type)) plain = gale__alloc(t->size_bytes);
    if (!plain) return GALE_NO_MEMORY;
    gale_status status = gale_tensor_to_cpu(t, plain, t->size_bytes);
    if (plain != raw) {
        if (status == GALE_OK) pack(t->type, plain, t->size_bytes, raw);
        gale__free(plain);
    }
    m->raw_data = (gale__pb_text){(char *)raw, size};
    return status;
}

gale_status gale__onnx_from_tensor(gale__arena *arena, const gale_tensor *t, const char *name, gale__pb_tensor *out)
{
    gale__pb_tensor m = {.data_type = gale__onnx_type_number(t->type)};
    char *copy = gale__arena_strdup(arena, name);
    m.dims.n = (size_t)t->rank;
    m.dims.at = gale__arena_copy(arena, t->dims, m.dims.n * sizeof *m.dims.at);
    if (!copy || !m.dims.at) return GALE_NO_MEMORY;
    m.name = (gale__pb_text){copy, strlen(copy)};
    GALE_TRY(t->type == GALE_STRING ? put_strings(arena, t, &m) : put_numbers(arena, t, &m));
    *out = m;
    return GALE_OK;
}
