/* The launch of the kernel for ZIP chunks, with its memory, and the choice between it and the host.  A chunk takes the
 * device much longer than a core, but it has many at a time: a single picture is sooner there where one core would
 * decode it, as in a batch, and not where all of them would. */
#include "jobs/exr/unzip.h"
#include "base/env.h"
#include "base/mem.h"
#include "base/thread.h"
#include "graph/run/tensor.h"
#include "kernel/kernels.h"
#include <string.h>

static gale_status find_kernel(gale_device *device, const gale__inflate_args *a, gale_kernel **out)
{
    gale__routine_launch launch;
    const char *key = launch.key;
    gale__kernel_wants wants = {.device = device};
    gale__arena arena = {0};
    gale__runnable none[1];
    gale__ir ir;
    gale_status status = GALE_OK;
    gale__inflate_kernels.describe(a, &gale_device_get_info(device)->caps, 0, &launch);
    if (gale__kernel_is_new(&wants, key)) {
        gale__ir_init(&ir, key);
        ir.n_pointers = launch.n_refs, ir.n_words = launch.n_words;
        gale__inflate_kernels.build(a, &gale_device_get_info(device)->caps, 0, &ir);
        status = gale__kernel_want(&wants, &ir);
        if (status == GALE_OK) status = gale__runnables_make(device, &arena, NULL, NULL, 0, &wants, none);
    }
    gale__kernel_wants_finish(&wants);
    gale__arena_finish(&arena);
    if (status == GALE_OK) *out = gale__kernel_known(device, key);
    return status;
}

gale_status gale__unzip_begin(
    gale__unzip *u, gale_stream *stream, const gale__inflate_args *args, const uint32_t *table, const void *input)
{
    gale_device *device = stream->device;
    size_t table_bytes = (size_t)args->channels * sizeof *table + (size_t)args->chunks * sizeof(gale__inflate_chunk),
           input_bytes = (size_t)(args->input_bytes + 3) / 4 * 4;
    u->stream = stream;
    u->args = *args;
    gale__inflate_kernels.describe(args, &gale_device_get_info(device)->caps, 0, &u->launch);
    if (!u->kernel) GALE_TRY(find_kernel(device, args, &u->kernel));
    GALE_TRY(gale_buffer_create(device, (size_t)args->chunks * sizeof(uint32_t), &u->flags));
    GALE_TRY(gale_buffer_create(device, (size_t)args->space_bytes, &u->space));
    GALE_TRY(gale_buffer_create(device, table_bytes, &u->table));
    GALE_TRY(gale_buffer_create(device, input_bytes, &u->input));
    const uint32_t not_done = UINT32_MAX;
    GALE_TRY(gale_fill(stream, u->flags, 0, (size_t)args->chunks * sizeof not_done, &not_done, sizeof not_done));
    GALE_TRY(gale_upload(stream, u->input, 0, input, (size_t)args->input_bytes));
    return gale_upload(stream, u->table, 0, table, table_bytes);
}

gale_status gale__unzip_launch(gale__unzip *u, gale_buffer *planes)
{
    static const gale__tag tag = {.name = "inflate"};
    gale_buffer *const buffers[GALE__INFLATE_POINTERS] = {planes, u->flags, u->space, u->table, u->input};
    gale__ref refs[GALE__INFLATE_POINTERS];
    for (int i = 0; i < GALE__INFLATE_POINTERS; i++) refs[i] = gale__buffer_ref(buffers[i], 0);
    gale__launch launch = {.n_refs = u->launch.n_refs,
        .n_words = u->launch.n_words,
        .refs = refs,
        .words = u->launch.words,
        .group = {GALE__INFLATE_LANES, 1, 1},
        .tag = &tag};
    memcpy(launch.groups, u->launch.groups, sizeof launch.groups);
    return gale__launch_run(u->stream, u->kernel, &launch);
}

gale_status gale__unzip_wait(gale__unzip *u, uint32_t *flags, size_t *bad)
{
    size_t n = (size_t)u->args.chunks;
    uint32_t *own = flags ? flags : gale__alloc(n * sizeof *own);
    gale_status status = own ? gale_download(u->stream, u->flags, 0, own, n * sizeof *own) : GALE_NO_MEMORY;
    if (status == GALE_OK) status = gale_stream_sync(u->stream);
    *bad = 0;
    for (size_t i = 0; status == GALE_OK && i < n; i++) *bad += own[i] != 0;
    if (!flags) gale__free(own);
    return status;
}

void gale__unzip_end(gale__unzip *u)
{
    gale_buffer **const all[] = {&u->flags, &u->space, &u->table, &u->input};
    for (int i = 0; i < 4; i++) gale_buffer_destroy(all[i]);
}

/* --- The choice. --- */

/* Assumed until there are pictures: nanoseconds of a core for a byte; of a work-group, for a byte of its chunk. */
#define HOST_NS 2.0
#define DEVICE_NS 50.0
enum { STREAMS_MOST = 64, AGAIN = 32, SENDING_MOST = 4 };

struct gale__unzipper {
    gale_device *device;
    gale__mutex lock;
    gale__cond sent;
    int sending; /* pictures on their way: pinned memory is for few, since it is slow to make */
    gale_stream *idle[STREAMS_MOST];
    int n_idle;
    int seen;       /* pictures by the device: the first of each lane waits for kernels and pinned memory */
    double pace[2]; /* seconds a byte, of the host and of the device; 0: not known */
    size_t asked;
};

gale_status gale__unzipper_create(gale_device *device, gale__unzipper **out)
{
    gale__unzipper *z = gale__calloc(1, sizeof *z);
    if (!z) return GALE_NO_MEMORY;
    z->device = device;
    gale__mutex_init(&z->lock);
    gale__cond_init(&z->sent);
    *out = z;
    return GALE_OK;
}

