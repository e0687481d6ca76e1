/* Reads a folder written by sentence-transformers or optimum.  All files except the model and the tokenizer are
 * optional; an unsupported setting in one that exists is an error, since the vectors would be different. */
#include "jobs/embed/encoder_folder.h"
#include "base/file.h"
#include "jobs/models/manifest.h"
#include <stdio.h>
#include <string.h>

enum { CONFIG_BYTES = 16 << 20, LENGTH_MOST = 1 << 20 };

/* A JSON file of the folder; NULL where there is none. */
static gale_status read_json(gale__encoder_folder *f, const char *name, const gale__json **out)
{
    gale__bytes bytes = {0};
    gale__json *tree = NULL;
    gale__str path = {0};
    gale__str_addf(&path, "%s/%s", f->path, name);
    gale_status status = gale__str_check(&path);
    *out = NULL;
    if (status == GALE_OK && gale__file_exists(path.text)) {
        status = gale__file_read(path.text, CONFIG_BYTES, &bytes);
        if (status == GALE_OK) {
            status = gale__json_parse(&f->arena, bytes.data, bytes.size, &tree);
            if (status != GALE_OK) gale__fail_within(status, "%s", path.text);
        }
    }
    gale__bytes_finish(&bytes);
    gale__str_finish(&path);
    if (status == GALE_OK) *out = tree;
    return status;
}

static bool is_true(const gale__json *object, const char *key)
{
    const gale__json *at = gale__json_get(object, key);
    return at && at->kind == GALE__JSON_BOOL && at->boolean;
}

/* --- The model's file. --- */

static gale_status find_file(gale__encoder_folder *f, const char *file)
{
    static const char *const usual[] = {"model.onnx", "onnx/model.onnx", NULL};
    const char *const given[] = {file, NULL}, *const *names = file ? given : usual;
    for (int i = 0; names[i]; i++) {
        f->model = gale__arena_printf(&f->arena, "%s/%s", f->path, names[i]);
        if (!f->model) return GALE_NO_MEMORY;
        if (gale__file_exists(f->model)) return GALE_OK;
    }
    if (file) return gale__fail(GALE_NOT_FOUND, "%s: no such file in the folder", f->model);
    return gale__fail(GALE_NOT_FOUND,
        "%s: neither model.onnx nor onnx/model.onnx is in the folder; create one with `optimum-cli export onnx`",
        f->path);
}

static gale_status find_in_models(gale__encoder_folder *f, const char *name)
{
    gale__str folder = {0};
    GALE_TRY(gale__models_folder(&folder));
    f->path = gale__arena_printf(&f->arena, "%s/%s", folder.text, name);
    gale_status status = f->path ? GALE_OK : GALE_NO_MEMORY;
    if (status == GALE_OK && !gale__folder_exists(f->path))
        status = gale__fail(GALE_NOT_FOUND,
            "encoder \"%s\" not found: neither a folder nor an encoder in %s (GALE_MODELS); an encoder folder has "
            "model.onnx and tokenizer.json",
            name, folder.text);
    gale__str_finish(&folder);
    return status;
}

static gale_status find_folder(gale__encoder_folder *f, const char *path, const char *file)
{
    if (gale__folder_exists(path)) {
        f->path = gale__arena_strdup(&f->arena, path);
        return f->path ? find_file(f, file) : GALE_NO_MEMORY;
    }
    if (!gale__file_exists(path)) {
        GALE_TRY(find_in_models(f, path));
        return find_file(f, file);
    }
    const char *slash = strrchr(path, '/');
    f->model = gale__arena_strdup(&f->arena, path);
    f->path =
        slash ? gale__arena_printf(&f->arena, "%.*s", (int)(slash - path), path) : gale__arena_strdup(&f->arena, ".");
    if (!f->model || !f->path) return GALE_NO_MEMORY;
    /* FOLDER/onnx/model.onnx: the tokenizer is one folder up. */
    const char *config = gale__arena_printf(&f->arena, "%s/tokenizer.json", f->path), *last = strrchr(f->path, '/');
    if (!config) return GALE_NO_MEMORY;
    if (gale__file_exists(config) || strcmp(last ? last + 1 : f->path, "onnx")) return GALE_OK;
    f->path = last ? gale__arena_printf(&f->arena, "%.*s", (int)(last - f->path), f->path)
                   : gale__arena_strdup(&f->arena, ".");
    return f->path ? GALE_OK : GALE_NO_MEMORY;
}

/* --- What the configuration says. --- */

