/* An operator case that must be refused, with words that its message must have. */
#ifndef GALE_TEST_REFUSED_H
#define GALE_TEST_REFUSED_H
#include "ops/cases/cases.h"
#include "test.h"

static inline void refused(const char *op, const char *attrs, const char *inputs, const char *words)
{
    gale__case c = {op, attrs, "f32", inputs, "e", ""};
    gale__case_run run;
    gale__case_value got[GALE__CASE_VALUES];
    if (!CHECK_OK(gale__case_open(&c, 0, &run))) return;
    gale_status status = gale__case_reference(&run, got);
    if (!CHECK(status != GALE_OK) || !CHECK(strstr(gale_error(), words) != NULL))
        printf("  %s %s: %s: '%s'\n", op, attrs, inputs, gale_error());
    gale__case_close(&run);
}
#endif
