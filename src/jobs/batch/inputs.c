/* Files, folders and patterns become a list.  Whether two paths are one
 * file is asked of the file system, so that links and ways of writing a path do not matter. */
#include "jobs/batch/inputs.h"
#include "base/file.h"
#include "gale/picture.h"
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MOST = 32 };

void gale__inputs_finish(gale__inputs *in)
{
    gale__free(in->list);
    gale__free(in->ignored);
    gale__arena_finish(&in->arena);
    *in = (gale__inputs){0};
}

static gale_status add(gale__inputs *in, const char *path, const char *below)
{
    GALE_TRY(gale__grow((void **)&in->list, &in->capacity, in->count + 1, sizeof *in->list));
    gale__input one = {gale__arena_strdup(&in->arena, path), gale__arena_strdup(&in->arena, below), NULL};
    if (!one.path || !one.below) return GALE_NO_MEMORY;
    in->list[in->count++] = one;
    return GALE_OK;
}

/* Whether the name ends as pictures' names do. */
static bool is_picture(const gale__inputs *in, const char *name)
{
    const char *dot = strrchr(name, '.');
    if (in->only) return dot && dot > name && gale__text_equal_nocase(dot + 1, in->only);
    const gale_picture_format *f;
    for (int i = 0; dot && dot > name && (f = gale_picture_format_get(i)); i++)
        for (const char *at = f->extensions; *at;) {
            char word[16];
            size_t n = strcspn(at, " ");
            snprintf(word, sizeof word, "%.*s", (int)n, at);
            if (gale__text_equal_nocase(word, dot + 1)) return true;
            at += n + (at[n] == ' ');
        }
    return false;
}

static const char *joined(gale__inputs *in, const char *folder, const char *name)
{
    size_t n = strlen(folder);
    return gale__arena_printf(&in->arena, "%s%s%s", folder, n && folder[n - 1] != '/' ? "/" : "", name);
}

/* A folder below that cannot be read costs its own pictures, not those beside it. */
static gale_status skip_failed(gale__inputs *in, gale_status status)
{
    if (status == GALE_OK || status == GALE_NO_MEMORY) return status;
    gale__log(GALE__WARN, "%s; its contents are skipped", gale_error());
    in->unread++;
    return GALE_OK;
}

static bool is_regular(const char *path)
{
    gale__file_identity file;
    return gale__file_identify(path, &file);
}

/* Counts a file that is not taken among those like it. */
static gale_status ignore(gale__inputs *in, const char *path, bool irregular)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    const char *end = dot && dot > name && !irregular ? dot + 1 : "";
    for (size_t i = 0; i < in->ignored_count; i++)
        if (in->ignored[i].irregular == irregular && gale__text_equal_nocase(in->ignored[i].extension, end))
            return in->ignored[i].count++, GALE_OK;
    GALE_TRY(gale__grow((void **)&in->ignored, &in->ignored_capacity, in->ignored_count + 1, sizeof *in->ignored));
    char *extension = gale__arena_strdup(&in->arena, end);
    if (!extension) return GALE_NO_MEMORY;
    for (char *c = extension; *c; c++)
        if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
    in->ignored[in->ignored_count++] = (gale__ignored){extension, irregular, 1, path};
    return GALE_OK;
}

static gale_status add_found(gale__inputs *in, const char *path, const char *below, bool picture)
{
    if (!is_regular(path)) return ignore(in, path, true);
    return picture ? add(in, path, below) : ignore(in, path, false);
}

