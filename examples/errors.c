/* Versions, statuses and messages.
 *
 *     errors */
#include <gale/base.h>
#include <stdio.h>

int main(void)
{
    gale_type type = GALE_F32;
#if GALE_VERSION < 100
#error "this program needs the headers of gale 0.1"
#endif
    if (gale_version_number() / 100 != GALE_VERSION / 100)
        return fprintf(stderr, "built for another version than %s\n", gale_version()), 1;

    /* What fails leaves its results alone, and says why in a text of this thread. */
    gale_status status = gale_type_parse("float99", &type);
    printf("gale %s: %s: %s\n", gale_version(), gale_status_text(status), gale_error());
    return status == GALE_OK || type != GALE_F32;
}
