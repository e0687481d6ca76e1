/* The pool against a model: random sizes come and go on a device of known size; no two buffers may share a byte, the
 * statistics must add up after every step, and everything must join again at the end. */
#include "test.h"
#include "device/null/null.h"
#include "device/front.h"
#include <stdlib.h>

#define SLOTS 200

typedef struct model {
    gale_buffer *slots[SLOTS];
    size_t sizes[SLOTS];
    uint64_t in_use, peak, live, made;
} model;

static uint32_t seed;

static uint32_t pick(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(seed >> 8) * below) >> 24);
}

static size_t pick_size(void)
{
    switch (pick(4)) {
    case 0: return pick(300);
    case 1: return pick(20000);
    case 2: return pick(3 << 20);
    default: return (size_t)1 << pick(22);
    }
}

static uint64_t held(size_t size) { return ((size ? size : 1) + 511) / 512 * 512; }

static void check_overlap(const model *m, int at)
{
    const gale_buffer *a = m->slots[at];
    for (int i = 0; i < SLOTS; i++) {
        const gale_buffer *b = m->slots[i];
        if (i == at || !b || b->mem != a->mem) continue;
        CHECK(a->offset + held(a->size) <= b->offset || b->offset + held(b->size) <= a->offset);
    }
    CHECK(a->offset + a->size <= a->mem->size);
}

static void check_stats(const model *m, gale_device *device)
{
    gale_memory_stats s;
    gale_memory_get_stats(device, &s);
    CHECK_EQ(s.in_use_bytes, m->in_use);
    CHECK_EQ(s.peak_bytes, m->peak);
    CHECK_EQ(s.buffers, m->live);
    CHECK_EQ(s.allocations, m->made);
    CHECK_EQ(s.cached_bytes, s.reserved_bytes - s.in_use_bytes);
    CHECK(s.largest_free_bytes <= s.cached_bytes);
    CHECK(!s.limit_bytes || s.reserved_bytes <= s.limit_bytes);
    CHECK((s.cached_bytes == 0) == (s.fragments == 0));
    gale__null_counts c;
    gale__null_get_counts(&c);
    CHECK_EQ(c.live_bytes, s.reserved_bytes);
}

static void put(model *m, gale_device *device, int at)
{
    size_t size = pick_size();
    gale_memory_stats s;
    gale_status status = gale_buffer_create(device, size, &m->slots[at]);
    if (status == GALE_NO_MEMORY) {
        /* Only right when neither a free piece nor the rest of the limit holds it. */
        gale_memory_get_stats(device, &s);
        CHECK(s.limit_bytes && s.largest_free_bytes < held(size) && s.reserved_bytes + held(size) > s.limit_bytes);
        return;
    }
    if (!CHECK_OK(status)) return;
    m->sizes[at] = size;
    m->in_use += held(size);
    m->live++;
    m->made++;
    if (m->in_use > m->peak) m->peak = m->in_use;
    check_overlap(m, at);
}

static void drop(model *m, int at)
{
    gale_buffer_destroy(&m->slots[at]);
    m->in_use -= held(m->sizes[at]);
    m->live--;
}

static void fuzz(uint64_t limit_bytes, bool caching)
{
    static model m;
    gale_device *device = NULL;
    gale_device_options options = GALE_DEVICE_OPTIONS;
    memset(&m, 0, sizeof m);
    options.pool_limit_bytes = limit_bytes;
    gale__null_reset_counts();
    const gale__probe *probe;
    CHECK_OK(gale__backend_probe(&gale__backend_null, &probe)); /* kept for the life of the process */
    int64_t live = gale__alloc_live();
    if (!CHECK_OK(gale__device_open_one(&gale__backend_null, 0, &options, &device))) return;
    for (int step = 0; step < 20000; step++) {
        int at = (int)pick(SLOTS);
        if (m.slots[at]) drop(&m, at);
        else put(&m, device, at);
        if (step % 16 == 0) check_stats(&m, device);
        if (step % 5000 == 4999) gale_memory_trim(device), check_stats(&m, device);
    }
    for (int i = 0; i < SLOTS; i++)
        if (m.slots[i]) drop(&m, i);
    check_stats(&m, device);
    gale__null_counts c;
    gale_memory_stats s;
    gale__null_get_counts(&c);
    gale_memory_get_stats(device, &s);
    CHECK_EQ(s.fragments, c.allocations - c.frees); /* each block is one piece again */
    if (!caching) CHECK_EQ(s.reserved_bytes, 0);
    gale_device_close(&device);
    CHECK_EQ(gale__alloc_live(), live);
}

