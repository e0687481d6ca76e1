/* Processes many files at once.  A lane processes a file from start to end: read, decompress, compute, encode.  There
 * is one lane per core, so these stages overlap, and each lane works in its own thread.  Two threads write the encoded
 * files and wait for the disk.  Memory is limited by a budget that a lane draws on before decoding, and by the number
 * of encoded files that may wait. */
#include "base/cpu.h"
#include "base/file.h"
#include "base/thread.h"
#include "device/device.h"
#include "gale/exr.h"
#include "jobs/exr/exr_rates.h"
#include "jobs/exr/exr_usage.h"
#include "jobs/exr/look.h"
#include "media/exr_image.h"
#include "media/picture.h"
#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { WRITERS = 2, WAITING_MOST = 16 };

/* An encoded file on its way to the disk. */
typedef struct parcel {
    gale_exr_item *item;
    void *data;
    size_t size;
} parcel;

typedef struct post {
    gale__mutex lock;
    gale__cond moved;
    parcel waiting[WAITING_MOST]; /* a ring */
    int first, count;
    bool closed;
    gale__thread writers[WRITERS];
    int n_writers;
} post;

/* What a lane keeps from one picture to the next. */
typedef struct lane {
    gale__exr_image image;
    uint64_t drawn; /* of the budget */
} lane;

typedef struct belt {
    const gale_exr_batch_options *options;
    gale_exr_viewer *viewers[2]; /* the second may be NULL */
    gale_exr_batch *batch;
    gale__arena *messages;
    bool serial; /* concurrent lanes */
    _Atomic size_t next;
    _Atomic bool stop;
    gale__mutex lock; /* of all below, and of the batch */
    gale__cond freed;
    uint64_t used, budget, begun_ns;
    int waiting;             /* lanes, for room */
    double pace[2];          /* seconds a byte of decoded samples, of late; 0: not known */
    size_t chosen;           /* how often a device was chosen */
    int trying;              /* pictures on the second device, whose pace is not known */
    gale_exr_share first;    /* pictures of the first device that waited for kernels and memory, one a lane */
    size_t zipped;           /* pictures that a GPU may inflate */
    gale_profiler *profiler; /* NULL: the first device is not watched */
    post post;
} belt;

/* The arena behind the public part. */
typedef struct whole {
    gale_exr_batch batch;
    gale__arena arena;
} whole;

void gale_exr_batch_destroy(gale_exr_batch **batch)
{
    whole *w = batch ? (whole *)*batch : NULL;
    if (!w) return;
    for (size_t i = 0; w->batch.items && i < w->batch.count; i++) gale_picture_destroy(&w->batch.items[i].picture);
    gale__free(w->batch.items);
    gale__arena_finish(&w->arena);
    gale__free(w);
    *batch = NULL;
}

static void give_back(belt *b, lane *l)
{
    gale__exr_image_finish(&l->image);
    gale__mutex_lock(&b->lock);
    b->used -= l->drawn;
    l->drawn = 0;
    gale__cond_broadcast(&b->freed);
    gale__mutex_unlock(&b->lock);
}

/* Waits until there is room, unless the lane has enough from its last picture; a picture larger than the budget goes
 * alone. */
static void draw(belt *b, lane *l, uint64_t bytes)
{
    if (bytes <= l->drawn) return;
    give_back(b, l);
    gale__mutex_lock(&b->lock);
    b->waiting++;
    while (b->used && b->used + bytes > b->budget) gale__cond_wait(&b->freed, &b->lock);
    b->waiting--;
    b->used += l->drawn = bytes;
    if (b->used > b->batch->peak_bytes) b->batch->peak_bytes = b->used;
    gale__mutex_unlock(&b->lock);
}

/* A lane keeps its room for the next picture unless another waits. */
static void end_picture(belt *b, lane *l)
{
    gale__mutex_lock(&b->lock);
    bool wanted = b->waiting > 0;
    gale__mutex_unlock(&b->lock);
    if (wanted) give_back(b, l);
}

/* Planes as half or float, and what the program and the encoder have beside them. */
static uint64_t bytes_for(const belt *b, gale_exr *f)
{
    const gale_exr_look *l = &b->options->look;
    int64_t w = 0, h = 0;
    if (gale__exr_image_size(f, l->layer, &w, &h) != GALE_OK) return 0;
    bool smaller = l->side || l->width || l->height;
    return (uint64_t)(w * h) * (smaller ? 8 : 8 + 8);
}

