/* A driver library that takes the process down as soon as it is opened, or hangs when HANG is set. */
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void die(void)
{
    if (getenv("HANG"))
        for (;;) pause();
    abort();
}
