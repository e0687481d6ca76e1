/* Memory on a device: a buffer is filled, read back on a stream, and what the pool holds is shown.
 *
 *     buffers [PROVIDERS] */
#include <gale/device.h>
#include <stdio.h>

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, gale_error());
    return 1;
}

int main(int argc, char **argv)
{
    gale_device_options where = GALE_DEFAULTS;
    gale_device *device = NULL;
    gale_buffer *buffer = NULL;
    gale_stream *stream = NULL;
    gale_memory_stats stats;
    uint32_t pattern = 7, back[256] = {0};
    where.chain = argc > 1 ? argv[1] : NULL;
    if (gale_device_open(&where, &device) != GALE_OK) return failed("device");
    if (gale_buffer_create(device, sizeof back, &buffer) != GALE_OK) return failed("buffer");
    if (gale_stream_create(device, &stream) != GALE_OK) return failed("stream");
    /* Commands run in order and beside the caller; the download is there after the wait. */
    if (gale_fill(stream, buffer, 0, sizeof back, &pattern, sizeof pattern) != GALE_OK) return failed("fill");
    if (gale_download(stream, buffer, 0, back, sizeof back) != GALE_OK) return failed("download");
    if (gale_stream_sync(stream) != GALE_OK) return failed("wait");

    gale_memory_get_stats(device, &stats);
    printf("%s: %u ... %u, %llu bytes in use\n", gale_device_get_info(device)->name, back[0], back[255],
        (unsigned long long)stats.in_use_bytes);
    gale_stream_destroy(&stream);
    gale_buffer_destroy(&buffer);
    gale_device_close(&device);
    return back[0] != 7 || back[255] != 7;
}
