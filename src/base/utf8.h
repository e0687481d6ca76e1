/* UTF-8, and the case of letters by Unicode's tables: the same on every system, whatever its locale. */
#ifndef GALE_BASE_UTF8_H
#define GALE_BASE_UTF8_H
#include "gale/base.h"

/* Length of the sequence at p, 0 when it is none (overlong, surrogate, cut, past U+10FFFF).  left: at least 1. */
int gale__utf8_length(const char *p, size_t left);
/* Takes a character off the front of *p; a byte that begins none is taken alone and gives -1.  *p < end. */
int32_t gale__utf8_take(const char **p, const char *end);
/* Writes a character (at most 4 bytes) and gives the place behind it. */
char *gale__utf8_put(char *out, uint32_t c);
/* The other case of a letter where it is one character, else the character itself. */
int32_t gale__char_upper(int32_t c);
int32_t gale__char_lower(int32_t c);
#endif
