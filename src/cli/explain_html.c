/* The page of `gale explain`: a template with the result as JSON in it, from which a script in the page draws the
 * graphs.  Nothing is loaded from outside, so that the file can be passed on. */
#include "cli/explain.h"
#include "explain_files.h"
#include <string.h>

static const char mark[] = "@@DATA@@";

/* JSON may stand in a page if nothing in it can end the script. */
static void add_data(gale__str *out, const char *json)
{
    for (const char *at = json; *at;) {
        size_t n = strcspn(at, "<");
        gale__str_add_n(out, at, n);
        at += n;
        if (*at) gale__str_add(out, "\\u003c"), at++;
    }
}

gale_status gale__explain_html(const gale_explain_result *e, gale__str *out)
{
    const char *page = gale__text_explain_page_html, *at = strstr(page, mark);
    char *json = NULL;
    GALE_TRY(gale_explain_result_json(e, &json));
    gale__str_add_n(out, page, (size_t)(at - page));
    add_data(out, json);
    gale__str_add(out, at + strlen(mark));
    gale_free(json);
    return gale__str_check(out);
}
