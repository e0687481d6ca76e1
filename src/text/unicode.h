/* Properties of characters as Hugging Face's tokenizers sees them.  That library mixes tables of several Unicode
 * versions, so these are not the categories of base/utf8.h: scripts/text-tables.py reads them off the library itself.
 */
#ifndef GALE_TEXT_UNICODE_H
#define GALE_TEXT_UNICODE_H
#include "base/utf8.h"

enum {
    GALE__U_WHITE = 1,   /* White_Space: Rust's char::is_whitespace, \s */
    GALE__U_NUMERIC = 2, /* N: Rust's char::is_numeric */
    GALE__U_WORD = 4,    /* \w of Rust's regex */
    GALE__U_PUNCT = 8,   /* punctuation by Bert's rule */
    GALE__U_OTHER = 16,  /* removed by Bert's clean-up: controls, formats, private use */
    GALE__U_MN = 32,     /* nonspacing marks, as Bert strips them */
    GALE__U_MARK = 64,   /* marks, as StripAccents strips them */
    GALE__U_L = 128,     /* \p{L} of Oniguruma */
    GALE__U_N = 256,     /* \p{N} of Oniguruma */
};

/* Makes the tables ready; any number of times, from any thread. */
void gale__unicode_init(void);

extern uint8_t gale__unicode_index[0x110000 >> 8];
extern uint16_t gale__unicode_pages[][256];
/* After gale__unicode_init; c <= 0x10ffff. */
static inline uint32_t gale__unicode_bits(uint32_t c)
{
    return gale__unicode_pages[gale__unicode_index[c >> 8]][c & 255];
}

/* The first run of characters from *first on that have all of the bits; false: there is none. */
bool gale__unicode_next_run(uint32_t bits, uint32_t *first, uint32_t *last);

/* Rust's char::to_lowercase, but for U+0130, which becomes two characters: i and U+0307. */
uint32_t gale__unicode_lower(uint32_t c);
/* A number per script, 0: none; what the UnicodeScripts pre-tokenizer compares. */
int gale__unicode_script(uint32_t c);

/* The character at p, of valid UTF-8; *size: its bytes. */
static inline uint32_t gale__utf8_at(const char *p, size_t *size)
{
    const unsigned char *u = (const unsigned char *)p;
    if (u[0] < 0x80) return *size = 1, u[0];
    if (u[0] < 0xe0) return *size = 2, (uint32_t)(u[0] & 0x1f) << 6 | (u[1] & 0x3f);
    if (u[0] < 0xf0) return *size = 3, (uint32_t)(u[0] & 0xf) << 12 | (uint32_t)(u[1] & 0x3f) << 6 | (u[2] & 0x3f);
    *size = 4;
    return (uint32_t)(u[0] & 7) << 18 | (uint32_t)(u[1] & 0x3f) << 12 | (uint32_t)(u[2] & 0x3f) << 6 | (u[3] & 0x3f);
}
static inline size_t gale__utf8_size(const char *p) /* of the character at p */
{
    unsigned char u = (unsigned char)*p;
    return u < 0x80 ? 1 : u < 0xe0 ? 2 : u < 0xf0 ? 3 : 4;
}
/* Where the character in front of p begins; p > begin. */
static inline const char *gale__utf8_back(const char *p)
{
    do p--;
    while ((*p & 0xc0) == 0x80);
    return p;
}
/* How many bytes at the front are ASCII. */
size_t gale__ascii_length(const char *text, size_t size);
/* How many bytes at the front are valid UTF-8; size where all are. */
size_t gale__utf8_valid_length(const char *text, size_t size);
/* Copies the text with every maximal invalid sequence as U+FFFD, as browsers do; `out` has room for 3 * size bytes.
 * Returns the bytes written. */
size_t gale__utf8_repair(const char *text, size_t size, char *out);
#endif
