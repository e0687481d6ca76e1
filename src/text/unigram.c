/* Unigram: the segmentation of a word with the highest sum of scores, found from left to right. */
#include "text/token_model.h"
#include "text/unicode.h"

static double sum(const gale__token_model *m, double a, double b) { return m->single ? (double)(float)(a + b) : a + b; }

static void offer(gale__unigram_path *paths, size_t begin, size_t end, double score, uint32_t id)
{
    gale__unigram_path *to = paths + end;
    if (to->begin != GALE__NO_ID && !(score > to->score)) return;
    *to = (gale__unigram_path){score, (uint32_t)begin, id, 0};
}

static gale_status find_paths(const gale__token_model *m, gale__unigram_path *paths, const char *word, size_t size)
{
    for (size_t i = 0; i <= size; i++) paths[i] = (gale__unigram_path){0, GALE__NO_ID, 0, 0};
    for (size_t at = 0, n; at < size; at += n) {
        double here = paths[at].score;
        bool single = false;
        n = gale__utf8_size(word + at);
        for (size_t i = at, node = 0; i < size; i++) {
            node = gale__trie_step(&m->trie, (uint32_t)node, (uint8_t)word[i]);
            if (!node) break;
            uint32_t value = m->trie.nodes[node].value;
            if (!value) continue;
            offer(paths, at, i + 1, sum(m, here, m->scores[value - 1]), value - 1);
            single |= i + 1 - at == n;
        }
        if (single) continue;
        if (m->unk == GALE__NO_ID)
            return gale__fail(GALE_NOT_FOUND, "a character is not in the vocabulary, and model.unk_id is not set");
        offer(paths, at, at + n, sum(m, here, m->unk_score), m->unk);
    }
    return GALE_OK;
}

static gale_status add_piece(
    const gale__token_model *m, const char *word, size_t begin, size_t end, gale__token_pieces *out)
{
    uint32_t id = gale__vocab_find(&m->vocab, word + begin, end - begin);
    bool bytes = m->byte_fallback;
    if (id != GALE__NO_ID) return gale__token_pieces_add(out, id, begin, end);
    for (size_t i = begin; i < end && bytes; i++) bytes = m->byte_ids[(uint8_t)word[i]] != GALE__NO_ID;
    for (size_t i = begin; i < end && bytes; i++)
        GALE_TRY(gale__token_pieces_add(out, m->byte_ids[(uint8_t)word[i]], begin, end));
    if (bytes) return GALE_OK;
    if (m->unk == GALE__NO_ID) return gale__fail(GALE_NOT_FOUND, "model.unk_id is not set, but unknown text needs it");
    return gale__token_pieces_add(out, m->unk, begin, end);
}

gale_status gale__unigram_encode(
    const gale__token_model *m, gale__token_model_state *s, const char *word, size_t size, gale__token_pieces *out)
{
    GALE_TRY(gale__grow((void **)&s->paths, &s->path_capacity, size + 1, sizeof *s->paths));
    gale__unigram_path *paths = s->paths;
    size_t end = size;
    GALE_TRY(find_paths(m, paths, word, size));
    /* From the end back: each place learns where the token after it ends. */
    for (size_t at = size; at > 0; end = at, at = paths[at].begin) paths[at].next = (uint32_t)end;
    for (size_t at = 0; at < size;) {
        bool unknown = paths[end].id == m->unk;
        while (unknown && end < size && paths[paths[end].next].id == m->unk) end = paths[end].next;
        GALE_TRY(add_piece(m, word, at, end, out)); /* what is unknown side by side is one piece */
        at = end;
        end = paths[end].next;
    }
    return GALE_OK;
}
