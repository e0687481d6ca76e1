/* Combines the parts: threads for the reader, the tokenizer and the lanes; the calling thread writes. */
#include "jobs/embed/embedder_inside.h"
#include "onnx/run/model_place.h"
#include "jobs/embed/embed_pipeline.h"
#include "base/hash.h"
#include <stdio.h>
#include <string.h>

/* Texts of a window: on a device as many as leave little padding in its larger batches, within VECTOR_BYTES.  Packed
 * texts need few for that, and more windows then hide each other's writing. */
enum { TEXTS_HOST = 8192, TEXTS_DEVICE = 131072, TEXTS_PACKED = 16384, VECTOR_BYTES = 192 << 20 };
enum { WINDOWS = 4, WINDOWS_PACKED = GALE__WINDOWS_MOST, PACK_BYTES = 1 << 20 };
#define PROGRESS_NS 100000000u

void gale__pipeline_fail(gale__pipeline *p, gale_status status)
{
    gale__mutex_lock(&p->lock);
    if (p->status == GALE_OK) {
        p->status = status;
        snprintf(p->message, sizeof p->message, "%s", gale_error());
    }
    p->stop = true;
    gale__cond_broadcast(&p->changed);
    gale__mutex_unlock(&p->lock);
}

bool gale__pipeline_stopped(gale__pipeline *p)
{
    gale__mutex_lock(&p->lock);
    bool stop = p->stop;
    gale__mutex_unlock(&p->lock);
    return stop;
}

bool gale__pipeline_wait(gale__pipeline *p, const gale__window *w, gale__window_state state)
{
    gale__mutex_lock(&p->lock);
    while (!p->stop && w->state != state) gale__cond_wait(&p->changed, &p->lock);
    bool go_on = !p->stop;
    gale__mutex_unlock(&p->lock);
    return go_on;
}

void gale__pipeline_set(gale__pipeline *p, gale__window *w, gale__window_state state)
{
    gale__mutex_lock(&p->lock);
    w->state = state;
    gale__cond_broadcast(&p->changed);
    gale__mutex_unlock(&p->lock);
}

/* --- Lanes. --- */

/* With the lock held: no more batches of this window.  Its texts may still run, or wait for those of the next one. */
static void pass_window(gale__pipeline *p, gale__window *w)
{
    w->taken = true;
    if (!w->left) w->state = GALE__WINDOW_DONE; /* nothing to run: empty, or all was in the cache */
    p->taking++;
    p->all_taken = w->last;
    gale__cond_broadcast(&p->changed);
}

/* The next batch of the oldest window that has one; false: all stops, or nothing will come any more. */
static bool take_batch(gale__pipeline *p, gale__window **w, gale__batch *b)
{
    bool found = false;
    gale__mutex_lock(&p->lock);
    while (!p->stop && !p->all_taken && !found) {
        gale__window *at = &p->windows[p->taking % p->n_windows];
        /* The place may still hold the window before, whose last batches run. */
        if (at->state != GALE__WINDOW_READY || at->taken) {
            gale__cond_wait(&p->changed, &p->lock);
            continue;
        }
        found = at->next < at->n_batches;
        *w = at;
        if (found) *b = at->batches[at->next++];
        if (at->next == at->n_batches) pass_window(p, at);
    }
    gale__mutex_unlock(&p->lock);
    return found;
}

static gale__window *window_of(gale__pipeline *p, const gale__row *row)
{
    for (gale__window *w = p->windows; w < p->windows + p->n_windows; w++)
        if (row->out >= w->vectors && row->out < w->vectors + p->window_texts * (size_t)p->info.dims) return w;
    return NULL;
}

static void note_batch(gale__pipeline *p, const gale__row *rows, size_t count, int site, uint64_t time_ns)
{
    gale__mutex_lock(&p->lock);
    p->report.batches++;
    p->report.batches_by_device[site]++;
    p->report.compute_s += (double)time_ns * 1e-9;
    for (size_t i = 0; i < count; i++) {
        gale__window *w = window_of(p, &rows[i]);
        if (--w->left) continue;
        w->state = GALE__WINDOW_DONE;
        gale__cond_broadcast(&p->changed);
    }
    gale__mutex_unlock(&p->lock);
}

