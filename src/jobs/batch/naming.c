/* Names of results.  A name depends on the given pictures, not on their order, and is unique within this run and, as
 * far as the folder's journal knows, earlier runs.  Pictures that would share a name are distinguished first by their
 * extensions, then by a number derived from their paths. */
#include "base/file.h"
#include "base/hash.h"
#include "base/hash_table.h"
#include "jobs/batch/inputs.h"
#include "jobs/batch/journal.h"
#include "jobs/batch/output.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLAIN, WITH_EXTENSION, WITH_PATH, FORMS };

typedef struct naming {
    gale__inputs *in;
    const char *folder, *suffix, *extension;
    gale__journal journal;
    const char **real;      /* of each input, with all links followed */
    const char **tried;     /* of each input, in the form that is tried now */
    gale__hash_table taken; /* inputs by the hash of their output, once it is decided */
} naming;

static bool is_taken(const naming *n, const char *name)
{
    gale__hash_table_probe probe = gale__hash_table_look(gale__hash(name, strlen(name), 0));
    for (int64_t i; (i = gale__hash_table_next(&n->taken, &probe)) >= 0;)
        if (!strcmp(n->in->list[i].output, name)) return true;
    return false;
}

/* Gives input i a name that is not taken. */
static gale_status assign_name(naming *n, size_t i, const char *name)
{
    GALE_TRY(gale__hash_table_add(&n->taken, gale__hash(name, strlen(name), 0), (uint32_t)i));
    n->in->list[i].output = name;
    return GALE_OK;
}

/* Adds what the form puts between the stem and the suffix. */
static void add_mark(const naming *n, size_t i, int form, int number, gale__str *out)
{
    const char *path = n->in->list[i].path, *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path,
               *dot = strrchr(file, '.');
    if (form == WITH_EXTENSION && dot && dot > file) gale__str_addf(out, "-%s", dot + 1);
    if (form == WITH_PATH)
        gale__str_addf(out, "-%08x", (unsigned)(gale__hash(n->real[i], strlen(n->real[i]), 0) & 0xffffffff));
    if (number > 1) gale__str_addf(out, "-%d", number);
}

static gale_status make_name(const naming *n, size_t i, int form, int number, const char **out)
{
    gale__str text = {0}, suffix = {0};
    const gale__input *one = &n->in->list[i];
    const char *where = n->folder;
    size_t length = n->folder ? strlen(n->folder) : 0;
    if (n->folder && *one->below)
        where = gale__arena_printf(
            &n->in->arena, "%s%s%s", n->folder, length && n->folder[length - 1] != '/' ? "/" : "", one->below);
    add_mark(n, i, form, number, &suffix);
    gale__str_add(&suffix, n->suffix);
    gale_status status = n->folder && !where ? GALE_NO_MEMORY : gale__str_check(&suffix);
    if (status == GALE_OK) status = gale__output_name(one->path, where, suffix.text, n->extension, &text);
    if (status == GALE_OK && !(*out = gale__arena_strdup(&n->in->arena, text.text))) status = GALE_NO_MEMORY;
    gale__str_finish(&text);
    gale__str_finish(&suffix);
    return status;
}

/* As the journal has it. */
static const char *below_folder(const naming *n, const char *output)
{
    size_t length = strlen(n->folder);
    return output + length + strspn(output + length, "/");
}

/* Whether it is the result of another picture, which is still there. */
static bool is_foreign(const naming *n, size_t i, const char *output)
{
    const char *owner = n->folder ? gale__journal_input(&n->journal, below_folder(n, output)) : NULL;
    return owner && strcmp(owner, n->real[i]) && gale__file_exists(output) && gale__file_exists(owner);
}

