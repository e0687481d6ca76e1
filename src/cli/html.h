/* Helpers for the HTML pages that commands write. */
#ifndef GALE_CLI_HTML_H
#define GALE_CLI_HTML_H
#include "base/str.h"
/* Text as HTML shows it; control characters are left out. */
void gale__html_add(gale__str *out, const char *text);
/* Base64, as data URIs take it. */
void gale__html_add_data(gale__str *out, const void *data, size_t size);
#endif
