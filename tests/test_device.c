/* Memory, transfers, events, launches and captures, on every backend. */
#include "device_suite.h"

static void buffers(void)
{
    static const size_t sizes[] = {0, 1, 255, 256, 257, 4096, 1 << 20, (2 << 20) + 1, 5 << 20};
    gale_buffer *b[9];
    gale_memory_stats before, during, after;
    gale_memory_get_stats(device, &before);
    for (int i = 0; i < 9; i++) b[i] = make(sizes[i]);
    for (int i = 0; i < 9; i++) {
        CHECK_EQ(gale_buffer_size(b[i]), sizes[i]);
        for (int k = 0; k < i; k++)
            CHECK(b[i]->mem != b[k]->mem || b[i]->offset >= b[k]->offset + b[k]->size ||
                  b[k]->offset >= b[i]->offset + b[i]->size);
        CHECK_EQ(b[i]->offset % 256, 0);
    }
    gale_memory_get_stats(device, &during);
    CHECK_EQ(during.buffers, before.buffers + 9);
    CHECK(during.in_use_bytes >= (8u << 20) && during.reserved_bytes >= during.in_use_bytes);
    gale_buffer *held = gale__buffer_hold(b[3]);
    for (int i = 0; i < 9; i++) gale_buffer_destroy(&b[i]);
    CHECK(b[0] == NULL);
    gale_memory_get_stats(device, &after);
    CHECK_EQ(after.buffers, before.buffers + 1);
    gale_buffer_destroy(&held);
    gale_memory_get_stats(device, &after);
    CHECK_EQ(after.in_use_bytes, before.in_use_bytes);
    CHECK_EQ(after.peak_bytes >= during.in_use_bytes, 1);
    gale_memory_trim(device);
    gale_memory_get_stats(device, &after);
    CHECK_EQ(after.cached_bytes, 0);
    CHECK_EQ(after.fragments, 0);
}

/* Odd offsets and sizes, with the bytes around them untouched. */
static void transfers(void)
{
    enum { N = 10007 };
    static uint8_t want[N], got[N], part[N];
    static const size_t spans[][2] = {{0, 1}, {1, 1}, {3, 5}, {17, 255}, {1023, 4099}, {N - 1, 1}, {5, 0}};
    gale_buffer *b = make(N);
    fill_random(want, N, 1);
    CHECK_OK(gale_upload(stream, b, 0, want, N));
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        size_t at = spans[i][0], n = spans[i][1];
        fill_random(part, n, (uint32_t)i + 7);
        memcpy(want + at, part, n);
        CHECK_OK(gale_upload(stream, b, at, part, n));
        memset(part, 0, sizeof part); /* the caller may reuse its memory at once */
    }
    CHECK_OK(gale_download(stream, b, 0, got, N));
    CHECK_OK(gale_stream_sync(stream));
    if (holds_data) CHECK(!memcmp(want, got, N));
    memset(got, 0xee, N);
    CHECK_OK(gale_download(stream, b, 1001, got + 3, 777));
    CHECK_OK(gale_stream_sync(stream));
    if (holds_data) CHECK(!memcmp(want + 1001, got + 3, 777));
    CHECK(got[2] == 0xee && got[780] == 0xee);
    gale_buffer_destroy(&b);
}

/* More than the staging ring holds, both ways, and many small ones without a wait between. */
static void large_and_many(void)
{
    size_t n = ((size_t)37 << 20) + 13;
    gale__staging_prepare(device, 20); /* more than are kept */
    uint8_t *want = malloc(n), *got = calloc(1, n);
    gale_buffer *b = make(n);
    fill_random(want, n, 5);
    CHECK_OK(gale_upload(stream, b, 0, want, n));
    CHECK_OK(gale_download(stream, b, 0, got, n));
    CHECK_OK(gale_stream_sync(stream));
    if (holds_data) CHECK(!memcmp(want, got, n));
    for (size_t i = 0; i < 2000; i++) CHECK_OK(gale_upload(stream, b, 48 * i, want + 48 * (i + 1), 47));
    memset(got, 0, n);
    for (size_t i = 0; i < 500; i++) CHECK_OK(gale_download(stream, b, 48 * i, got + 48 * i, 47));
    CHECK_OK(gale_stream_sync(stream));
    for (size_t i = 0; i < 500 && holds_data; i++) CHECK(!memcmp(got + 48 * i, want + 48 * (i + 1), 47));
    gale_buffer_destroy(&b);
    free(want);
    free(got);
}

