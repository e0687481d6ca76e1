/* Small tensors of the host in one run: see parcel.c. */
#ifndef GALE_GRAPH_PARCEL_H
#define GALE_GRAPH_PARCEL_H
#include "graph/run/run.h"

/* Binds a small input; *packed is false for others. */
gale_status gale__parcel_pack(gale__run *run, int slot, const gale_tensor *input, bool *packed);
gale_status gale__parcel_send(gale__run *run); /* behind the last input */
/* Binds a small output that the device can write to the host's memory; false: it cannot. */
bool gale__parcel_expect(gale__run *run, int output, const gale_tensor *tensor);
void gale__parcel_unpack(gale__run *run); /* after the stream was synchronised: copies outputs to their tensors */
void gale__parcel_finish(gale_device *device, gale__parcel *parcel);
#endif
