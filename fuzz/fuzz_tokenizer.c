/* A tokenizer and a text, with a byte 0xff between: whatever opens encodes within bounds, the same twice, and decodes
 * to valid UTF-8. */
#include "base/mem.h"
#include "base/utf8.h"
#include "fuzz.h"
#include "gale/text.h"
#include <string.h>

static void check(const gale_tokenizer *t, gale_encoder *e, const char *text, size_t size, gale_encode_options *o)
{
    gale_encoding a;
    const char *decoded;
    size_t decoded_size;
    uint64_t sum = 0;
    for (int pass = 0; pass < 2; pass++) {
        uint64_t now = 1;
        if (gale_tokenizer_encode(t, e, text, size, o->no_special ? text : NULL, size / 2, o, &a) != GALE_OK) return;
        for (size_t i = 0; i < a.count; i++) {
            now = now * 31 + a.ids[i] + a.ranges[i].begin * 7 + a.ranges[i].end;
            FUZZ_CHECK(a.ranges[i].begin <= a.ranges[i].end && (a.mask[i] || a.special[i]));
        }
        FUZZ_CHECK(!pass || now == sum);
        sum = now;
    }
    if (gale_tokenizer_decode(t, e, a.ids, a.count, GALE_DECODE_SPECIAL, &decoded, &decoded_size) != GALE_OK) return;
    for (const char *p = decoded; p < decoded + decoded_size;)
        FUZZ_CHECK(gale__utf8_take(&p, decoded + decoded_size) >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, 0xff, size) : NULL; /* no JSON and hardly a model has that byte */
    size_t length = end ? (size_t)(end - data) : size;
    const char *text = end ? (const char *)end + 1 : "some text";
    size_t text_size = end ? size - length - 1 : 9;
    gale_tokenizer *t = NULL;
    gale_encoder *e = NULL;
    gale_encode_options plain = {.max_length = -1, .pad_length = -1}, pair = {.no_special = true, .max_length = 5};
    if (gale_tokenizer_open_memory(data, length, &t) == GALE_OK) {
        FUZZ_CHECK(gale_encoder_create(t, &e) == GALE_OK);
        check(t, e, text, text_size, &plain);
        check(t, e, text, text_size, &pair);
    }
    gale_encoder_destroy(&e);
    gale_tokenizer_destroy(&t);
    FUZZ_CHECK(gale__alloc_live() == 0);
    return 0;
}
