/* Added tokens.  At each byte that can start one, the longest match is taken and its conditions are checked; one that
 * does not meet them is ordinary text.  White space that a token strips beside itself (lstrip, rstrip) is searched
 * again, as in Hugging Face's library, so a token that consists of white space may be found twice. */
#include "text/added.h"
#include "text/fields.h"

enum { ADDED_MOST = 1 << 20 };

void gale__added_finish(gale__added *a)
{
    for (size_t i = 0; i < a->count; i++) {
        gale__free(a->items[i].content);
        gale__free(a->items[i].normal);
    }
    gale__free(a->items);
    gale__free(a->by_id);
    gale__vocab_finish(&a->names);
    gale__trie_finish(&a->raw.trie);
    gale__trie_finish(&a->normal.trie);
    *a = (gale__added){0};
}

const gale__added_token *gale__added_by_id(const gale__added *a, uint32_t id)
{
    return a->by_id && id < a->id_end && a->by_id[id] ? a->items + a->by_id[id] - 1 : NULL;
}

const gale__added_token *gale__added_find(const gale__added *a, const char *text, size_t size)
{
    uint32_t place = gale__vocab_find(&a->names, text, size);
    return place == GALE__NO_ID ? NULL : a->items + place;
}

static gale_status choose_id(gale__added *a, const gale__token_model *m, const gale__added_token *t, uint32_t *out)
{
    uint32_t id = gale__vocab_find(&m->vocab, t->content, t->size);
    if (id == GALE__NO_ID) {
        id = a->id_end > m->size ? a->id_end : m->size;
        a->id_end = id + 1;
    }
    if (id > GALE__VOCAB_ID_MOST)
        return gale__fail(GALE_LIMIT, "the id of the added token '%.40s' would be too large", t->content);
    *out = id;
    return GALE_OK;
}

static void set_flags(gale__added_token *to, const gale__added_token *from)
{
    to->single_word = from->single_word;
    to->lstrip = from->lstrip;
    to->rstrip = from->rstrip;
    to->normalized = from->normalized;
    to->special = from->special;
    to->as_it_is = from->as_it_is;
    to->hidden = from->hidden;
}

gale_status gale__added_add(gale__added *a, const gale__token_model *m, const gale__added_token *token)
{
    uint32_t place = gale__vocab_find(&a->names, token->content, token->size), id = 0;
    if (!token->size) return GALE_OK;
    if (place != GALE__NO_ID) {
        set_flags(a->items + place, token);
        return GALE_OK;
    }
    if (a->count >= ADDED_MOST) return gale__fail(GALE_LIMIT, "more than %d added tokens", ADDED_MOST);
    GALE_TRY(choose_id(a, m, token, &id));
    GALE_TRY(gale__grow((void **)&a->items, &a->capacity, a->count + 1, sizeof *a->items));
    GALE_TRY(gale__vocab_add(&a->names, token->content, token->size, (uint32_t)a->count));
    gale__added_token *to = a->items + a->count;
    *to = (gale__added_token){.id = id, .size = token->size};
    set_flags(to, token);
    GALE_TRY(gale__copy_text(token->content, token->size, &to->content));
    a->count++;
    return GALE_OK;
}

static gale_status normalize_content(gale__added_token *t, const gale__normalizers *n, gale__normalize_state *s)
{
    gale__aligned_clear(&s->a, 0);
    gale__aligned_add_plain(&s->a, t->content, t->size, 0);
    if (s->a.failed) return GALE_NO_MEMORY;
    GALE_TRY(gale__normalize(n, s));
    if (s->a.size == t->size && !memcmp(s->a.text, t->content, t->size)) return GALE_OK;
    t->normal = gale__alloc(s->a.size + 1);
    if (!t->normal) return GALE_NO_MEMORY;
    t->normal_size = s->a.size;
    memcpy(t->normal, s->a.text, s->a.size);
    t->normal[s->a.size] = 0;
    return GALE_OK;
}

