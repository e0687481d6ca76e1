/* gale models pull: a model by the name a catalogue gives it, or by its URL. */
#include "cli/models_pull.h"
#include "base/env.h"
#include "base/file.h"
#include "cli/progress.h"
#include "jobs/models/fetch.h"
#include "jobs/models/manifest.h"
#include <string.h>

/* Counts what is still to come: what an earlier fetch left would make the rate too good. */
typedef struct meter {
    gale__progress progress;
    uint64_t first_bytes;
    bool begun;
} meter;

static bool on_progress(void *user, uint64_t done_bytes, uint64_t total_bytes)
{
    meter *m = user;
    if (!m->begun || done_bytes < m->first_bytes) m->first_bytes = done_bytes;
    m->begun = true;
    uint64_t done = (done_bytes - m->first_bytes) >> 10;
    m->progress.total = total_bytes > m->first_bytes ? (total_bytes - m->first_bytes) >> 10 : 0;
    if (done < m->progress.done) m->progress.done = done; /* begun anew */
    gale__progress_add(&m->progress, done - m->progress.done);
    return true;
}

/* Beside the model, as sha256sum reads it: `gale models check` looks there. */
static gale_status record_digest(const char *path, const char *hex)
{
    const char *slash = strrchr(path, '/');
    gale__str where = {0}, line = {0};
    gale__str_addf(&where, "%s.sha256", path);
    gale__str_addf(&line, "%s  %s\n", hex, slash ? slash + 1 : path);
    gale_status status = gale__str_check(&where);
    if (status == GALE_OK) status = gale__str_check(&line);
    if (status == GALE_OK) status = gale__file_write(where.text, line.text, line.length);
    gale__str_finish(&where);
    gale__str_finish(&line);
    return status;
}

/* An existing file is used if it is the right one, and never overwritten. */
static gale_status look_at_old(const char *path, const char *sha256)
{
    char hex[65];
    if (!sha256) return gale__fail(GALE_INVALID, "%s already exists; remove it, or choose another --name", path);
    GALE_TRY(gale__file_sha256(path, hex, NULL));
    if (strcmp(hex, sha256))
        return gale__fail(GALE_MISMATCH,
            "%s already exists with the SHA-256 %s instead of %s; remove it, or choose another --name", path, hex,
            sha256);
    printf("%s already exists and is correct\n", path);
    return GALE_OK;
}

/* The address of a page about a file is easily taken for the file's. */
static gale_status refuse_page(const gale__fetch *f)
{
    gale__file_map m;
    char first = 0;
    GALE_TRY(gale__file_map_open(f->path, &m));
    gale_status status = m.size ? gale__file_map_read(&m, 0, 1, &first) : GALE_OK;
    gale__file_map_close(&m);
    if (status != GALE_OK || first != '<') return status;
    gale__file_remove(f->path);
    return gale__fail(GALE_FORMAT, "%s: received a web page, not a network; it was not kept", f->url);
}

static gale_status fetch(const gale__fetch *wish)
{
    gale__fetch f = *wish;
    meter m = {0};
    char hex[65], size[32];
    uint64_t bytes = 0;
    if (gale__file_exists(f.path)) return look_at_old(f.path, f.sha256);
    f.progress = on_progress;
    f.user = &m;
    gale__progress_begin(&m.progress, strrchr(f.path, '/') + 1, "KiB", 0);
    gale_status status = gale__fetch_run(&f);
    gale__progress_end(&m.progress);
    GALE_TRY(status);
    if (!f.sha256 && strstr(f.path, ".onnx")) GALE_TRY(refuse_page(&f));
    GALE_TRY(gale__file_sha256(f.path, hex, &bytes));
    if (strstr(f.path, ".onnx")) GALE_TRY(record_digest(f.path, hex));
    printf("%s: %s, SHA-256 %s%s\n", f.path, gale__bytes_text(bytes, size), hex,
        f.sha256 ? "" : ", which was not verified");
    return GALE_OK;
}

