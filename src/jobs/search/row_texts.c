/* Both pass over the file once: an index has no places of texts in it, and reading is faster than a search is rare. */
#include "jobs/search/row_texts.h"
#include "base/json.h"
#include <stdlib.h>
#include <string.h>

static int by_row(const void *a, const void *b)
{
    int64_t x = ((const gale__row_text *)a)->row, y = ((const gale__row_text *)b)->row;
    return x < y ? -1 : x > y;
}

const gale__row_text *gale__row_texts_get(const gale__row_text *list, size_t n, int64_t row)
{
    gale__row_text key = {.row = row};
    const gale__row_text *found = n ? bsearch(&key, list, n, sizeof key, by_row) : NULL;
    return found && found->text ? found : NULL;
}

void gale__row_texts_finish(gale__row_text **list, size_t n)
{
    for (size_t i = 0; *list && i < n; i++) gale__free((*list)[i].text);
    gale__free(*list);
    *list = NULL;
}

static gale_status check_rows(const gale__records_options *source, int64_t has, int64_t rows)
{
    if (has >= rows) return GALE_OK;
    return gale__fail(GALE_MISMATCH, "%s: has %lld texts, but the index has %lld rows; give the file it was made from",
        source->files[0], (long long)has, (long long)rows);
}

static gale_status fetch(const gale__records_options *source, int64_t rows, gale__row_text *list, size_t n)
{
    gale__records *r = NULL;
    const char *text = "";
    size_t size, at = 0;
    int64_t row = 0;
    gale_status status = gale__records_open(source, &r);
    for (; status == GALE_OK && row < rows; row++) {
        status = gale__records_next(r, &text, &size);
        if (status == GALE_OK && !text) status = check_rows(source, row, rows);
        if (status != GALE_OK || at == n || list[at].row != row) continue;
        list[at].text = gale__alloc(size + 1);
        if (!list[at].text) status = GALE_NO_MEMORY;
        else {
            memcpy(list[at].text, text, size);
            list[at].text[size] = 0;
            list[at++].size = size;
        }
    }
    gale__records_close(&r);
    return status;
}

gale_status gale__row_texts_find(const gale__records_options *source, int64_t rows, const gale_hit *hits, size_t count,
    gale__row_text **out, size_t *n)
{
    gale__row_text *list = gale__calloc(count + 1, sizeof *list);
    size_t kept = 0, unique = 0;
    if (!list) return GALE_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        if (hits[i].row >= 0) list[kept++].row = hits[i].row;
    qsort(list, kept, sizeof *list, by_row);
    for (size_t i = 0; i < kept; i++)
        if (!unique || list[unique - 1].row != list[i].row) list[unique++].row = list[i].row;
    gale_status status = fetch(source, rows, list, unique);
    if (status != GALE_OK) return gale__row_texts_finish(&list, unique), status;
    *out = list;
    *n = unique;
    return GALE_OK;
}

static bool value_is(const gale__json *v, const char *want)
{
    double number;
    if (v->kind == GALE__JSON_STRING) return v->string_size == strlen(want) && !memcmp(v->string, want, v->string_size);
    if (v->kind == GALE__JSON_NUMBER) return gale__text_to_f64(want, &number) && number == v->number;
    if (v->kind == GALE__JSON_BOOL) return !strcmp(want, v->boolean ? "true" : "false");
    for (const gale__json *item = v->kind == GALE__JSON_ARRAY ? v->child : NULL; item; item = item->next)
        if (item->kind != GALE__JSON_ARRAY && value_is(item, want)) return true;
    return false;
}

static bool holds(gale__arena *arena, const gale__json *object, const char *condition)
{
    const char *equals = strchr(condition, '=');
    char *key = gale__arena_printf(arena, "%.*s", (int)(equals - condition), condition);
    const gale__json *value = key ? gale__json_get(object, key) : NULL;
    return value && value_is(value, equals + 1);
}

static gale_status judge(
    gale__arena *arena, const char *text, size_t size, const char *const *conditions, size_t count, uint8_t *allowed)
{
    gale__json *object;
    gale__arena_finish(arena);
    GALE_TRY(gale__json_parse_with_zeros(arena, text, size, &object));
    *allowed = object->kind == GALE__JSON_OBJECT;
    for (size_t i = 0; i < count && *allowed; i++) *allowed = holds(arena, object, conditions[i]);
    return GALE_OK;
}

gale_status gale__row_filter(
    const gale__records_options *source, const char *const *conditions, size_t count, int64_t rows, uint8_t **allowed)
{
    gale__records_options whole = *source;
    gale__records *r = NULL;
    gale__arena arena = {0};
    const char *text = "";
    size_t size;
    int64_t row = 0;
    for (size_t i = 0; i < count; i++)
        if (!strchr(conditions[i], '='))
            return gale__fail(GALE_INVALID, "'%s' is not a condition KEY=VALUE", conditions[i]);
    uint8_t *made = gale__calloc((size_t)rows + 1, 1);
    if (!made) return GALE_NO_MEMORY;
    whole.kind = GALE__RECORDS_JSONL;
    whole.whole = true;
    gale_status status = gale__records_open(&whole, &r);
    for (; status == GALE_OK && row < rows; row++) {
        status = gale__records_next(r, &text, &size);
        if (status != GALE_OK || !text) break;
        status = judge(&arena, text, size, conditions, count, &made[row]);
        if (status != GALE_OK) gale__fail_within(status, "%s, record %lld", source->files[0], (long long)row + 1);
    }
    if (status == GALE_OK) status = check_rows(source, row, rows);
    gale__records_close(&r);
    gale__arena_finish(&arena);
    if (status == GALE_OK) *allowed = made;
    else gale__free(made);
    return status;
}
