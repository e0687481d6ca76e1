/* EXR's ZIP chunks on every device that compiles kernels, beside zlib: streams of every kind of block are unpacked to
 * the same samples, and damaged ones are flagged or what zlib makes of them. */
#include "ir_run.h"
#include "jobs/exr/unzip.h"
#include "nest_random.h"
#include <zlib.h>

enum { CHANNELS = 3, LINES = 4, CHUNKS = 24, ROOM = 1 << 17 };

/* A picture of CHANNELS channels in the file, of which the planes have the last and the first. */
typedef struct picture {
    int width;
    size_t size, packed;      /* of a chunk; of all streams */
    uint8_t *lines, *streams; /* as in a file without compression; */
    uint32_t table[CHANNELS + CHUNKS * 8];
} picture;

static gale__inflate_chunk *chunk_of(picture *p, int i) { return (gale__inflate_chunk *)&p->table[CHANNELS] + i; }

/* What samples look like in files: smooth, flat, noise, few values, repeated. */
static void fill(uint8_t *to, size_t n, int kind)
{
    for (size_t i = 0; i + 1 < n; i += 2) {
        uint16_t v = 0x3c00;
        if (kind == 1) v = (uint16_t)nr_below(65536);
        if (kind == 2) v = (uint16_t)(0x3000 + i / 8 + (size_t)nr_below(16));
        if (kind == 3) v = (uint16_t)(0x3800 + 256 * nr_below(3));
        if (kind == 4) v = (uint16_t)(0x3400 + i % 1000 * 3 % 512);
        if (kind == 5) v = (uint16_t)(nr_chance(3) ? nr_below(65536) : 0x3c01);
        memcpy(to + i, &v, 2);
    }
}

/* Low bytes before high ones, each as its difference to the one before. */
static void predict(const uint8_t *from, uint8_t *to, size_t n)
{
    for (size_t i = 0; i < n; i++) to[i / 2 + (i % 2 ? (n + 1) / 2 : 0)] = from[i];
    for (size_t i = n - 1; i > 0; i--) to[i] = (uint8_t)(to[i] - to[i - 1] + 128);
}

static void unpredict(uint8_t *from, uint8_t *to, size_t n)
{
    for (size_t i = 1; i < n; i++) from[i] = (uint8_t)(from[i] + from[i - 1] - 128);
    for (size_t i = 0; i < n; i++) to[i] = from[i / 2 + (i % 2 ? (n + 1) / 2 : 0)];
}

static size_t pack(const uint8_t *bytes, size_t n, uint8_t *to, size_t room, int kind)
{
    static const int levels[] = {0, 1, 6, 9}, strategies[] = {Z_DEFAULT_STRATEGY, Z_FIXED, Z_HUFFMAN_ONLY, Z_RLE};
    z_stream z = {.next_out = to, .avail_out = (uInt)room};
    deflateInit2(&z, levels[kind % 4], Z_DEFLATED, 15, n < 10000 ? 1 + kind % 9 : 8, strategies[kind / 4 % 4]);
    for (size_t at = 0; at < n;) {
        size_t some = kind % 5 == 4 ? 1 + (size_t)nr_below(3000) : n;
        if (some > n - at) some = n - at;
        z.next_in = (uint8_t *)bytes + at, z.avail_in = (uInt)some;
        at += some;
        deflate(&z, at == n ? Z_FINISH : kind % 2 ? Z_SYNC_FLUSH : Z_PARTIAL_FLUSH);
    }
    deflateEnd(&z);
    return (size_t)z.total_out;
}

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void make(picture *p, int width)
{
    size_t n = (size_t)(width * CHANNELS * LINES) * 2;
    *p = (picture){.width = width, .size = n, .lines = malloc(n * CHUNKS), .streams = malloc(CHUNKS * (2 * n + ROOM))};
    uint8_t *bytes = malloc(n);
    p->table[0] = (uint32_t)(width * CHUNKS * LINES), p->table[1] = GALE__INFLATE_NOWHERE, p->table[2] = 0;
    p->packed = 3; /* streams begin anywhere */
    for (int i = 0; i < CHUNKS; i++) {
        uint8_t *line = p->lines + (size_t)i * n, *to = p->streams + p->packed;
        fill(line, n, i % 6);
        predict(line, bytes, n);
        size_t packed = pack(bytes, n, to, 2 * n + ROOM / 2, i);
        bool raw = i == 7;
        if (raw) memcpy(to, line, packed = n);
        *chunk_of(p, i) = (gale__inflate_chunk){.at = (uint32_t)p->packed,
            .packed = (uint32_t)packed,
            .size = (uint32_t)n,
            .space = (uint32_t)gale__inflate_space(n) * (uint32_t)i,
            .place = (uint32_t)(i * LINES * width),
            .width = (uint32_t)width,
            .sum = big_endian(to + packed - 4),
            .raw = raw};
        p->packed += packed + (size_t)(i % 3);
    }
    free(bytes);
}

static void drop(picture *p) { free(p->lines), free(p->streams); }

