/* Compression takes most of the time of writing a PNG.  Rows are divided into bands that are filtered and then
 * compressed in parallel.  Each band is a part of one stream that ends on a whole byte and has the 32 KiB before it as
 * its dictionary, so the file is hardly larger and every reader accepts it.  Most of the time goes to the search for
 * repeats, which finds almost none in photographs: a sample of each band decides whether to search.  The output does
 * not depend on the number of threads. */
#include "media/png_pack.h"
#include "base/thread.h"
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    BAND_BYTES = 128 << 10,
    WINDOW = 32 << 10,
    PIECE = 512,
    PIECES = 8,
    PACKED_MOST = PIECES * (PIECE + 64) + 64,
    USUAL = 4
};

typedef struct band {
    uint8_t *packed;
    size_t size;
    uint32_t adler;
} band;
typedef struct job {
    const gale_picture *picture;
    int effort;
    size_t row, pixel; /* bytes; a filtered row has one more in front */
    int64_t band_rows;
    int64_t first, count; /* bands of this group */
    int64_t bands;        /* in all */
    uint8_t *filtered;    /* WINDOW bytes of what came before, then the group's rows */
    band *results;
    _Atomic int failed;
} job;

/* Row y as PNG has it: big end first. */
static const uint8_t *row_bytes(const job *j, int64_t y, uint8_t *room)
{
    const uint8_t *from = gale__picture_row(j->picture, y);
    if (j->picture->type == GALE_U8 || !gale__host_is_little()) return from;
    for (size_t i = 0; i < j->row; i += 2) room[i] = from[i + 1], room[i + 1] = from[i];
    return room;
}

static uint8_t paeth(int a, int b, int c)
{
    int pa = abs(b - c), pb = abs(a - c), pc = abs(a + b - 2 * c);
    return (uint8_t)(pa <= pb && pa <= pc ? a : pb <= pc ? b : c);
}

static void filter(int kind, const uint8_t *row, const uint8_t *above, size_t n, size_t pixel, uint8_t *to)
{
    *to++ = (uint8_t)kind;
    size_t edge = pixel < n ? pixel : n;
    for (size_t i = 0; i < edge; i++)
        to[i] = (uint8_t)(row[i] - (kind == 2 || kind == 4 ? above[i] : kind == 3 ? above[i] / 2 : 0));
    if (kind == 0) memcpy(to, row, n);
    else if (kind == 1)
        for (size_t i = edge; i < n; i++) to[i] = (uint8_t)(row[i] - row[i - pixel]);
    else if (kind == 2)
        for (size_t i = edge; i < n; i++) to[i] = (uint8_t)(row[i] - above[i]);
    else if (kind == 3)
        for (size_t i = edge; i < n; i++) to[i] = (uint8_t)(row[i] - (row[i - pixel] + above[i]) / 2);
    else
        for (size_t i = edge; i < n; i++) to[i] = (uint8_t)(row[i] - paeth(row[i - pixel], above[i], above[i - pixel]));
}

/* How much there is in it: small differences compress well. */
static uint64_t weight(const uint8_t *row, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 1; i <= n; i++) sum += row[i] < 128 ? row[i] : 256u - row[i];
    return sum;
}

static void filter_row(const job *j, const uint8_t *row, const uint8_t *above, uint8_t *trial, uint8_t *to)
{
    static const uint8_t few[] = {1, 2, 4}, all[] = {1, 2, 4, 3, 0}, one[] = {1};
    const uint8_t *kinds = j->effort > 5 ? all : j->effort && j->effort < 3 ? one : few;
    int count = j->effort > 5 ? 5 : j->effort && j->effort < 3 ? 1 : 3;
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < count; i++) {
        filter(kinds[i], row, above, j->row, j->pixel, count == 1 ? to : trial);
        if (count == 1) return;
        uint64_t w = weight(trial, j->row);
        if (w < best) best = w, memcpy(to, trial, j->row + 1);
    }
}

