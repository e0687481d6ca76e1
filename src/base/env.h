/* Environment variables, each described once in env.def. gale's own name overrides the alias; if both are set and
 * differ, a warning is logged. */
#ifndef GALE_BASE_ENV_H
#define GALE_BASE_ENV_H
#include "error.h"
typedef enum gale__env {
#define X(id, name, alias, value, help) GALE__ENV_##id,
#include "env.def"
#undef X
    GALE__ENV_COUNT
} gale__env;
typedef struct gale__env_row {
    const char *name, *aliases, *value, *help;
} gale__env_row;
extern const gale__env_row gale__env_table[GALE__ENV_COUNT];
const char *gale__env_get(gale__env id);                   /* never NULL: set value, alias, or default */
int64_t gale__env_get_i64(gale__env id, int64_t fallback); /* fallback when empty or not a number (warned once) */
#endif