static void run_lane(void *arg)
{
    const gale__lane *lane = arg;
    gale__pipeline *p = lane->pipeline;
    gale__window *w;
    gale__batch b;
    gale__parallel_alone(lane->alone);
    while (take_batch(p, &w, &b)) {
        uint64_t start = gale__time_ns();
        gale_status status = gale__embedder_run(p->e, lane->site, w->rows + b.first, &b);
        if (status != GALE_OK) gale__pipeline_fail(p, status);
        else note_batch(p, w->rows + b.first, b.count, lane->site, gale__time_ns() - start);
    }
}

/* --- Writing. --- */

static bool report_progress(gale__pipeline *p, uint64_t start)
{
    gale_embed_report now;
    if (p->options->cancel && *p->options->cancel) return false;
    if (!p->options->progress) return true;
    gale__mutex_lock(&p->lock);
    now = p->report;
    gale__mutex_unlock(&p->lock);
    now.seconds = (double)(gale__time_ns() - start) * 1e-9;
    return p->options->progress(p->options->user, &now);
}

static gale_status cancelled(void)
{
    return gale__fail(GALE_CANCELLED, "cancelled; run the same command again to resume");
}

/* As gale__pipeline_wait, reporting progress and checking for cancellation periodically. */
static bool wait_done(gale__pipeline *p, const gale__window *w, uint64_t start)
{
    for (;;) {
        gale__mutex_lock(&p->lock);
        if (!p->stop && w->state != GALE__WINDOW_DONE) gale__cond_wait_ns(&p->changed, &p->lock, PROGRESS_NS);
        bool done = w->state == GALE__WINDOW_DONE, stop = p->stop;
        gale__mutex_unlock(&p->lock);
        if (stop || done) return !stop;
        if (!report_progress(p, start)) gale__pipeline_fail(p, cancelled());
    }
}

static gale_status keep_window(gale__pipeline *p, const gale__window *w)
{
    size_t dims = (size_t)p->info.dims;
    const float **vectors = gale__alloc((w->n_rows + 1) * sizeof *vectors);
    gale__vector_key *keys = gale__alloc((w->n_rows + 1) * sizeof *keys);
    for (size_t i = 0; vectors && keys && i < w->n_rows; i++) {
        vectors[i] = w->vectors + w->numbers[i] * dims;
        keys[i] = w->keys[w->numbers[i]];
    }
    gale_status status = vectors && keys ? GALE_OK : GALE_NO_MEMORY;
    if (status == GALE_OK) gale__vector_cache_put(p->cache, keys, vectors, w->n_rows, dims);
    gale__free(vectors);
    gale__free(keys);
    return status;
}

static gale_status write_window(gale__pipeline *p, const gale__window *w)
{
    uint64_t start = gale__time_ns();
    if (p->cache) GALE_TRY(keep_window(p, w));
    GALE_TRY(gale__vector_sink_add(&p->sink, w->vectors, w->texts, w->count, w->hash));
    gale__mutex_lock(&p->lock);
    p->report.write_s += (double)(gale__time_ns() - start) * 1e-9;
    p->report.texts = p->sink.rows;
    p->report.bytes = p->sink.bytes;
    p->report.tokens += w->tokens;
    p->report.padding += w->padding;
    gale__mutex_unlock(&p->lock);
    return GALE_OK;
}

static void write_all(gale__pipeline *p, uint64_t start)
{
    for (size_t i = 0;; i++) {
        gale__window *w = &p->windows[i % p->n_windows];
        if (!wait_done(p, w, start)) return;
        bool last = w->last;
        gale_status status = write_window(p, w);
        if (status == GALE_OK && !report_progress(p, start) && !last) status = cancelled();
        if (status != GALE_OK) {
            gale__pipeline_fail(p, status);
            return;
        }
        if (last) return;
        gale__pipeline_set(p, w, GALE__WINDOW_FREE);
    }
}

