/* gale cache: the caches of compiled kernels and of text vectors, and the records of gale tune. */
#include "cli/cli.h"
#include "base/json.h"
#include "cli/cache_warm.h"
#include "cli/model_args.h"
#include "device/binary_cache.h"
#include "device/record.h"
#include "jobs/embed/vector_cache.h"
#include <string.h>

static const gale__arg args[] = {
    {"ACTION", 0, GALE__ARG_CHOICE, NULL, "stats", "stats|clean|clear|warm",
        "show the size, shrink to the limit, empty, or compile the kernels of MODEL"},
    {"MODEL", 0, GALE__ARG_FILE, "FOLDER|FILE", NULL, NULL, "warm: an encoder folder or an ONNX model"},
    {"kind", 'k', GALE__ARG_CHOICE, NULL, "kernels", "kernels|vectors|tuning",
        "compiled kernels, text vectors, or the records of gale tune"},
    {"limit", 'l', GALE__ARG_INT, "MB", NULL, "0..1048576", "clean: size to shrink to", "GALE_CACHE_LIMIT_MB"},
    {"folder", 'f', GALE__ARG_FILE, NULL, NULL, NULL, "cache folder to use instead of the default one", "GALE_CACHE"},
    {"shape", 's', GALE__ARG_TEXT, "NAME=1x3x256x256", NULL, NULL, "warm: extents of an input of an ONNX model", NULL,
        false, true},
    {"dim", 0, GALE__ARG_TEXT, "NAME=N", NULL, NULL, "warm: an open extent of its inputs, by name", NULL, false, true},
    GALE__ARG_PRECISION,
    GALE__ARGS_DEVICE,
    GALE__ARG_JSON,
    {0},
};

static int print_stats(
    const gale__binary_cache_stats *s, const char *what, uint64_t removed_files, uint64_t removed_bytes, bool json)
{
    gale__str out = {0};
    char a[32], b[32];
    if (json) {
        gale__json_out j;
        gale__json_begin(&j, &out);
        gale__json_object(&j);
        gale__json_put_text(&j, "folder", s->folder);
        gale__json_put_i64(&j, "files", (int64_t)s->files);
        gale__json_put_i64(&j, "size_bytes", (int64_t)s->size_bytes);
        gale__json_put_i64(&j, "limit_bytes", (int64_t)s->limit_bytes);
        gale__json_put_i64(&j, "removed_files", (int64_t)removed_files);
        gale__json_put_i64(&j, "removed_bytes", (int64_t)removed_bytes);
        gale__json_close(&j, '}');
    } else {
        gale__str_addf(&out, "folder   %s\n%s  %llu\nsize     %s", s->folder, what, (unsigned long long)s->files,
            gale__bytes_text(s->size_bytes, a));
        if (s->limit_bytes) gale__str_addf(&out, " of %s", gale__bytes_text(s->limit_bytes, b));
        gale__str_add(&out, "\n");
        if (removed_files)
            gale__str_addf(
                &out, "removed  %llu, %s\n", (unsigned long long)removed_files, gale__bytes_text(removed_bytes, a));
    }
    return gale__print(&out);
}

static int print_vectors(const gale__vector_cache_stats *s, uint64_t removed, bool json)
{
    gale__str out = {0};
    char a[32];
    if (json) {
        gale__json_out j;
        gale__json_begin(&j, &out);
        gale__json_object(&j);
        gale__json_put_text(&j, "file", s->path);
        gale__json_put_i64(&j, "vectors", (int64_t)s->vectors);
        gale__json_put_i64(&j, "size_bytes", (int64_t)s->size_bytes);
        gale__json_put_i64(&j, "removed", (int64_t)removed);
        gale__json_close(&j, '}');
    } else {
        gale__str_addf(&out, "file     %s\nvectors  %llu\nsize     %s\n", s->path, (unsigned long long)s->vectors,
            gale__bytes_text(s->size_bytes, a));
        if (removed) gale__str_addf(&out, "removed  %llu\n", (unsigned long long)removed);
    }
    return gale__print(&out);
}