/* Without a digest the file cannot be verified: the user must agree, and a warning is printed. */
static gale_status fetch_as(const gale__args *a, const char *name, gale__fetch *f)
{
    gale__str folder = {0}, file = {0}, path = {0};
    gale_status status = GALE_OK;
    if (!f->sha256 && !gale__args_flag(a, "unverified"))
        return gale__fail(GALE_INVALID,
            "%s: no SHA-256 is known; give --sha256, or --unverified to download without verification", f->url);
    if (!f->sha256) gale__log(GALE__WARN, "%s: downloading without a SHA-256 to verify", f->url);
    GALE_GO(gale__model_file_name(name, &file));
    GALE_GO(gale__models_folder(&folder));
    GALE_GO(gale__folder_make(folder.text));
    gale__str_addf(&path, "%s/%s", folder.text, file.text);
    GALE_GO(gale__str_check(&path));
    f->path = path.text;
    status = fetch(f);
done:
    gale__str_finish(&folder);
    gale__str_finish(&file);
    gale__str_finish(&path);
    return status;
}

static gale_status pull_url(const gale__args *a, const char *url, const char *sha256)
{
    gale__str name = {0};
    gale__fetch f = {.url = url, .sha256 = sha256};
    const char *given = gale__args_text(a, "name");
    gale_status status = given ? GALE_OK : gale__url_name(url, &name);
    if (status == GALE_OK) status = fetch_as(a, given ? given : name.text, &f);
    gale__str_finish(&name);
    return status;
}

static gale_status pull_manifest(const gale__args *a, const gale__offer *o, const char *name)
{
    static const char *const ends[] = {".yaml", ".json", ".yml"};
    gale__fetch f = {.url = o->manifest, .sha256 = o->manifest_sha256};
    gale__str file = {0};
    size_t n = strlen(name), stem = n > 5 && !strcmp(name + n - 5, ".onnx") ? n - 5 : n, url = strlen(o->manifest);
    int i = 0;
    while (i < 2 && !(url > 5 && !strcmp(o->manifest + url - 5, ends[i]))) i++;
    gale__str_addf(&file, "%.*s%s", (int)stem, name, ends[i]);
    gale_status status = gale__str_check(&file);
    if (status == GALE_OK) status = fetch_as(a, file.text, &f);
    gale__str_finish(&file);
    return status;
}

static gale_status pull_offer(const gale__args *a, const gale__offer *o, const char *sha256)
{
    gale__fetch f = {.url = o->url, .sha256 = sha256 ? sha256 : o->sha256, .size_bytes = o->size_bytes};
    const char *name = gale__args_given(a, "name") ? gale__args_text(a, "name") : o->name;
    GALE_TRY(fetch_as(a, name, &f));
    if (*o->licence) printf("licence of %s: %s\n", o->name, o->licence);
    return *o->manifest ? pull_manifest(a, o, name) : GALE_OK;
}

gale_status gale__models_catalogue(gale__str *path)
{
    const char *own = gale__env_get(GALE__ENV_CATALOGUE);
    gale__str folder = {0};
    if (*own) return gale__str_add(path, own), gale__str_check(path);
    GALE_TRY(gale__models_folder(&folder));
    gale_status status = GALE_OK;
    bool found = false;
    for (int i = 0; i < 2 && !found && status == GALE_OK; i++) {
        gale__str_finish(path);
        gale__str_addf(path, "%s/catalogue.%s", folder.text, i ? "json" : "yml");
        status = gale__str_check(path);
        found = status == GALE_OK && gale__file_exists(path->text);
    }
    if (status == GALE_OK && !found)
        status = gale__fail(
            GALE_NOT_FOUND, "no catalogue: give a URL or --catalogue FILE, or put catalogue.yml into %s", folder.text);
    gale__str_finish(&folder);
    return status;
}

static gale_status pull_name(const gale__args *a, const char *name, const char *sha256)
{
    gale__str path = {0};
    gale__catalogue c = {0};
    const gale__offer *offer = NULL;
    gale_status status;
    GALE_GO(gale__models_catalogue(&path));
    GALE_GO(gale__catalogue_read(path.text, &c));
    GALE_GO(gale__catalogue_find(&c, name, &offer));
    status = pull_offer(a, offer, sha256);
done:
    gale__catalogue_finish(&c);
    gale__str_finish(&path);
    return status;
}

int gale__models_pull(const gale__args *a)
{
    const char *what = gale__args_text(a, "NAME"), *given = gale__args_text(a, "sha256");
    char sha256[65];
    if (!what) return gale__usage("models", "pull needs a URL, or the name of a model in the catalogue");
    if (given && !gale__sha256_read(given, sha256))
        return gale__usage("models", "--sha256: expected 64 hexadecimal digits");
    return gale__report(
        strstr(what, "://") ? pull_url(a, what, given ? sha256 : NULL) : pull_name(a, what, given ? sha256 : NULL));
}
