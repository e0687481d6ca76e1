/* What vectors depend on besides the text.  A large file is identified by its size and by samples of its bytes, since
 * hashing a gigabyte of weights would take longer than a short job. */
#include "base/file.h"
#include "base/thread.h"
#include "jobs/embed/embedder_inside.h"
#include <string.h>

enum { PIECE = 1 << 14, PIECES = 64, WHOLE = PIECE * PIECES };

typedef struct pieces {
    gale__file_map map;
    uint64_t step;
    uint8_t digests[PIECES][32];
    gale_status status[PIECES];
} pieces;

static void hash_piece(void *arg, size_t i, int worker)
{
    pieces *p = arg;
    uint8_t piece[PIECE];
    gale__sha sha;
    uint64_t left = p->map.size - i * p->step;
    size_t n = left < PIECE ? (size_t)left : PIECE;
    (void)worker;
    p->status[i] = gale__file_map_read(&p->map, i * p->step, n, piece);
    gale__sha256_init(&sha);
    if (p->status[i] == GALE_OK) gale__sha_add(&sha, piece, n);
    gale__sha_end(&sha, p->digests[i]);
}

/* Pieces are hashed on all cores: one would take 10 ms, in which a GPU embeds thousands of texts. */
static gale_status add_file(gale__sha *sha, const char *path)
{
    pieces *p = gale__calloc(1, sizeof *p);
    gale_status status = p ? gale__file_map_open(path, &p->map) : GALE_NO_MEMORY;
    if (status != GALE_OK) return gale__free(p), status;
    uint64_t size = p->map.size, count = size <= WHOLE ? (size + PIECE - 1) / PIECE : PIECES;
    p->step = size <= WHOLE ? PIECE : (size - PIECE) / (PIECES - 1);
    gale__parallel((size_t)count, hash_piece, p);
    for (uint64_t i = 0; i < count && status == GALE_OK; i++)
        if (p->status[i] != GALE_OK) status = gale__fail(p->status[i], "%s: cannot be read", path);
    gale__sha_add(sha, &size, sizeof size);
    gale__sha_add(sha, p->digests, (size_t)count * sizeof *p->digests);
    gale__file_map_close(&p->map);
    gale__free(p);
    return status;
}

static gale_status add_tokenizer(gale__sha *sha, const char *folder)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
        "vocab.json", "vocab.txt", NULL};
    gale_status status = GALE_OK;
    for (int i = 0; names[i] && status == GALE_OK; i++) {
        gale__str path = {0};
        gale__str_addf(&path, "%s/%s", folder, names[i]);
        status = gale__str_check(&path);
        if (status == GALE_OK && gale__file_exists(path.text)) status = add_file(sha, path.text);
        gale__str_finish(&path);
    }
    return status;
}

gale_status gale__embedder_model_key(const gale_embedder *e, char hex[65])
{
    gale__sha sha;
    int settings[2] = {(int)e->wanted, (int)e->folder.pooling};
    gale__sha256_init(&sha);
    GALE_TRY(add_file(&sha, e->folder.model));
    gale__sha_add(&sha, settings, sizeof settings);
    gale__sha_end_hex(&sha, hex);
    return GALE_OK;
}

gale_status gale__embedder_key(gale_embedder *e, char hex[65])
{
    const gale_embedder_info *info = &e->info;
    gale__sha sha;
    gale__str text = {0};
    gale__sha256_init(&sha);
    if (!e->heuristic) {
        GALE_TRY(add_file(&sha, info->model));
        GALE_TRY(add_tokenizer(&sha, e->folder.path));
    }
    gale__str_addf(&text, "%d %lld %lld %d %d %d %u %d %d %s", e->heuristic, (long long)info->dims,
        (long long)info->max_length, (int)info->pooling, info->normalized, e->folder.lower, e->prompt_tokens,
        (int)e->options.precision, (int)e->options.program.precision, info->prompt);
    gale_status status = gale__str_check(&text);
    if (status == GALE_OK) gale__sha_add(&sha, text.text, text.length);
    gale__str_finish(&text);
    gale__sha_end_hex(&sha, hex);
    return status;
}