static void copies(void)
{
    enum { N = 8192 };
    static uint8_t want[N], got[N];
    gale_buffer *a = make(N), *b = make(N);
    fill_random(want, N, 9);
    CHECK_OK(gale_upload(stream, a, 0, want, N));
    CHECK_OK(gale_copy(stream, b, 0, a, 0, N));
    CHECK_OK(gale_copy(stream, b, 33, a, 101, 1000));
    memmove(want + 33, want + 101, 1000); /* a is not changed by the copy */
    uint8_t a_part[1000];
    CHECK_OK(gale_download(stream, b, 0, got, N));
    CHECK_OK(gale_download(stream, a, 101, a_part, 1000));
    CHECK_OK(gale_stream_sync(stream));
    if (holds_data) CHECK(!memcmp(want, got, N) && !memcmp(a_part, want + 33, 1000));
    CHECK_OK(gale_copy(stream, a, 0, a, 4096, 4096));
    CHECK_FAILS(gale_copy(stream, a, 0, a, 4095, 4096), INVALID);
    CHECK_FAILS(gale_copy(stream, a, N - 1, b, 0, 2), INVALID);
    CHECK_FAILS(gale_upload(stream, a, SIZE_MAX, want, 2), INVALID);
    CHECK_FAILS(gale_download(stream, a, 0, got, N + 1), INVALID);
    CHECK_FAILS(gale_upload(stream, a, 0, NULL, 2), INVALID);
    CHECK_OK(gale_stream_sync(stream));
    gale_buffer_destroy(&a);
    gale_buffer_destroy(&b);
}

static void fills(void)
{
    enum { N = 4096 };
    static uint8_t want[N], got[N];
    static const uint8_t pattern[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const size_t rows[][3] = {
        {1, 3, 1001}, {2, 2, 998}, {4, 4, 1000}, {8, 16, 2048}, {8, 8, 8}, {1, 4095, 1}, {4, 64, 0}};
    gale_buffer *b = make(N);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t p = rows[i][0], at = rows[i][1], n = rows[i][2];
        memset(want, 0, N);
        CHECK_OK(gale_fill(stream, b, 0, N, "\0", 1));
        CHECK_OK(gale_fill(stream, b, at, n, pattern, p));
        for (size_t k = 0; k < n; k++) want[at + k] = pattern[k % p];
        CHECK_OK(gale_download(stream, b, 0, got, N));
        CHECK_OK(gale_stream_sync(stream));
        if (holds_data) CHECK(!memcmp(want, got, N));
    }
    CHECK_FAILS(gale_fill(stream, b, 0, 6, pattern, 3), INVALID);
    CHECK_FAILS(gale_fill(stream, b, 2, 8, pattern, 4), INVALID);
    CHECK_FAILS(gale_fill(stream, b, 0, 10, pattern, 4), INVALID);
    gale_buffer_destroy(&b);
}

