/* Fields of tokenizer.json, read with messages that name them. */
#ifndef GALE_TEXT_FIELDS_H
#define GALE_TEXT_FIELDS_H
#include "base/json.h"

/* Each reads the member `key` of an object and fails with GALE_FORMAT when it has another type.  One that is missing or
 * null leaves *out alone. */
gale_status gale__field_bool(const gale__json *object, const char *key, bool *out);
gale_status gale__field_u32(const gale__json *object, const char *key, uint32_t *out);
gale_status gale__field_text(const gale__json *object, const char *key, const char **out, size_t *size);
/* A text of exactly one character. */
gale_status gale__field_character(const gale__json *object, const char *key, uint32_t *out);
/* GALE_FORMAT when it is missing or null. */
gale_status gale__field_need(const gale__json *object, const char *key, const gale__json **out);
gale_status gale__field_need_text(const gale__json *object, const char *key, const char **out, size_t *size);
/* "type"; "" when there is none. */
const char *gale__field_type(const gale__json *object);
/* The value of a number as the reference's parser reads it, which rounds twice: a score that differs in its last bit
 * can choose another token.  The text ends with something that is no part of a number. */
double gale__number_twice_rounded(const char *text);
/* A copy with a zero after it. */
gale_status gale__copy_text(const char *text, size_t size, char **out);
/* The place of a text in a NULL-ended list; -1: not there. */
int gale__word_index(const char *word, const char *const *list);
#endif
