/* Descriptions of devices, for the commands that print them. */
#ifndef GALE_CLI_DEVICE_TEXT_H
#define GALE_CLI_DEVICE_TEXT_H
#include "base/str.h"
#include "gale/machine.h"

void gale__device_describe(const gale_device_state *state, gale__str *out); /* a few indented lines */
#endif
