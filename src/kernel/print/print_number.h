/* How a number is written in a kernel's text. */
#ifndef GALE_KERNEL_PRINT_NUMBER_H
#define GALE_KERNEL_PRINT_NUMBER_H
#include "base/str.h"
#include "gale/base.h"

void gale__print_const(gale__str *s, gale_type type, uint64_t bits);
/* The parameter word, or two of them, from `at` on. */
void gale__print_word(gale__str *s, gale_type type, uint64_t at);
#endif