/* The device that has been faster of late; now and then the other, which may have got faster, if it was not much
 * slower.  One picture tries the second. */
static int choose_device(belt *b)
{
    enum { AGAIN = 32 };
    if (!b->viewers[1]) return 0;
    gale__mutex_lock(&b->lock);
    const double *p = b->pace;
    bool near = p[0] < 2 * p[1] && p[1] < 2 * p[0];
    int chosen = p[0] == 0 ? 0 : p[1] == 0 ? !b->trying : p[1] < p[0];
    if (++b->chosen % AGAIN == 0 && near) chosen = !chosen;
    b->trying += chosen == 1 && p[1] == 0;
    gale__mutex_unlock(&b->lock);
    return chosen;
}

static void add_share(gale_exr_share *s, const gale_exr_report *r)
{
    s->files++;
    s->decoded_bytes += r->decoded_bytes;
    s->pixel_seconds += r->pixel_seconds;
    s->decode_seconds += r->decode_seconds;
}

/* The first pictures of the first device, one a lane, wait for kernels and memory, and say nothing about its pace. */
static void note_pace(belt *b, int which, bool zip, const gale_exr_report *r)
{
    double pace = (r->decode_seconds + r->pixel_seconds) / (double)(r->decoded_bytes + 1);
    gale__mutex_lock(&b->lock);
    gale_exr_share *s = &b->batch->shares[which];
    bool early = !which && s->files < (size_t)b->batch->jobs;
    if (early) add_share(&b->first, r);
    else b->pace[which] = b->pace[which] > 0 ? 0.7 * b->pace[which] + 0.3 * pace : pace;
    add_share(s, r);
    b->zipped += zip;
    b->batch->on_second += which == 1;
    b->batch->inflated += r->packed_bytes > 0;
    gale__mutex_unlock(&b->lock);
}

static gale_status make_picture(belt *b, lane *l, gale_exr_item *item, gale_picture **out)
{
    gale_exr_limits limits = b->options->limits;
    gale_exr *f = NULL;
    bool zip = false;
    limits.serial = limits.serial || b->serial;
    GALE_TRY(gale_exr_open(item->input, &limits, &f));
    gale__exr_rates_bytes(f, &b->options->look, &zip);
    draw(b, l, bytes_for(b, f));
    int which = choose_device(b);
    gale_status status = gale__exr_viewer_run(b->viewers[which], f, &l->image, &item->report, out);
    if (status == GALE_NO_MEMORY && !which && b->viewers[1]) {
        gale__log(GALE__WARN, "%s; using the other device", gale_error());
        status = gale__exr_viewer_run(b->viewers[which = 1], f, &l->image, &item->report, out);
    }
    if (status == GALE_OK) note_pace(b, which, zip, &item->report);
    if (status != GALE_OK) status = gale__fail_within(status, "%s", item->input);
    end_picture(b, l);
    gale_exr_close(&f);
    return status;
}

/* The file's bytes; none where nothing is to be written. */
static gale_status encode_picture(belt *b, gale_exr_item *item, const gale_picture *p, parcel *out)
{
    uint64_t begun = gale__time_ns();
    gale_picture_write_options o = b->options->write;
    item->width = p->width, item->height = p->height;
    *out = (parcel){.item = item};
    if (!item->output) return GALE_OK;
    const char *dot = strrchr(item->output, '.');
    if (!o.format && dot) o.format = dot + 1;
    if (!o.format)
        return gale__fail(GALE_INVALID, "%s: the name has no extension for a format; use --format", item->output);
    gale_status status = gale_picture_to_memory(p, &o, &out->data, &out->size);
    item->encode_seconds = (double)(gale__time_ns() - begun) / 1e9;
    return status == GALE_OK ? status : gale__fail_within(status, "%s", item->output);
}

static void add_up(gale_exr_batch *t, const gale_exr_item *item)
{
    const gale_exr_report *r = &item->report;
    t->total.bytes += r->file_bytes;
    t->decoded_bytes += r->decoded_bytes;
    t->needed_bytes += r->needed_bytes;
    t->upload_bytes += r->upload_bytes;
    t->download_bytes += r->download_bytes;
    t->uploads += (uint64_t)r->uploads;
    t->downloads += (uint64_t)r->downloads;
    t->decode_seconds += r->decode_seconds;
    t->pixel_seconds += r->pixel_seconds;
    t->encode_seconds += item->encode_seconds;
}

