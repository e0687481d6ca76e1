/* gale exr convert and thumbs: input and output names, the batch, and its summary. */
#include "cli/cmd_exr.h"
#include "cli/progress.h"
#include "cli/shard.h"
#include "base/env.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/thread.h"
#include "jobs/batch/folder_watch.h"
#include "media/picture.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct job {
    const gale__args *a;
    bool thumbs, json;
    gale__inputs inputs;
    size_t failed; /* arguments without files */
    gale_exr_batch_options options;
    const char **in, **out;
    gale__progress progress;
    char label[200];
    gale_exr_batch *batch;
    int shard, shards; /* watching: by name, since files come in any order; otherwise the batch shares out */
} job;

gale_status gale__exr_shard(const gale__args *a, int *shard, int *shards)
{
    const char *text = gale__args_text(a, "shard");
    char *end = NULL;
    if (!text) return GALE_OK;
    if (!strcmp(text, "auto")) {
        int64_t k, n;
        GALE_TRY(gale__shard_auto(&k, &n));
        if (!n) /* on a single machine all files are its own */
            gale__log(GALE__WARN, "--shard auto: not started by mpirun or srun; all files are processed here");
        if (n) *shard = (int)k, *shards = (int)n;
        return GALE_OK;
    }
    long k = strtol(text, &end, 10), n = *end == '/' && end[1] ? strtol(end + 1, &end, 10) : 0;
    if (*end || k < 1 || n < 1 || k > n || n > 1000000)
        return gale__fail(GALE_INVALID, "--shard: '%s' is neither K/N with K from 1 to N, nor auto", text);
    *shard = (int)k - 1, *shards = (int)n;
    return GALE_OK;
}

static bool on_file(void *user, const gale_exr_progress *p, const gale_exr_item *item)
{
    job *j = user;
    if (item->status != GALE_OK) gale__report(gale__fail(item->status, "%s", item->message));
    double seconds = p->seconds > 0 ? p->seconds : 1e-9;
    snprintf(j->label, sizeof j->label, "%.1f files/s, %.0f MB/s", (double)p->done / seconds,
        (double)p->bytes / 1e6 / seconds);
    j->progress.total = p->count;
    gale__progress_add(&j->progress, p->done - j->progress.done);
    return !gale__ending;
}

