/* Operators on the text of strings: joining, splitting, matching, cleaning.  Strings are UTF-8; invalid bytes pass
 * through. */
#include "base/regex.h"
#include "base/utf8.h"
#include "onnx/run/texts.h"
#include <string.h>

static gale__string string_at(const gale_tensor *t, int64_t i) { return ((const gale__string *)t->host)[i]; }

/* --- StringConcat. --- */

/* NumPy's broadcasting; strides of elements, 0 along repeated axes. */
static gale_status broadcast(const gale_tensor *const t[2], int *rank, int64_t *dims, int64_t strides[2][GALE_MAX_RANK])
{
    *rank = t[0]->rank > t[1]->rank ? t[0]->rank : t[1]->rank;
    int64_t step[2] = {1, 1};
    for (int i = *rank - 1; i >= 0; i--) {
        int64_t extent[2];
        for (int k = 0; k < 2; k++) {
            int axis = i - (*rank - t[k]->rank);
            extent[k] = axis < 0 ? 1 : t[k]->dims[axis];
            strides[k][i] = extent[k] == 1 ? 0 : step[k];
            step[k] *= extent[k];
        }
        if (extent[0] != extent[1] && extent[0] != 1 && extent[1] != 1)
            return gale__fail(GALE_INVALID, "extents %lld and %lld cannot be broadcast together", (long long)extent[0],
                (long long)extent[1]);
        dims[i] = extent[0] == 1 ? extent[1] : extent[0];
    }
    return GALE_OK;
}

static gale_status concat_all(const gale_tensor *const t[2], int rank, const int64_t *dims,
    int64_t strides[2][GALE_MAX_RANK], gale__onnx_string_list *list)
{
    int64_t at[GALE_MAX_RANK] = {0}, place[2] = {0}, elements;
    size_t bytes;
    GALE_TRY(gale__shape_size(GALE_STRING, rank, dims, &elements, &bytes));
    for (int64_t n = 0; n < elements; n++) {
        for (int k = 0; k < 2; k++)
            gale__str_add_n(&list->text, string_at(t[k], place[k]).text, string_at(t[k], place[k]).size);
        GALE_TRY(gale__onnx_string_list_end(list));
        for (int i = rank - 1; i >= 0; i--) {
            for (int k = 0; k < 2; k++) place[k] += strides[k][i];
            if (++at[i] < dims[i]) break;
            for (int k = 0; k < 2; k++) place[k] -= strides[k][i] * dims[i];
            at[i] = 0;
        }
    }
    return GALE_OK;
}

gale_status gale__onnx_host_string_concat(gale__onnx_host_call *call)
{
    gale_tensor *x, *y, *made = NULL;
    int rank;
    int64_t dims[GALE_MAX_RANK], strides[2][GALE_MAX_RANK];
    gale__onnx_string_list list = {0};
    GALE_TRY(gale__onnx_host_strings(call, 0, &x));
    GALE_TRY(gale__onnx_host_strings(call, 1, &y));
    const gale_tensor *t[2] = {x, y};
    GALE_TRY(broadcast(t, &rank, dims, strides));
    gale_status status = concat_all(t, rank, dims, strides, &list);
    if (status == GALE_OK) status = gale__onnx_string_list_tensor(&list, rank, dims, &made);
    gale__onnx_string_list_finish(&list);
    return status == GALE_OK ? gale__onnx_host_give(call, 0, &made) : status;
}

/* --- StringSplit. --- */

typedef struct splitter {
    const char *delimiter;
    size_t size;
    int64_t most;
    gale__string *parts;
    size_t count, capacity;
} splitter;

static gale_status add_part(splitter *s, const char *from, const char *to)
{
    GALE_TRY(gale__grow((void **)&s->parts, &s->capacity, s->count + 1, sizeof *s->parts));
    s->parts[s->count++] = (gale__string){from, (size_t)(to - from)};
    return GALE_OK;
}