/* Counts the file and tells of it. */
static void finish(belt *b, gale_exr_item *item, gale_status status, bool skipped)
{
    gale_exr_progress *total = &b->batch->total;
    gale__mutex_lock(&b->lock);
    item->status = status;
    if (status != GALE_OK) {
        item->message = gale__arena_strdup(b->messages, *gale_error() ? gale_error() : gale_status_text(status));
        if (!item->message) item->message = gale_status_text(status);
    }
    add_up(b->batch, item);
    total->done++;
    total->failed += status != GALE_OK;
    total->skipped += skipped;
    total->seconds = (double)(gale__time_ns() - b->begun_ns) / 1e9;
    if (b->options->progress && !b->options->progress(b->options->user, total, item)) atomic_store(&b->stop, true);
    gale__mutex_unlock(&b->lock);
    gale__error_clear();
}

static void deliver(belt *b, parcel *p)
{
    gale_status status = gale__file_write(p->item->output, p->data, p->size);
    gale__free(p->data);
    finish(b, p->item, status, false);
}

static void run_writer(void *arg)
{
    belt *b = arg;
    post *t = &b->post;
    for (;;) {
        gale__mutex_lock(&t->lock);
        while (!t->count && !t->closed) gale__cond_wait(&t->moved, &t->lock);
        bool some = t->count > 0;
        parcel p = t->waiting[t->first];
        if (some) t->first = (t->first + 1) % WAITING_MOST, t->count--;
        gale__cond_broadcast(&t->moved);
        gale__mutex_unlock(&t->lock);
        if (!some) return;
        deliver(b, &p);
    }
}

/* To a writer; where there are none, to the disk at once. */
static void post_parcel(belt *b, parcel *p)
{
    post *t = &b->post;
    if (!t->n_writers) {
        deliver(b, p);
        return;
    }
    gale__mutex_lock(&t->lock);
    while (t->count == WAITING_MOST) gale__cond_wait(&t->moved, &t->lock);
    t->waiting[(t->first + t->count++) % WAITING_MOST] = *p;
    gale__cond_broadcast(&t->moved);
    gale__mutex_unlock(&t->lock);
}

static void open_post(belt *b)
{
    post *t = &b->post;
    gale__mutex_init(&t->lock);
    gale__cond_init(&t->moved);
    while (t->n_writers < WRITERS && gale__thread_begin(&t->writers[t->n_writers], run_writer, b) == GALE_OK)
        t->n_writers++;
    gale__error_clear();
}

/* Waits until all is written. */
static void close_post(belt *b)
{
    post *t = &b->post;
    gale__mutex_lock(&t->lock);
    t->closed = true;
    gale__cond_broadcast(&t->moved);
    gale__mutex_unlock(&t->lock);
    for (int i = 0; i < t->n_writers; i++) gale__thread_end(&t->writers[i]);
    gale__cond_finish(&t->moved);
    gale__mutex_finish(&t->lock);
}

/* Nothing is computed: from file to file. */
static gale_status write_light(belt *b, gale_exr_item *item)
{
    const gale_exr_batch_options *o = b->options;
    const char *dot = item->output ? strrchr(item->output, '.') : NULL,
               *format = o->write.format ? o->write.format : dot;
    const gale__format *known = format ? gale__format_of_name(format) : NULL;
    gale_exr_limits limits = o->limits;
    limits.serial = limits.serial || b->serial;
    if (!item->output || !known)
        return gale__fail(GALE_INVALID, "%s: not a format for linear samples; use TIFF, PFM or EXR", item->input);
    if (!strcmp(known->about.name, "exr")) {
        gale_exr *f = NULL;
        GALE_TRY(gale_exr_open(item->input, &limits, &f));
        item->report.file_bytes = gale_exr_size_bytes(f);
        gale_status status = gale_exr_rewrite(f, o->look.layer, item->output, o->compression, o->tile);
        gale_exr_close(&f);
        return status == GALE_OK ? status : gale__fail_within(status, "%s", item->input);
    }
    gale_picture *p = NULL;
    gale__file_identity file;
    if (gale__file_identify(item->input, &file)) item->report.file_bytes = file.size_bytes;
    gale_picture_read_options read = {
        .layer = o->look.layer, .max_pixels = limits.max_pixels, .max_bytes = limits.max_bytes};
    GALE_TRY(gale_picture_read(item->input, &read, &p));
    item->width = p->width, item->height = p->height;
    gale_status status = gale_picture_write(p, item->output, &o->write);
    gale_picture_destroy(&p);
    return status;
}

