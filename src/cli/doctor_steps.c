/* What a provider has to manage before it is trusted, from the driver's first call to a kernel's result. */
#include "cli/doctor.h"
#include "device/poke.h"
#include <stdio.h>
#include <string.h>

#define N ((size_t)1 << 20)

static gale_status open_device(gale__doctor *d)
{
    gale_device_options options = GALE_DEVICE_OPTIONS;
    options.chain = d->provider;
    options.strict = true;
    GALE_TRY(gale_device_open(&options, &d->device));
    snprintf(d->note, sizeof d->note, "%s, %s", d->device->info.name, d->device->info.driver);
    return GALE_OK;
}

static gale_status allocate(gale__doctor *d)
{
    GALE_TRY(gale_stream_create(d->device, &d->stream));
    GALE_TRY(gale_buffer_create(d->device, N, &d->a));
    return gale_buffer_create(d->device, N, &d->b);
}

static bool holds_data(const gale__doctor *d) { return strcmp(d->device->info.backend, "null") != 0; }

static gale_status transfer(gale__doctor *d)
{
    uint8_t *host = gale__alloc(2 * N);
    if (!host) return GALE_NO_MEMORY;
    for (size_t i = 0; i < N; i++) host[i] = (uint8_t)(i * 2654435761u >> 13);
    gale_status status;
    GALE_GO(gale_upload(d->stream, d->a, 0, host, N));
    GALE_GO(gale_copy(d->stream, d->b, 0, d->a, 0, N));
    GALE_GO(gale_download(d->stream, d->b, 0, host + N, N));
    GALE_GO(gale_stream_sync(d->stream));
    if (holds_data(d) && memcmp(host, host + N, N)) status = gale__fail(GALE_MISMATCH, "what came back is not what was sent");
done:
    gale__free(host);
    return status;
}

static gale_status run_kernel(gale__doctor *d)
{
    gale__poke poke = {0};
    uint32_t got = 0;
    GALE_TRY(gale__poke_create(d->device, &poke));
    gale_status status;
    GALE_GO(gale__poke_run(&poke, d->stream, d->a, 20071));
    GALE_GO(gale_download(d->stream, d->a, 0, &got, 4));
    GALE_GO(gale_stream_sync(d->stream));
    if (holds_data(d) && got != 20071) status = gale__fail(GALE_MISMATCH, "the kernel ran but wrote %u instead of 20071", got);
done:
    gale__poke_finish(&poke);
    return status;
}

const gale__doctor_step gale__doctor_steps[] = {
    {"open the device", open_device},
    {"allocate memory", allocate},
    {"upload, copy and download 1 MiB", transfer},
    {"build and launch a kernel", run_kernel},
    {0},
};
