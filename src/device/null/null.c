/* A device that runs nothing and counts everything, with limits set by tests: plans can be examined without hardware.
 * Its memory has addresses but no storage, so a download returns zeros. */
#include "device/null/null.h"
#include "device/in_place.h"
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const gale_device_caps generous = {
    .memory_bytes = (uint64_t)64 << 30,
    .memory_free_bytes = (uint64_t)64 << 30,
    .alloc_max_bytes = (uint64_t)64 << 30,
    .compute_units = 16,
    .clock_mhz = 1000,
    .subgroup = 32,
    .group_max = 1024,
    .groups_max = {INT32_MAX, 65535, 65535},
    .shared_bytes = 48 << 10,
    .push_bytes = 256,
    .f16 = true,
    .f64 = true,
    .i64 = true,
    .subgroup_ops = true,
    .capture = true,
    .denormals = true,
    .memory_model = true,
    .in_place = true,
    .dialect = "cuda",
    .storage8 = true,
    .storage16 = true,
    .exact_division = true,
    .software = true,
};

/* One lock for all: this device is for tests, and counting must be exact. */
static gale__mutex lock;
static gale__once lock_once;
static gale__null_counts counts;
static gale_device_caps wanted;
static bool wanted_set;
static gale__null_sink *build_sink;
static void *build_user;
static uint64_t next_address = 1 << 20;
static uint64_t fail_launch; /* launches until one fails; 0: none does */

/* A stream, while it is captured, and a capture keep how many commands they hold of each kind. */
typedef struct tally {
    bool on;
    uint64_t launches, copies, fills;
} tally;

/* A stream remembers what was used on it since it was last waited for: more than this many are not told apart. */
enum { USED = 64 };
typedef struct queue {
    tally tally;
    const gale__mem *used[USED];
    int n_used;
    struct queue *next;
} queue;
static queue *queues;

static void make_lock(void) { gale__mutex_init(&lock); }

static void enter(void)
{
    gale__once_run(&lock_once, make_lock);
    gale__mutex_lock(&lock);
}

static void leave(void) { gale__mutex_unlock(&lock); }

void gale__null_get_counts(gale__null_counts *out)
{
    enter();
    *out = counts;
    leave();
}

void gale__null_reset_counts(void)
{
    enter();
    uint64_t live = counts.live_bytes;
    counts = (gale__null_counts){.live_bytes = live, .peak_bytes = live};
    leave();
}

void gale__null_set_caps(const gale_device_caps *caps)
{
    enter();
    wanted_set = caps != NULL;
    if (caps) wanted = *caps;
    leave();
}

void gale__null_fail_launch(uint64_t n)
{
    enter();
    fail_launch = n;
    leave();
}

void gale__null_set_sink(gale__null_sink *sink, void *user)
{
    enter();
    build_sink = sink;
    build_user = user;
    leave();
}

static void count(uint64_t *counter, uint64_t *bytes, uint64_t n)
{
    enter();
    ++*counter;
    if (bytes) *bytes += n;
    leave();
}

static gale_status probe(gale__probe *out)
{
    out->devices = gale__calloc(1, sizeof *out->devices);
    if (!out->devices) return GALE_NO_MEMORY;
    gale_device_info *info = out->devices;
    info->backend = "null";
    snprintf(info->name, sizeof info->name, "null");
    snprintf(info->driver, sizeof info->driver, "gale %s", gale_version());
    snprintf(info->id, sizeof info->id, "null");
    info->caps = generous;
    out->count = 1;
    return GALE_OK;
}

/* Per device: the bytes that are live on it. */
static gale_status open_device(gale_device *device)
{
    device->impl = gale__calloc(1, sizeof(uint64_t));
    if (!device->impl) return GALE_NO_MEMORY;
    enter();
    if (wanted_set) device->info.caps = wanted;
    leave();
    gale_device_caps *caps = &device->info.caps;
    caps->capture = caps->in_place = true;
    if (!caps->dialect && !caps->spirv) caps->dialect = generous.dialect;
    return GALE_OK;
}

static void close_device(gale_device *device) { gale__free(device->impl); }

static gale_status alloc(gale_device *device, gale__mem_kind kind, size_t size, gale__mem *out)
{
    (void)kind;
    uint64_t *live = device->impl;
    const gale_device_caps *caps = &device->info.caps;
    enter();
    bool fits = size <= caps->memory_bytes - *live && (!caps->alloc_max_bytes || size <= caps->alloc_max_bytes);
    if (fits) {
        *out = (gale__mem){.address = next_address, .size = size};
        next_address += (size + 0xffff) & ~(uint64_t)0xffff;
        *live += size;
        counts.allocations++;
        counts.live_bytes += size;
        if (counts.live_bytes > counts.peak_bytes) counts.peak_bytes = counts.live_bytes;
    }
    leave();
    return fits ? GALE_OK : gale__fail(GALE_NO_MEMORY, "null: out of memory: %zu bytes requested", size);
}

