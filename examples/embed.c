/* How alike texts are: the first is held against the others.
 *
 *     embed ENCODER TEXT TEXT...
 *
 * ENCODER is a folder with model.onnx and tokenizer.json, or "heuristic", which needs none. */
#include <gale/embed.h>
#include <stdio.h>
#include <stdlib.h>

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, gale_error());
    return 1;
}

int main(int argc, char **argv)
{
    gale_device *device = NULL;
    gale_embedder *encoder = NULL;
    gale_embedder_info info;
    if (argc < 4) return fprintf(stderr, "usage: embed ENCODER TEXT TEXT...\n"), 2;
    size_t count = (size_t)argc - 2;
    if (gale_device_open(NULL, &device) != GALE_OK) return failed("device");
    if (gale_embedder_open(argv[1], device, NULL, &encoder) != GALE_OK) return failed("encoder");
    gale_embedder_get_info(encoder, &info);
    float *vectors = malloc(count * (size_t)info.dims * sizeof *vectors);
    if (!vectors) return 1;
    if (gale_embed(encoder, (const char *const *)argv + 2, NULL, count, vectors) != GALE_OK) return failed("embed");

    for (size_t i = 1; i < count; i++) { /* vectors have length 1, so the sum of products is the cosine */
        float cosine = 0;
        for (int64_t k = 0; k < info.dims; k++) cosine += vectors[k] * vectors[(int64_t)i * info.dims + k];
        printf("%6.3f  %s\n", (double)cosine, argv[i + 2]);
    }
    free(vectors);
    gale_embedder_close(&encoder);
    gale_device_close(&device);
    return 0;
}
