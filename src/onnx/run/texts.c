/* Strings to numbers and back.  With consecutive numbers, numeric operators move strings; with ranks they compare,
 * sort and count them too. */
#include "onnx/run/texts.h"
#include <stdlib.h>
#include <string.h>

gale_status gale__onnx_texts_add(gale__onnx_texts *t, const gale_tensor *strings, size_t *base)
{
    size_t n = (size_t)gale__tensor_elements(strings);
    GALE_TRY(gale__grow((void **)&t->items, &t->capacity, t->count + n, sizeof *t->items));
    *base = t->count;
    for (size_t i = 0; i < n; i++)
        t->items[t->count + i].text = gale_tensor_string(strings, (int64_t)i, &t->items[t->count + i].size);
    t->count += n;
    return GALE_OK;
}

int gale__onnx_string_compare(const gale__string *a, const gale__string *b)
{
    int order = memcmp(a->text, b->text, a->size < b->size ? a->size : b->size);
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

typedef struct place {
    gale__string string;
    size_t number;
} place;
static int compare_places(const void *a, const void *b)
{
    return gale__onnx_string_compare(&((const place *)a)->string, &((const place *)b)->string);
}

gale_status gale__onnx_texts_rank(gale__onnx_texts *t)
{
    place *places = gale__calloc(t->count + 1, sizeof *places);
    t->ranks = gale__calloc(t->count + 1, sizeof *t->ranks);
    if (!places || !t->ranks) return gale__free(places), GALE_NO_MEMORY;
    for (size_t i = 0; i < t->count; i++) places[i] = (place){t->items[i], i};
    qsort(places, t->count, sizeof *places, compare_places);
    int64_t rank = 0;
    for (size_t i = 0; i < t->count; i++) {
        const gale__string *before = rank ? &t->items[rank - 1] : &(gale__string){"", 0};
        if (gale__onnx_string_compare(before, &places[i].string)) t->items[rank++] = places[i].string;
        t->ranks[places[i].number] = rank;
    }
    t->count = (size_t)rank;
    gale__free(places);
    return GALE_OK;
}

gale_status gale__onnx_texts_numbers(
    const gale__onnx_texts *t, const gale_tensor *strings, size_t base, gale_tensor **numbers)
{
    gale_tensor *made = NULL;
    GALE_TRY(gale_tensor_create(NULL, GALE_I64, strings->rank, strings->dims, &made));
    int64_t *to = gale_tensor_data(made), n = gale__tensor_elements(strings);
    for (int64_t i = 0; i < n; i++) to[i] = t->ranks ? t->ranks[base + (size_t)i] : (int64_t)base + i + 1;
    *numbers = made;
    return GALE_OK;
}

gale_status gale__onnx_texts_pick(const gale__onnx_texts *t, const gale_tensor *numbers, gale_tensor **strings)
{
    size_t n = (size_t)gale__tensor_elements(numbers);
    int64_t *from = gale__calloc(n + 1, sizeof *from);
    const char **texts = gale__calloc(n + 1, sizeof *texts);
    size_t *sizes = gale__calloc(n + 1, sizeof *sizes);
    gale_status status = from && texts && sizes ? GALE_OK : GALE_NO_MEMORY;
    if (status == GALE_OK)
        status = numbers->type == GALE_I64 ? gale_tensor_to_cpu(numbers, from, n * sizeof *from)
                                           : gale__fail(GALE_INVALID, "its input is strings, but its result is %s",
                                                 gale_type_name(numbers->type));
    for (size_t i = 0; status == GALE_OK && i < n; i++) {
        if (from[i] < 0 || from[i] > (int64_t)t->count)
            status = gale__fail(GALE_INVALID,
                "string input where numbers are needed: its result has %lld, which is not the index of one of %zu "
                "strings",
                (long long)from[i], t->count);
        else if (from[i] > 0) texts[i] = t->items[from[i] - 1].text, sizes[i] = t->items[from[i] - 1].size;
        else texts[i] = "";
    }
    if (status == GALE_OK) status = gale_tensor_from_strings(numbers->rank, numbers->dims, texts, sizes, strings);
    gale__free(from);
    gale__free(texts);
    gale__free(sizes);
    return status;
}

void gale__onnx_texts_finish(gale__onnx_texts *t)
{
    gale__free(t->items);
    gale__free(t->ranks);
    *t = (gale__onnx_texts){0};
}

gale_status gale__onnx_string_list_end(gale__onnx_string_list *list)
{
    GALE_TRY(gale__str_check(&list->text));
    GALE_TRY(gale__grow((void **)&list->ends, &list->capacity, list->count + 1, sizeof *list->ends));
    list->ends[list->count++] = list->text.length;
    return GALE_OK;
}

gale_status gale__onnx_string_list_tensor(
    const gale__onnx_string_list *list, int rank, const int64_t *dims, gale_tensor **out)
{
    const char **texts = gale__calloc(list->count + 1, sizeof *texts);
    size_t *sizes = gale__calloc(list->count + 1, sizeof *sizes);
    int64_t elements;
    size_t bytes;
    gale_status status = texts && sizes ? gale__shape_size(GALE_STRING, rank, dims, &elements, &bytes) : GALE_NO_MEMORY;
    if (status == GALE_OK && (size_t)elements != list->count)
        status = gale__fail(GALE_INTERNAL, "%zu strings for a tensor of %lld", list->count, (long long)elements);
    for (size_t i = 0, from = 0; status == GALE_OK && i < list->count; from = list->ends[i++]) {
        texts[i] = gale__str_text(&list->text) + from;
        sizes[i] = list->ends[i] - from;
    }
    if (status == GALE_OK) status = gale_tensor_from_strings(rank, dims, texts, sizes, out);
    gale__free(texts);
    gale__free(sizes);
    return status;
}

void gale__onnx_string_list_finish(gale__onnx_string_list *list)
{
    gale__str_finish(&list->text);
    gale__free(list->ends);
    *list = (gale__onnx_string_list){0};
}
