/* The page of `gale explain`. */
#ifndef GALE_CLI_EXPLAIN_H
#define GALE_CLI_EXPLAIN_H
#include "base/str.h"
#include "gale/model_jobs.h"

/* A page of its own, without anything from outside. */
gale_status gale__explain_html(const gale_explain_result *e, gale__str *out);
#endif
