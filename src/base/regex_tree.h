/* The tree of a regular expression, between its parser and its compiler. */
#ifndef GALE_BASE_REGEX_TREE_H
#define GALE_BASE_REGEX_TREE_H
#include "mem.h"

#define GALE__REGEX_DEPTH 250   /* groups inside groups */
#define GALE__REGEX_REPEAT 1000 /* RE2's own */

typedef enum gale__regex_kind {
    GALE__RE_EMPTY,
    GALE__RE_SET,
    GALE__RE_CAT,
    GALE__RE_ALT,
    GALE__RE_REPEAT,
    GALE__RE_ASSERT
} gale__regex_kind;
typedef enum gale__regex_assert {
    GALE__RE_TEXT_BEGIN,
    GALE__RE_TEXT_END,
    GALE__RE_LINE_BEGIN,
    GALE__RE_LINE_END,
    GALE__RE_WORD,
    GALE__RE_NO_WORD
} gale__regex_assert;
typedef struct gale__regex_range {
    int32_t low, high;
} gale__regex_range;
/* Characters: any of the ranges and categories (a bit each), or none of them. */
typedef struct gale__regex_set {
    gale__regex_range *ranges;
    size_t count, capacity;
    uint32_t categories;
    bool negated, fold;
} gale__regex_set;
typedef struct gale__regex_node {
    gale__regex_kind kind;
    gale__regex_set set;
    int least, most; /* REPEAT; most -1: no end */
    gale__regex_assert assertion;
    struct gale__regex_node *child, *next; /* CAT, ALT: children in a row; REPEAT: one */
} gale__regex_node;
gale_status gale__regex_parse(gale__arena *a, const char *pattern, gale__regex_node **out);
#endif
