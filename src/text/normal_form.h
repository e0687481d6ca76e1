/* Unicode's normal forms with alignment, and the boundaries of user-perceived characters, based on utf8proc. */
#ifndef GALE_TEXT_NORMAL_FORM_H
#define GALE_TEXT_NORMAL_FORM_H
#include "text/aligned.h"

/* Whether the library is there; GALE_UNSUPPORTED with the remedy when it is not.  `what` needs it. */
gale_status gale__normal_form_check(const char *what);

/* Characters with what gale__aligned_rewrite_put wants, kept to be used again. */
typedef struct gale__normal_step {
    uint32_t c;
    int32_t change;
    uint32_t order; /* combining class, and the place in the text after it */
} gale__normal_step;
typedef struct gale__normal_steps {
    gale__normal_step *items;
    size_t count, capacity;
} gale__normal_steps;

typedef enum gale__normal_form_kind { GALE__NFD, GALE__NFC, GALE__NFKD, GALE__NFKC } gale__normal_form_kind;
gale_status gale__normal_form(
    const gale__aligned *in, gale__normal_form_kind form, gale__normal_steps *steps, gale__aligned *out);

/* Bytes of the grapheme cluster at the front; size > 0. */
size_t gale__grapheme_length(const char *text, size_t size);
#endif