static void events(void)
{
    enum { N = 1 << 20 };
    uint8_t *host = calloc(1, N);
    gale_buffer *b = make(N);
    gale_event *e[3] = {0};
    double a, c, all;
    for (int i = 0; i < 3; i++) CHECK_OK(gale_event_create(device, &e[i]));
    CHECK_FAILS(gale_event_wait(e[0]), INVALID);
    CHECK_FAILS(gale_event_elapsed(e[0], e[1], &a), INVALID);
    CHECK_OK(gale_event_record(e[0], stream));
    CHECK_OK(gale_fill(stream, b, 0, N, "\7", 1));
    CHECK_OK(gale_event_record(e[1], stream));
    CHECK_OK(gale_download(stream, b, 0, host, N));
    CHECK_OK(gale_event_record(e[2], stream));
    CHECK_OK(gale_event_wait(e[2])); /* completes the download */
    if (holds_data) CHECK(host[0] == 7 && host[N - 1] == 7);
    CHECK_OK(gale_event_elapsed(e[0], e[1], &a));
    CHECK_OK(gale_event_elapsed(e[1], e[2], &c));
    CHECK_OK(gale_event_elapsed(e[0], e[2], &all));
    CHECK(a >= 0 && c >= 0 && all >= 0 && all < 60e6);
    CHECK(all >= 0.9 * a && all >= 0.9 * c);
    gale_stream *other = NULL;
    if (CHECK_OK(gale_stream_create(device, &other))) {
        CHECK_OK(gale_fill(stream, b, 0, N, "\10", 1));
        CHECK_OK(gale_event_record(e[0], stream)); /* recorded again */
        CHECK_OK(gale_stream_wait(other, e[0]));
        CHECK_OK(gale_download(other, b, 0, host, N));
        CHECK_OK(gale_event_record(e[1], other));
        gale_stream_destroy(&other); /* finishes what was sent; the event outlives it */
        CHECK_OK(gale_event_wait(e[1]));
        if (holds_data) CHECK(host[0] == 8 && host[N - 1] == 8);
    }
    for (int i = 0; i < 3; i++) gale_event_destroy(&e[i]);
    gale_buffer_destroy(&b);
    free(host);
}

typedef struct worker {
    int number;
    gale_status status;
    bool same;
    char error[256];
} worker;

static gale_status work(
    worker *w, gale_stream *s, gale_buffer *a, gale_buffer *b, uint8_t *want, uint8_t *got, size_t n)
{
    for (uint32_t round = 0; round < 20; round++) {
        fill_random(want, n, round * 8 + (uint32_t)w->number);
        GALE_TRY(gale_upload(s, a, 0, want, n));
        GALE_TRY(gale_copy(s, b, 0, a, 0, n));
        GALE_TRY(gale_download(s, b, 0, got, n));
        GALE_TRY(gale_stream_sync(s));
        if (holds_data && memcmp(want, got, n)) w->same = false;
    }
    return GALE_OK;
}

static void in_thread(void *arg)
{
    worker *w = arg;
    size_t n = 70001 + 1000 * (size_t)w->number;
    uint8_t *want = malloc(n), *got = malloc(n);
    gale_stream *s = NULL;
    gale_buffer *a = NULL, *b = NULL;
    w->same = true;
    w->status = gale_stream_create(device, &s);
    if (!w->status) w->status = gale_buffer_create(device, n, &a);
    if (!w->status) w->status = gale_buffer_create(device, n, &b);
    if (!w->status) w->status = work(w, s, a, b, want, got, n);
    if (w->status) snprintf(w->error, sizeof w->error, "%s", gale_error());
    gale_stream_destroy(&s);
    gale_buffer_destroy(&a);
    gale_buffer_destroy(&b);
    free(want);
    free(got);
}

static void threads(void)
{
    worker workers[4] = {0};
    gale__thread *t[4] = {0};
    for (int i = 0; i < 4; i++) {
        workers[i].number = i;
        CHECK_OK(gale__thread_start(in_thread, &workers[i], &t[i]));
    }
    for (int i = 0; i < 4; i++) {
        gale__thread_join(&t[i]);
        if (workers[i].status) printf("%s\n", workers[i].error);
        CHECK_EQ(workers[i].status, GALE_OK);
        CHECK(workers[i].same);
    }
}

