/* The choice of an encoder's device: by the predicted time of a batch of the size that suits the CPU, which is fair to
 * both, since a GPU that is slower with few texts is not worth its transfers. */
#include "device/device.h"
#include "jobs/embed/embedder_inside.h"
#include <string.h>

/* Tensors by name become objects in the order of the model's inputs. */
static gale_status give_inputs(gale_model *m, const gale__encoder_feed *f, gale_object **inputs)
{
    for (int i = 0; i < gale_model_inputs(m); i++) {
        gale_model_value v;
        GALE_TRY(gale_model_input(m, i, &v));
        for (int k = 0; k < f->n; k++)
            if (!strcmp(v.name, f->names[k])) GALE_TRY(gale_object_tensor(f->tensors[k], &inputs[i]));
    }
    return GALE_OK;
}

static gale_status predict(gale_embedder *e, gale_device *const devices[2], int *chosen)
{
    enum { LENGTH_MOST = 128, TEXTS_MOST = 64 };
    uint32_t tokens[LENGTH_MOST];
    gale__row rows[TEXTS_MOST];
    double times_us[2];
    size_t length = e->info.max_length < LENGTH_MOST ? (size_t)e->info.max_length : LENGTH_MOST;
    size_t texts = GALE__PLACE_TOKENS / length < TEXTS_MOST ? GALE__PLACE_TOKENS / length : TEXTS_MOST;
    gale__batch b = {.count = texts, .slots = texts, .length = length};
    gale__encoder_feed f = {0};
    gale_model *m = atomic_load(&e->sites[0].place)->model;
    gale_object **inputs = gale__calloc((size_t)gale_model_inputs(m) + 1, sizeof *inputs);
    if (!inputs) return GALE_NO_MEMORY;
    for (size_t i = 0; i < length; i++) tokens[i] = e->pad_id;
    for (size_t i = 0; i < texts; i++) rows[i] = (gale__row){tokens, (uint32_t)length, 0, NULL};
    gale_status status;
    GALE_GO(gale__encoder_feed_make(e, rows, &b, &f));
    GALE_GO(give_inputs(m, &f, inputs));
    GALE_GO(gale_model_place(m, inputs, devices, 2, times_us, chosen));
    e->predicted_us = times_us[*chosen] * GALE__PLACE_TOKENS / (double)(texts * length);
done:
    for (int i = 0; i < gale_model_inputs(m); i++) gale_object_destroy(&inputs[i]);
    gale__free(inputs);
    gale__encoder_feed_finish(&f);
    return status;
}

gale_status gale__encoder_choose(gale_embedder *e, gale_device *device, gale_device *other)
{
    gale_device *devices[2] = {device, other};
    int chosen = 0;
    gale_status status = predict(e, devices, &chosen);
    if (status == GALE_NO_MEMORY) return status;
    if (status != GALE_OK) gale__log(GALE__INFO, "%s: nothing is predicted: %s", e->folder.model, gale_error());
    if (status == GALE_OK && chosen == 1) return GALE_OK;
    gale__error_clear();
    gale__encoder_site_close(&e->sites[0]);
    atomic_store(&e->sites[0].place, NULL);
    e->n_sites = 0;
    return gale__encoder_site_open(e, device);
}
