/* Runs of a device share its memory: a run that lacks memory waits for others to end. */
#ifndef GALE_GRAPH_TURNS_H
#define GALE_GRAPH_TURNS_H
#include "graph/run/program.h"

typedef struct gale__turn {
    int tries;
    uint64_t ended; /* of the device's runs, when this try began */
    bool insists;   /* new runs wait for this one */
    bool shed;      /* idle memory has been freed, and no other run has been there since */
} gale__turn;       /* zero-initialised */

void gale__turns_join(gale_program *program); /* its idle memory may be taken from now on */
void gale__turns_part(gale_program *program);
/* Each try of a run lies between these two.  Whether to try again; else *status is the run's. */
gale_status gale__turn_begin(gale_device *device, gale__turn *turn);
bool gale__turn_again(gale_program *program, gale__turn *turn, gale_status *status);
/* Frees what other programs of the device keep for their next run.  False when there was nothing. */
bool gale__turns_shed(gale_device *device, const gale_program *except);
#endif