/* Options that change pixels, where samples are written as they are. */
static gale_status refuse_look(const gale__args *a)
{
    static const char *const names[] = {"tone", "exposure", "gamma", "radius", "size", "width", "height", "filter",
        "full", "file-colours", "lut", "dither", "bits"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (gale__args_given(a, names[i]))
            return gale__fail(GALE_INVALID,
                "--%s has no effect: EXR output and --light write samples unchanged; omit it, or choose another format "
                "such as png",
                names[i]);
    return GALE_OK;
}

/* format: an extension, with or without its dot. */
static gale_status check_bits(const gale__args *a, const char *format)
{
    static const char *const eight[] = {"jpg", "jpeg", "webp", "bmp", "gif"};
    if (strcmp(gale__args_text(a, "bits"), "16")) return GALE_OK;
    format += *format == '.';
    for (size_t i = 0; i < sizeof eight / sizeof *eight; i++)
        if (gale__text_equal_nocase(format, eight[i]))
            return gale__fail(
                GALE_INVALID, "--bits 16: %s files have 8 bits per sample; omit it, or choose png or tiff", format);
    return GALE_OK;
}

static gale_status set_options(job *j)
{
    gale_exr_batch_options *o = &j->options;
    const char *format = gale__args_text(j->a, "format");
    GALE_TRY(gale__exr_look_args(j->a, &o->look));
    if (j->thumbs) o->look.no_alpha = true; /* a small picture is for looking at; some files have alpha 0 throughout */
    if (j->thumbs && !o->look.side && !o->look.width && !o->look.height) o->look.side = 256;
    GALE_TRY(gale__exr_shard(j->a, &o->shard, &o->shards));
    o->write = (gale_picture_write_options){
        .format = format, .quality = (int)gale__args_int(j->a, "quality"), .effort = j->thumbs ? 1 : 0};
    const char *only = gale__args_text(j->a, "output"), *end = only ? strrchr(only, '.') : NULL;
    o->light = !j->thumbs && (gale__args_flag(j->a, "light") || (format && gale__text_equal_nocase(format, "exr")) ||
                                 (!format && end && gale__text_equal_nocase(end, ".exr")));
    if (o->light) GALE_TRY(refuse_look(j->a));
    else GALE_TRY(check_bits(j->a, format ? format : end ? end : j->thumbs ? "jpg" : "png"));
    o->compression = gale__args_text(j->a, "compression");
    o->tile = (int)gale__args_int(j->a, "tile");
    o->jobs = (int)gale__args_int(j->a, "jobs");
    o->memory_bytes = (uint64_t)gale__args_int(j->a, "memory") << 20;
    o->skip_existing = gale__args_flag(j->a, "skip-existing");
    o->progress = on_file;
    o->user = j;
    return GALE_OK;
}

/* What the results are called. */
static gale_status name_outputs(job *j)
{
    const char *only = gale__args_text(j->a, "output"), *suffix = gale__args_text(j->a, "suffix"),
               *folder = gale__args_text(j->a, "output-dir"), *format = gale__args_text(j->a, "format");
    size_t left_out = 0;
    if (only && j->inputs.count > 1)
        return gale__fail(
            GALE_INVALID, "--output is for a single file, but there are %zu; use --output-dir", j->inputs.count);
    if (format && *format == '.') format++;
    if (!format && !only) format = j->options.write.format = j->thumbs ? "jpg" : "png";
    if (format) GALE_TRY(gale__format_check(format, 0, 0));
    if (folder) GALE_TRY(gale__folder_make_public(folder));
    if (only && j->inputs.count) j->inputs.list[0].output = only;
    else
        GALE_TRY(gale__inputs_name(&j->inputs, folder, suffix ? suffix : j->thumbs && !folder ? "-thumb" : "", format));
    GALE_TRY(gale__inputs_settle(&j->inputs, &left_out));
    j->in = gale__calloc(j->inputs.count + 1, sizeof *j->in);
    j->out = gale__calloc(j->inputs.count + 1, sizeof *j->out);
    if (!j->in || !j->out) return GALE_NO_MEMORY;
    for (size_t i = 0; i < j->inputs.count; i++) {
        const gale__input *one = &j->inputs.list[i];
        const char *slash = *one->below ? strrchr(one->output, '/') : NULL;
        char *below =
            slash ? gale__arena_printf(&j->inputs.arena, "%.*s", (int)(slash - one->output), one->output) : NULL;
        if (below) GALE_TRY(gale__folder_make_public(below));
        j->in[i] = one->path, j->out[i] = one->output;
    }
    return GALE_OK;
}

static void json_number(gale__json_out *o, const char *key, double v) { gale__json_put_f64(o, key, v); }

static void json_item(gale__json_out *o, const gale_exr_item *i)
{
    gale__json_object(o);
    gale__json_put_text(o, "input", i->input);
    gale__json_put_text(o, "output", i->output ? i->output : "");
    if (i->status != GALE_OK) {
        gale__json_put_text(o, "error", i->message);
    }
    json_number(o, "width", (double)i->width);
    json_number(o, "height", (double)i->height);
    json_number(o, "decoded_width", (double)i->report.width);
    json_number(o, "decoded_height", (double)i->report.height);
    json_number(o, "decode_seconds", i->report.decode_seconds);
    json_number(o, "pixel_seconds", i->report.pixel_seconds);
    json_number(o, "encode_seconds", i->encode_seconds);
    gale__json_close(o, '}');
}

static double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

/* Of what moved, and of the device's time. */
static double needed_share(const gale_exr_batch *b)
{
    return share((double)b->needed_bytes, (double)(b->upload_bytes + b->download_bytes));
}
static double transfer_share(const gale_exr_batch *b)
{
    return share(b->usage.transfer_seconds, b->usage.transfer_seconds + b->usage.kernel_seconds);
}

static void json_batch(const job *j, const char *device, gale__str *text)
{
    const gale_exr_batch *b = j->batch;
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"files", (double)b->total.done}, {"failed", (double)(b->total.failed + j->failed)},
        {"skipped", (double)b->total.skipped}, {"seconds", b->total.seconds}, {"jobs", b->jobs},
        {"file_bytes", (double)b->total.bytes}, {"decoded_bytes", (double)b->decoded_bytes},
        {"uploads", (double)b->uploads}, {"downloads", (double)b->downloads}, {"upload_bytes", (double)b->upload_bytes},
        {"download_bytes", (double)b->download_bytes}, {"decode_seconds", b->decode_seconds},
        {"pixel_seconds", b->pixel_seconds}, {"encode_seconds", b->encode_seconds},
        {"peak_bytes", (double)b->peak_bytes}, {"on_cpu_beside", (double)b->on_second},
        {"inflated_by_device", (double)b->inflated}, {"needed_bytes", (double)b->needed_bytes},
        {"needed_share", needed_share(b)}, {"predicted_pixel_seconds", b->predicted_seconds},
        {"pixel_wall_seconds", b->pixel_wall_seconds}, {"start_seconds", b->start_seconds},
        {"transfer_seconds", b->usage.transfer_seconds}, {"kernel_seconds", b->usage.kernel_seconds},
        {"busy_seconds", b->usage.busy_seconds}, {"transfer_share", transfer_share(b)},
        {"gpu_use", share(b->usage.busy_seconds, b->total.seconds)}};
    gale__json_out o;
    gale__json_begin(&o, text);
    gale__json_object(&o);
    gale__json_put_text(&o, "device", device);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) json_number(&o, numbers[i].key, numbers[i].value);
    json_number(&o, "occupancy", b->usage.occupancy > 0 ? b->usage.occupancy : NAN);
    gale__json_open(&o, "items", '[');
    for (size_t i = 0; i < b->count; i++) json_item(&o, &b->items[i]);
    gale__json_close(&o, ']');
    gale__json_close(&o, '}');
}