static void run_file(belt *b, lane *l, gale_exr_item *item)
{
    gale_picture *p = NULL;
    if (b->options->skip_existing && item->output && gale__file_exists(item->output)) {
        finish(b, item, GALE_OK, true);
        return;
    }
    if (b->options->light) {
        finish(b, item, write_light(b, item), false);
        return;
    }
    const char *before = gale__log_about(item->input);
    parcel encoded = {0};
    gale_status status = make_picture(b, l, item, &p);
    if (status == GALE_OK) status = encode_picture(b, item, p, &encoded);
    if (status == GALE_OK && b->options->keep) item->picture = p, p = NULL;
    gale_picture_destroy(&p);
    if (status == GALE_OK && encoded.data) post_parcel(b, &encoded);
    else finish(b, item, status, false);
    gale__log_about(before);
}

static void run_lane(void *arg, size_t number, int worker)
{
    belt *b = arg;
    lane l = {0};
    (void)number, (void)worker;
    while (!atomic_load(&b->stop)) {
        size_t i = atomic_fetch_add(&b->next, 1);
        if (i >= b->batch->count) break;
        run_file(b, &l, &b->batch->items[i]);
    }
    give_back(b, &l);
}

static gale_status list_items(
    whole *w, const char *const *inputs, const char *const *outputs, size_t count, const gale_exr_batch_options *o)
{
    if (o->shards < 0 || o->shard < 0 || (o->shards && o->shard >= o->shards))
        return gale__fail(
            GALE_INVALID, "exr: shard %d of %d does not exist; shards are counted from 0", o->shard, o->shards);
    w->batch.items = gale__calloc(count + 1, sizeof *w->batch.items);
    if (!w->batch.items) return GALE_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        if (!o->shards || i % (size_t)o->shards == (size_t)o->shard)
            w->batch.items[w->batch.count++] =
                (gale_exr_item){.input = inputs[i], .output = outputs ? outputs[i] : NULL, .message = ""};
    w->batch.total.count = w->batch.count;
    return GALE_OK;
}

/* As many lanes as files can use; one, with all cores on each file, where there are fewer files than cores. */
static void run_lanes(belt *b)
{
    int width = gale__parallel_width();
    size_t lanes = (size_t)(b->options->jobs > 0 && b->options->jobs < width ? b->options->jobs : width);
    if (b->batch->count < lanes) lanes = 1;
    b->serial = lanes > 1;
    b->batch->jobs = (int)lanes;
    if (lanes > 1) gale__parallel(lanes, run_lane, b);
    else run_lane(b, 0, 0);
}

/* A format without alpha gets pictures over black, which is what premultiplied colours are; without 16 bits, 8. */
static gale_exr_look look_for(const gale_exr_batch_options *o, const char *output)
{
    gale_exr_look look = o->look;
    const char *name = o->write.format, *dot = output ? strrchr(output, '.') : NULL;
    const gale__format *f = name ? gale__format_of_name(name) : dot ? gale__format_of_name(dot) : NULL;
    if (f && !(f->channels & 1 << 4)) look.no_alpha = true;
    if (f && !(f->types & GALE__PIC_U16)) look.bits = 8;
    return look;
}

static bool on_host(const gale_device *device) { return gale_device_get_info(device)->caps.host_functions; }

/* A device that is watched already is not measured. */
static void begin_watching(belt *b, gale_device *device)
{
    if (!on_host(device) && gale_profiler_start(device, &b->profiler) != GALE_OK) gale__error_clear();
}

static gale_status end_watching(belt *b)
{
    gale_status status = b->profiler ? gale_profiler_stop(b->profiler) : GALE_OK;
    if (b->profiler && status == GALE_OK) status = gale__exr_usage(b->profiler, &b->batch->usage);
    gale_profiler_destroy(&b->profiler);
    return status;
}

