/* Decoders of tokenizer.json, as a flat list of steps. */
#include "text/decoder.h"
#include "text/fields.h"

enum { STEPS_MOST = 256 };

void gale__decoders_finish(gale__decoders *d)
{
    for (size_t i = 0; i < d->count; i++) {
        gale__free(d->items[i].text);
        gale__free(d->items[i].more);
        gale__split_pattern_destroy(&d->items[i].pattern);
    }
    gale__free(d->items);
    *d = (gale__decoders){0};
}

gale_status gale__decoders_add(gale__decoders *d, gale__decoder_kind kind, gale__decoder **out)
{
    if (d->count >= STEPS_MOST) return gale__fail(GALE_LIMIT, "more than %d decoders", STEPS_MOST);
    GALE_TRY(gale__grow((void **)&d->items, &d->capacity, d->count + 1, sizeof *d->items));
    d->items[d->count] = (gale__decoder){.kind = kind, .cleanup = true};
    *out = d->items + d->count++;
    return GALE_OK;
}

static gale_status add(gale__decoders *d, gale__decoder_kind kind)
{
    gale__decoder *step = NULL;
    return gale__decoders_add(d, kind, &step);
}

static gale_status copy(const gale__json *v, const char *key, const char *fallback, char **out)
{
    const char *text = fallback;
    size_t size = strlen(fallback);
    GALE_TRY(gale__field_text(v, key, &text, &size));
    return gale__copy_text(text, size, out);
}

static gale_status read_wordpiece(gale__decoders *d, const gale__json *v)
{
    gale__decoder *step = NULL;
    GALE_TRY(gale__decoders_add(d, GALE__DECODE_WORDPIECE, &step));
    GALE_TRY(gale__field_bool(v, "cleanup", &step->cleanup));
    return copy(v, "prefix", "##", &step->text);
}

static gale_status read_bpe(gale__decoders *d, const gale__json *v)
{
    gale__decoder *step = NULL;
    GALE_TRY(gale__decoders_add(d, GALE__DECODE_BPE, &step));
    return copy(v, "suffix", "</w>", &step->text);
}

static gale_status read_metaspace(gale__decoders *d, const gale__json *v)
{
    gale__decoder *step = NULL;
    gale__splitter same = {.split = true};
    GALE_TRY(gale__splitter_read_metaspace(&same, v));
    GALE_TRY(gale__decoders_add(d, GALE__DECODE_METASPACE, &step));
    step->character = same.character;
    step->prepends = same.prepend != GALE__PREPEND_NEVER;
    return GALE_OK;
}

static gale_status read_ctc(gale__decoders *d, const gale__json *v)
{
    gale__decoder *step = NULL;
    GALE_TRY(gale__decoders_add(d, GALE__DECODE_CTC, &step));
    GALE_TRY(gale__field_bool(v, "cleanup", &step->cleanup));
    GALE_TRY(copy(v, "pad_token", "<pad>", &step->text));
    return copy(v, "word_delimiter_token", "|", &step->more);
}

static gale_status read_replace(gale__decoders *d, const gale__json *v)
{
    gale__decoder *step = NULL;
    const gale__json *pattern = NULL;
    const char *text = NULL;
    size_t size = 0;
    GALE_TRY(gale__field_need(v, "pattern", &pattern));
    GALE_TRY(gale__field_text(pattern, "String", &text, &size));
    bool literal = text != NULL;
    if (!literal) GALE_TRY(gale__field_need_text(pattern, "Regex", &text, &size));
    GALE_TRY(gale__decoders_add(d, GALE__DECODE_REPLACE, &step));
    GALE_TRY(copy(v, "content", "", &step->text));
    return gale__split_pattern_create(text, size, literal, &step->pattern);
}

static gale_status read_strip(gale__decoders *d, const gale__json *v)
{
    gale__decoder *step = NULL;
    GALE_TRY(gale__decoders_add(d, GALE__DECODE_STRIP, &step));
    step->character = ' ';
    GALE_TRY(gale__field_character(v, "content", &step->character));
    GALE_TRY(gale__field_u32(v, "start", &step->start));
    return gale__field_u32(v, "stop", &step->stop);
}

static gale_status read_sequence(gale__decoders *d, const gale__json *v)
{
    const gale__json *list = NULL;
    GALE_TRY(gale__field_need(v, "decoders", &list));
    if (list->kind != GALE__JSON_ARRAY) return gale__fail(GALE_FORMAT, "'decoders' must be a list");
    for (const gale__json *item = list->child; item; item = item->next) GALE_TRY(gale__decoders_read(d, item));
    d->none = false;
    return GALE_OK;
}

gale_status gale__decoders_read(gale__decoders *d, const gale__json *v)
{
    static const char *const names[] = {"BPEDecoder", "ByteLevel", "WordPiece", "Metaspace", "CTC", "Sequence",
        "Replace", "Fuse", "Strip", "ByteFallback", NULL};
    if (!v || v->kind == GALE__JSON_NULL) {
        d->none = d->count == 0;
        return GALE_OK;
    }
    const char *type = gale__field_type(v);
    switch (gale__word_index(type, names)) {
    case 0: return read_bpe(d, v);
    case 1: return add(d, GALE__DECODE_BYTES);
    case 2: return read_wordpiece(d, v);
    case 3: return read_metaspace(d, v);
    case 4: return read_ctc(d, v);
    case 5: return read_sequence(d, v);
    case 6: return read_replace(d, v);
    case 7: return add(d, GALE__DECODE_FUSE);
    case 8: return read_strip(d, v);
    case 9: return add(d, GALE__DECODE_BYTE_FALLBACK);
    default: return gale__fail(GALE_UNSUPPORTED, "decoder '%.60s' is not supported", type);
    }
}
