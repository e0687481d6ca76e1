/* Writes the seeds into a folder: fuzz_seeds fuzz/corpus/onnx */
#include "base/file.h"
#include "seeds.h"

int main(int argc, char **argv)
{
    for (int i = 0; i < SEEDS && argc == 2; i++) {
        char path[1024];
        maker m;
        gale__str bytes = {0};
        seeds[i].make(&m);
        snprintf(path, sizeof path, "%s/%s.onnx", argv[1], seeds[i].name);
        if (make_encode(&m, &bytes) != GALE_OK || gale__file_write(path, bytes.text, bytes.length) != GALE_OK)
            return fprintf(stderr, "%s\n", gale_error()), 1;
        gale__str_finish(&bytes);
        make_end(&m);
    }
    if (argc != 2) fprintf(stderr, "usage: fuzz_seeds FOLDER\n");
    return argc == 2 ? 0 : 2;
}