static gale_status build_set(const gale__added *a, bool normalized, gale__added_set *out)
{
    size_t n = 0;
    gale__trie_key *keys = gale__alloc((a->count + 1) * sizeof *keys);
    if (!keys) return GALE_NO_MEMORY;
    for (size_t i = 0; i < a->count; i++) {
        const gale__added_token *t = a->items + i;
        if (t->normalized != normalized || t->hidden || (t->normal && !t->normal_size)) continue;
        keys[n] = (gale__trie_key){
            t->normal ? t->normal : t->content, (uint32_t)(t->normal ? t->normal_size : t->size), (uint32_t)i};
        out->first[(uint8_t)*keys[n++].text] = true;
    }
    out->any = n > 0;
    gale_status status = n ? gale__trie_build(&out->trie, keys, n) : GALE_OK;
    gale__free(keys);
    return status;
}

gale_status gale__added_prepare(gale__added *a, const gale__token_model *m, const gale__normalizers *n)
{
    gale__normalize_state s = {0};
    gale_status status;
    if (a->id_end < m->vocab.id_count) a->id_end = (uint32_t)m->vocab.id_count;
    a->by_id = gale__calloc((size_t)a->id_end + 1, sizeof *a->by_id);
    if (!a->by_id) return GALE_NO_MEMORY;
    for (size_t i = 0; i < a->count; i++) a->by_id[a->items[i].id] = (uint32_t)i + 1;
    GALE_GO(gale__normalize_state_init(&s));
    for (size_t i = 0; i < a->count; i++)
        if (a->items[i].normalized && !a->items[i].as_it_is) GALE_GO(normalize_content(a->items + i, n, &s));
    GALE_GO(build_set(a, false, &a->raw));
    GALE_GO(build_set(a, true, &a->normal));
done:
    gale__normalize_state_finish(&s);
    return status;
}

/* --- Finding them. --- */

static bool has(const char *p, uint32_t bits)
{
    size_t n;
    return gale__unicode_bits(gale__utf8_at(p, &n)) & bits;
}

static bool stands_alone(const char *text, size_t size, size_t begin, size_t end)
{
    return (begin == 0 || !has(gale__utf8_back(text + begin), GALE__U_WORD)) &&
           (end == size || !has(text + end, GALE__U_WORD));
}

static bool find(const gale__added_set *set, const char *text, size_t size, gale__added_walk *w, uint32_t *index)
{
    for (; w->at < size; w->at++) {
        if (!set->first[(uint8_t)text[w->at]]) continue;
        size_t n = gale__trie_longest(&set->trie, text + w->at, size - w->at, index);
        if (!n) continue;
        w->begin = w->at;
        w->end = w->at += n;
        return true;
    }
    return false;
}

bool gale__added_next(const gale__added *a, const gale__added_set *set, const char *text, size_t size, bool no_special,
    gale__added_walk *w)
{
    uint32_t index = 0;
    while (set->any && find(set, text, size, w, &index)) {
        const gale__added_token *t = a->items + index;
        if (no_special && t->special) continue;
        if (t->single_word && !stands_alone(text, size, w->begin, w->end)) continue;
        if (t->lstrip) {
            while (w->begin > w->last && has(gale__utf8_back(text + w->begin), GALE__U_WHITE))
                w->begin = (size_t)(gale__utf8_back(text + w->begin) - text);
            if (w->begin < w->last) w->begin = w->last;
        }
        if (t->rstrip && (w->end < w->white || w->end > w->black)) {
            for (w->black = w->white = w->end; w->black < size && has(text + w->black, GALE__U_WHITE);)
                w->black += gale__utf8_size(text + w->black);
        }
        if (t->rstrip) w->end = w->black;
        if (w->begin > w->end) continue;
        w->last = w->end;
        w->token = t;
        return true;
    }
    return false;
}
