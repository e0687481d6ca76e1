/* The choice of a device for a network of pictures: by the predicted time of one tile. */
#include "jobs/upscale/feed.h"

/* The feed's tensors as the model takes them. */
static gale_status give_inputs(const gale__feed *f, gale_object **inputs)
{
    const gale__network *n = f->network;
    GALE_TRY(gale_object_tensor(f->picture, &inputs[n->picture]));
    return f->control && n->control >= 0 ? gale_object_tensor(f->control, &inputs[n->control]) : GALE_OK;
}

gale_status gale__network_place(
    const gale__network *n, int64_t side, gale_device *const *devices, int count, int *chosen, double *predicted_us)
{
    int64_t multiple = n->multiple > 0 ? n->multiple : 1, usual = (side + multiple - 1) / multiple * multiple;
    int64_t width = n->fixed_width ? n->fixed_width : usual, height = n->fixed_height ? n->fixed_height : usual;
    int n_inputs = gale_model_inputs(n->model);
    gale__feed f = {0};
    gale_object **inputs = gale__calloc((size_t)n_inputs + 1, sizeof *inputs);
    double *times_us = gale__calloc((size_t)count, sizeof *times_us);
    gale_status status = GALE_NO_MEMORY;
    if (!inputs || !times_us) goto done;
    GALE_GO(gale__feed_make(n, 1, width, height, n->manifest->defaults, &f));
    GALE_GO(give_inputs(&f, inputs));
    GALE_GO(gale_model_place(n->model, inputs, devices, count, times_us, chosen));
    *predicted_us = times_us[*chosen];
done:
    for (int i = 0; inputs && i < n_inputs; i++) gale_object_destroy(&inputs[i]);
    gale__feed_finish(&f);
    gale__free(inputs);
    gale__free(times_us);
    return status;
}
