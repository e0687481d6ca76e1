/* The front of the pipeline: texts into windows, windows into rows of tokens and batches. */
#include "base/hash.h"
#include "jobs/embed/embed_pipeline.h"
#include <string.h>

/* Windows are short at both ends of the inputs: the device starts early, and little remains to be written.  Batches
 * that end with the window, as without packing, have more padding in short ones, and more shapes. */
enum { CHUNK = 64, WINDOW_LEAST = 16384, WINDOW_FIRST = 32768, PACKED_LEAST = 2048, PACKED_FIRST = 4096 };

gale_status gale__pipeline_open_records(gale__pipeline *p, gale__records **out)
{
    const gale_embed_options *o = p->options;
    gale__records_options options = {o->files, o->file_count, (gale__record_kind)o->kind, o->field};
    return gale__records_open(&options, out);
}

gale_status gale__pipeline_count(gale__pipeline *p, uint64_t *texts)
{
    gale__records *r = NULL;
    const char *text = "";
    size_t size;
    *texts = 0;
    for (size_t i = 0; i < p->options->file_count; i++)
        if (!strcmp(p->options->files[i], "-") || gale__file_is_stream(p->options->files[i]))
            return gale__fail(GALE_INVALID,
                "%s: --shard needs files, because the number of texts must be known in advance", p->options->files[i]);
    GALE_TRY(gale__pipeline_open_records(p, &r));
    gale_status status = GALE_OK;
    while (status == GALE_OK && text) {
        status = gale__records_next(r, &text, &size);
        *texts += status == GALE_OK && text;
    }
    gale__records_close(&r);
    return status;
}

gale_status gale__pipeline_skip(gale__pipeline *p, uint64_t texts, uint64_t *hash)
{
    const char *text;
    size_t size;
    for (uint64_t i = 0; i < texts; i++) {
        GALE_TRY(gale__records_next(p->records, &text, &size));
        if (!text) break;
        *hash = gale__hash(text, size, *hash);
    }
    return GALE_OK;
}

/* Texts of the window after w: towards the end of the inputs half of what is left, so that little has to be written
 * when the last batch is done.  since: bytes that had been taken before w. */
static size_t next_size(const gale__pipeline *p, const gale__window *w, uint64_t since)
{
    uint64_t all = p->report.input_bytes, taken = gale__records_taken(p->records);
    size_t least = p->packs ? PACKED_LEAST : WINDOW_LEAST, most = p->window_texts;
    if (most <= least) return most;
    if (p->packs && 2 * w->count < most) most = 2 * w->count;
    if (taken > all || taken <= since) return most;
    double half = (double)(all - taken) / (double)(taken - since) * (double)w->count / 2;
    return half > (double)most ? most : half < (double)least ? least : (size_t)half;
}

/* Offsets stand in place of pointers until the window's text no longer moves. */
static gale_status fill_window(gale__pipeline *p, gale__window *w, size_t most, uint64_t *hash)
{
    w->count = w->text_size = 0;
    w->last = false;
    while (w->count < most && w->text_size < GALE__WINDOW_TEXT) {
        const char *text = NULL;
        size_t size;
        if (p->most) GALE_TRY(gale__records_next(p->records, &text, &size));
        w->last = !text;
        if (!text) break;
        p->most--;
        GALE_TRY(gale__grow((void **)&w->text, &w->text_capacity, w->text_size + size + 1, 1));
        memcpy(w->text + w->text_size, text, size);
        w->texts[w->count++].size = size;
        w->text_size += size;
        *hash = gale__hash(text, size, *hash);
    }
    for (size_t i = 0, at = 0; i < w->count; at += w->texts[i++].size) w->texts[i].at = w->text + at;
    w->hash = *hash;
    return GALE_OK;
}

void gale__pipeline_read(void *arg)
{
    gale__pipeline *p = arg;
    uint64_t hash = p->sink.input_hash;
    size_t most = p->packs ? PACKED_FIRST : WINDOW_FIRST;
    if (most > p->window_texts / 2) most = p->window_texts;
    for (size_t i = 0;; i++) {
        gale__window *w = &p->windows[i % p->n_windows];
        if (!gale__pipeline_wait(p, w, GALE__WINDOW_FREE)) return;
        uint64_t start = gale__time_ns(), taken = gale__records_taken(p->records);
        gale_status status = fill_window(p, w, most, &hash);
        most = next_size(p, w, taken);
        if (status != GALE_OK) {
            gale__pipeline_fail(p, status);
            return;
        }
        bool last = w->last; /* the window is no longer ours once it is set */
        gale__mutex_lock(&p->lock);
        p->report.read_s += (double)(gale__time_ns() - start) * 1e-9;
        p->report.cut = gale__records_cut(p->records);
        p->report.read_bytes = gale__records_taken(p->records);
        gale__mutex_unlock(&p->lock);
        gale__pipeline_set(p, w, GALE__WINDOW_READ);
        if (last) return;
    }
}