/* --- Beginning and end. --- */

static gale_status make_windows(gale__pipeline *p)
{
    size_t n = p->window_texts, dims = (size_t)p->info.dims;
    for (size_t i = 0; i < p->n_windows; i++) {
        gale__window *w = &p->windows[i];
        w->texts = gale__calloc(n, sizeof *w->texts);
        w->rows = gale__calloc(n + GALE__WAITING_MOST, sizeof *w->rows);
        w->batches = gale__calloc(n + GALE__WAITING_MOST, sizeof *w->batches);
        w->chunks = gale__calloc(n / 64 + 1, sizeof *w->chunks);
        w->vectors = gale__alloc_aligned(64, n * dims * sizeof *w->vectors); /* in large pages */
        w->numbers = gale__calloc(n, sizeof *w->numbers);
        w->keys = gale__calloc(p->cache ? n : 1, sizeof *w->keys);
        if (!w->numbers || !w->keys) return GALE_NO_MEMORY;
        if (!w->texts || !w->rows || !w->batches || !w->chunks || !w->vectors) return GALE_NO_MEMORY;
    }
    p->waiting = gale__calloc(GALE__WAITING_MOST, sizeof *p->waiting);
    p->makers = gale__calloc((size_t)gale__parallel_width(), sizeof *p->makers);
    return p->makers && p->waiting ? GALE_OK : GALE_NO_MEMORY;
}

static void finish(gale__pipeline *p)
{
    for (size_t i = 0; i < p->n_windows; i++) {
        gale__window *w = &p->windows[i];
        for (size_t k = 0; w->chunks && k <= p->window_texts / 64; k++) gale__free(w->chunks[k].tokens);
        gale__free(w->text);
        gale__free(w->texts);
        gale__free(w->rows);
        gale__free(w->numbers);
        gale__free(w->keys);
        gale__free(w->batches);
        gale__free(w->chunks);
        gale__free(w->vectors);
    }
    for (int i = 0; p->makers && i < gale__parallel_width(); i++) gale__row_maker_finish(&p->makers[i]);
    gale__free(p->makers);
    gale__free(p->waiting);
    gale__records_close(&p->records);
    gale__vector_cache_close(&p->cache);
    gale__vector_sink_close(&p->sink);
    gale__cond_finish(&p->changed);
    gale__mutex_finish(&p->lock);
}

/* On the host a lane is a core, and a batch stays on it; elsewhere a few lanes keep the device busy while others fill
 * and fetch (H200, a million sentences: 690,000 to 710,000 a second with 5, 8 or 12 lanes). */
static void add_lanes(gale__pipeline *p, int site)
{
    const gale_device_caps *caps = &gale_device_get_info(gale__embedder_device(p->e, site))->caps;
    int wanted = p->options->lanes > 0  ? p->options->lanes
                 : caps->host_functions ? gale__parallel_width()
                 : caps->software       ? 1
                                        : GALE__LANES_DEVICE;
    for (int i = 0; i < wanted && p->lanes < GALE__LANES_MOST; i++)
        p->lane[p->lanes++] = (gale__lane){p, site, caps->host_functions && wanted > 1};
}

static void choose_sizes(gale__pipeline *p)
{
    const gale_embed_options *o = p->options;
    size_t fit = VECTOR_BYTES / ((size_t)p->info.dims * sizeof(float)), usual = TEXTS_HOST;
    p->report.devices = gale__embedder_sites(p->e);
    for (int i = 0; i < p->report.devices; i++) {
        const gale_device_caps *caps = &gale_device_get_info(gale__embedder_device(p->e, i))->caps;
        if (!caps->host_functions && !caps->software) usual = TEXTS_DEVICE, p->shapes = &p->known;
        add_lanes(p, i);
    }
    if (fit < 64) fit = 64;
    p->window_texts = o->window > 0 ? (size_t)o->window : usual < fit ? usual : fit;
    p->report.lanes = p->lanes;
    p->n_windows = WINDOWS;
}