static int64_t rows_of(const job *j, int64_t band_index)
{
    int64_t left = j->picture->height - band_index * j->band_rows;
    return left < j->band_rows ? left : j->band_rows;
}

static uint8_t *place(const job *j, size_t i) { return j->filtered + WINDOW + i * (size_t)j->band_rows * (j->row + 1); }

static void filter_band(void *arg, size_t i, int worker)
{
    job *j = arg;
    int64_t first = (j->first + (int64_t)i) * j->band_rows;
    uint8_t *room = gale__calloc(3, j->row + 1), *to = place(j, i);
    (void)worker;
    if (!room) {
        j->failed = 1;
        return;
    }
    uint8_t *rooms[2] = {room, room + j->row + 1};
    const uint8_t *above = first ? row_bytes(j, first - 1, rooms[1]) : rooms[1]; /* zeros above the first */
    for (int64_t k = 0; k < rows_of(j, j->first + (int64_t)i); k++, to += j->row + 1) {
        const uint8_t *row = row_bytes(j, first + k, rooms[k % 2]);
        filter_row(j, row, above, room + 2 * (j->row + 1), to);
        above = row;
    }
    gale__free(room);
}

static voidpf take_memory(voidpf user, uInt items, uInt size) { return (void)user, gale__calloc(items, size); }
static void free_memory(voidpf user, voidpf p) { (void)user, gale__free(p); }

/* How small pieces from all over a band become that may repeat what its beginning has; PACKED_MOST on failure. */
static size_t sample(int level, int strategy, const uint8_t *from, size_t n)
{
    uint8_t packed[PACKED_MOST];
    z_stream z = {.zalloc = take_memory, .zfree = free_memory, .next_out = packed, .avail_out = sizeof packed};
    if (deflateInit2(&z, level, Z_DEFLATED, -15, 8, strategy) != Z_OK) return PACKED_MOST;
    int done = strategy == Z_RLE ? Z_OK : deflateSetDictionary(&z, from, WINDOW);
    for (size_t i = 0; i < PIECES && done == Z_OK; i++) {
        z.next_in =
            (uint8_t *)from + WINDOW +
            i * 40503 % 65536 * (n - WINDOW - PIECE) / 65536; /* by the golden section: in no step with the rows */
        z.avail_in = PIECE;
        done = deflate(&z, i == PIECES - 1 ? Z_FINISH : Z_NO_FLUSH);
    }
    deflateEnd(&z);
    return done == Z_STREAM_END ? sizeof packed - z.avail_out : PACKED_MOST;
}

/* Whether only runs of one byte are worth looking for: by a sample, with a little given away for the time. */
static bool runs_suffice(const uint8_t *from, size_t n)
{
    if (n < WINDOW + 2 * PIECES * PIECE) return false;
    size_t runs = sample(USUAL, Z_RLE, from, n);
    return runs < PACKED_MOST && runs - runs / 32 <= sample(USUAL, Z_FILTERED, from, n);
}

static void pack_band(void *arg, size_t i, int worker)
{
    job *j = arg;
    int64_t index = j->first + (int64_t)i;
    size_t n = (size_t)rows_of(j, index) * (j->row + 1);
    band *b = &j->results[i];
    z_stream z = {.zalloc = take_memory, .zfree = free_memory};
    bool runs = !j->effort && runs_suffice(place(j, i), n);
    (void)worker;
    if (deflateInit2(&z, j->effort ? j->effort : USUAL, Z_DEFLATED, -15, 8, runs ? Z_RLE : Z_FILTERED) != Z_OK) {
        j->failed = 1;
        return;
    }
    size_t most = deflateBound(&z, (uLong)n) + 64;
    b->packed = gale__alloc(most);
    if (index && !runs) deflateSetDictionary(&z, place(j, i) - WINDOW, WINDOW);
    z.next_in = place(j, i);
    z.avail_in = (uInt)n;
    z.next_out = b->packed;
    z.avail_out = (uInt)most;
    int last = index == j->bands - 1, done = b->packed ? deflate(&z, last ? Z_FINISH : Z_SYNC_FLUSH) : Z_MEM_ERROR;
    if (done != (last ? Z_STREAM_END : Z_OK) || z.avail_in) j->failed = 1;
    b->size = most - z.avail_out;
    b->adler = (uint32_t)adler32_z(1, place(j, i), n);
    deflateEnd(&z);
}