/* --- Tokens. --- */

typedef struct tokenizing {
    gale__pipeline *p;
    gale__window *w;
} tokenizing;

static void tokenize_chunk(void *arg, size_t i, int worker)
{
    const tokenizing *t = arg;
    gale__window *w = t->w;
    gale__token_chunk *c = &w->chunks[i];
    size_t first = i * CHUNK, end = first + CHUNK < w->n_rows ? first + CHUNK : w->n_rows;
    gale__row_maker *maker = &t->p->makers[worker];
    c->used = c->empty = c->truncated = 0;
    c->status = maker->made ? GALE_OK : gale__row_maker_init(t->p->e, maker);
    if (c->status != GALE_OK) gale__pipeline_fail(t->p, c->status);
    for (size_t k = first; k < end && c->status == GALE_OK; k++) {
        gale__row *row = &w->rows[k];
        const gale__vector_text *text = &w->texts[w->numbers[k]];
        c->status = gale__row_make(
            t->p->e, maker, text->at, text->size, &c->tokens, &c->used, &c->capacity, &row->count, &row->skip);
        if (c->status != GALE_OK) gale__pipeline_fail(t->p, c->status); /* the message is this thread's */
        c->empty += !text->size;
        c->truncated += row->count >= t->p->info.max_length;
        row->out = w->vectors + w->numbers[k] * (size_t)t->p->info.dims;
        row->waited = 0;
    }
    for (size_t k = first, at = 0; k < end; at += w->rows[k++].count) w->rows[k].tokens = c->tokens + at;
}

static void make_keys(void *arg, size_t i, int worker)
{
    const tokenizing *t = arg;
    gale__window *w = t->w;
    (void)worker;
    for (size_t k = i * CHUNK; k < (i + 1) * CHUNK && k < w->count; k++)
        gale__vector_cache_key(t->p->settings, w->texts[k].at, w->texts[k].size, &w->keys[k]);
}

/* Which texts have to run: all but those that the cache has. */
static void choose_rows(gale__pipeline *p, gale__window *w)
{
    tokenizing t = {p, w};
    size_t dims = (size_t)p->info.dims;
    if (p->cache) gale__parallel((w->count + CHUNK - 1) / CHUNK, make_keys, &t);
    w->n_rows = 0;
    for (size_t i = 0; i < w->count; i++)
        if (!p->cache || !gale__vector_cache_get(p->cache, &w->keys[i], w->vectors + i * dims, dims))
            w->numbers[w->n_rows++] = (uint32_t)i;
}

static void note_lengths(gale__pipeline *p, const gale__window *w)
{
    gale__mutex_lock(&p->lock);
    p->report.cached += w->count - w->n_rows;
    for (size_t i = 0; i < w->n_rows; i++) {
        int k = 0;
        while (k < 15 && w->rows[i].count > 4u << k) k++;
        p->report.lengths[k]++;
    }
    for (size_t i = 0; i * CHUNK < w->n_rows; i++) {
        p->report.empty += w->chunks[i].empty;
        p->report.truncated += w->chunks[i].truncated;
    }
    gale__mutex_unlock(&p->lock);
}

/* Which of its shape batch i is; `first` is the first of that shape, and moves on. */
static size_t turn_of(const gale__batch *sorted, size_t i, size_t *first)
{
    const gale__batch *a = &sorted[*first], *b = &sorted[i];
    if (a->slots != b->slots || a->length != b->length) *first = i;
    return i - *first;
}

/* Batches of one shape, which are neighbours, take turns with the others: side by side each of them would need memory
 * and a recording of its own. */
static gale_status take_turns(gale__window *w)
{
    size_t n = w->n_batches, first = 0;
    gale__batch *sorted = gale__alloc((n + 1) * sizeof *sorted);
    size_t *place = gale__calloc(n + 2, sizeof *place);
    gale_status status = sorted && place ? GALE_OK : GALE_NO_MEMORY;
    if (status == GALE_OK) {
        memcpy(sorted, w->batches, n * sizeof *sorted);
        for (size_t i = 0; i < n; i++) place[turn_of(sorted, i, &first) + 1]++;
        for (size_t i = 1; i <= n; i++) place[i] += place[i - 1];
        for (size_t i = first = 0; i < n; i++) w->batches[place[turn_of(sorted, i, &first)]++] = sorted[i];
    }
    gale__free(sorted);
    gale__free(place);
    return status;
}