static void launches(void)
{
    gale__poke poke = {0};
    gale_buffer *b = make(4096), *small = make(64);
    uint32_t got[2] = {0};
    if (!CHECK_OK(gale__poke_create(device, &poke))) return;
    CHECK_OK(gale__poke_run(&poke, stream, b, 0xdeadbeef));
    CHECK_OK(gale__poke_run(&poke, stream, small, 77)); /* a piece in the middle of a block */
    CHECK_OK(gale_download(stream, b, 0, &got[0], 4));
    CHECK_OK(gale_download(stream, small, 0, &got[1], 4));
    CHECK_OK(gale_stream_sync(stream));
    if (holds_data) CHECK(got[0] == 0xdeadbeef && got[1] == 77);
    CHECK_OK(gale_kernel_launch(stream, poke.kernel, (uint32_t[3]){0, 1, 1}, &b, 1, got, 1)); /* no groups: nothing */
    CHECK_OK(gale_kernel_launch(stream, poke.kernel, (uint32_t[3]){1, 1, 1}, &b, 1, &got[1], 1));
    CHECK_FAILS(gale_kernel_launch(stream, poke.kernel, (uint32_t[3]){1, 1, 1}, &b, 1, got, 4000), LIMIT);
    gale_kernel *none = NULL;
    CHECK_FAILS(gale_kernel_get(poke.module, "gale_poke", (uint32_t[3]){0, 1, 1}, &none), INVALID);
    CHECK_FAILS(gale_kernel_get(poke.module, "gale_poke", (uint32_t[3]){65535, 65535, 65535}, &none), LIMIT);
    gale_module *module = NULL;
    CHECK_FAILS(gale_module_create(device, "fortran", "x", 1, NULL, &module), INVALID);
    CHECK_FAILS(gale_module_create(device, "opencl", "", 0, NULL, &module), INVALID);
    CHECK_OK(gale_stream_sync(stream));
    gale__poke_finish(&poke);
    gale_buffer_destroy(&b);
    gale_buffer_destroy(&small);
}

static void captures(void)
{
    gale_capture *capture = NULL;
    uint32_t got[4] = {0}, start = 5;
    gale__poke poke = {0};
    gale_buffer *a = make(64), *b = make(64);
    gale_status status = gale_capture_begin(stream);
    if (!device->info.caps.capture) {
        CHECK_EQ(status, GALE_UNSUPPORTED);
        gale_buffer_destroy(&a);
        gale_buffer_destroy(&b);
        return;
    }
    CHECK_EQ(status, GALE_OK);
    CHECK_OK(gale_capture_end(stream, &capture)); /* an empty one */
    CHECK_OK(gale_capture_replay(stream, capture));
    gale_capture_destroy(&capture);
    CHECK_OK(gale__poke_create(device, &poke));
    CHECK_OK(gale_upload(stream, a, 0, &start, 4));
    CHECK_OK(gale_fill(stream, b, 0, 64, "\0", 1));
    CHECK_OK(gale_stream_sync(stream));
    CHECK_OK(gale_capture_begin(stream));
    CHECK_FAILS(gale_capture_begin(stream), INVALID);
    CHECK_FAILS(gale_stream_sync(stream), INVALID);
    CHECK_FAILS(gale_upload(stream, a, 0, &start, 4), UNSUPPORTED);
    CHECK_OK(gale_copy(stream, b, 0, a, 0, 4));
    CHECK_OK(gale_fill(stream, b, 4, 4, "\3", 1));
    CHECK_OK(gale__poke_run(&poke, stream, a, 9)); /* seen by the next replay */
    CHECK_OK(gale_capture_end(stream, &capture));
    CHECK_FAILS(gale_capture_end(stream, &capture), INVALID);
    CHECK_OK(gale_download(stream, b, 0, got, 8));
    CHECK_OK(gale_stream_sync(stream));
    CHECK(got[0] == 0 && got[1] == 0); /* recorded, not run */
    for (int i = 0; i < 2; i++) {
        CHECK_OK(gale_capture_replay(stream, capture));
        CHECK_OK(gale_download(stream, b, 0, got + 2 * i, 8));
    }
    CHECK_OK(gale_stream_sync(stream));
    if (holds_data) CHECK(got[0] == 5 && got[1] == 0x03030303 && got[2] == 9);
    gale_capture_destroy(&capture);
    gale__poke_finish(&poke);
    gale_buffer_destroy(&a);
    gale_buffer_destroy(&b);
}

