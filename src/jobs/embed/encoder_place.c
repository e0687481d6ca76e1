/* Where an encoder runs: one device, or several side by side.  Runs come from many threads.  A device that fails is
 * left for the next of its chain; where there is none, its work goes to the other devices.  A model that was left stays
 * until the embedder is closed, since other threads may still be in it. */
#include "device/device.h"
#include "jobs/embed/embedder_inside.h"
#include "onnx/run/session.h"
#include <stdio.h>
#include <string.h>

/* Tokens in a run: on the CPU what caches like, elsewhere what keeps a device busy. */
enum { TOKENS_HOST = 1024, TOKENS_DEVICE = 32768 };

bool gale__encoder_may_move(gale_status status)
{
    return status == GALE_NO_MEMORY || status == GALE_UNSUPPORTED || status == GALE_BUILD ||
           status == GALE_DEVICE_LOST || status == GALE_TIMEOUT;
}

/* Plans of all lengths should stay: an encoder has a device's memory for itself more often than not. */
static gale_model_options options_for(const gale_embedder *e, const gale_device *device)
{
    const gale_device_caps *caps = &gale_device_get_info(device)->caps;
    gale_model_options o = e->options;
    if (!o.program.plan_memory_bytes && !caps->host_functions) o.program.plan_memory_bytes = caps->memory_bytes / 2;
    return o;
}

gale_status gale__encoder_model(gale_embedder *e, gale_device *device, const gale_model_options *options, bool packed,
    bool wide, gale__composed *composed, gale_model **out)
{
    gale__onnx *file = NULL;
    const gale__encoder_folder *folder = &e->folder;
    gale__compose_how how = {
        e->wanted, folder->pooling, e->dims_wanted, e->info.normalized, packed, wide, folder->dense, folder->n_dense};
    GALE_TRY(gale__onnx_open(e->folder.model, GALE__PB_KIND_MODEL, &file));
    gale_status status = gale__compose(file, &how, composed);
    if (status == GALE_OK && composed->pooling != GALE_POOLING_MODEL && folder->other_module)
        status = gale__fail(GALE_UNSUPPORTED,
            "the module %s in modules.json is not supported here; export everything as one ONNX model with the output "
            "sentence_embedding (`optimum-cli export onnx --library sentence_transformers`)",
            folder->other_module);
    if (status == GALE_OK && out) status = gale__onnx_model_from_file(&file, device, options, out);
    else gale__onnx_close(&file);
    return status == GALE_OK ? GALE_OK : gale__fail_within(status, "%s", e->folder.model);
}

/* The model that a batch needs, if it is not open yet. */
static gale_status open_form(gale_embedder *e, gale__encoder_place *p, bool packed)
{
    gale_model_options options = options_for(e, p->device);
    gale_model **model = packed ? &p->packed : &p->model;
    if (*model) return GALE_OK;
    return gale__encoder_model(e, p->device, &options, packed, false, packed ? &e->pack.composed : &e->composed, model);
}

static void close_place(gale__encoder_place *p)
{
    gale_model_close(&p->model);
    gale_model_close(&p->packed);
    if (p->own) gale_device_close(&p->device);
    gale__free(p);
}

static gale_status open_place(gale_embedder *e, gale_device *device, bool own, gale__encoder_place **out)
{
    gale__encoder_place *p = gale__calloc(1, sizeof *p);
    if (!p) return GALE_NO_MEMORY;
    p->device = device;
    gale_status status = e->pack.on ? gale__encoder_model(e, device, NULL, false, false, &e->composed, NULL) : GALE_OK;
    if (status == GALE_OK) status = open_form(e, p, e->pack.on);
    if (status != GALE_OK) return close_place(p), status;
    p->own = own;
    *out = p;
    return GALE_OK;
}

gale_status gale__encoder_open_packed(gale_embedder *e)
{
    for (int i = 0; i < e->n_sites; i++) GALE_TRY(open_form(e, atomic_load(&e->sites[i].place), true));
    return GALE_OK;
}

/* The next device of the chain that opens the model, with a line about each step. */
static gale_status step_down(gale_embedder *e, gale__encoder_site *s, gale_device *from, gale_status status)
{
    char why[1024];
    gale__encoder_place *p = NULL;
    gale_device *tried = NULL;
    while (gale__encoder_may_move(status)) {
        gale_device *next = NULL;
        snprintf(why, sizeof why, "%s", *gale_error() ? gale_error() : gale_status_text(status));
        gale_status asked = gale__device_next(tried ? tried : from, status, &next);
        gale_device_close(&tried);
        if (asked != GALE_OK) return asked;
        tried = next;
        gale__log(GALE__WARN, "%s; falling back to %s", why, gale_device_get_info(next)->backend);
        status = open_place(e, next, true, &p);
    }
    if (status != GALE_OK) return gale_device_close(&tried), status;
    p->before = atomic_load(&s->place);
    atomic_store(&s->place, p);
    return GALE_OK;
}

static int count_alive(const gale_embedder *e)
{
    int alive = 0;
    for (int i = 0; i < e->n_sites; i++) alive += !atomic_load(&e->sites[i].lost);
    return alive;
}

