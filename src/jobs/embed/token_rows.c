/* Texts to rows of tokens. */
#include "base/utf8.h"
#include "jobs/embed/embedder_inside.h"
#include "jobs/embed/heuristic.h"
#include <math.h>
#include <string.h>

gale_status gale__row_maker_init(const gale_embedder *e, gale__row_maker *out)
{
    *out = (gale__row_maker){0};
    if (!e->heuristic) GALE_TRY(gale_encoder_create(e->tokenizer, &out->encoder));
    out->made = true;
    return GALE_OK;
}

void gale__row_maker_finish(gale__row_maker *m)
{
    gale_encoder_destroy(&m->encoder);
    gale__str_finish(&m->text);
}

/* Behind itself, since a letter's other case may have more bytes. */
static gale_status make_lower(gale__row_maker *m, const char **text, size_t *size)
{
    size_t length = m->text.length;
    char bytes[4];
    for (size_t i = 0; i < length;) {
        const char *at = m->text.text + i, *before = at;
        int32_t c = gale__utf8_take(&at, m->text.text + length);
        size_t n = (size_t)(at - before);
        if (c < 0) bytes[0] = *before;
        else n = (size_t)(gale__utf8_put(bytes, (uint32_t)gale__char_lower(c)) - bytes);
        i += (size_t)(at - before);
        gale__str_add_n(&m->text, bytes, n);
        GALE_TRY(gale__str_check(&m->text));
    }
    *text = m->text.text + length;
    *size = m->text.length - length;
    return GALE_OK;
}

/* The prompt and the text. */
static gale_status put_together(const gale_embedder *e, gale__row_maker *m, const char **text, size_t *size)
{
    if (!e->prompt_size && !e->folder.lower) return GALE_OK;
    m->text.length = 0;
    gale__str_add_n(&m->text, e->info.prompt, e->prompt_size);
    gale__str_add_n(&m->text, *text, *size);
    GALE_TRY(gale__str_check(&m->text));
    *text = m->text.text;
    *size = m->text.length;
    return e->folder.lower ? make_lower(m, text, size) : GALE_OK;
}

/* The vector itself takes the place of tokens, so that pipelines need not know. */
static gale_status make_heuristic(
    const gale_embedder *e, const char *text, size_t size, uint32_t **tokens, size_t *used, size_t *capacity)
{
    float vector[GALE__HEURISTIC_DIMS], sum = 0;
    size_t dims = (size_t)e->info.dims;
    gale__heuristic(text, size, false, vector);
    for (size_t i = 0; i < dims; i++) sum += vector[i] * vector[i];
    for (size_t i = 0; e->info.normalized && sum > 0 && i < dims; i++) vector[i] /= sqrtf(sum);
    GALE_TRY(gale__grow((void **)tokens, capacity, *used + dims, sizeof **tokens));
    memcpy(*tokens + *used, vector, dims * sizeof *vector);
    *used += dims;
    return GALE_OK;
}

gale_status gale__row_make(const gale_embedder *e, gale__row_maker *m, const char *text, size_t size, uint32_t **tokens,
    size_t *used, size_t *capacity, uint32_t *count, uint32_t *skip)
{
    gale_encode_options options = {.max_length = e->info.max_length, .pad_length = -1};
    gale_encoding t;
    GALE_TRY(put_together(e, m, &text, &size));
    if (e->heuristic) {
        *count = (uint32_t)e->info.dims;
        *skip = 0;
        return make_heuristic(e, text, size, tokens, used, capacity);
    }
    GALE_TRY(gale_tokenizer_encode(e->tokenizer, m->encoder, text, size, NULL, 0, &options, &t));
    GALE_TRY(gale__grow((void **)tokens, capacity, *used + t.count, sizeof **tokens));
    for (size_t i = 0; i < t.count; i++) (*tokens)[*used + i] = t.ids[i] | t.type_ids[i] << 24;
    *used += t.count;
    *count = (uint32_t)t.count;
    *skip = e->prompt_tokens < t.count ? e->prompt_tokens : 0;
    return GALE_OK;
}
