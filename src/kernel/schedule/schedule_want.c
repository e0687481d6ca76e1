/* The schedules of contractions that can be asked for by name.  Names are what records keep: a name that a later
 * version does not know is only not found. */
#include "kernel/schedule/schedule.h"
#include <stdio.h>
#include <string.h>

/* clang-format off */
static const gale__schedule_want wants[] = {
    {GALE__HOW_USUAL, 0, 0}, {GALE__HOW_LOOPS, 0, 0},
    {GALE__HOW_TILE, 128, 128}, {GALE__HOW_TILE, 128, 64}, {GALE__HOW_TILE, 64, 128}, {GALE__HOW_TILE, 64, 64},
    {GALE__HOW_TILE, 64, 32}, {GALE__HOW_TILE, 32, 64}, {GALE__HOW_TILE, 32, 32},
    {GALE__HOW_SETS, 128, 64}, {GALE__HOW_SETS, 64, 128}, {GALE__HOW_SETS, 64, 64}, {GALE__HOW_SETS, 64, 32},
    {GALE__HOW_SETS, 32, 64}, {GALE__HOW_SETS, 32, 32},
    {GALE__HOW_MATRIX, 256, 32}, {GALE__HOW_MATRIX, 128, 128}, {GALE__HOW_MATRIX, 128, 64}, {GALE__HOW_MATRIX, 64, 128},
    {GALE__HOW_MATRIX, 128, 32}, {GALE__HOW_MATRIX, 32, 128}, {GALE__HOW_MATRIX, 64, 64}, {GALE__HOW_MATRIX, 64, 32},
    {GALE__HOW_MATRIX, 32, 64}, {GALE__HOW_MATRIX, 32, 32},
    {GALE__HOW_LONG, 128, 128}, {GALE__HOW_LONG, 128, 64}, {GALE__HOW_LONG, 64, 128}, {GALE__HOW_LONG, 64, 64},
    {GALE__HOW_LONG, 64, 32}, {GALE__HOW_LONG, 32, 64}, {GALE__HOW_LONG, 32, 32},
    {GALE__HOW_GROUPS, 128, 128}, {GALE__HOW_GROUPS, 128, 96}, {GALE__HOW_GROUPS, 128, 64}, {GALE__HOW_GROUPS, 128, 32},
    {GALE__HOW_GROUPS, 64, 128}, {GALE__HOW_GROUPS, 64, 96}, {GALE__HOW_GROUPS, 64, 64},
    {GALE__HOW_DEEP, 128, 128}, {GALE__HOW_DEEP, 128, 96}, {GALE__HOW_DEEP, 128, 64}, {GALE__HOW_DEEP, 128, 32},
    {GALE__HOW_DEEP, 64, 128}, {GALE__HOW_DEEP, 64, 96}, {GALE__HOW_DEEP, 64, 64}, {GALE__HOW_DEEP, 64, 32},
    {GALE__HOW_HALVES, 128, 64}, {GALE__HOW_HALVES, 64, 128}, {GALE__HOW_HALVES, 64, 64},
    {GALE__HOW_HALVES, 64, 32}, {GALE__HOW_QUARTERS, 128, 64}, {GALE__HOW_QUARTERS, 64, 128},
    {GALE__HOW_QUARTERS, 64, 64}, {GALE__HOW_QUARTERS, 64, 32}, {GALE__HOW_EIGHTHS, 128, 64},
    {GALE__HOW_EIGHTHS, 64, 128}, {GALE__HOW_EIGHTHS, 64, 64},
    {GALE__HOW_RELAY, 128, 128}, {GALE__HOW_RELAY, 128, 96}, {GALE__HOW_RELAY, 128, 64}, {GALE__HOW_RELAY, 128, 32},
    {GALE__HOW_TEAM, 128, 256},
    {GALE__HOW_KEEP, 128, 128}, {GALE__HOW_KEEP, 128, 96}, {GALE__HOW_KEEP, 128, 64},
};
/* clang-format on */

const gale__schedule_want *gale__schedule_want_at(int i)
{
    return (size_t)i < sizeof wants / sizeof *wants ? &wants[i] : NULL;
}

void gale__schedule_want_text(const gale__schedule_want *want, char out[GALE__WANT_TEXT])
{
    static const char *const hows[] = {"usual", "loops", "tile", "sets", "matrix", "long", "groups", "deep", "halves",
        "quarters", "eighths", "relay", "team", "keep"};
    snprintf(out, GALE__WANT_TEXT, want->m ? "%s %dx%d" : "%s", hows[want->how], want->m, want->n);
}

const gale__schedule_want *gale__schedule_want_find(const char *text)
{
    char each[GALE__WANT_TEXT];
    for (int i = 0; gale__schedule_want_at(i); i++) {
        gale__schedule_want_text(&wants[i], each);
        if (!strcmp(text, each)) return &wants[i];
    }
    return NULL;
}