static void put32(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> 8 * (3 - i));
}

/* A chunk of up to three pieces. */
static void add_chunk(gale__str *out, const char *name, const void *head, size_t head_size, const band *b,
    const void *tail, size_t tail_size)
{
    uint8_t number[4];
    size_t size = head_size + (b ? b->size : 0) + tail_size, at = out->length + 4;
    put32(number, (uint32_t)size);
    gale__str_add_n(out, (char *)number, 4);
    gale__str_add(out, name);
    gale__str_add_n(out, head, head_size);
    if (b) gale__str_add_n(out, (char *)b->packed, b->size);
    gale__str_add_n(out, tail, tail_size);
    if (out->failed) return;
    put32(number, (uint32_t)crc32_z(0, (uint8_t *)out->text + at, size + 4));
    gale__str_add_n(out, (char *)number, 4);
}

static void add_bands(job *j, uint32_t *adler, gale__str *out)
{
    static const uint8_t head[2] = {0x78, 0x5e};
    for (int64_t i = 0; i < j->count && !j->failed; i++) {
        uint8_t sum[4];
        int64_t index = j->first + i;
        *adler =
            (uint32_t)adler32_combine(*adler, j->results[i].adler, (z_off_t)((size_t)rows_of(j, index) * (j->row + 1)));
        put32(sum, *adler);
        add_chunk(out, "IDAT", head, index ? 0 : 2, &j->results[i], sum, index == j->bands - 1 ? 4 : 0);
    }
    for (int64_t i = 0; i < j->count; i++) gale__free(j->results[i].packed);
    memset(j->results, 0, (size_t)j->count * sizeof *j->results);
}

gale_status gale__png_pack(const gale_picture *p, int effort, gale__str *out)
{
    job j = {.picture = p,
        .effort = effort,
        .row = gale__picture_row_bytes(p),
        .pixel = (size_t)p->channels * gale_type_size(p->type)};
    uint32_t adler = 1;
    if (j.row > INT32_MAX / 2) return gale__fail(GALE_LIMIT, "PNG: rows of %zu bytes are too long", j.row);
    j.band_rows = j.row + 1 < BAND_BYTES ? (int64_t)(BAND_BYTES / (j.row + 1)) : 1;
    j.bands = (p->height + j.band_rows - 1) / j.band_rows;
    int64_t group = 4 * (int64_t)gale__parallel_width();
    if (group > j.bands) group = j.bands;
    size_t group_bytes = (size_t)group * (size_t)j.band_rows * (j.row + 1);
    j.filtered = gale__calloc(1, WINDOW + group_bytes);
    j.results = gale__calloc((size_t)group, sizeof *j.results);
    if (!j.filtered || !j.results) j.failed = 1;
    for (; j.first < j.bands && !j.failed; j.first += j.count) {
        j.count = j.bands - j.first < group ? j.bands - j.first : group;
        gale__parallel((size_t)j.count, filter_band, &j);
        if (!j.failed) gale__parallel((size_t)j.count, pack_band, &j);
        add_bands(&j, &adler, out);
        memmove(j.filtered, j.filtered + group_bytes, WINDOW); /* what came before the next group */
    }
    gale__free(j.filtered);
    gale__free(j.results);
    if (j.failed) return gale__fail(GALE_NO_MEMORY, "PNG: out of memory");
    add_chunk(out, "IEND", "", 0, NULL, "", 0);
    return gale__str_check(out);
}