static bool is_space(int32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* Moves on while characters are spaces, or are none. */
static const char *skip(const char *at, const char *end, bool spaces)
{
    while (at < end) {
        const char *next = at;
        if (is_space(gale__utf8_take(&next, end)) != spaces) break;
        at = next;
    }
    return at;
}

static gale_status split_by_spaces(splitter *s, gale__string text)
{
    const char *at = text.text, *end = at + text.size;
    for (int64_t splits = 0; (at = skip(at, end, true)) < end; splits++) {
        const char *stop = splits == s->most ? end : skip(at, end, false);
        GALE_TRY(add_part(s, at, stop));
        at = stop;
    }
    return GALE_OK;
}

static gale_status split_by_delimiter(splitter *s, gale__string text)
{
    const char *at = text.text, *end = at + text.size;
    for (int64_t splits = 0; splits != s->most; splits++) {
        const char *found = memmem(at, (size_t)(end - at), s->delimiter, s->size);
        if (!found) break;
        GALE_TRY(add_part(s, at, found));
        at = found + s->size;
    }
    return add_part(s, at, end);
}

/* counts: parts of each string; they follow one another in s->parts. */
static gale_status split_all(splitter *s, const gale_tensor *x, int64_t *counts, int64_t *most)
{
    for (int64_t i = 0; i < gale__tensor_elements(x); i++) {
        size_t before = s->count;
        GALE_TRY(s->size ? split_by_delimiter(s, string_at(x, i)) : split_by_spaces(s, string_at(x, i)));
        counts[i] = (int64_t)(s->count - before);
        if (counts[i] > *most) *most = counts[i];
    }
    return GALE_OK;
}

/* Rows of `width` strings, those of shorter ones filled with empty strings. */
static gale_status spread(
    const splitter *s, const gale_tensor *x, const int64_t *counts, int64_t width, gale_tensor **out)
{
    int64_t dims[GALE_MAX_RANK], elements;
    size_t bytes, from = 0;
    if (x->rank == GALE_MAX_RANK) return gale__fail(GALE_LIMIT, "the result would have rank %d", GALE_MAX_RANK + 1);
    memcpy(dims, x->dims, sizeof dims);
    dims[x->rank] = width;
    GALE_TRY(gale__shape_size(GALE_STRING, x->rank + 1, dims, &elements, &bytes));
    const char **texts = gale__calloc((size_t)elements + 1, sizeof *texts);
    size_t *sizes = gale__calloc((size_t)elements + 1, sizeof *sizes);
    gale_status status = texts && sizes ? GALE_OK : GALE_NO_MEMORY;
    for (int64_t i = 0; status == GALE_OK && i < elements; i++) {
        bool there = i % width < counts[i / width];
        texts[i] = there ? s->parts[from].text : "";
        sizes[i] = there ? s->parts[from++].size : 0;
    }
    if (status == GALE_OK) status = gale_tensor_from_strings(x->rank + 1, dims, texts, sizes, out);
    gale__free(texts);
    gale__free(sizes);
    return status;
}

gale_status gale__onnx_host_string_split(gale__onnx_host_call *call)
{
    gale_tensor *x, *counts = NULL, *made = NULL;
    int64_t width = 0;
    GALE_TRY(gale__onnx_host_strings(call, 0, &x));
    splitter s = {.delimiter = gale__onnx_host_text(call, "delimiter", ""),
        .most = gale__onnx_net_attr_i(call->node, "maxsplit", -1)};
    s.size = strlen(s.delimiter);
    GALE_TRY(gale_tensor_create(NULL, GALE_I64, x->rank, x->dims, &counts));
    gale_status status = split_all(&s, x, gale_tensor_data(counts), &width);
    if (status == GALE_OK) status = spread(&s, x, gale_tensor_data(counts), width, &made);
    gale__free(s.parts);
    if (status != GALE_OK) return gale_tensor_destroy(&counts), status;
    status = gale__onnx_host_give(call, 0, &made);
    if (status != GALE_OK) return gale_tensor_destroy(&counts), status;
    return gale__onnx_host_give(call, 1, &counts);
}

/* --- RegexFullMatch. --- */

gale_status gale__onnx_host_regex_full_match(gale__onnx_host_call *call)
{
    gale_tensor *x, *made = NULL;
    gale__regex *regex = NULL;
    const char *pattern = gale__onnx_host_text(call, "pattern", NULL);
    GALE_TRY(gale__onnx_host_strings(call, 0, &x));
    if (!pattern) return gale__fail(GALE_INVALID, "missing attribute pattern");
    GALE_TRY(gale__regex_create(pattern, &regex));
    gale_status status = gale_tensor_create(NULL, GALE_BOOL, x->rank, x->dims, &made);
    bool *to = status == GALE_OK ? gale_tensor_data(made) : NULL;
    for (int64_t i = 0; to && i < gale__tensor_elements(x); i++)
        to[i] = gale__regex_full_match(regex, string_at(x, i).text, string_at(x, i).size);
    gale__regex_destroy(&regex);
    return status == GALE_OK ? gale__onnx_host_give(call, 0, &made) : status;
}

/* --- StringNormalizer. --- */

typedef enum letter_case { AS_IT_IS, LOWER, UPPER } letter_case;

/* Turkish and Azerbaijani have a dotted and a dotless i. */
static bool dotted_i(const char *locale) { return !strncmp(locale, "tr", 2) || !strncmp(locale, "az", 2); }

static int32_t change_case(int32_t c, letter_case to, bool dotted)
{
    if (dotted && to == UPPER && c == 'i') return 0x130;
    if (dotted && to == LOWER && c == 'I') return 0x131;
    if (to == LOWER && c == 0x130) return 'i';
    return to == UPPER ? gale__char_upper(c) : gale__char_lower(c);
}

static void add_cased(gale__str *out, gale__string s, letter_case to, bool dotted)
{
    const char *at = s.text, *end = at + s.size;
    if (to == AS_IT_IS) gale__str_add_n(out, s.text, s.size);
    while (to != AS_IT_IS && at < end) {
        const char *from = at;
        char text[4];
        int32_t c = gale__utf8_take(&at, end);
        if (c < 0) gale__str_add_n(out, from, (size_t)(at - from));
        else gale__str_add_n(out, text, (size_t)(gale__utf8_put(text, (uint32_t)change_case(c, to, dotted)) - text));
    }
}

static bool equal_strings(gale__string a, gale__string b, bool fold, bool dotted)
{
    const char *p = a.text, *p_end = p + a.size, *q = b.text, *q_end = q + b.size;
    if (!fold) return a.size == b.size && !memcmp(a.text, b.text, a.size);
    while (p < p_end && q < q_end) {
        const char *from_p = p, *from_q = q;
        int32_t c = gale__utf8_take(&p, p_end), d = gale__utf8_take(&q, q_end);
        if (c < 0 && d < 0 ? *from_p != *from_q : change_case(c, LOWER, dotted) != change_case(d, LOWER, dotted))
            return false;
    }
    return p == p_end && q == q_end;
}

static bool is_stopword(const gale__onnx_host_call *call, gale__string s, bool fold, bool dotted)
{
    const gale_attr *stop = gale__onnx_net_attr(call->node, "stopwords");
    for (size_t i = 0; stop && stop->kind == GALE_ATTR_STRINGS && i < stop->count; i++)
        if (equal_strings(s, (gale__string){stop->strings[i], strlen(stop->strings[i])}, fold, dotted)) return true;
    return false;
}

gale_status gale__onnx_host_string_normalizer(gale__onnx_host_call *call)
{
    gale_tensor *x, *made = NULL;
    gale__onnx_string_list list = {0};
    gale_status status = GALE_OK;
    const char *action = gale__onnx_host_text(call, "case_change_action", "NONE");
    bool dotted = dotted_i(gale__onnx_host_text(call, "locale", "en_US")),
         fold = !gale__onnx_net_attr_i(call->node, "is_case_sensitive", 0);
    GALE_TRY(gale__onnx_host_strings(call, 0, &x));
    if (x->rank != 1 && (x->rank != 2 || x->dims[0] != 1))
        return gale__fail(GALE_INVALID, "the strings must have shape [C] or [1, C]");
    letter_case to = !strcmp(action, "LOWER") ? LOWER : !strcmp(action, "UPPER") ? UPPER : AS_IT_IS;
    if (to == AS_IT_IS && strcmp(action, "NONE"))
        return gale__fail(GALE_INVALID, "case_change_action '%s' is not LOWER, UPPER or NONE", action);
    for (int64_t i = 0; status == GALE_OK && i < gale__tensor_elements(x); i++) {
        if (is_stopword(call, string_at(x, i), fold, dotted)) continue;
        add_cased(&list.text, string_at(x, i), to, dotted);
        status = gale__onnx_string_list_end(&list);
    }
    if (status == GALE_OK && !list.count)
        status = gale__onnx_string_list_end(&list); /* nothing left: one empty string */
    if (status == GALE_OK)
        status = gale__onnx_string_list_tensor(&list, x->rank,
            x->rank == 1 ? (int64_t[]){(int64_t)list.count} : (int64_t[]){1, (int64_t)list.count}, &made);
    gale__onnx_string_list_finish(&list);
    return status == GALE_OK ? gale__onnx_host_give(call, 0, &made) : status;
}