/* What cannot be read any more can still be removed. */
static int run_vectors(const gale__args *a, const char *action)
{
    gale__vector_cache_stats before = {0}, after;
    gale__binary_cache_stats kernels;
    gale_status status = gale__vector_cache_get_stats(&before);
    if (status != GALE_OK && strcmp(action, "clear")) goto done;
    if (!strcmp(action, "clear")) GALE_GO(gale__vector_cache_clear());
    if (!strcmp(action, "clean")) {
        GALE_GO(gale__binary_cache_get_stats(&kernels)); /* the limit is the same one */
        GALE_GO(gale__vector_cache_trim(kernels.limit_bytes));
    }
    GALE_GO(gale__vector_cache_get_stats(&after));
    return print_vectors(
        &after, before.vectors > after.vectors ? before.vectors - after.vectors : 0, gale__args_flag(a, "json"));
done:
    return gale__report(status);
}

/* Records are as small as they are few: `clean` leaves them alone. */
static int run_tuning(const gale__args *a, bool clear)
{
    gale__binary_cache_stats s = {0};
    gale_status status = gale__record_list("tuning", clear, s.folder, &s.files, &s.size_bytes);
    uint64_t files = clear ? s.files : 0, bytes = clear ? s.size_bytes : 0;
    s.files -= files;
    s.size_bytes -= bytes;
    return status == GALE_OK ? print_stats(&s, "records", files, bytes, gale__args_flag(a, "json"))
                             : gale__report(status);
}

static int run(const gale__args *a)
{
    const char *action = gale__args_text(a, "ACTION");
    bool warm = !strcmp(action, "warm");
    if (warm && !gale__args_text(a, "MODEL")) return gale__usage("cache", "warm needs a MODEL");
    if (!warm && gale__args_text(a, "MODEL"))
        return gale__usage("cache", "unexpected argument '%s': only warm takes a MODEL", gale__args_text(a, "MODEL"));
    if (warm) return gale__cache_warm(a);
    if (!strcmp(gale__args_text(a, "kind"), "vectors")) return run_vectors(a, action);
    if (!strcmp(gale__args_text(a, "kind"), "tuning")) return run_tuning(a, !strcmp(action, "clear"));
    gale__binary_cache_stats before, after;
    gale_status status;
    GALE_GO(gale__binary_cache_get_stats(&before));
    if (!strcmp(action, "clean")) GALE_GO(gale__binary_cache_trim(before.limit_bytes));
    if (!strcmp(action, "clear")) GALE_GO(gale__binary_cache_clear());
    GALE_GO(gale__binary_cache_get_stats(&after));
    return print_stats(&after, "kernels", before.files > after.files ? before.files - after.files : 0,
        before.size_bytes > after.size_bytes ? before.size_bytes - after.size_bytes : 0, gale__args_flag(a, "json"));
done:
    return gale__report(status);
}

const gale__command gale__command_cache = {
    .args = args,
    .run = run,
    .about =
        "Compiled kernels are cached on disk, keyed by a hash of source, device, driver and options, so that "
        "later runs start faster. `gale embed --cache` stores vectors, keyed by a hash of the text, the model and "
        "the settings. `warm` runs a model in its usual shapes, so that the first user does not wait for the "
        "compiler: an encoder folder, or an ONNX model with --shape or --dim. It is always safe to clear either "
        "cache: gale recreates the contents when needed. `clear --kind tuning` removes what `gale tune` has recorded.",
    .examples = "  gale cache\n  gale cache clean --limit 100   # keep the newest 100 MB\n  gale cache clear\n  gale "
                "cache stats --kind vectors\n  gale cache clear --kind tuning\n  gale cache warm all-MiniLM-L6-v2 "
                "--precision fp16 --provider cuda",
};
