/* A table from names to numbers, in an arena's memory for the names and the heap for the slots. */
#ifndef GALE_ONNX_NAMES_H
#define GALE_ONNX_NAMES_H
#include "onnx/wire/proto.h"

typedef struct gale__names {
    struct {
        const char *name;
        size_t size;
        int32_t value;
    } * slots;
    size_t size, count;
} gale__names;
int32_t gale__names_find(const gale__names *names, const char *name, size_t size); /* -1: not there */
/* Adds or replaces; the name is not copied. */
gale_status gale__names_set(gale__names *names, const char *name, size_t size, int32_t value);
void gale__names_finish(gale__names *names);
#endif
