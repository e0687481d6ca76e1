/* A picture is made, written to memory and read again, and both are compared.
 *
 *     picture */
#include <gale/picture.h>
#include <stdio.h>

int main(void)
{
    gale_picture *made = NULL, *back = NULL;
    gale_picture_write_options how = GALE_DEFAULTS;
    gale_picture_difference d;
    void *bytes = NULL;
    size_t size = 0;
    how.format = "ppm";
    gale_status status = gale_picture_create(64, 48, 3, GALE_U8, &made);
    for (int64_t i = 0; status == GALE_OK && i < 64 * 48 * 3; i++) ((uint8_t *)made->data)[i] = (uint8_t)(i % 251);
    if (status == GALE_OK) status = gale_picture_to_memory(made, &how, &bytes, &size);
    if (status == GALE_OK) status = gale_picture_from_memory(bytes, size, NULL, &back);
    if (status == GALE_OK) status = gale_picture_compare(made, back, &d, 1, NULL);
    if (status != GALE_OK) fprintf(stderr, "%s\n", gale_error());
    else printf("%zu bytes, %llu pixels differ\n", size, (unsigned long long)d.pixels);
    gale_free(bytes);
    gale_picture_destroy(&made);
    gale_picture_destroy(&back);
    return status != GALE_OK || d.pixels;
}
