/* Recurrent cells: what a step of RNN, GRU and LSTM works with. */
#ifndef GALE_OPS_RECURRENT_H
#define GALE_OPS_RECURRENT_H
#include "ops/lower.h"

/* An activation of a cell: an operator's name, or one of the two that only cells have. */
typedef struct gale__activation {
    const char *name;
    double alpha, beta;
} gale__activation;
/* `count` activations of direction `which`, from the attributes activations, activation_alpha and activation_beta;
 * `defaults` where none are given. */
bool gale__activations_read(gale__lower *L, const char *const *defaults, int count, int which, gale__activation *out);
/* The activation of x, kept within +-clip first (0: not).  B lowers into the body. */
gale__node gale__lower_activate(gale__lower *B, const gale__activation *a, double clip, gale__node x);
#endif
