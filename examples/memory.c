/* A model from memory: read here from a file, as it might come out of an archive, a socket, or a byte array that
 * `gale convert MODEL --emit c` writes.
 *
 *     memory MODEL.onnx */
#include <gale/model.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    gale_device *device = NULL;
    gale_model *model = NULL;
    FILE *f = argc > 1 ? fopen(argv[1], "rb") : NULL;
    if (!f || fseek(f, 0, SEEK_END)) return fprintf(stderr, "usage: memory MODEL.onnx\n"), 2;
    long size = ftell(f);
    rewind(f);
    char *bytes = malloc((size_t)size + 1);
    if (!bytes || fread(bytes, 1, (size_t)size, f) != (size_t)size)
        return fprintf(stderr, "the file cannot be read\n"), 1;
    fclose(f);

    /* copy false: the bytes stay ours and must outlive the model; weights are used where they lie. */
    gale_status status = gale_device_open(NULL, &device);
    if (status == GALE_OK) status = gale_model_from_memory(bytes, (size_t)size, 0, device, NULL, &model);
    if (status != GALE_OK) return fprintf(stderr, "%s\n", gale_error()), 1;
    for (int i = 0; i < gale_model_inputs(model); i++) {
        gale_model_value v;
        gale_model_input(model, i, &v);
        printf("input %s: %s, %d axes\n", v.name, gale_type_name(v.type), v.rank);
    }
    gale_model_close(&model);
    gale_device_close(&device);
    free(bytes);
    return 0;
}