/* What it was called before stays its name, if it can still be called so. */
static gale_status name_as_before(naming *n, size_t i)
{
    const char *known, *name = NULL;
    if (!n->folder || !gale__journal_output(&n->journal, n->real[i], 0)) return GALE_OK;
    for (int form = PLAIN; form < FORMS; form++) {
        GALE_TRY(make_name(n, i, form, 1, &name));
        for (size_t k = 0; (known = gale__journal_output(&n->journal, n->real[i], k)); k++)
            if (!strcmp(known, below_folder(n, name)) && gale__file_exists(name) && !is_taken(n, name))
                return assign_name(n, i, name);
    }
    return GALE_OK;
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Names in one form for those that have none yet, where that is theirs alone. */
static gale_status name_in_form(naming *n, int form, const char **sorted)
{
    gale__inputs *in = n->in;
    size_t count = 0;
    for (size_t i = 0; i < in->count; i++) {
        if (in->list[i].output) continue;
        GALE_TRY(make_name(n, i, form, 1, &n->tried[i]));
        sorted[count++] = n->tried[i];
    }
    qsort(sorted, count, sizeof *sorted, by_text);
    for (size_t i = 0; i < in->count; i++) {
        if (in->list[i].output) continue;
        const char **found = bsearch(&n->tried[i], sorted, count, sizeof *sorted, by_text);
        size_t at = (size_t)(found - sorted);
        bool shared =
            (at > 0 && !strcmp(sorted[at - 1], *found)) || (at + 1 < count && !strcmp(sorted[at + 1], *found));
        if (shared || is_taken(n, n->tried[i]) || is_foreign(n, i, n->tried[i])) continue;
        GALE_TRY(assign_name(n, i, n->tried[i]));
    }
    return GALE_OK;
}

/* The same picture twice: then they are counted. */
static gale_status name_rest(naming *n)
{
    for (size_t i = 0; i < n->in->count; i++)
        for (int number = 1; !n->in->list[i].output; number++) {
            const char *name = NULL;
            GALE_TRY(make_name(n, i, WITH_PATH, number, &name));
            if (!is_foreign(n, i, name) && !is_taken(n, name)) GALE_TRY(assign_name(n, i, name));
        }
    return GALE_OK;
}

static gale_status find_real(naming *n)
{
    char real[PATH_MAX];
    for (size_t i = 0; i < n->in->count; i++) {
        const char *path = n->in->list[i].path;
        n->real[i] = gale__arena_strdup(&n->in->arena, realpath(path, real) ? real : path);
        if (!n->real[i]) return GALE_NO_MEMORY;
        n->in->list[i].output = NULL;
    }
    return GALE_OK;
}

static gale_status write_journal(const naming *n)
{
    size_t count = n->in->count;
    gale__journal_entry *entries = gale__calloc(count + 1, sizeof *entries);
    if (!entries) return GALE_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        entries[i] = (gale__journal_entry){below_folder(n, n->in->list[i].output), n->real[i]};
    gale_status status = gale__journal_write(&n->journal, n->folder, entries, count);
    gale__free(entries);
    if (status == GALE_OK || status == GALE_NO_MEMORY) return status;
    gale__log(GALE__WARN, "%s; a later run cannot tell which results belong to which pictures", gale_error());
    gale__error_clear();
    return GALE_OK;
}

gale_status gale__inputs_name(gale__inputs *in, const char *folder, const char *suffix, const char *extension)
{
    naming n = {.in = in, .folder = folder, .suffix = suffix, .extension = extension};
    n.real = gale__calloc(in->count + 1, sizeof *n.real);
    n.tried = gale__calloc(in->count + 1, sizeof *n.tried);
    const char **sorted = gale__calloc(in->count + 1, sizeof *sorted);
    gale_status status = n.real && n.tried && sorted ? find_real(&n) : GALE_NO_MEMORY;
    if (status == GALE_OK && folder) status = gale__journal_open(folder, &n.journal);
    for (size_t i = 0; i < in->count && status == GALE_OK; i++) status = name_as_before(&n, i);
    for (int form = PLAIN; form < FORMS && status == GALE_OK; form++) status = name_in_form(&n, form, sorted);
    if (status == GALE_OK) status = name_rest(&n);
    if (status == GALE_OK && folder && gale__folder_exists(folder)) status = write_journal(&n);
    gale__journal_finish(&n.journal);
    gale__free(sorted);
    gale__free(n.tried);
    gale__free(n.real);
    gale__hash_table_finish(&n.taken);
    return status;
}
