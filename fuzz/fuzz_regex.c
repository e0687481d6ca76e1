/* A line as a regular expression, and the rest as text: no more than text times states are looked at, and a match is
 * the same twice; matches in it follow one another. */
#include "base/regex.h"
#include "fuzz.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
    size_t length = end ? (size_t)(end - data) : size, rest = end ? size - length - 1 : 0;
    char *pattern = calloc(1, length + 1);
    gale__regex *r = NULL;
    memcpy(pattern, data, length);
    if (rest > 256) rest = 256;
    if (gale__regex_create(pattern, &r) == GALE_OK) {
        const char *text = rest ? (const char *)end + 1 : "";
        bool match = gale__regex_full_match(r, text, rest);
        FUZZ_CHECK(gale__regex_steps(r) <= (rest + 1) * gale__regex_size(r));
        FUZZ_CHECK(gale__regex_full_match(r, text, rest) == match);
        size_t from = 0, begin = 0, stop = 0;
        while (gale__regex_find(r, text, rest, from, &begin, &stop)) {
            FUZZ_CHECK(begin >= from && stop > begin && stop <= rest);
            from = stop;
        }
        FUZZ_CHECK(!match || !rest || stop > 0); /* what matches whole holds a match */
    }
    gale__regex_destroy(&r);
    free(pattern);
    FUZZ_CHECK(gale__alloc_live() == 0);
    return 0;
}