static gale_status run(gale_device *device, picture *p, uint16_t *planes, uint32_t *flags)
{
    const gale__inflate_args a = {.chunks = CHUNKS,
        .channels = CHANNELS,
        .width = p->width,
        .height = CHUNKS * LINES,
        .input_bytes = (int64_t)p->packed,
        .chunk_bytes = (int64_t)p->size,
        .space_bytes = (int64_t)gale__inflate_space(p->size) * CHUNKS};
    const size_t bytes = (size_t)(p->width * CHUNKS * LINES) * 2 * 2;
    gale__unzip u = {0};
    gale_stream *stream = NULL;
    gale_buffer *to = NULL;
    size_t bad = 0;
    gale_status status;
    if (!gale__inflate_fits(&a, &gale_device_get_info(device)->caps))
        return gale__fail(GALE_UNSUPPORTED, "chunks of %zu bytes", p->size);
    GALE_GO(gale_stream_create(device, &stream));
    GALE_GO(gale_buffer_create(device, bytes, &to));
    GALE_GO(gale__unzip_begin(&u, stream, &a, p->table, p->streams));
    GALE_GO(gale__unzip_launch(&u, to));
    GALE_GO(gale__unzip_wait(&u, flags, &bad));
    GALE_GO(gale_download(stream, to, 0, planes, bytes));
    GALE_GO(gale_stream_sync(stream));
done:
    gale__unzip_end(&u);
    gale_buffer_destroy(&to);
    gale_stream_destroy(&stream);
    return status;
}

/* Whether the planes have the rows of a chunk, given as lines of a file. */
static bool placed(const picture *p, const uint16_t *planes, int chunk, const uint8_t *lines)
{
    size_t row = (size_t)p->width * 2;
    for (int y = 0; y < LINES; y++)
        for (int c = 0; c < CHANNELS; c += 2) {
            int plane = c == 0;
            const char *at = (const char *)planes + (size_t)((plane * CHUNKS + chunk) * LINES + y) * row;
            if (memcmp(at, lines + (size_t)(y * CHANNELS + c) * row, row)) return false;
        }
    return true;
}

static void check_whole(gale_device *device, int width)
{
    picture p;
    make(&p, width);
    uint16_t *planes = calloc((size_t)(width * CHUNKS * LINES) * 2, 2);
    uint32_t flags[CHUNKS];
    gale_status status = run(device, &p, planes, flags);
    if (status == GALE_UNSUPPORTED) printf("SKIP %d wide: %s\n", width, gale_error());
    else if (CHECK_OK(status))
        for (int i = 0; i < CHUNKS; i++) {
            CHECK_EQ(flags[i], 0);
            if (!CHECK(placed(&p, planes, i, p.lines + (size_t)i * p.size))) printf("  chunk %d, %d wide\n", i, width);
        }
    free(planes);
    drop(&p);
}

/* One byte of each stream is another, or its end is missing. */
static void damage(picture *p, int round)
{
    for (int i = 0; i < CHUNKS; i++) {
        gale__inflate_chunk *c = chunk_of(p, i);
        if (c->raw) continue;
        uint32_t at = round % 2 ? (uint32_t)nr_below((int)c->packed - 2) : (uint32_t)nr_below(40);
        if (at + 2 >= c->packed) at = 0;
        if (round % 4 == 3) c->packed = 7 + (uint32_t)nr_below((int)c->packed - 7);
        else p->streams[c->at + 2 + at] ^= (uint8_t)(1 << nr_below(8));
        c->sum = big_endian(p->streams + c->at + c->packed - 4);
    }
}

static void check_damaged(gale_device *device, int rounds)
{
    enum { WIDTH = 40 };
    uint16_t *planes = calloc(WIDTH * CHUNKS * LINES * 2, 2);
    int flagged = 0;
    for (int round = 0; round < rounds; round++) {
        picture p;
        uint32_t flags[CHUNKS];
        make(&p, WIDTH);
        damage(&p, round);
        uint8_t *bytes = malloc(2 * p.size), *lines = bytes + p.size;
        if (CHECK_OK(run(device, &p, planes, flags)))
            for (int i = 0; i < CHUNKS; i++) {
                const gale__inflate_chunk *c = chunk_of(&p, i);
                uLongf made = p.size;
                bool good = !c->raw && uncompress(bytes, &made, p.streams + c->at, c->packed) == Z_OK && made == p.size;
                flagged += flags[i] != 0;
                if (c->raw || flags[i]) continue;
                if (CHECK(good)) unpredict(bytes, lines, p.size);
                CHECK(placed(&p, planes, i, lines));
            }
        free(bytes);
        drop(&p);
    }
    CHECK(flagged > rounds * (CHUNKS - 1) * 9 / 10);
    free(planes);
}

static void check_target(int target)
{
    gale_device *device = ir_device(target);
    if (!device) return;
    if (target == 0 && gale_device_get_info(device)->caps.software)
        SKIP("PoCL takes minutes to compile the kernel"); /* it makes copies of what follows each barrier */
    nr_state = 1234;
    static const int widths[] = {8, 13, 96, 120, 1000, 1001, 4096};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) check_whole(device, widths[i]);
    check_damaged(device, 12);
}

TEST(opencl) { check_target(0); }
TEST(vulkan) { check_target(1); }
TEST(cuda) { check_target(2); }
TEST(hip) { check_target(3); }
TEST(close) { ir_close_devices(); }

TESTS(ROW(opencl), ROW(vulkan), ROW(cuda), ROW(hip), ROW(close))
