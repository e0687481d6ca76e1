/* PATH.ivf: a header of 128 bytes, centroids, starts of lists, rows by list.  The header names the vectors' file by its
 * size and a hash of some rows, so that an index of other vectors is refused, and hashes what follows it. */
#include "base/hash.h"
#include "jobs/search/ivf.h"
#include <math.h>
#include <string.h>

enum { VERSION = 1, ROWS_HASHED = 64 };

typedef struct header {
    char magic[8];
    uint64_t version, rows, dims, lists, probes;
    uint64_t source_bytes, source_hash, payload_hash;
    double recall;
    uint64_t reserved[6];
} header;
_Static_assert(sizeof(header) == 128, "part of the format");
static const char magic[8] = "galeivf";

static uint64_t align8(uint64_t n) { return (n + 7) / 8 * 8; }

static gale_status wrong(const char *path, const char *why)
{
    return gale__fail(GALE_FORMAT, "%s: %s; build it again with gale search --build-index", path, why);
}

static gale_status check_lists(const gale__ivf *v, const char *path)
{
    if (v->starts[0] || v->starts[v->lists] != (uint64_t)v->rows)
        return wrong(path, "damaged index: the lists do not cover the rows");
    for (int64_t i = 0; i < v->lists; i++)
        if (v->starts[i] > v->starts[i + 1]) return wrong(path, "damaged index: the lists do not cover the rows");
    for (int64_t i = 0; i < v->rows; i++)
        if (v->ids[i] >= v->rows) return wrong(path, "damaged index: a list refers to a row that does not exist");
    return GALE_OK;
}

gale_status gale__ivf_parse(const void *data, size_t size, const char *path, gale__ivf *out)
{
    header h;
    if (size < sizeof h || memcmp(data, magic, sizeof magic)) return wrong(path, "not an index of gale");
    memcpy(&h, data, sizeof h);
    if (h.version != VERSION) return wrong(path, "an index of another version of gale");
    bool fits = h.rows >= 1 && h.rows <= UINT32_MAX && h.dims >= 1 && h.dims <= 1u << 24 && h.lists >= 1 &&
                h.lists <= h.rows && h.probes >= 1 && h.probes <= h.lists && h.recall >= 0 && h.recall <= 1;
    if (!fits) return wrong(path, "damaged index: a number in the header is out of range");
    uint64_t starts = align8(sizeof h + h.lists * h.dims * sizeof(float)), ids = starts + (h.lists + 1) * 8;
    if (size != ids + h.rows * sizeof(uint32_t)) return wrong(path, "damaged index: its size does not match");
    gale__ivf v = {.rows = (int64_t)h.rows,
        .dims = (int64_t)h.dims,
        .lists = (int64_t)h.lists,
        .probes = (int64_t)h.probes,
        .source_bytes = h.source_bytes,
        .source_hash = h.source_hash,
        .payload_hash = h.payload_hash,
        .recall = h.recall};
    const char *at = data;
    v.centroids = (const float *)(const void *)(at + sizeof h);
    v.starts = (const uint64_t *)(const void *)(at + starts);
    v.ids = (const uint32_t *)(const void *)(at + ids);
    GALE_TRY(check_lists(&v, path));
    *out = v;
    return GALE_OK;
}

/* Of some rows over the whole file. */
static gale_status hash_source(const gale_index *x, uint64_t *out)
{
    const gale__vector_file *f = &x->file;
    void *row = gale__alloc(f->row_bytes);
    gale_status status = row ? GALE_OK : GALE_NO_MEMORY;
    uint64_t hash = (uint64_t)f->type;
    for (int64_t i = 0; i < ROWS_HASHED && status == GALE_OK; i++) {
        int64_t at = (int64_t)((double)(f->rows - 1) * (double)i / (ROWS_HASHED - 1));
        status = gale__file_map_read(&f->map, f->offset + (uint64_t)at * f->row_bytes, f->row_bytes, row);
        if (status == GALE_OK) hash = gale__hash(row, f->row_bytes, hash);
    }
    gale__free(row);
    *out = hash;
    return status;
}

static gale_status path_of(const gale_index *x, gale__str *out)
{
    gale__str_addf(out, "%s" GALE__IVF_SUFFIX, x->file.map.path);
    return gale__str_check(out);
}

static gale_status open_map(const gale_index *x, const char *path, gale__ivf *v)
{
    gale__file_map map = {0};
    uint64_t hash = 0;
    if (!gale__file_exists(path))
        return gale__fail(
            GALE_NOT_FOUND, "%s: no such index; build it with gale search %s --build-index", path, x->file.map.path);
    GALE_TRY(gale__file_map_open(path, &map));
    gale_status status = gale__ivf_parse(map.data, map.size, path, v);
    v->map = map;
    if (status == GALE_OK) status = hash_source(x, &hash);
    if (status == GALE_OK && (v->rows != x->file.rows || v->dims != x->file.dims ||
                                 v->source_bytes != x->file.map.size || v->source_hash != hash))
        status = gale__fail(GALE_MISMATCH, "%s: an index of other vectors than %s; build it again with --build-index",
            path, x->file.map.path);
    if (status == GALE_OK &&
        gale__hash((const char *)map.data + sizeof(header), map.size - sizeof(header), 0) != v->payload_hash)
        status = wrong(path, "damaged index: the checksum does not match");
    return status;
}

gale_status gale__ivf_open(const gale_index *x, gale__ivf **out)
{
    gale__str path = {0};
    gale__ivf *v = gale__calloc(1, sizeof *v);
    gale_status status = v ? path_of(x, &path) : GALE_NO_MEMORY;
    if (status == GALE_OK) status = open_map(x, path.text, v);
    gale__str_finish(&path);
    if (status == GALE_OK) *out = v;
    else gale__ivf_close(&v);
    return status;
}

void gale__ivf_close(gale__ivf **ivf)
{
    if (!*ivf) return;
    if ((*ivf)->map.path) gale__file_map_close(&(*ivf)->map);
    gale__free(*ivf);
    *ivf = NULL;
}

gale_status gale__ivf_write(const gale_index *x, const gale__ivf *v)
{
    gale__str path = {0}, out = {0};
    header h = {.version = VERSION,
        .rows = (uint64_t)v->rows,
        .dims = (uint64_t)v->dims,
        .lists = (uint64_t)v->lists,
        .probes = (uint64_t)v->probes,
        .source_bytes = x->file.map.size,
        .recall = v->recall};
    memcpy(h.magic, magic, sizeof magic);
    GALE_TRY(hash_source(x, &h.source_hash));
    size_t centroids = (size_t)(v->lists * v->dims) * sizeof(float);
    gale__str_add_n(&out, (const char *)&h, sizeof h);
    gale__str_add_n(&out, (const char *)v->centroids, centroids);
    gale__str_add_n(&out, "\0\0\0\0", (size_t)(align8(sizeof h + centroids) - sizeof h - centroids));
    gale__str_add_n(&out, (const char *)v->starts, (size_t)(v->lists + 1) * sizeof *v->starts);
    gale__str_add_n(&out, (const char *)v->ids, (size_t)v->rows * sizeof *v->ids);
    gale_status status = gale__str_check(&out);
    if (status == GALE_OK) status = path_of(x, &path);
    if (status == GALE_OK) {
        h.payload_hash = gale__hash(out.text + sizeof h, out.length - sizeof h, 0);
        memcpy(out.text, &h, sizeof h);
        status = gale__file_write(path.text, out.text, out.length);
    }
    gale__str_finish(&path);
    gale__str_finish(&out);
    return status;
}
