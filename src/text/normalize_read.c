/* Normalizers of tokenizer.json, as a flat list of steps. */
#include "text/fields.h"
#include "text/normalize.h"

enum { STEPS_MOST = 256 };

static void finish_step(gale__normalizer *n)
{
    gale__split_pattern_destroy(&n->pattern);
    gale__free(n->text);
    gale__charsmap_finish(&n->map);
}

void gale__normalizers_finish(gale__normalizers *n)
{
    for (size_t i = 0; i < n->count; i++) finish_step(n->items + i);
    gale__free(n->items);
    *n = (gale__normalizers){0};
}

gale_status gale__normalizers_add(gale__normalizers *n, gale__normalizer_kind kind, gale__normalizer **out)
{
    if (n->count >= STEPS_MOST) return gale__fail(GALE_LIMIT, "more than %d normalizers", STEPS_MOST);
    GALE_TRY(gale__grow((void **)&n->items, &n->capacity, n->count + 1, sizeof *n->items));
    n->items[n->count] = (gale__normalizer){.kind = kind};
    *out = n->items + n->count++;
    return GALE_OK;
}

static gale_status add(gale__normalizers *n, gale__normalizer_kind kind)
{
    gale__normalizer *step = NULL;
    return gale__normalizers_add(n, kind, &step);
}

static gale_status add_form(gale__normalizers *n, gale__normal_form_kind form)
{
    gale__normalizer *step = NULL;
    GALE_TRY(gale__normal_form_check("a normalizer (NFC, NFD, NFKC, NFKD, or BertNormalizer, which strips accents)"));
    GALE_TRY(gale__normalizers_add(n, GALE__NORM_FORM, &step));
    step->form = form;
    return GALE_OK;
}

static gale_status read_bert(gale__normalizers *n, const gale__json *v)
{
    bool clean = true, chinese = true, lower = true;
    GALE_TRY(gale__field_bool(v, "clean_text", &clean));
    GALE_TRY(gale__field_bool(v, "handle_chinese_chars", &chinese));
    GALE_TRY(gale__field_bool(v, "lowercase", &lower));
    bool accents = lower;
    GALE_TRY(gale__field_bool(v, "strip_accents", &accents));
    if (clean) GALE_TRY(add(n, GALE__NORM_CLEAN));
    if (chinese) GALE_TRY(add(n, GALE__NORM_CHINESE));
    if (accents) GALE_TRY(add_form(n, GALE__NFD));
    if (accents) GALE_TRY(add(n, GALE__NORM_STRIP_MN));
    return lower ? add(n, GALE__NORM_LOWERCASE) : GALE_OK;
}

static gale_status read_strip(gale__normalizers *n, const gale__json *v)
{
    gale__normalizer *step = NULL;
    GALE_TRY(gale__normalizers_add(n, GALE__NORM_STRIP, &step));
    step->left = step->right = true;
    GALE_TRY(gale__field_bool(v, "strip_left", &step->left));
    return gale__field_bool(v, "strip_right", &step->right);
}

static gale_status read_replace(gale__normalizers *n, const gale__json *v)
{
    gale__normalizer *step = NULL;
    const gale__json *pattern = NULL;
    const char *text = NULL, *content = "";
    size_t size = 0, content_size = 0;
    GALE_TRY(gale__field_need(v, "pattern", &pattern));
    GALE_TRY(gale__field_text(pattern, "String", &text, &size));
    bool literal = text != NULL;
    if (!literal) GALE_TRY(gale__field_need_text(pattern, "Regex", &text, &size));
    GALE_TRY(gale__field_need_text(v, "content", &content, &content_size));
    GALE_TRY(gale__normalizers_add(n, GALE__NORM_REPLACE, &step));
    GALE_TRY(gale__split_pattern_create(text, size, literal, &step->pattern));
    step->text_size = content_size;
    return gale__copy_text(content, content_size, &step->text);
}

static gale_status read_prepend(gale__normalizers *n, const gale__json *v)
{
    gale__normalizer *step = NULL;
    const char *text = "";
    size_t size = 0;
    GALE_TRY(gale__field_need_text(v, "prepend", &text, &size));
    GALE_TRY(gale__normalizers_add(n, GALE__NORM_PREPEND, &step));
    step->text_size = size;
    return gale__copy_text(text, size, &step->text);
}

static gale_status read_charsmap(gale__normalizers *n, const gale__json *v)
{
    gale__normalizer *step = NULL;
    const char *text = "";
    size_t size = 0;
    GALE_TRY(gale__normal_form_check("the normalizer Precompiled"));
    GALE_TRY(gale__field_need_text(v, "precompiled_charsmap", &text, &size));
    GALE_TRY(gale__normalizers_add(n, GALE__NORM_CHARSMAP, &step));
    return gale__charsmap_read_base64(&step->map, text, size);
}

static gale_status read_sequence(gale__normalizers *n, const gale__json *v)
{
    const gale__json *list = NULL;
    GALE_TRY(gale__field_need(v, "normalizers", &list));
    if (list->kind != GALE__JSON_ARRAY) return gale__fail(GALE_FORMAT, "'normalizers' must be a list");
    for (const gale__json *item = list->child; item; item = item->next) GALE_TRY(gale__normalizers_read(n, item));
    return GALE_OK;
}

gale_status gale__normalizers_read(gale__normalizers *n, const gale__json *v)
{
    static const char *const names[] = {"BertNormalizer", "Strip", "StripAccents", "NFC", "NFD", "NFKC", "NFKD",
        "Sequence", "Lowercase", "Nmt", "Precompiled", "Replace", "Prepend", "ByteLevel", "Bert", NULL};
    if (!v || v->kind == GALE__JSON_NULL) return GALE_OK;
    const char *type = gale__field_type(v);
    switch (gale__word_index(type, names)) {
    case 0:
    case 14: return read_bert(n, v);
    case 1: return read_strip(n, v);
    case 2: return add(n, GALE__NORM_STRIP_MARKS);
    case 3: return add_form(n, GALE__NFC);
    case 4: return add_form(n, GALE__NFD);
    case 5: return add_form(n, GALE__NFKC);
    case 6: return add_form(n, GALE__NFKD);
    case 7: return read_sequence(n, v);
    case 8: return add(n, GALE__NORM_LOWERCASE);
    case 9: return add(n, GALE__NORM_NMT);
    case 10: return read_charsmap(n, v);
    case 11: return read_replace(n, v);
    case 12: return read_prepend(n, v);
    case 13: return add(n, GALE__NORM_BYTES);
    default: return gale__fail(GALE_UNSUPPORTED, "normalizer '%.60s' is not supported", type);
    }
}
