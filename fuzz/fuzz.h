/* What every fuzzer has: the function that a fuzzing engine calls, and a check that ends the process so that the engine
 * sees it. */
#ifndef GALE_FUZZ_H
#define GALE_FUZZ_H
#include "gale/base.h"
#include <stdio.h>
#include <stdlib.h>

#define FUZZ_CHECK(cond)                                                                 \
    do {                                                                                 \
        if (!(cond)) {                                                                   \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #cond, gale_error()); \
            abort();                                                                     \
        }                                                                                \
    } while (0)
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Not every fuzzer has one: changes what is in `data`, of which `most` bytes may be used.  LLVMFuzzerMutate is the
 * engine's own. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
#endif
