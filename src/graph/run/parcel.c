/* Small tensors of the host travel together.  Inputs are packed into pinned memory and sent in one transfer, since a
 * transfer takes the host longer than copying a small tensor.  Outputs are written there by the device itself, where
 * it can, so that nothing has to be fetched after the last kernel. */
#include "graph/run/parcel.h"
#include <string.h>

enum { PARCEL_BYTES = 32 << 10, ALIGN_BYTES = 256 };

/* Outputs that only one step refers to, so that no kernel reads them back from host memory. */
static uint64_t written_once(const gale__plan *plan)
{
    uint64_t once = 0, more = 0;
    for (int i = 0; i < plan->n_steps; i++)
        for (int k = 0; k < plan->steps[i].n_refs; k++) {
            gale__plan_place place = plan->steps[i].refs[k];
            uint64_t bit = place.space == GALE__SPACE_OUTPUT && place.index < 64 ? 1ull << place.index : 0;
            more |= once & bit;
            once |= bit;
        }
    return once & ~more;
}

static bool open_parcel(const gale__run *r, gale__parcel *p)
{
    gale_device *device = r->program->device;
    if (p->device || p->refused) return p->device != NULL;
    p->refused = gale__pinned_create(device, PARCEL_BYTES, &p->host) != GALE_OK ||
                 gale_buffer_create(device, PARCEL_BYTES, &p->device) != GALE_OK;
    if (p->refused) return gale__error_clear(), gale__parcel_finish(device, p), false;
    p->outputs = written_once(r->instance->plan);
    return true;
}

void gale__parcel_finish(gale_device *device, gale__parcel *p)
{
    if (p->host.size) gale__pinned_destroy(device, &p->host);
    gale_buffer_destroy(&p->device);
}

/* Reserves room for the tensor; false: it is transferred separately. */
static bool reserve(const gale__run *r, const gale_tensor *t, size_t *at)
{
    gale__parcel *p = &r->context->parcel;
    size_t size = (t->size_bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    if (t->buffer || !size || r->in_place || size > PARCEL_BYTES - p->used || !open_parcel(r, p)) return false;
    *at = p->used;
    p->used += size;
    return true;
}

gale_status gale__parcel_pack(gale__run *r, int slot, const gale_tensor *t, bool *packed)
{
    gale__parcel *p = &r->context->parcel;
    size_t at;
    if (!reserve(r, t, &at)) return *packed = false, GALE_OK;
    GALE_TRY(gale__tensor_read(t, 0, t->size_bytes, (char *)p->host.host + at));
    r->context->refs[slot] = gale__buffer_ref(p->device, at);
    r->uploads++;
    *packed = true;
    return GALE_OK;
}

gale_status gale__parcel_send(gale__run *r)
{
    const gale__parcel *p = &r->context->parcel;
    return p->used ? gale__pinned_upload(r->context->stream, p->device, &p->host, p->used) : GALE_OK;
}

bool gale__parcel_expect(gale__run *r, int output, const gale_tensor *t)
{
    gale__parcel *p = &r->context->parcel;
    size_t at, used = p->used;
    if (!r->program->device->info.caps.host_mapped || output >= 64 || !reserve(r, t, &at)) return false;
    if (!(p->outputs >> output & 1)) return p->used = used, false;
    r->context->refs[r->program->graph->n_inputs + output] = (gale__ref){&p->host, at};
    return true;
}

void gale__parcel_unpack(gale__run *r)
{
    const gale__parcel *p = &r->context->parcel;
    for (int i = 0; p->outputs && i < r->instance->plan->n_outputs; i++) {
        gale__ref ref = r->context->refs[r->program->graph->n_inputs + i];
        const gale_tensor *t = r->context->made[i] ? r->context->made[i] : r->outputs[i];
        if (ref.mem != &p->host) continue;
        memcpy(t->host, (const char *)p->host.host + ref.offset, t->size_bytes);
        r->downloads++;
    }
}
