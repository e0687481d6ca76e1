/* Finds a value in a list of keys; shared by encoders, vectorizers and mappers. */
#ifndef GALE_ONNX_LOOKUP_H
#define GALE_ONNX_LOOKUP_H
#include "onnx/run/texts.h"

typedef struct gale__onnx_lookup_entry {
    gale__string s;
    int64_t i;
    double f;
    int64_t at;
} gale__onnx_lookup_entry;
typedef struct gale__onnx_lookup {
    char kind; /* s, i or f */
    gale__onnx_lookup_entry *entries;
    size_t count;
} gale__onnx_lookup;
/* The keys, of any type, must outlive it; memory is the call's. */
gale_status gale__onnx_lookup_make(gale__onnx_host_call *call, const gale_tensor *keys, gale__onnx_lookup *out);
/* Places of all elements of x among the keys, -1 where there is none, in the call's memory.  The last of equal keys
 * counts, and NaN is NaN's equal.  Numbers are looked up as what the keys are; strings and numbers do not mix. */
gale_status gale__onnx_lookup_all(
    gale__onnx_host_call *call, const gale__onnx_lookup *lookup, const gale_tensor *x, const int64_t **places);

/* An attribute as a tensor of rank 1: NAME_strings, NAME_int64s, NAME_floats or NAME_tensor; NULL when there is none of
 * them. */
gale_status gale__onnx_lookup_column(gale__onnx_host_call *call, const char *name, gale_tensor **out);
/* The same for one attribute by its whole name. */
gale_status gale__onnx_attr_tensor(const gale_attr *attr, gale_tensor **out);
#endif
