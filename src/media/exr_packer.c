/* Chunks of a new file: as many as there are cores are packed at a time, then written in their order, which OpenEXR
 * demands of scan lines. */
#include "media/exr.h"
#include "media/exr_pack.h"
#include "base/thread.h"
#include <string.h>

/* A chunk that is to be packed. */
struct gale__exr_hand {
    exr_encode_pipeline_t e;
    exr_result_t (*pack)(exr_encode_pipeline_t *e);
    exr_result_t (*write)(exr_encode_pipeline_t *e);
    exr_result_t result;
};

/* What does not become smaller is stored as it is: the C core (3.1) stores it packed where both are of one size, which
 * readers then take for unpacked. */
static exr_result_t pack(exr_encode_pipeline_t *e)
{
    const gale__exr_hand *h = e->encoding_user_data;
    exr_result_t r = h->pack(e);
    if (r == EXR_ERR_SUCCESS && e->compressed_bytes == e->packed_bytes && e->compressed_buffer != e->packed_buffer)
        memcpy(e->compressed_buffer, e->packed_buffer, (size_t)e->packed_bytes);
    return r;
}

static exr_result_t choose(gale__exr_packer *p, gale__exr_hand *h)
{
    exr_compression_t how = EXR_COMPRESSION_NONE;
    exr_result_t r = exr_encoding_choose_default_routines(p->file, p->part, &h->e);
    exr_get_compression(p->file, p->part, &how);
    bool zip = how == EXR_COMPRESSION_ZIP || how == EXR_COMPRESSION_ZIPS;
    if (how >= EXR_COMPRESSION_DWAA) h->e.compress_fn = gale__exr_dwa;
    if (zip && gale__exr_deflates()) h->e.compress_fn = gale__exr_zip;
    if (how == EXR_COMPRESSION_PXR24 && gale__exr_deflates()) h->e.compress_fn = gale__exr_pxr24;
    h->pack = h->e.compress_fn, h->write = h->e.write_fn;
    if (h->pack) h->e.compress_fn = pack;
    h->e.write_fn = h->e.yield_until_ready_fn = NULL;
    h->e.encoding_user_data = h;
    return r;
}

static void run_hand(void *arg, size_t i, int worker)
{
    gale__exr_packer *p = arg;
    gale__exr_hand *h = &p->hands[i];
    (void)worker;
    gale__exr_hush();
    h->result = h->write ? EXR_ERR_SUCCESS : choose(p, h);
    if (h->result == EXR_ERR_SUCCESS) h->result = exr_encoding_run(p->file, p->part, &h->e);
    if (gale__exr_said(h->result) == GALE_NO_MEMORY) h->result = EXR_ERR_OUT_OF_MEMORY;
}

exr_result_t gale__exr_packer_flush(gale__exr_packer *p)
{
    exr_result_t r = EXR_ERR_SUCCESS;
    gale__parallel((size_t)p->filled, run_hand, p);
    for (int i = 0; i < p->filled && r == EXR_ERR_SUCCESS; i++) {
        r = p->hands[i].result;
        if (r == EXR_ERR_SUCCESS) r = p->hands[i].write(&p->hands[i].e);
    }
    p->filled = 0;
    return r;
}

exr_result_t gale__exr_packer_add(gale__exr_packer *p, const exr_chunk_info_t *chunk, exr_encode_pipeline_t **out)
{
    exr_result_t r = EXR_ERR_SUCCESS;
    if (!p->hands) p->width = gale__parallel_now(), p->hands = gale__calloc((size_t)p->width, sizeof *p->hands);
    if (!p->hands) return EXR_ERR_OUT_OF_MEMORY;
    if (p->filled == p->width) r = gale__exr_packer_flush(p);
    if (r != EXR_ERR_SUCCESS) return r;
    exr_encode_pipeline_t *e = &p->hands[p->filled].e;
    r = e->context ? exr_encoding_update(p->file, p->part, chunk, e)
                   : exr_encoding_initialize(p->file, p->part, chunk, e);
    if (r == EXR_ERR_SUCCESS) p->filled++, *out = e;
    return r;
}

exr_result_t gale__exr_packer_finish(gale__exr_packer *p, exr_result_t r)
{
    if (r == EXR_ERR_SUCCESS && p->hands) r = gale__exr_packer_flush(p);
    for (int i = 0; p->hands && i < p->width; i++)
        if (p->hands[i].e.context) exr_encoding_destroy(p->file, &p->hands[i].e);
    gale__free(p->hands);
    *p = (gale__exr_packer){0};
    return r;
}