static void text_batch(const job *j, const char *device, gale__str *text)
{
    const gale_exr_batch *b = j->batch;
    double seconds = b->total.seconds > 0 ? b->total.seconds : 1e-9,
           work = b->decode_seconds + b->pixel_seconds + b->encode_seconds;
    size_t made = b->total.done - b->total.failed - b->total.skipped;
    gale__str_addf(text, "%zu picture%s in %.2f s on %s: %.1f files/s, %.0f MB/s", made, made == 1 ? "" : "s",
        b->total.seconds, device, (double)made / seconds, (double)b->total.bytes / 1e6 / seconds);
    if (b->total.skipped) gale__str_addf(text, "; %zu already existed", b->total.skipped);
    if (b->total.failed) gale__str_addf(text, "; %zu failed", b->total.failed);
    if (work > 0)
        gale__str_addf(text, "\nthread time: %.0f %% decoding, %.0f %% pixels, %.0f %% encoding",
            100 * b->decode_seconds / work, 100 * b->pixel_seconds / work, 100 * b->encode_seconds / work);
    if (b->on_second)
        gale__str_addf(
            text, "\npixels of %zu files were computed on the CPU, which was faster or had more memory", b->on_second);
    if (b->inflated) gale__str_addf(text, "\n%zu files were decompressed by the device", b->inflated);
    if (b->pixel_wall_seconds > 0)
        gale__str_addf(text, "\npixels: %.3f s on %d lane%s", b->pixel_wall_seconds, b->jobs, b->jobs == 1 ? "" : "s");
    if (b->predicted_seconds > 0) gale__str_addf(text, ", predicted %.3f s", b->predicted_seconds);
    if (b->uploads)
        gale__str_addf(text, "\n%llu uploads of %.1f MB and %llu downloads of %.1f MB in total, %.0f %% of it needed",
            (unsigned long long)b->uploads, (double)b->upload_bytes / 1e6, (unsigned long long)b->downloads,
            (double)b->download_bytes / 1e6, 100 * needed_share(b));
    if (b->usage.measured)
        gale__str_addf(text, "\n%s was busy for %.0f %% of the time, with transfers for %.0f %% of that", device,
            100 * share(b->usage.busy_seconds, b->total.seconds), 100 * transfer_share(b));
    if (b->usage.occupancy > 0) gale__str_addf(text, "; occupancy of its kernels %.0f %%", 100 * b->usage.occupancy);
    else if (b->usage.measured) gale__str_add(text, "; its driver does not tell the occupancy");
    gale__str_add(text, "\n");
}

/* Strict: nothing but what was requested, and a GPU unless that is the CPU.  Watching, files come later. */
static gale_status open_devices(job *j, gale_device **device)
{
    bool strict = gale__args_flag(j->a, "strict"), requested = *gale__env_get(GALE__ENV_PROVIDER);
    j->options.strict = strict && !requested;
    if (j->options.light && !requested) { /* nothing is computed */
        gale_device_options o = GALE_DEVICE_OPTIONS;
        o.chain = "cpu";
        return gale_device_open(&o, device);
    }
    if (strict || requested || gale__args_flag(j->a, "watch")) {
        uint64_t begun = gale__time_ns();
        GALE_TRY(gale_device_open(NULL, device));
        if (!gale_device_get_info(*device)->caps.host_functions)
            j->options.start_seconds = (double)(gale__time_ns() - begun) / 1e9;
        return GALE_OK;
    }
    return gale_exr_devices_open(
        j->in, j->inputs.count, &j->options.look, device, &j->options.second, &j->options.start_seconds);
}

static gale_status work(job *j, gale_device *device)
{
    gale__str text = {0};
    gale__progress_begin(&j->progress, j->label, "files", j->inputs.count);
    gale_status status = gale_exr_batch_run(device, j->in, j->out, j->inputs.count, &j->options, &j->batch);
    gale__progress_end(&j->progress);
    GALE_TRY(status);
    if (j->json) json_batch(j, gale_device_get_info(device)->name, &text);
    else text_batch(j, gale_device_get_info(device)->name, &text);
    gale__print(&text);
    return GALE_OK;
}

