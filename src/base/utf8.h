/* UTF-8, letter case and character categories from Unicode's tables, independent of the locale. */
#ifndef GALE_BASE_UTF8_H
#define GALE_BASE_UTF8_H
#include "gale/base.h"

/* Length of the sequence at p, 0 if it is invalid (overlong, surrogate, truncated, above U+10FFFF). left: at least 1.
 */
int gale__utf8_length(const char *p, size_t left);
/* Reads a character and advances *p; a byte that does not start one is skipped and returns -1. *p < end. */
int32_t gale__utf8_take(const char **p, const char *end);
/* Writes a character (at most 4 bytes) and returns the position after it. */
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
/* The last of the characters from c on that are known to have its category. */
int32_t gale__char_category_end(int32_t c);
/* A bit per category: "Lu", or "L" for all with this prefix, or "Any"; 0 for an unknown name. */
uint32_t gale__category_mask(const char *name, size_t size);
#endif