TEST(unlimited)
{
    seed = 1;
    fuzz(0, true);
}

TEST(limited)
{
    seed = 2;
    fuzz((uint64_t)64 << 20, true);
}

TEST(power_of_two)
{
    setenv("GALE_POOL_GROWTH", "next-power-of-two", 1);
    seed = 3;
    fuzz((uint64_t)80 << 20, true);
    gale_device *d = NULL;
    gale_buffer *b = NULL;
    gale_memory_stats s;
    CHECK_OK(gale__device_open_one(&gale__backend_null, 0, NULL, &d));
    CHECK_OK(gale_buffer_create(d, 5 << 20, &b));
    gale_memory_get_stats(d, &s);
    CHECK_EQ(s.reserved_bytes, 8 << 20);
    gale_buffer_destroy(&b);
    gale_device_close(&d);
    unsetenv("GALE_POOL_GROWTH");
}

TEST(switched_off)
{
    setenv("GALE_POOL", "0", 1);
    seed = 4;
    fuzz(0, false);
    unsetenv("GALE_POOL");
}

/* A steady load asks the driver for nothing. */
TEST(steady)
{
    gale_device *d = NULL;
    gale_memory_stats first, last;
    CHECK_OK(gale__device_open_one(&gale__backend_null, 0, NULL, &d));
    for (int round = 0; round < 10; round++) {
        gale_buffer *b[50];
        for (int i = 0; i < 50; i++) CHECK_OK(gale_buffer_create(d, (size_t)(i + 1) * 100000, &b[i]));
        for (int i = 0; i < 50; i++) gale_buffer_destroy(&b[(i * 7) % 50]);
        if (round == 0) gale_memory_get_stats(d, &first);
    }
    gale_memory_get_stats(d, &last);
    CHECK_EQ(first.driver_allocations, last.driver_allocations);
    gale_device_close(&d);
}

static int told;
static char last_line[512];

static void count_line(void *user, int level, const char *line)
{
    (void)user, (void)level;
    told++;
    snprintf(last_line, sizeof last_line, "%s", line);
}

/* All bytes of a buffer in the host's sight. */
static void set_bytes(gale_buffer *b, int byte) { memset((char *)b->mem->host + b->offset, byte, b->size); }

static bool holds_nothing(const gale_buffer *b)
{
    const uint8_t *bytes = (const uint8_t *)b->mem->host + b->offset;
    size_t n = 0;
    while (n < b->size && bytes[n] == 0xFF) n++;
    return n == b->size;
}

/* What is handed out holds no numbers, the second time too; what is written past an end is told. */
TEST(filled_and_watched)
{
    static const struct {
        ptrdiff_t at;
        const char *says;
    } writes[] = {{-1, "1 bytes before its start"}, {1000, "0 bytes past its end"}, {1007, "7 bytes past its end"}};
    gale_device *d = NULL;
    gale_buffer *b = NULL;
    setenv("GALE_POOL_FILL", "1", 1);
    if (!CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &d))) return;
    told = 0;
    gale_log_set(count_line, NULL, GALE__WARN);
    for (int round = 0; round < 3; round++) {
        if (!CHECK_OK(gale_buffer_create(d, 1000, &b))) break;
        CHECK(holds_nothing(b));
        set_bytes(b, 3);
        CHECK_EQ(told, round);
        ((uint8_t *)b->mem->host + b->offset)[writes[round].at] = 5;
        gale_buffer_destroy(&b);
        CHECK_EQ(told, round + 1);
        CHECK(strstr(last_line, writes[round].says) != NULL);
    }
    gale_log_set(NULL, NULL, GALE__WARN);
    unsetenv("GALE_POOL_FILL");
    gale_device_close(&d);
}

TESTS(ROW(unlimited), ROW(limited), ROW(power_of_two), ROW(switched_off), ROW(steady), ROW(filled_and_watched))