/* Packing pays where rows of a few lengths are much better than rows of many: on a GPU, and with enough texts that a
 * second form of the model is worth opening. */
static gale_status choose_packing(gale__pipeline *p)
{
    const gale_embed_options *o = p->options;
    const char *why = "";
    bool small = p->report.input_bytes && p->report.input_bytes < PACK_BYTES;
    if (o->packing == GALE_PACKING_OFF || o->batch_texts) return GALE_OK;
    if (o->packing == GALE_PACKING_AUTO && !p->e->pack.on && (!p->shapes || small)) return GALE_OK;
    GALE_TRY(gale__embedder_pack(p->e, &p->packs, &why));
    p->report.packed = p->packs;
    if (p->packs && p->shapes && !o->window && p->window_texts > TEXTS_PACKED) p->window_texts = TEXTS_PACKED;
    if (p->packs && p->window_texts <= TEXTS_PACKED) p->n_windows = WINDOWS_PACKED;
    if (p->packs) gale__log(GALE__INFO, "%s: several texts share a row of a batch", p->info.model);
    else gale__log(GALE__INFO, "%s: texts are not packed: %s", p->info.model, why);
    return GALE_OK;
}

/* What the result depends on beside the texts, and which texts. */
static gale_status settings_of(gale__pipeline *p, char hex[65])
{
    const gale_embed_options *o = p->options;
    gale__str text = {0};
    GALE_TRY(gale__embedder_key(p->e, p->settings));
    gale__str_addf(&text, "%s %d %d %d %lld/%lld %zu %lld %lld %d %s", p->settings, (int)o->format, (int)o->type,
        (int)o->kind, (long long)o->shard, (long long)o->shards, p->window_texts, (long long)o->batch_tokens,
        (long long)o->batch_texts, o->text, o->field ? o->field : "");
    for (size_t i = 0; i < o->file_count; i++) gale__str_addf(&text, "\n%s", o->files[i]);
    gale_status status = gale__str_check(&text);
    if (status == GALE_OK) gale__sha256_hex(text.text, text.length, hex);
    gale__str_finish(&text);
    return status;
}

static gale_status find_shard(gale__pipeline *p)
{
    uint64_t total, shards = (uint64_t)p->options->shards, shard = (uint64_t)p->options->shard;
    p->most = UINT64_MAX;
    if (!shards) return GALE_OK;
    if (p->options->shard < 0 || p->options->shards < 0 || shard >= shards)
        return gale__fail(GALE_INVALID, "shard %lld of %lld does not exist; shards are counted from 1",
            (long long)p->options->shard + 1, (long long)p->options->shards);
    GALE_TRY(gale__pipeline_count(p, &total));
    p->first = total / shards * shard + (total % shards < shard ? total % shards : shard);
    p->most = total / shards + (shard < total % shards);
    return GALE_OK;
}

/* Skips what an earlier run has done; if the texts have changed, starts over. */
static gale_status go_on(gale__pipeline *p)
{
    uint64_t hash = 0, nothing = 0;
    GALE_TRY(gale__pipeline_open_records(p, &p->records));
    GALE_TRY(gale__pipeline_skip(p, p->first, &nothing));
    p->sink.first_row = p->first;
    if (!p->sink.rows) return GALE_OK;
    GALE_TRY(gale__pipeline_skip(p, p->sink.rows, &hash));
    if (hash == p->sink.input_hash) {
        p->most -= p->sink.rows < p->most ? p->sink.rows : p->most;
        p->report.resumed = p->report.texts = p->sink.rows;
        return GALE_OK;
    }
    for (size_t i = 0; i < p->options->file_count; i++)
        if (!strcmp(p->options->files[i], "-") || gale__file_is_stream(p->options->files[i]))
            return gale__fail(GALE_INVALID,
                "%s: the texts have changed since it was started, and %s cannot be read again; use --restart to start "
                "over",
                p->options->output, p->options->files[i]);
    gale__log(GALE__WARN, "%s: the texts have changed since it was started; starting over", p->options->output);
    gale__records_close(&p->records);
    GALE_TRY(gale__vector_sink_restart(&p->sink));
    GALE_TRY(gale__pipeline_open_records(p, &p->records));
    return gale__pipeline_skip(p, p->first, &nothing);
}

