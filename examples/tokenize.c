/* Text to tokens, with a small tokenizer given as JSON; a real one is opened with gale_tokenizer_open.
 *
 *     tokenize [TEXT] */
#include <gale/text.h>
#include <stdio.h>
#include <string.h>

static const char json[] =
    "{\"model\": {\"type\": \"WordLevel\", \"unk_token\": \"?\", \"vocab\": {\"?\": 0, \"red\": 1, "
    "\"bicycle\": 2}}, \"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}}";

int main(int argc, char **argv)
{
    const char *text = argc > 1 ? argv[1] : "a red bicycle";
    gale_tokenizer *tokenizer = NULL;
    gale_encoder *encoder = NULL;
    gale_encoding out;
    gale_status status = gale_tokenizer_open_memory(json, strlen(json), &tokenizer);
    if (status == GALE_OK) status = gale_encoder_create(tokenizer, &encoder);
    if (status == GALE_OK) status = gale_tokenizer_encode(tokenizer, encoder, text, strlen(text), NULL, 0, NULL, &out);
    if (status != GALE_OK) fprintf(stderr, "%s\n", gale_error());
    for (size_t i = 0; status == GALE_OK && i < out.count; i++)
        printf("%u: characters %u to %u\n", out.ids[i], out.ranges[i].begin, out.ranges[i].end);
    gale_encoder_destroy(&encoder);
    gale_tokenizer_destroy(&tokenizer);
    return status != GALE_OK;
}
