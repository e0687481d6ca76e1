/* The subset of YAML that people write by hand: maps and lists by indentation or in brackets, plain and quoted
 * scalars, text blocks, comments.  The result is the tree of base/json.h, so that a manifest may be YAML or JSON.
 * Plain numbers and booleans also keep their text in `string`. */
#ifndef GALE_BASE_YAML_H
#define GALE_BASE_YAML_H
#include "json.h"
/* Anchors, aliases, tags, complex keys and several documents in a file are errors, as are duplicate keys. Messages
 * contain the line. */
gale_status gale__yaml_parse(gale__arena *a, const char *text, size_t size, gale__json **out);
#endif
