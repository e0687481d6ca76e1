/* Regular expressions in RE2's syntax, matched in time proportional to text times pattern: no pattern and no text can
 * make it slow.
 *
 * Literals, ., classes ([a-z], [^...], \d \w \s and their complements, [[:alpha:]] and its kin), |, groups ((...),
 * (?:...),
 * (?P<name>...), (?i), (?ims:...)), * + ? {n} {n,} {n,m} and their lazy forms, ^ $ \A \z \b \B, \Q...\E, \x41,
 * \x{1f600}, octal.  \pL and \p{Lu} (general categories; no scripts).  Text is UTF-8; a byte that is none matches
 * nothing. */
#ifndef GALE_BASE_REGEX_H
#define GALE_BASE_REGEX_H
#include "mem.h"

typedef struct gale__regex gale__regex;
/* GALE_FORMAT: the message says what is wrong and where; GALE_LIMIT: too large. */
gale_status gale__regex_create(const char *pattern, gale__regex **out);
void gale__regex_destroy(gale__regex **regex);
/* Whether the whole text matches.  One thread at a time. */
bool gale__regex_full_match(gale__regex *regex, const char *text, size_t size);
/* The first match from byte `from` on that is not empty, and of those that begin there the longest: [*begin, *end). One
 * thread at a time. */
bool gale__regex_find(gale__regex *regex, const char *text, size_t size, size_t from, size_t *begin, size_t *end);
uint64_t gale__regex_steps(const gale__regex *regex); /* states looked at so far, by all matches */
size_t gale__regex_size(const gale__regex *regex);    /* states */
#endif