static gale_status prepare(job *j)
{
    gale__ends_itself = true; /* the files at hand are finished, and what is done is told */
    GALE_TRY(set_options(j));
    GALE_TRY(gale__exr_inputs(j->a, &j->inputs, gale__args_flag(j->a, "watch") ? NULL : &j->failed));
    return name_outputs(j);
}

static void clear(job *j)
{
    gale_exr_batch_destroy(&j->batch);
    gale__free(j->in);
    gale__free(j->out);
    j->in = j->out = NULL;
    gale__inputs_finish(&j->inputs);
}

/* Below the folder that was given, which other machines may know by another path. */
static bool is_own(const job *j, const gale__input *one)
{
    const char *slash = strrchr(one->path, '/'), *name = slash ? slash + 1 : one->path;
    uint64_t hash = gale__hash(name, strlen(name), gale__hash(one->below, strlen(one->below), 0));
    return j->shards < 2 || hash % (uint64_t)j->shards == (uint64_t)j->shard;
}

/* Keeps of the lists what is ready. */
static gale_status keep_ready(job *j, gale__folder_watch *w, size_t *count)
{
    bool *ready = gale__calloc(j->inputs.count + 1, sizeof *ready);
    gale_status status = ready ? gale__folder_watch_look(w, &j->inputs, ready) : GALE_NO_MEMORY;
    *count = 0;
    for (size_t i = 0; i < j->inputs.count && status == GALE_OK; i++) {
        bool there = j->options.skip_existing && gale__file_exists(j->out[i]);
        if (ready[i] && there) gale__folder_watch_note(w, j->in[i], GALE_OK);
        else if (ready[i] && is_own(j, &j->inputs.list[i])) j->in[*count] = j->in[i], j->out[(*count)++] = j->out[i];
    }
    gale__free(ready);
    return status;
}

/* One look at the folders, and the files that are ready. */
static gale_status watch_once(job *j, gale_device *device, gale__folder_watch *w)
{
    size_t count = 0;
    gale_status status;
    GALE_GO(gale__exr_inputs(j->a, &j->inputs, NULL));
    GALE_GO(name_outputs(j));
    GALE_GO(keep_ready(j, w, &count));
    if (count) GALE_GO(gale_exr_batch_run(device, j->in, j->out, count, &j->options, &j->batch));
    for (size_t i = 0; j->batch && i < j->batch->count; i++) {
        const gale_exr_item *item = &j->batch->items[i];
        bool told = gale__folder_watch_note(w, item->input, item->status);
        if (item->status == GALE_OK) gale__print_line(stdout, "%s -> %s", item->input, item->output), fflush(stdout);
        else if (told) gale__report(gale__fail(item->status, "%s", item->message)), j->failed++;
    }
done:
    clear(j);
    return status;
}

static bool while_watching(void *user, const gale_exr_progress *p, const gale_exr_item *item)
{
    return (void)user, (void)p, (void)item, !gale__ending;
}

static gale_status watch(job *j, gale_device *device)
{
    gale__folder_watch w = {0};
    gale_status status = GALE_OK;
    clear(j);
    j->shard = j->options.shard, j->shards = j->options.shards;
    j->options.shard = j->options.shards = 0;
    j->options.progress = while_watching;
    while (!gale__ending && status == GALE_OK) {
        status = watch_once(j, device, &w);
        if (status == GALE_NOT_FOUND) status = GALE_OK; /* a folder that is empty still */
        for (int i = 0; i < 10 && !gale__ending; i++) gale__sleep_ns(100000000);
    }
    gale__folder_watch_finish(&w);
    return status;
}

int gale__exr_batch(const gale__args *a, bool thumbs)
{
    job j = {.a = a, .thumbs = thumbs, .json = gale__args_flag(a, "json")};
    gale_device *device = NULL;
    gale_status status;
    int code = GALE__EXIT_OK;
    /* CUDA has 8 queues, in which streams wait for each other; a kernel that inflates a picture holds its own up. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    GALE_GO(prepare(&j));
    GALE_GO(open_devices(&j, &device));
    if (gale__args_flag(a, "watch")) GALE_GO(watch(&j, device));
    else GALE_GO(work(&j, device));
    if (j.failed || (j.batch && j.batch->total.failed)) code = GALE__EXIT_FAILED;
done:
    if (status != GALE_OK) code = gale__report(status);
    clear(&j);
    gale_device_close(&j.options.second);
    gale_device_close(&device);
    if (status == GALE_OK) gale__end_as_signalled();
    return code;
}