/* What `first` has beyond the pace of the rest. */
static double beyond(double first, double all, double share) { return fmax(0, first - (all - first) * share); }

/* What the first pictures took beyond the pace of the others belongs to the start.  Lanes wait for it together. */
static void set_apart_start(belt *b)
{
    gale_exr_share *s = &b->batch->shares[0], *f = &b->first;
    if (s->decoded_bytes <= f->decoded_bytes || !b->options->start_seconds) return;
    double share = (double)f->decoded_bytes / (double)(s->decoded_bytes - f->decoded_bytes),
           pixels = beyond(f->pixel_seconds, s->pixel_seconds, share),
           decode = beyond(f->decode_seconds, s->decode_seconds, share);
    b->batch->start_seconds = b->options->start_seconds + (pixels + decode) / b->batch->jobs;
    s->pixel_seconds -= pixels, s->decode_seconds -= decode;
}

/* Prediction by the rates as they were before, and the rates as they are now. */
static void compare_and_learn(belt *b, gale_device *device)
{
    gale_exr_batch *t = b->batch;
    const gale_exr_share *s = t->shares;
    gale__exr_rates r;
    bool zip = 2 * b->zipped > s[0].files + s[1].files;
    if (!s[0].files && !s[1].files) return;
    t->pixel_wall_seconds = (gale__exr_rates_seconds(&s[0], zip) + gale__exr_rates_seconds(&s[1], zip)) / t->jobs;
    if (gale_device_get_info(device)->caps.software) return;
    gale__exr_rates_load(&b->options->look, zip, &r);
    t->predicted_seconds =
        (double)s[0].decoded_bytes * (on_host(device) ? r.cpu : r.gpu) + (double)s[1].decoded_bytes * r.cpu;
    set_apart_start(b);
    gale__exr_rates_learn(&b->options->look, zip, t, device);
}

static gale_status run_belt(belt *b, gale_device *device)
{
    gale__mutex_init(&b->lock);
    gale__cond_init(&b->freed);
    begin_watching(b, device);
    open_post(b);
    run_lanes(b);
    close_post(b);
    gale_status status = end_watching(b);
    gale__cond_finish(&b->freed);
    gale__mutex_finish(&b->lock);
    b->batch->cancelled = atomic_load(&b->stop);
    b->batch->total.seconds = (double)(gale__time_ns() - b->begun_ns) / 1e9;
    compare_and_learn(b, device);
    return status;
}

gale_status gale_exr_batch_run(gale_device *device, const char *const *inputs, const char *const *outputs, size_t count,
    const gale_exr_batch_options *options, gale_exr_batch **out)
{
    GALE__NEED({"device", device}, {"inputs", !count || inputs}, {"out", out});
    GALE__OPTIONS(options);
    GALE__WITHIN(device->context);
    static const gale_exr_batch_options usual = {0};
    whole *w = gale__calloc(1, sizeof *w);
    if (!w) return GALE_NO_MEMORY;
    if (!options) options = &usual;
    if (options->strict && !options->light && on_host(device)) {
        gale__free(w);
        return gale__fail(GALE_UNSUPPORTED, "exr: pixels would be computed on the host (%s), which --strict rejects",
            gale_device_get_info(device)->name);
    }
    gale_exr_batch *batch = &w->batch;
    belt b = {.options = options, .batch = batch, .messages = &w->arena, .begun_ns = gale__time_ns()};
    b.budget = options->memory_bytes ? options->memory_bytes : gale__cpu_memory_bytes() / 2;
    gale_status status = list_items(w, inputs, outputs, count, options);
    gale_exr_look look = look_for(options, batch->count ? batch->items[0].output : NULL);
    if (status == GALE_OK) status = gale_exr_viewer_create(device, &look, &b.viewers[0]);
    if (status == GALE_OK && options->second && !options->strict)
        status = gale_exr_viewer_create(options->second, &look, &b.viewers[1]);
    if (status == GALE_OK) status = run_belt(&b, device);
    for (int i = 0; i < 2; i++) gale_exr_viewer_destroy(&b.viewers[i]);
    if (status == GALE_OK) *out = batch;
    else gale_exr_batch_destroy(&batch);
    return status;
}