static void run_threads(gale__pipeline *p, uint64_t start)
{
    static void (*const front[2])(void *) = {gale__pipeline_read, gale__pipeline_tokenize};
    gale__thread threads[2 + GALE__LANES_MOST];
    int n = 0;
    gale_status status = GALE_OK;
    for (; n < 2 + p->lanes && status == GALE_OK; n++) {
        status = n < 2 ? gale__thread_begin(&threads[n], front[n], p)
                       : gale__thread_begin(&threads[n], run_lane, &p->lane[n - 2]);
        if (status != GALE_OK) {
            gale__pipeline_fail(p, status);
            n--;
        }
    }
    if (status == GALE_OK) write_all(p, start);
    for (int i = 0; i < n; i++) gale__thread_end(&threads[i]);
}

/* Bytes of all inputs; 0 where one of them does not say. */
static uint64_t input_bytes(const gale_embed_options *o)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < o->file_count; i++) {
        gale__file_identity file;
        if (!strcmp(o->files[i], "-") || !gale__file_identify(o->files[i], &file)) return 0;
        sum += file.size_bytes;
    }
    return sum;
}

static gale_status run_pipeline(gale__pipeline *p)
{
    char settings[65];
    uint64_t start = gale__time_ns();
    p->report.input_bytes = p->options->shards ? 0 : input_bytes(p->options);
    choose_sizes(p);
    GALE_TRY(choose_packing(p));
    GALE_TRY(find_shard(p));
    GALE_TRY(settings_of(p, settings));
    GALE_TRY(gale__vector_sink_open(p->options, p->info.dims, settings, &p->sink));
    GALE_TRY(go_on(p));
    if (p->options->cache && gale__vector_cache_open(&p->cache) != GALE_OK) {
        gale__log(GALE__WARN, "%s; vectors are not cached", gale_error());
        gale__error_clear();
    }
    GALE_TRY(make_windows(p));
    run_threads(p, start);
    p->report.seconds = (double)(gale__time_ns() - start) * 1e-9;
    if (p->status != GALE_OK) {
        (void)gale__vector_sink_save(&p->sink); /* what is lost is work, and the first failure is the one to tell */
        return gale__fail(p->status, "%s", p->message);
    }
    double tokens = (double)(p->report.tokens + p->report.padding);
    if (tokens > 0)
        gale__place_note(gale__embedder_device(p->e, 0), "a batch of 1024 tokens", p->e->predicted_us,
            p->report.seconds * 1e6 / tokens * GALE__PLACE_TOKENS);
    return gale__vector_sink_end(&p->sink);
}

gale_status gale_embed_files(gale_embedder *embedder, const gale_embed_options *options, gale_embed_report *report)
{
    GALE__NEED({"embedder", embedder}, {"options", options});
    GALE__OPTIONS(options);
    GALE__WITHIN(embedder->context);
    if (!options->file_count || (!options->output && !options->write))
        return gale__fail(GALE_INVALID, "gale_embed_files: files and either output or write must be set");
    if ((unsigned)options->packing >= GALE_PACKING_COUNT)
        return gale__fail(
            GALE_INVALID, "gale_embed_files: unknown packing %d; use a GALE_PACKING_ constant", (int)options->packing);
    gale__pipeline *p = gale__calloc(1, sizeof *p);
    if (!p) return GALE_NO_MEMORY;
    p->e = embedder;
    p->options = options;
    p->sink.file.fd = -1;
    gale_embedder_get_info(embedder, &p->info);
    gale__mutex_init(&p->lock);
    gale__cond_init(&p->changed);
    gale_status status = run_pipeline(p);
    if (report) *report = p->report;
    finish(p);
    gale__free(p);
    return status;
}