/* pattern NULL: the pictures, but for those that are hidden. */
static gale_status add_folder(gale__inputs *in, const char *folder, const char *below, const char *pattern, int depth)
{
    gale__file_info *list = NULL;
    size_t count = 0;
    gale_status status;
    GALE_TRY(gale__folder_list(*folder ? folder : ".", &list, &count));
    status = GALE_OK;
    for (size_t i = 0; i < count && status == GALE_OK; i++) {
        const char *name = list[i].name;
        if (list[i].folder ? depth < 1 || *name == '.'
            : pattern      ? fnmatch(pattern, name, FNM_PERIOD) != 0
                           : *name == '.')
            continue;
        const char *path = joined(in, folder, name), *under = list[i].folder ? joined(in, below, name) : below;
        if (!path || !under) status = GALE_NO_MEMORY;
        else if (!list[i].folder) status = add_found(in, path, below, pattern || is_picture(in, name));
        else status = skip_failed(in, add_folder(in, path, under, pattern, depth - 1));
    }
    gale__folder_list_free(&list, count);
    return status;
}

gale_status gale__inputs_add(gale__inputs *in, const char *argument, bool recursive)
{
    const char *slash = strrchr(argument, '/'), *file = slash ? slash + 1 : argument;
    size_t before = in->count, kinds = in->ignored_count;
    int depth = recursive ? DEPTH_MOST : 0;
    if (gale__folder_exists(argument)) {
        GALE_TRY(add_folder(in, argument, "", NULL, depth));
        if (in->count == before)
            return gale__fail(GALE_NOT_FOUND, "%s: no %s%s in this folder%s%s%s%s", argument,
                in->only ? "files ending in ." : "", in->only ? in->only : "pictures",
                in->ignored_count > kinds && !in->only ? " in a supported format" : "",
                in->ignored_count > kinds ? "; it contains " : "",
                in->ignored_count > kinds ? in->ignored[kinds].example : "",
                recursive ? "" : "; --recursive includes subfolders");
        return GALE_OK;
    }
    if (!strpbrk(file, "*?[") || gale__file_exists(argument)) return add(in, argument, "");
    char *folder = gale__arena_strdup(&in->arena, argument);
    if (!folder) return GALE_NO_MEMORY;
    folder[file - argument] = 0;
    GALE_TRY(add_folder(in, folder, "", file, depth));
    return in->count > before ? GALE_OK : gale__fail(GALE_NOT_FOUND, "%s: no file matches", argument);
}

/* A file as the file system knows it, and whose it is. */
typedef struct identity {
    gale__file_identity file;
    size_t index;
} identity;

static int by_identity(const void *a, const void *b)
{
    const identity *x = a, *y = b;
    if (x->file.device != y->file.device) return x->file.device < y->file.device ? -1 : 1;
    return (x->file.number > y->file.number) - (x->file.number < y->file.number);
}

gale_status gale__inputs_settle(gale__inputs *in, size_t *left_out)
{
    identity *known = gale__calloc(in->count + 1, sizeof *known), one;
    bool *drop = gale__calloc(in->count + 1, sizeof *drop);
    size_t n = 0, kept = 0;
    gale_status status = known && drop ? GALE_OK : GALE_NO_MEMORY;
    for (size_t i = 0; i < in->count && status == GALE_OK; i++)
        if (gale__file_identify(in->list[i].path, &known[n].file)) known[n++].index = i;
    if (status == GALE_OK) qsort(known, n, sizeof *known, by_identity);
    for (size_t i = 0; i < in->count && status == GALE_OK; i++) {
        const identity *same = gale__file_identify(in->list[i].output, &one.file)
                                   ? bsearch(&one, known, n, sizeof *known, by_identity)
                                   : NULL;
        if (same && same->index == i)
            status = gale__fail(GALE_INVALID,
                "%s: the result would overwrite it; choose another name, --suffix or --output-dir", in->list[i].path);
        else if (same) drop[same->index] = true;
    }
    for (size_t i = 0; i < in->count && status == GALE_OK; i++) {
        if (drop[i]) gale__log(GALE__INFO, "%s: skipped: it is the result of another picture", in->list[i].path);
        else in->list[kept++] = in->list[i];
    }
    if (status == GALE_OK) *left_out = in->count - kept, in->count = kept;
    gale__free(known);
    gale__free(drop);
    return status;
}