static void release(gale_device *device, gale__mem *mem)
{
    enter();
    for (queue *q = queues; q; q = q->next)
        for (int i = 0; i < q->n_used; i++) counts.freed_in_use += q->used[i] == mem;
    *(uint64_t *)device->impl -= mem->size;
    counts.live_bytes -= mem->size;
    counts.frees++;
    leave();
    *mem = (gale__mem){0};
}

static gale_status memory_info(gale_device *device, uint64_t *total, uint64_t *free_bytes)
{
    enter();
    *total = device->info.caps.memory_bytes;
    *free_bytes = *total - *(uint64_t *)device->impl;
    leave();
    return GALE_OK;
}

static gale_status stream_create(gale_device *device, gale_stream *stream)
{
    (void)device;
    queue *q = stream->impl = gale__calloc(1, sizeof *q);
    if (!q) return GALE_NO_MEMORY;
    enter();
    q->next = queues;
    queues = q;
    leave();
    return GALE_OK;
}

static void stream_destroy(gale_stream *stream)
{
    enter();
    queue **at = &queues;
    while (*at != stream->impl) at = &(*at)->next;
    *at = (*at)->next;
    leave();
    gale__free(stream->impl);
}

static gale_status sync(gale_stream *stream)
{
    queue *q = stream->impl;
    enter();
    q->n_used = 0;
    leave();
    return GALE_OK;
}

static void use(gale_stream *stream, const gale__mem *mem)
{
    queue *q = stream->impl;
    enter();
    int i = 0;
    while (i < q->n_used && q->used[i] != mem) i++;
    if (i == q->n_used && i < USED) q->used[q->n_used++] = mem;
    leave();
}

static gale_status upload(gale_stream *stream, gale__ref to, gale__ref host, size_t size)
{
    (void)host;
    use(stream, to.mem);
    count(&counts.uploads, &counts.upload_bytes, size);
    return GALE_OK;
}

static gale_status download(gale_stream *stream, gale__ref from, gale__ref host, size_t size)
{
    use(stream, from.mem);
    memset((char *)host.mem->host + host.offset, 0, size);
    count(&counts.downloads, &counts.download_bytes, size);
    return GALE_OK;
}

static gale_status copy(gale_stream *stream, gale__ref to, gale__ref from, size_t size)
{
    tally *t = &((queue *)stream->impl)->tally;
    use(stream, to.mem);
    use(stream, from.mem);
    if (t->on) t->copies++;
    else count(&counts.copies, &counts.copy_bytes, size);
    return GALE_OK;
}

static gale_status fill(gale_stream *stream, gale__ref to, size_t size, uint64_t pattern, size_t pattern_bytes)
{
    (void)pattern, (void)pattern_bytes;
    tally *t = &((queue *)stream->impl)->tally;
    use(stream, to.mem);
    if (t->on) t->fills++;
    else count(&counts.fills, &counts.fill_bytes, size);
    return GALE_OK;
}

static gale_status build(gale_device *device, const gale__source *source, gale_module *module)
{
    (void)device, (void)module;
    enter();
    counts.builds++;
    if (build_sink && source->code == GALE__CODE_TEXT) build_sink(build_user, source->data, source->size);
    leave();
    return GALE_OK;
}

static gale_status launch(gale_stream *stream, gale_kernel *k, const gale__launch *l)
{
    tally *t = &((queue *)stream->impl)->tally;
    enter();
    bool fails = fail_launch && --fail_launch == 0;
    leave();
    if (fails) return gale__fail(GALE_DEVICE_LOST, "null: launch of %s failed (injected failure)", k->entry);
    for (int i = 0; i < l->n_refs; i++) use(stream, l->refs[i].mem);
    if (t->on) t->launches++;
    else count(&counts.launches, NULL, 0);
    return GALE_OK;
}

static gale_status capture_begin(gale_stream *stream)
{
    ((queue *)stream->impl)->tally = (tally){.on = true};
    return GALE_OK;
}

static gale_status capture_end(gale_stream *stream, gale_capture *capture)
{
    tally *t = &((queue *)stream->impl)->tally, *kept = gale__calloc(1, sizeof *kept);
    if (kept) *kept = *t;
    *t = (tally){0};
    capture->impl = kept;
    return kept ? GALE_OK : GALE_NO_MEMORY;
}

static gale_status capture_replay(gale_stream *stream, gale_capture *capture)
{
    (void)stream;
    const tally *t = capture->impl;
    enter();
    counts.replays++;
    counts.launches += t->launches;
    counts.copies += t->copies;
    counts.fills += t->fills;
    leave();
    return GALE_OK;
}

static void capture_destroy(gale_capture *capture) { gale__free(capture->impl); }

const gale__backend gale__backend_null = {
    .name = "null",
    .probe = probe,
    .open = open_device,
    .close = close_device,
    .alloc = alloc,
    .free = release,
    .memory_info = memory_info,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .upload = upload,
    .download = download,
    .copy = copy,
    .fill = fill,
    .build = build,
    .launch = launch,
    .sync = sync,
    GALE__IN_PLACE,
    .capture_begin = capture_begin,
    .capture_end = capture_end,
    .capture_replay = capture_replay,
    .capture_destroy = capture_destroy,
};