static void across(void)
{
    size_t n = ((size_t)9 << 20) + 5;
    uint8_t *want = malloc(n), *got = calloc(1, n);
    gale_device *cpu = NULL;
    gale_buffer *there = NULL, *here = make(n);
    gale_stream *cpu_stream = NULL;
    fill_random(want, n, 3);
    CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu));
    CHECK_OK(gale_buffer_create(cpu, n, &there));
    CHECK_OK(gale_stream_create(cpu, &cpu_stream));
    CHECK_FAILS(gale_upload(stream, there, 0, want, 4), INVALID);
    CHECK_OK(gale_upload(stream, here, 0, want, n));
    CHECK_OK(gale_copy(stream, there, 0, here, 0, n)); /* the stream is the source's */
    CHECK_OK(gale_fill(stream, here, 0, n, "\0", 1));
    CHECK_OK(gale_copy(stream, here, 0, there, 0, n)); /* and the target's */
    CHECK_OK(gale_download(stream, here, 0, got, n));
    CHECK_OK(gale_stream_sync(stream));
    if (holds_data) CHECK(!memcmp(want, got, n));
    gale_stream_destroy(&cpu_stream);
    gale_buffer_destroy(&there);
    gale_buffer_destroy(&here);
    gale_device_close(&cpu);
    free(want);
    free(got);
}

static void limits(void)
{
    gale_device_options options = GALE_DEVICE_OPTIONS;
    gale_device *d = NULL;
    gale_buffer *a = NULL, *b = NULL;
    gale_memory_stats stats;
    char want[64];
    options.pool_limit_bytes = (uint64_t)16 << 20;
    if (!CHECK_OK(gale__device_open_one(device->backend, device->info.index, &options, &d))) return;
    CHECK_OK(gale_buffer_create(d, (size_t)10 << 20, &a));
    CHECK_FAILS(gale_buffer_create(d, (size_t)10 << 20, &b), NO_MEMORY);
    snprintf(want, sizeof want, "%s out of memory: 10.0 MiB requested, free ", gale__backend_label(d->backend));
    CHECK(!strncmp(gale_error(), want, strlen(want)) && strstr(gale_error(), "(pool limit 16.0 MiB)"));
    gale_buffer_destroy(&a);
    CHECK_OK(gale_buffer_create(d, (size_t)15 << 20, &a)); /* what was cached is given back first */
    gale_memory_get_stats(d, &stats);
    CHECK(stats.reserved_bytes <= options.pool_limit_bytes);
    CHECK_EQ(stats.limit_bytes, options.pool_limit_bytes);
    gale_buffer_destroy(&a);
    CHECK_FAILS(gale_buffer_create(d, SIZE_MAX, &b), NO_MEMORY);
    CHECK_FAILS(gale_buffer_create(d, (size_t)1 << 50, &b), NO_MEMORY);
    CHECK(strstr(gale_error(), "out of memory: "));
    CHECK(b == NULL);
    gale_device_close(&d);
}

/* A download whose wait failed is given up: it must not write to memory that the caller may have freed. */
static void downloads_given_up(void)
{
    uint8_t host[100], sent[100];
    if (device->info.caps.in_place) return; /* nothing is on its way there */
    gale_buffer *b = make(sizeof host);
    memset(sent, 1, sizeof sent);
    CHECK_OK(gale_upload(stream, b, 0, sent, sizeof sent));
    memset(host, 2, sizeof host);
    CHECK_OK(gale_download(stream, b, 0, host, sizeof host));
    gale__stream_forget(stream);
    CHECK_OK(gale_stream_sync(stream));
    CHECK_EQ(host[0], 2);
    CHECK_OK(gale_download(stream, b, 0, host, sizeof host)); /* the next one arrives */
    CHECK_OK(gale_stream_sync(stream));
    CHECK(!memcmp(host, sent, sizeof host));
    gale_buffer_destroy(&b);
}

static const suite_case cases[] = {
    {"buffers", buffers},
    {"transfers", transfers},
    {"large_and_many", large_and_many},
    {"copies", copies},
    {"fills", fills},
    {"events", events},
    {"threads", threads},
    {"launches", launches},
    {"captures", captures},
    {"across", across},
    {"limits", limits},
    {"downloads_given_up", downloads_given_up},
    {0},
};
SUITE(cases)
