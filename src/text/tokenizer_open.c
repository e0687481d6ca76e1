/* Opens tokenizers: finds the tokenizer file in a folder, and detects its kind. */
#include "text/tokenizer.h"
#include "base/file.h"
#include "text/fields.h"

enum { FILE_MOST = 256 << 20 };

static gale_status read_bytes(gale_tokenizer *t, const char *data, size_t size)
{
    if (gale__is_sentencepiece(data, size)) return gale__tokenizer_read_sentencepiece(t, data, size);
    return gale__tokenizer_read_json(t, data, size);
}

gale_status gale_tokenizer_open_memory(const void *data, size_t size, gale_tokenizer **out)
{
    GALE__NEED({"data", data}, {"out", out});
    gale__unicode_init();
    if (size > FILE_MOST) return gale__fail(GALE_LIMIT, "a tokenizer file exceeds %d MiB", FILE_MOST >> 20);
    gale_tokenizer *t = gale__calloc(1, sizeof *t);
    gale_status status = t ? read_bytes(t, data, size) : GALE_NO_MEMORY;
    if (status == GALE_OK) *out = t;
    else gale_tokenizer_destroy(&t);
    return status;
}

/* --- Files. --- */

/* What the folder says about Bert's normalizer; what it does not say is as Bert has it. */
static gale_status read_config(const char *folder, gale__bert_options *o)
{
    gale__str path = {0};
    gale__bytes file = {0};
    gale__arena arena = {0};
    gale__json *v = NULL;
    gale__str_addf(&path, "%s/tokenizer_config.json", folder);
    gale_status status = gale__str_check(&path);
    if (status == GALE_OK && gale__file_exists(path.text)) {
        GALE_GO(gale__file_read(path.text, 1 << 20, &file));
        GALE_GO(gale__json_parse(&arena, file.data, file.size, &v));
        GALE_GO(gale__field_bool(v, "do_lower_case", &o->lower));
        GALE_GO(gale__field_bool(v, "tokenize_chinese_chars", &o->chinese));
        o->accents = o->lower;
        GALE_GO(gale__field_bool(v, "strip_accents", &o->accents));
    }
done:
    if (status != GALE_OK && path.text) gale__fail_within(status, "%s", path.text);
    gale__bytes_finish(&file);
    gale__arena_finish(&arena);
    gale__str_finish(&path);
    return status;
}

static void folder_of(const char *path, gale__str *out)
{
    const char *slash = strrchr(path, '/');
    if (slash) gale__str_add_n(out, path, slash == path ? 1 : (size_t)(slash - path));
    else gale__str_add(out, ".");
}

static gale_status read_vocab_txt(gale_tokenizer *t, const char *path, const gale__bytes *file)
{
    gale__bert_options o = {true, true, true};
    gale__str folder = {0};
    folder_of(path, &folder);
    gale_status status = gale__str_check(&folder);
    if (status == GALE_OK) status = read_config(folder.text, &o);
    if (status == GALE_OK) status = gale__tokenizer_read_bert_vocab(t, file->data, file->size, &o);
    gale__str_finish(&folder);
    return status;
}

static gale_status read_vocab_json(gale_tokenizer *t, const char *path, const gale__bytes *file)
{
    gale__str merges = {0};
    gale__bytes rules = {0};
    folder_of(path, &merges);
    gale__str_add(&merges, "/merges.txt");
    gale_status status = gale__str_check(&merges);
    if (status == GALE_OK) status = gale__file_read(merges.text, FILE_MOST, &rules);
    if (status == GALE_OK) status = gale__tokenizer_read_bpe_files(t, file->data, file->size, rules.data, rules.size);
    gale__bytes_finish(&rules);
    gale__str_finish(&merges);
    return status;
}

static bool ends_with(const char *text, const char *end)
{
    size_t a = strlen(text), b = strlen(end);
    return a >= b && !strcmp(text + a - b, end);
}

static gale_status open_file(const char *path, gale_tokenizer *t)
{
    gale__bytes file = {0};
    gale_status status = gale__file_read(path, FILE_MOST, &file);
    if (status != GALE_OK) return status;
    if (ends_with(path, ".txt")) status = read_vocab_txt(t, path, &file);
    else if (ends_with(path, "vocab.json")) status = read_vocab_json(t, path, &file);
    else status = read_bytes(t, file.data, file.size);
    gale__bytes_finish(&file);
    return status == GALE_OK ? GALE_OK : gale__fail_within(status, "%s", path);
}

static gale_status find_in_folder(const char *folder, gale__str *out)
{
    static const char *const names[] = {
        "tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "vocab.json", "vocab.txt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        out->length = 0;
        gale__str_addf(out, "%s/%s", folder, names[i]);
        GALE_TRY(gale__str_check(out));
        if (gale__file_exists(out->text)) return GALE_OK;
    }
    return gale__fail(GALE_NOT_FOUND,
        "%s: no tokenizer in this folder (tokenizer.json, tokenizer.model, spiece.model, "
        "sentencepiece.bpe.model, vocab.json with merges.txt, or vocab.txt)",
        folder);
}

gale_status gale_tokenizer_open(const char *path, gale_tokenizer **out)
{
    GALE__NEED({"path", path}, {"out", out});
    gale__str file = {0};
    gale__unicode_init();
    gale_tokenizer *t = gale__calloc(1, sizeof *t);
    gale_status status = t ? GALE_OK : GALE_NO_MEMORY;
    if (status == GALE_OK && gale__folder_exists(path)) status = find_in_folder(path, &file);
    if (status == GALE_OK) status = open_file(file.length ? file.text : path, t);
    if (status == GALE_OK) *out = t;
    else gale_tokenizer_destroy(&t);
    gale__str_finish(&file);
    return status;
}
