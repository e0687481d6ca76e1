/* A table from names, which are in an arena, to numbers. */
#ifndef GALE_ONNX_NAMES_H
#define GALE_ONNX_NAMES_H
#include "base/hash_table.h"
#include "onnx/wire/proto.h"

typedef struct gale__onnx_names {
    struct {
        const char *name;
        size_t size;
        int32_t value;
    } * items;
    size_t count, capacity;
    gale__hash_table table; /* items by hash */
} gale__onnx_names;
int32_t gale__onnx_names_find(const gale__onnx_names *names, const char *name, size_t size); /* -1: not there */
/* Adds or replaces; the name is not copied. */
gale_status gale__onnx_names_set(gale__onnx_names *names, const char *name, size_t size, int32_t value);
void gale__onnx_names_finish(gale__onnx_names *names);
#endif
