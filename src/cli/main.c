/* The program: finds the command and runs it. */
#include "gale/base.h"
#include <stdio.h>

int main(void)
{
    printf("gale %s\n", gale_version());
    return 0;
}
