/* Writes small pictures of every format into a folder, for fuzzing to start from: fuzz_pictures fuzz/corpus/picture */
#include "../tests/picture_make.h"
#include "base/file.h"
#include <stdio.h>

int main(int argc, char **argv)
{
    static const gale_type types[] = {GALE_U8, GALE_U16, GALE_F16, GALE_F32};
    if (argc != 2) return fprintf(stderr, "usage: fuzz_pictures FOLDER\n"), 2;
    for (int i = 0; i < gale__format_count; i++)
        for (int t = 0; t < 4; t++)
            for (int c = 1; c <= 4; c++) {
                const gale__format *f = &gale__formats[i];
                char path[1024];
                uint8_t icc[600], exif[128];
                if (!(f->types & 1u << t) || !(f->channels & 1u << c) || !f->write) continue;
                gale_picture *p = picture_make(7, 5, c, types[t]);
                bool notes = c == 3 && t == 0 &&
                             (gale__picture_bytes_set(&p->icc, icc, picture_icc(icc, false)) ||
                                 gale__picture_bytes_set(&p->exif, exif, picture_exif(exif, 6)));
                snprintf(path, sizeof path, "%s/%s-%s-%d.%.*s", argv[1], f->about.name, gale_type_name(types[t]), c,
                    (int)strcspn(f->about.extensions, " "), f->about.extensions);
                if (notes || gale_picture_write(p, path, &(gale_picture_write_options){.lossless = c % 2}) != GALE_OK)
                    return fprintf(stderr, "%s\n", gale_error()), 1;
                gale_picture_destroy(&p);
            }
    return 0;
}
