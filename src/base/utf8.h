/* UTF-8, letter case and character categories from Unicode's tables, independent of the locale. */
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

/* Unicode's general categories. */
typedef enum gale__category {
    GALE__Cc,
    GALE__Cf,
    GALE__Cn,
    GALE__Co,
    GALE__Cs,
    GALE__Ll,
    GALE__Lm,
    GALE__Lo,
    GALE__Lt,
    GALE__Lu,
    GALE__Mc,
    GALE__Me,
    GALE__Mn,
    GALE__Nd,
    GALE__Nl,
    GALE__No,
    GALE__Pc,
    GALE__Pd,
    GALE__Pe,
    GALE__Pf,
    GALE__Pi,
    GALE__Po,
    GALE__Ps,
    GALE__Sc,
    GALE__Sk,
    GALE__Sm,
    GALE__So,
    GALE__Zl,
    GALE__Zp,
    GALE__Zs,
    GALE__CATEGORIES
} gale__category;
gale__category gale__char_category(int32_t c); /* 0 <= c <= 0x10ffff */
/* A bit per category: "Lu", or "L" for all that begin so, or "Any"; 0 when there is none of that name. */
uint32_t gale__category_mask(const char *name, size_t size);
#endif