/* The last batch of all is made as large as the others, for a plan would take longer than its padding; and so is one
 * that could not wait, if it is large. */
static void use_known_shape(const gale__pipeline *p, gale__window *w)
{
    gale__batch known = gale__batch_packed(p->e, (size_t)p->options->batch_tokens);
    for (gale__batch *b = w->batches; b < w->batches + w->n_batches; b++) {
        bool fits = b->slots <= known.slots && b->texts <= known.texts; /* memory may have become short meanwhile */
        bool pays = w->last || 2 * b->slots > known.slots;
        if (b->length != known.length || b->each != known.each || !fits || !pays) continue;
        b->slots = known.slots;
        b->texts = known.texts;
    }
}

/* Texts that would not fill a packed batch wait for the next window. */
static gale_status cut_window(gale__pipeline *p, gale__window *w, size_t most)
{
    size_t rows = w->n_rows + p->n_waiting, left = GALE__WAITING_MOST;
    gale__batch_how how = {p->packs, most, (size_t)p->options->batch_texts, p->shapes, w->last ? NULL : &left};
    memmove(w->rows + p->n_waiting, w->rows, w->n_rows * sizeof *w->rows); /* the first of their length have waited */
    memcpy(w->rows, p->waiting, p->n_waiting * sizeof *p->waiting);
    GALE_TRY(gale__rows_batch(p->e, w->rows, rows, &how, w->batches, &w->n_batches));
    if (p->packs && p->shapes) use_known_shape(p, w);
    p->n_waiting = w->last ? 0 : left;
    for (size_t i = 0; i < p->n_waiting; i++) {
        p->waiting[i] = w->rows[rows - p->n_waiting + i];
        p->waiting[i].waited++;
    }
    for (size_t i = 0; i < w->n_batches; i++) {
        const gale__batch *b = &w->batches[i];
        w->padding += b->slots * b->length;
        for (size_t k = 0; k < b->count; k++) w->padding -= w->rows[b->first + k].count;
    }
    return GALE_OK;
}

/* A window with little in it is spread over all lanes, where they are cores, else over the devices. */
static gale_status make_batches(gale__pipeline *p, gale__window *w)
{
    const gale_embed_options *o = p->options;
    size_t most = gale__embedder_tokens(p->e, (size_t)o->batch_tokens);
    w->tokens = w->padding = w->n_batches = w->next = 0;
    w->left = w->n_rows;
    w->taken = false;
    for (size_t i = 0; i < w->n_rows; i++) w->tokens += w->rows[i].count;
    size_t share = (size_t)w->tokens / (size_t)(p->lane[0].alone ? p->lanes : p->report.devices) + 1;
    if (share < 128) share = 128;
    bool one_shape = p->packs && p->shapes; /* its plan is made, and what does not fill it waits */
    if (!o->batch_tokens && share < most && !one_shape) most = share;
    bool few = 2 * w->n_rows < p->window_texts; /* the device waits for plans at the beginning and at the end */
    p->known.price = w->last ? 2 * most : most / (few ? 8 : 32);
    GALE_TRY(cut_window(p, w, most));
    return take_turns(w);
}

void gale__pipeline_tokenize(void *arg)
{
    gale__pipeline *p = arg;
    for (size_t i = 0;; i++) {
        gale__window *w = &p->windows[i % p->n_windows];
        if (!gale__pipeline_wait(p, w, GALE__WINDOW_READ)) return;
        uint64_t start = gale__time_ns();
        tokenizing t = {p, w};
        bool last = w->last;
        choose_rows(p, w);
        gale__parallel((w->n_rows + CHUNK - 1) / CHUNK, tokenize_chunk, &t);
        if (gale__pipeline_stopped(p)) return;
        note_lengths(p, w);
        gale_status status = make_batches(p, w);
        if (status != GALE_OK) {
            gale__pipeline_fail(p, status);
            return;
        }
        gale__mutex_lock(&p->lock);
        p->report.tokenize_s += (double)(gale__time_ns() - start) * 1e-9;
        gale__mutex_unlock(&p->lock);
        gale__pipeline_set(p, w, GALE__WINDOW_READY);
        if (last) return;
    }
}
