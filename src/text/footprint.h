/* A JSON object as text to be vectorised: the footprint of an operation.
 *
 *     {"plugin": "net", "operation": "create", "data": {"name": "br0", "mtu": 1500}, "metadata": {"host": "a"}}
 *
 * becomes
 *
 *     plugin: net
 *     operation: create
 *     name: br0
 *     mtu: 1500
 *     meta.host: a */
#ifndef GALE_TEXT_FOOTPRINT_H
#define GALE_TEXT_FOOTPRINT_H
#include "base/json.h"
/* plugin and operation come first, then the rest in its order; keys of objects inside are joined by dots, except those
 * of `data`, which stand alone, and of `meta` or `metadata`, which become meta.KEY; lists have commas. */
void gale__footprint_add(const gale__json *object, gale__str *out);
#endif