/* Many threads may see the device fail: the first one falls back, the others find it done. */
gale_status gale__encoder_move(gale_embedder *e, gale__encoder_site *s, gale__encoder_place *failed, gale_status status)
{
    gale__mutex_lock(&e->lock);
    bool done = atomic_load(&s->place) != failed || atomic_load(&s->lost);
    status = done ? GALE_OK : step_down(e, s, failed->device, status);
    if (status != GALE_OK && gale__encoder_may_move(status) && count_alive(e) > 1) {
        gale__log(GALE__WARN, "%s; its work goes to the other devices", gale_error());
        atomic_store(&s->lost, true);
        status = GALE_OK;
    }
    gale__mutex_unlock(&e->lock);
    return status;
}

/* The site, or the next that is not lost. */
static gale__encoder_site *find_site(gale_embedder *e, int site)
{
    for (int i = 0; i < e->n_sites; i++) {
        gale__encoder_site *s = &e->sites[(site + i) % e->n_sites];
        if (!atomic_load(&s->lost)) return s;
    }
    return &e->sites[0];
}

/* Texts in half of the slots. */
static size_t count_half(const gale__row *rows, const gale__batch *b, size_t half)
{
    gale__batch first = {.slots = half, .length = b->length, .each = b->each};
    gale__slot slot = {0};
    size_t count = 0;
    if (!b->each) return b->count < half ? b->count : half;
    while (count < b->count && gale__slot_next(&slot, &rows[count], &first)) count++;
    return count;
}

/* Half of it, then the rest; batches to come have the smaller size from the start. */
static gale_status run_halves(gale_embedder *e, int site, const gale__row *rows, const gale__batch *b)
{
    size_t half = b->slots / 2, first = count_half(rows, b, half), rest = b->count - first;
    size_t fits = atomic_load(&e->fits);
    gale__batch front = *b, back = *b;
    if (!fits || fits > half * b->length) {
        atomic_store(&e->fits, half * b->length);
        gale__log(GALE__WARN, "%s; halving the batch to %zu texts", gale_error(), first);
    }
    front.slots = half, front.count = first, front.texts = b->each ? first : 0;
    back.slots = b->slots - half, back.count = rest, back.texts = b->each ? rest : 0;
    GALE_TRY(gale__embedder_run(e, site, rows, &front));
    return rest ? gale__embedder_run(e, site, rows + first, &back) : GALE_OK;
}

gale_status gale__embedder_run(gale_embedder *e, int site, const gale__row *rows, const gale__batch *b)
{
    gale__encoder_site *s = find_site(e, site);
    gale__encoder_place *p = atomic_load(&s->place);
    for (size_t i = 0; e->heuristic && i < b->count; i++)
        memcpy(rows[i].out, rows[i].tokens, rows[i].count * sizeof *rows[i].out);
    if (e->heuristic) return GALE_OK;
    gale__mutex_lock(&e->lock);
    gale_status status = open_form(e, p, b->each != 0);
    gale__mutex_unlock(&e->lock);
    if (status == GALE_OK) status = gale__encoder_run_at(e, p, rows, b);
    if (status == GALE_NO_MEMORY && b->slots > 1) return run_halves(e, site, rows, b);
    if (status == GALE_OK || !gale__encoder_may_move(status)) return status;
    GALE_TRY(gale__encoder_move(e, s, p, status));
    return gale__embedder_run(e, site, rows, b);
}

/* --- Opening and closing. --- */

static void prepare_transfers(void *device) { gale__staging_prepare(device, GALE__LANES_DEVICE); }

gale_status gale__encoder_site_open(gale_embedder *e, gale_device *device)
{
    gale__encoder_site *s = &e->sites[e->n_sites];
    gale__encoder_place *p = NULL;
    gale__thread pinning;
    if (e->pack.wanted && !e->pack.tried) GALE_TRY(gale__embedder_recall_packing(e, device));
    /* Opened to be packed: many texts will come, and the model is read meanwhile. */
    bool pins = e->pack.on && gale__thread_begin(&pinning, prepare_transfers, device) == GALE_OK;
    gale_status status = open_place(e, device, false, &p);
    if (pins) gale__thread_end(&pinning);
    if (status == GALE_OK) atomic_store(&s->place, p);
    else GALE_TRY(step_down(e, s, device, status));
    const gale_device_caps *caps = &gale_device_get_info(atomic_load(&s->place)->device)->caps;
    size_t tokens = caps->host_functions || caps->software ? TOKENS_HOST : TOKENS_DEVICE;
    if (!e->n_sites || tokens < atomic_load(&e->tokens)) atomic_store(&e->tokens, tokens);
    e->n_sites++;
    return GALE_OK;
}

void gale__encoder_site_close(gale__encoder_site *s)
{
    for (gale__encoder_place *p = atomic_load(&s->place), *before; p; p = before) {
        before = p->before;
        close_place(p);
    }
}

size_t gale__embedder_tokens(const gale_embedder *e, size_t wanted)
{
    size_t tokens = wanted ? wanted : atomic_load(&e->tokens), fits = atomic_load(&e->fits);
    return fits && fits < tokens ? fits : tokens;
}

int gale__embedder_sites(const gale_embedder *e) { return e->n_sites; }
gale_device *gale__embedder_device(const gale_embedder *e, int site)
{
    return atomic_load(&e->sites[site].place)->device;
}
