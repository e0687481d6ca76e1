/* What vectors depend on besides the text. */
#include "base/file.h"
#include "jobs/embed/embedder_inside.h"
#include <string.h>

static gale_status add_tokenizer(gale__sha *sha, const char *folder)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
        "vocab.json", "vocab.txt", NULL};
    gale_status status = GALE_OK;
    for (int i = 0; names[i] && status == GALE_OK; i++) {
        gale__str path = {0};
        gale__str_addf(&path, "%s/%s", folder, names[i]);
        status = gale__str_check(&path);
        if (status == GALE_OK && gale__file_exists(path.text)) status = gale__file_sample(path.text, sha);
        gale__str_finish(&path);
    }
    return status;
}

static gale_status add_model(gale__sha *sha, const gale__encoder_folder *f)
{
    GALE_TRY(gale__file_sample(f->model, sha));
    for (int i = 0; i < f->n_dense; i++) {
        GALE_TRY(gale__file_sample(f->dense[i].file, sha));
        gale__sha_add(sha, f->dense[i].activation, strlen(f->dense[i].activation) + 1);
    }
    return GALE_OK;
}

gale_status gale__embedder_model_key(const gale_embedder *e, char hex[65])
{
    gale__sha sha;
    int settings[2] = {(int)e->wanted, (int)e->folder.pooling};
    gale__sha256_init(&sha);
    GALE_TRY(add_model(&sha, &e->folder));
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
        GALE_TRY(add_model(&sha, &e->folder));
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