void gale__unzipper_destroy(gale__unzipper **z)
{
    if (!*z) return;
    for (int i = 0; i < (*z)->n_idle; i++) gale_stream_destroy(&(*z)->idle[i]);
    gale__cond_finish(&(*z)->sent);
    gale__mutex_finish(&(*z)->lock);
    gale__free(*z);
    *z = NULL;
}

void gale__unzipper_note(gale__unzipper *z, bool by_device, uint64_t bytes, double seconds)
{
    double now = seconds / (double)(bytes + 1);
    gale__mutex_lock(&z->lock);
    z->seen += by_device;
    if (!by_device || z->seen > gale__parallel_width())
        z->pace[by_device] = z->pace[by_device] > 0 ? 0.7 * z->pace[by_device] + 0.3 * now : now;
    gale__mutex_unlock(&z->lock);
}

bool gale__unzipper_choose(gale__unzipper *z, const gale__exr_packed *p, uint64_t bytes)
{
    const gale__inflate_args *a = &p->args;
    double file_bytes = (double)a->chunks * (double)a->chunk_bytes,
           host = HOST_NS * 1e-9 * file_bytes / (p->serial ? 1 : gale__parallel_width()),
           by_device = DEVICE_NS * 1e-9 * (double)a->chunk_bytes;
    gale__mutex_lock(&z->lock);
    if (z->pace[0] > 0) host = z->pace[0] * (double)bytes;
    if (z->pace[1] > 0) by_device = z->pace[1] * (double)bytes;
    bool device = by_device < host, near = by_device < 2 * host && host < 2 * by_device;
    if (++z->asked % AGAIN == 0 && near) device = !device;
    gale__mutex_unlock(&z->lock);
    return device;
}

static bool may(const gale__unzipper *z)
{
    const gale_device_caps *caps = &gale_device_get_info(z->device)->caps;
    const char *how = gale__env_get(GALE__ENV_UNZIP);
    return !caps->host_functions && strcmp(how, "host") && (!caps->software || !strcmp(how, "device"));
}

static gale_status take_stream(gale__unzipper *z, gale_stream **out)
{
    gale__mutex_lock(&z->lock);
    if (z->n_idle) *out = z->idle[--z->n_idle];
    gale__mutex_unlock(&z->lock);
    return *out ? GALE_OK : gale_stream_create(z->device, out);
}

/* One whose work failed may still be at it. */
static void give_stream(gale__unzipper *z, gale_stream **stream, bool good)
{
    gale__mutex_lock(&z->lock);
    if (good && *stream && z->n_idle < STREAMS_MOST) z->idle[z->n_idle++] = *stream, *stream = NULL;
    gale__mutex_unlock(&z->lock);
    gale_stream_destroy(stream);
}

/* The kernel is built once; then the stream's pinned memory is others' again. */
static gale_status send(
    gale__unzipper *z, gale__unzip *u, gale_stream *stream, const gale__exr_packed *p, const void *input)
{
    gale__mutex_lock(&z->lock);
    while (z->sending == SENDING_MOST) gale__cond_wait(&z->sent, &z->lock);
    z->sending++;
    gale_status status = find_kernel(z->device, &p->args, &u->kernel);
    gale__mutex_unlock(&z->lock);
    if (status == GALE_OK) status = gale__unzip_begin(u, stream, &p->args, p->table, input);
    if (status == GALE_OK) status = gale_stream_sync(stream);
    gale__mutex_lock(&z->lock);
    z->sending--;
    gale__cond_signal(&z->sent);
    gale__mutex_unlock(&z->lock);
    return status;
}

static gale_status inflate(gale__unzipper *z, const gale__exr_packed *p, const gale__exr_image *i, gale_tensor **out)
{
    const int64_t dims[3] = {i->channels, i->height, i->width};
    gale__unzip u = {0};
    gale_stream *stream = NULL;
    gale_tensor *planes = NULL;
    size_t bad = 0;
    gale_status status;
    GALE_GO(take_stream(z, &stream));
    GALE_GO(gale_tensor_create(z->device, i->type, 3, dims, &planes));
    GALE_GO(send(z, &u, stream, p, i->data));
    GALE_GO(gale__unzip_launch(&u, planes->buffer));
    GALE_GO(gale__unzip_wait(&u, NULL, &bad));
    if (bad) gale__log(GALE__DEBUG, "%zu chunks are left to the host", bad);
    else *out = planes, planes = NULL;
done:
    give_stream(z, &stream, status == GALE_OK);
    gale__unzip_end(&u);
    gale_tensor_destroy(&planes);
    return status;
}

gale_status gale__unzipper_run(
    gale__unzipper *z, gale_exr *f, const gale__exr_wish *wish, gale__exr_image *image, bool *could, gale_tensor **out)
{
    gale__exr_packed p = {0};
    gale_status status = GALE_OK;
    *could = may(z) && gale__exr_image_pack(f, wish, image, &p);
    if (!*could) return GALE_OK;
    uint64_t bytes = (uint64_t)(p.args.width * p.args.height * image->channels) * 2;
    bool forced = !strcmp(gale__env_get(GALE__ENV_UNZIP), "device");
    if (gale__inflate_fits(&p.args, &gale_device_get_info(z->device)->caps) &&
        (forced || gale__unzipper_choose(z, &p, bytes)) && gale__exr_packed_load(f, image, &p))
        status = inflate(z, &p, image, out);
    gale__free(p.table);
    if (status == GALE_NO_MEMORY) {
        gale__log(GALE__DEBUG, "%s; the host inflates", gale_error());
        gale__error_clear();
        status = GALE_OK;
    }
    return status;
}
