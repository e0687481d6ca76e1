/* Allocations that fail, and the profiler, on every backend. */
#include "device_suite.h"
#include "base/json.h"
#include "gale/profile.h"

static gale_status small_run(gale_device *d)
{
    gale_stream *s = NULL;
    gale_buffer *a = NULL, *b = NULL;
    char host[600] = {0};
    gale_status status;
    GALE_GO(gale_stream_create(d, &s));
    GALE_GO(gale_buffer_create(d, 5000, &a));
    GALE_GO(gale_buffer_create(d, (size_t)3 << 20, &b));
    GALE_GO(gale_upload(s, a, 0, host, sizeof host));
    GALE_GO(gale_copy(s, b, 0, a, 0, sizeof host));
    GALE_GO(gale_download(s, b, 0, host, sizeof host));
    GALE_GO(gale_stream_sync(s));
done:
    gale_stream_destroy(&s);
    gale_buffer_destroy(&a);
    gale_buffer_destroy(&b);
    return status;
}

static void device_faults(void)
{
    gale__device_alloc_fail_at(0);
    CHECK_OK(small_run(device));
    uint64_t count = gale__device_alloc_count();
    CHECK(count >= 2);
    for (uint64_t n = 1; n <= count; n++) {
        gale__device_alloc_fail_at(n);
        CHECK_FAILS(small_run(device), NO_MEMORY);
    }
    gale__device_alloc_fail_at(0);
    gale_memory_stats stats;
    gale_memory_get_stats(device, &stats);
    CHECK_EQ(stats.buffers, 0);
}

/* Everything the front has, from open to close, on a backend that costs nothing to open. */
static gale_status whole_run(const gale__backend *backend)
{
    gale_device *d = NULL;
    gale_stream *s = NULL;
    gale_buffer *b = NULL;
    gale_event *from = NULL, *to = NULL;
    gale_capture *capture = NULL;
    gale_profiler *profiler = NULL;
    gale__poke poke = {0};
    char *text = NULL;
    uint64_t range;
    double us;
    gale_status status;
    GALE_GO(gale__device_open_one(backend, 0, NULL, &d));
    GALE_GO(gale_stream_create(d, &s));
    GALE_GO(gale_buffer_create(d, 5000, &b));
    GALE_GO(gale_event_create(d, &from));
    GALE_GO(gale_event_create(d, &to));
    GALE_GO(gale__poke_create(d, &poke));
    GALE_GO(gale_capture_begin(s));
    GALE_GO(gale__poke_run(&poke, s, b, 3));
    GALE_GO(gale_capture_end(s, &capture));
    GALE_GO(gale_profiler_start(d, &profiler));
    GALE_GO(gale_profiler_range_begin(s, "range", 0, &range));
    GALE_GO(gale_event_record(from, s));
    GALE_GO(gale__poke_run(&poke, s, b, 3));
    GALE_GO(gale_capture_replay(s, capture));
    GALE_GO(gale_event_record(to, s));
    GALE_GO(gale_event_elapsed(from, to, &us));
    GALE_GO(gale_profiler_range_end(s, range));
    GALE_GO(gale_profiler_stop(profiler));
    for (int i = 0; i < 3; i++) {
        GALE_GO(gale_profiler_to_text(profiler, (const char *[]){"table", "json", "trace"}[i], &text));
        gale_free(text);
    }
done:
    gale_profiler_destroy(&profiler);
    gale_capture_destroy(&capture);
    gale__poke_finish(&poke);
    gale_event_destroy(&from);
    gale_event_destroy(&to);
    gale_buffer_destroy(&b);
    gale_stream_destroy(&s);
    gale_device_close(&d);
    return status;
}

static void whole_faults(void)
{
    if (!device->info.caps.in_place) return;
    CHECK_OK(whole_run(device->backend));
    int64_t live = gale__alloc_live();
    gale__alloc_fail_at(0);
    CHECK_OK(whole_run(device->backend));
    uint64_t count = gale__alloc_count(), failed = 0;
    CHECK_EQ(gale__alloc_live(), live);
    for (uint64_t n = 1; n <= count; n++) {
        gale__alloc_fail_at(n);
        gale_status status =
            whole_run(device->backend); /* what the profiler or the pool can do without is no failure */
        gale__alloc_fail_at(0);
        CHECK(status == GALE_OK || status == GALE_NO_MEMORY);
        failed += status != GALE_OK;
        CHECK_EQ(gale__alloc_live(), live);
    }
    CHECK(failed > 10);
}

static void host_faults(void)
{
    CHECK_OK(small_run(device));
    gale__alloc_fail_at(0);
    CHECK_OK(small_run(device));
    uint64_t count = gale__alloc_count();
    int64_t live = gale__alloc_live();
    for (uint64_t n = 1; n <= count; n++) {
        gale__alloc_fail_at(n);
        gale_status status = small_run(device); /* a failure to split a piece is no failure */
        gale__alloc_fail_at(0);
        CHECK(status == GALE_OK || status == GALE_NO_MEMORY);
        gale_memory_trim(device);
        CHECK(gale__alloc_live() <= live);
    }
}