static gale_status read_pooling(gale__encoder_folder *f)
{
    static const struct {
        const char *key, *name;
        gale_pooling pooling;
    } modes[] = {
        {"pooling_mode_cls_token", "cls", GALE_POOLING_CLS},
        {"pooling_mode_mean_tokens", "mean", GALE_POOLING_MEAN},
        {"pooling_mode_max_tokens", "max", GALE_POOLING_MAX},
        {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", GALE_POOLING_MEAN_SQRT},
        {"pooling_mode_weightedmean_tokens", "weightedmean", GALE_POOLING_WEIGHTED},
        {"pooling_mode_lasttoken", "lasttoken", GALE_POOLING_LAST},
    };
    const gale__json *config, *include;
    int found = 0;
    GALE_TRY(read_json(f, "1_Pooling/config.json", &config));
    f->prompt_in_pooling = true;
    if (!config) return GALE_OK;
    const char *word = gale__json_text(config, "pooling_mode", NULL);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (word ? !strcmp(word, modes[i].name) : is_true(config, modes[i].key)) {
            f->pooling = modes[i].pooling;
            found++;
        }
    if (word && !found)
        return gale__fail(GALE_UNSUPPORTED, "%s/1_Pooling/config.json: unknown pooling \"%s\"", f->path, word);
    if (found > 1)
        return gale__fail(GALE_UNSUPPORTED,
            "%s/1_Pooling/config.json: combined poolings are not supported; choose one with --pooling", f->path);
    include = gale__json_get(config, "include_prompt");
    if (include && include->kind == GALE__JSON_BOOL) f->prompt_in_pooling = include->boolean;
    return GALE_OK;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

static gale_status read_dense(gale__encoder_folder *f, const char *path)
{
    const gale__json *config;
    const char *name = gale__arena_printf(&f->arena, "%s/config.json", path),
               *folder = gale__arena_printf(&f->arena, "%s/%s", f->path, path);
    if (!name || !folder) return GALE_NO_MEMORY;
    GALE_TRY(read_json(f, name, &config));
    GALE_TRY(gale__dense_read(&f->arena, folder, config, &f->dense[f->n_dense]));
    f->n_dense++;
    return GALE_OK;
}

/* Transformer, Pooling, Dense and Normalize, in this order, are all that gale does; others would change vectors. */
static gale_status read_modules(gale__encoder_folder *f)
{
    const gale__json *modules;
    bool normalized = false;
    GALE_TRY(read_json(f, "modules.json", &modules));
    for (const gale__json *m = modules ? modules->child : NULL; m; m = m->next) {
        const char *type = gale__json_text(m, "type", "");
        bool dense = ends_with(type, ".Dense") && !normalized && f->n_dense < GALE__DENSE_MOST;
        normalized = normalized || ends_with(type, ".Normalize");
        if (dense) GALE_TRY(read_dense(f, gale__json_text(m, "path", "")));
        else if (!ends_with(type, ".Transformer") && !ends_with(type, ".Pooling") && !ends_with(type, ".Normalize"))
            f->other_module = type;
    }
    return GALE_OK;
}

/* Families whose positions begin behind the padding token's number have fewer of them for tokens. */
static int64_t positions_of(const gale__encoder_folder *f, const gale__json *config)
{
    static const char *const shifted[] = {"roberta", "xlm-roberta", "camembert", "mpnet", "xlm-roberta-xl", NULL};
    double most = gale__json_number(config, "max_position_embeddings", 0);
    if (!(most >= 1 && most <= LENGTH_MOST)) return 0;
    for (int i = 0; shifted[i]; i++)
        if (!strcmp(f->family, shifted[i]) && f->pad_id >= 0 && f->pad_id + 1 < most)
            return (int64_t)most - f->pad_id - 1;
    return (int64_t)most;
}

static int64_t length_of(const gale__json *config, const char *key)
{
    double length = config ? gale__json_number(config, key, 0) : 0;
    return length >= 1 && length <= LENGTH_MOST ? (int64_t)length : 0; /* 1e30 stands for none */
}

static gale_status read_lengths(gale__encoder_folder *f)
{
    const gale__json *config, *sentence, *tokenizer;
    GALE_TRY(read_json(f, "config.json", &config));
    GALE_TRY(read_json(f, "sentence_bert_config.json", &sentence));
    GALE_TRY(read_json(f, "tokenizer_config.json", &tokenizer));
    f->family = config ? gale__json_text(config, "model_type", "") : "";
    double pad = config ? gale__json_number(config, "pad_token_id", -1) : -1;
    double vocabulary = config ? gale__json_number(config, "vocab_size", 0) : 0;
    f->pad_id = pad >= 0 && pad < 1 << 24 ? (int64_t)pad : -1;
    f->vocabulary = vocabulary > 0 && vocabulary < 1 << 24 ? (int64_t)vocabulary : 0;
    f->lower = sentence && is_true(sentence, "do_lower_case");
    int64_t positions = config ? positions_of(f, config) : 0;
    f->max_length = length_of(sentence, "max_seq_length");
    if (!f->max_length) f->max_length = length_of(tokenizer, "model_max_length");
    if (positions && (!f->max_length || f->max_length > positions)) f->max_length = positions;
    return GALE_OK;
}

static gale_status read_prompts(gale__encoder_folder *f)
{
    const gale__json *config;
    GALE_TRY(read_json(f, "config_sentence_transformers.json", &config));
    f->prompts = config ? gale__json_get(config, "prompts") : NULL;
    f->prompt_name = config ? gale__json_text(config, "default_prompt_name", NULL) : NULL;
    return GALE_OK;
}

gale_status gale__encoder_folder_open(const char *path, const char *file, gale__encoder_folder *out)
{
    gale__encoder_folder f = {.pad_id = -1};
    gale_status status = find_folder(&f, path, file);
    if (status == GALE_OK) status = read_lengths(&f);
    if (status == GALE_OK) status = read_pooling(&f);
    if (status == GALE_OK) status = read_modules(&f);
    if (status == GALE_OK) status = read_prompts(&f);
    if (status == GALE_OK) *out = f;
    else gale__encoder_folder_finish(&f);
    return status;
}

void gale__encoder_folder_finish(gale__encoder_folder *f) { gale__arena_finish(&f->arena); }

gale_status gale__encoder_folder_prompt(const gale__encoder_folder *f, const char *name, const char **out)
{
    char known[512] = "";
    size_t used = 0;
    if (!name) name = f->prompt_name ? f->prompt_name : "";
    if (!*name) return *out = "", GALE_OK;
    for (const gale__json *p = f->prompts ? f->prompts->child : NULL; p; p = p->next) {
        if (p->kind != GALE__JSON_STRING || !p->key) continue;
        if (!strcmp(p->key, name)) return *out = p->string, GALE_OK;
        if (used < sizeof known)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", p->key);
    }
    return gale__fail(
        GALE_NOT_FOUND, "%s: unknown prompt \"%s\"; available are: %s", f->path, name, *known ? known : "none");
}
