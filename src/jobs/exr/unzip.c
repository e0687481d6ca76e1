/* The launch of the kernel for ZIP chunks, with its memory. */
#include "jobs/exr/unzip.h"
#include "base/mem.h"
#include "kernel/kernels.h"
#include <string.h>

static gale_status find_kernel(gale_device *device, const gale__inflate_args *a, const char *key, gale_kernel **out)
{
    gale__kernel_wants wants = {.device = device};
    gale__arena arena = {0};
    gale__runnable none[1];
    gale__ir ir;
    gale_status status = GALE_OK;
    if (gale__kernel_is_new(&wants, key)) {
        gale__ir_init(&ir, key);
        ir.n_pointers = GALE__INFLATE_POINTERS, ir.n_words = GALE__INFLATE_WORDS;
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
    GALE_TRY(find_kernel(device, args, u->launch.key, &u->kernel));
    GALE_TRY(gale_buffer_create(device, (size_t)args->chunks * sizeof(uint32_t), &u->flags));
    GALE_TRY(gale_buffer_create(device, (size_t)args->space_bytes, &u->space));
    GALE_TRY(gale_buffer_create(device, table_bytes, &u->table));
    GALE_TRY(gale_buffer_create(device, input_bytes, &u->input));
    const uint32_t not_done = UINT32_MAX;
    GALE_TRY(gale_fill(stream, u->flags, 0, (size_t)args->chunks * sizeof not_done, &not_done, sizeof not_done));
    GALE_TRY(gale_upload(stream, u->table, 0, table, table_bytes));
    return gale_upload(stream, u->input, 0, input, (size_t)args->input_bytes);
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
        .group = {(uint32_t)u->args.lanes, 1, 1},
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