static const gale__json *find_group(const gale__json *root, const char *name)
{
    const gale__json *groups = gale__json_get(root, "groups");
    for (const gale__json *g = groups ? groups->child : NULL; g; g = g->next)
        if (!strcmp(gale__json_text(g, "name", ""), name)) return g;
    return NULL;
}

static void profile_work(void)
{
    gale__poke poke = {0};
    gale_buffer *b = make(1 << 20);
    uint64_t outer, inner;
    gale__tag tag = {"poke", "Poke", 4, 1};
    gale__ref ref = gale__buffer_ref(b, 0);
    uint32_t word = 1;
    gale__launch launch = {.groups = {1, 1, 1}, .n_refs = 1, .n_words = 1, .refs = &ref, .words = &word, .tag = &tag};
    static uint8_t host[1 << 20];
    CHECK_OK(gale__poke_create(device, &poke));
    CHECK_OK(gale_profiler_range_begin(stream, "outer \"quoted\"", 123, &outer));
    CHECK_OK(gale_upload(stream, b, 0, host, sizeof host));
    CHECK_OK(gale_profiler_range_begin(stream, "inner", 0, &inner));
    for (int i = 0; i < 3000; i++) CHECK_OK(gale__launch_run(stream, poke.kernel, &launch));
    CHECK_OK(gale_profiler_range_end(stream, inner));
    CHECK_OK(gale_download(stream, b, 0, host, sizeof host));
    CHECK_OK(gale_profiler_range_end(stream, outer));
    CHECK_OK(gale_stream_sync(stream));
    gale__poke_finish(&poke);
    gale_buffer_destroy(&b);
}

static void check_profile_json(const gale_profiler *p)
{
    gale__arena arena = {0};
    gale__json *root;
    char *text = NULL;
    if (CHECK_OK(gale_profiler_to_text(p, "json", &text)) &&
        CHECK_OK(gale__json_parse(&arena, text, strlen(text), &root))) {
        const gale__json *poke = find_group(root, "poke"), *up = find_group(root, "upload"),
                         *outer = find_group(root, "outer \"quoted\"");
        if (CHECK(poke && up && outer && find_group(root, "inner") && find_group(root, "download"))) {
            CHECK_EQ(gale__json_number(poke, "calls", 0), 3000);
            CHECK_EQ(gale__json_number(poke, "bytes", 0), 12000);
            CHECK_TEXT(gale__json_text(poke, "operator", ""), "Poke");
            CHECK_EQ(gale__json_number(up, "bytes", 0), 1 << 20);
            CHECK_EQ(gale__json_number(outer, "bytes", 0), 123);
            CHECK(gale__json_number(outer, "total_us", 0) >=
                  0.5 * gale__json_number(find_group(root, "inner"), "total_us", 0));
            CHECK(gale__json_number(root, "total_us", -1) >= 0);
        }
    }
    gale__arena_finish(&arena);
    gale_free(text);
    if (CHECK_OK(gale_profiler_to_text(p, "trace", &text)) &&
        CHECK_OK(gale__json_parse(&arena, text, strlen(text), &root))) {
        int64_t n = 0;
        const gale__json *events_list = gale__json_get(root, "traceEvents");
        for (const gale__json *e = events_list ? events_list->child : NULL; e; e = e->next)
            if (!strcmp(gale__json_text(e, "ph", ""), "X"))
                n++, CHECK(gale__json_number(e, "ts", -1) >= 0 && gale__json_number(e, "dur", -1) >= 0);
        CHECK_EQ(n, 3004);
    }
    gale__arena_finish(&arena);
    gale_free(text);
}

static void profiles(void)
{
    gale_profiler *p = NULL, *second = NULL;
    uint64_t range = 1;
    char *text = NULL;
    CHECK_OK(gale_profiler_range_begin(stream, "off", 0, &range));
    CHECK_EQ(range, 0);
    if (!CHECK_OK(gale_profiler_start(device, &p))) return;
    CHECK_FAILS(gale_profiler_start(device, &second), INVALID);
    profile_work();
    CHECK_OK(gale_profiler_stop(p));
    CHECK_FAILS(gale_profiler_stop(p), INVALID);
    check_profile_json(p);
    if (CHECK_OK(gale_profiler_to_text(p, "table", &text)))
        CHECK(strstr(text, "Poke") && strstr(text, "by operator") == NULL && strstr(text, "3000"));
    gale_free(text);
    CHECK_FAILS(gale_profiler_to_text(p, "xml", &text), INVALID);
    CHECK(gale_profiler_write(p, "table", "/nonexistent/folder/x.txt") != GALE_OK);
    gale_profiler_destroy(&p);
}

static const suite_case cases[] = {
    {"device_faults", device_faults},
    {"host_faults", host_faults},
    {"whole_faults", whole_faults},
    {"profiles", profiles},
    {0},
};
SUITE(cases)
