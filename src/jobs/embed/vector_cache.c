/* One table in one file, written ahead (WAL), so that readers never wait.  A transaction holds the vectors of a window.
 */
#include "jobs/embed/vector_cache.h"
#include "base/file.h"
#include "base/hash.h"
#include <stdio.h>
#include <string.h>

void gale__vector_cache_key(const char *settings, const char *text, size_t size, gale__vector_key *out)
{
    gale__sha sha;
    gale__sha256_init(&sha);
    gale__sha_add(&sha, settings, strlen(settings));
    gale__sha_add(&sha, text, size);
    gale__sha_end(&sha, out->bytes);
}

static gale_status path_of(char *path, size_t size, bool make)
{
    char folder[900];
    GALE_TRY(gale__cache_folder(folder, sizeof folder));
    if (make) GALE_TRY(gale__folder_make(folder));
    snprintf(path, size, "%s/vectors.sqlite", folder);
    return GALE_OK;
}

#ifdef GALE_HAVE_SQLITE
#include "base/thread.h"
#include <sqlite3.h>
#include <time.h>

enum { WAIT_MS = 5000 };

struct gale__vector_cache {
    sqlite3 *db;
    sqlite3_stmt *get, *put;
    gale__mutex lock;
    bool mute; /* something went wrong, and was said */
    char path[1024];
};

static void complain(gale__vector_cache *c, const char *what)
{
    if (!c->mute) gale__log(GALE__WARN, "%s: %s: %s; vectors are not cached", c->path, what, sqlite3_errmsg(c->db));
    c->mute = true;
}

static gale_status open_file(gale__vector_cache *c, bool make)
{
    static const char setup[] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
                                "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL, "
                                "made INTEGER NOT NULL) WITHOUT ROWID;";
    int flags = SQLITE_OPEN_READWRITE | (make ? SQLITE_OPEN_CREATE : 0) | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(c->path, &c->db, flags, NULL) != SQLITE_OK)
        return gale__fail(GALE_IO, "%s: %s", c->path, c->db ? sqlite3_errmsg(c->db) : "out of memory");
    sqlite3_busy_timeout(c->db, WAIT_MS);
    bool written = sqlite3_exec(c->db, setup, NULL, NULL, NULL) == SQLITE_OK;
    if (!written) complain(c, "cannot be written");
    if (sqlite3_prepare_v2(c->db, "SELECT vector FROM vectors WHERE key = ?", -1, &c->get, NULL) != SQLITE_OK)
        return gale__fail(
            GALE_IO, "%s: %s; remove it with `gale cache clear --kind vectors`", c->path, sqlite3_errmsg(c->db));
    if (written &&
        sqlite3_prepare_v2(c->db, "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", -1, &c->put, NULL) != SQLITE_OK)
        complain(c, "cannot be written");
    return GALE_OK;
}

static gale_status open_cache(bool make, gale__vector_cache **out)
{
    gale__vector_cache *c = gale__calloc(1, sizeof *c);
    if (!c) return GALE_NO_MEMORY;
    gale__mutex_init(&c->lock);
    gale_status status = path_of(c->path, sizeof c->path, make);
    if (status == GALE_OK) status = open_file(c, make);
    if (status == GALE_OK) *out = c;
    else gale__vector_cache_close(&c);
    return status;
}

gale_status gale__vector_cache_open(gale__vector_cache **out) { return open_cache(true, out); }

void gale__vector_cache_close(gale__vector_cache **cache)
{
    gale__vector_cache *c = *cache;
    if (!c) return;
    sqlite3_finalize(c->get);
    sqlite3_finalize(c->put);
    sqlite3_close(c->db);
    gale__mutex_finish(&c->lock);
    gale__free(c);
    *cache = NULL;
}

bool gale__vector_cache_get(gale__vector_cache *c, const gale__vector_key *key, float *vector, size_t dims)
{
    gale__mutex_lock(&c->lock);
    sqlite3_bind_blob(c->get, 1, key->bytes, sizeof key->bytes, SQLITE_STATIC);
    bool found = sqlite3_step(c->get) == SQLITE_ROW && sqlite3_column_bytes(c->get, 0) == (int)(dims * sizeof *vector);
    if (found) memcpy(vector, sqlite3_column_blob(c->get, 0), dims * sizeof *vector);
    sqlite3_reset(c->get);
    gale__mutex_unlock(&c->lock);
    return found;
}

void gale__vector_cache_put(
    gale__vector_cache *c, const gale__vector_key *keys, const float *const *vectors, size_t count, size_t dims)
{
    gale__mutex_lock(&c->lock);
    bool good = c->put && !c->mute && count && sqlite3_exec(c->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK;
    bool began = good;
    for (size_t i = 0; i < count && good; i++) {
        sqlite3_bind_blob(c->put, 1, keys[i].bytes, sizeof keys[i].bytes, SQLITE_STATIC);
        sqlite3_bind_blob(c->put, 2, vectors[i], (int)(dims * sizeof **vectors), SQLITE_STATIC);
        sqlite3_bind_int64(c->put, 3, (sqlite3_int64)time(NULL));
        good = sqlite3_step(c->put) == SQLITE_DONE;
        sqlite3_reset(c->put);
    }
    if (began && sqlite3_exec(c->db, good ? "COMMIT" : "ROLLBACK", NULL, NULL, NULL) != SQLITE_OK) good = false;
    if (!good && count && c->put) complain(c, "cannot be written");
    gale__mutex_unlock(&c->lock);
}

/* --- For gale cache. --- */

static uint64_t number(gale__vector_cache *c, const char *query)
{
    sqlite3_stmt *s = NULL;
    uint64_t n = 0;
    if (sqlite3_prepare_v2(c->db, query, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
        n = (uint64_t)sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return n;
}

gale_status gale__vector_cache_get_stats(gale__vector_cache_stats *out)
{
    gale__vector_cache *c = NULL;
    gale__vector_cache_stats s = {0};
    gale__file_identity file;
    GALE_TRY(path_of(s.path, sizeof s.path, false));
    if (gale__file_exists(s.path)) {
        GALE_TRY(open_cache(false, &c));
        s.vectors = number(c, "SELECT count(*) FROM vectors");
        s.size_bytes = gale__file_identify(s.path, &file) ? file.size_bytes : 0;
        gale__vector_cache_close(&c);
    }
    *out = s;
    return GALE_OK;
}

gale_status gale__vector_cache_trim(uint64_t limit_bytes)
{
    static const char oldest[] = "DELETE FROM vectors WHERE key IN (SELECT key FROM vectors ORDER BY made LIMIT "
                                 "(SELECT max(1, count(*) / 8) FROM vectors))";
    gale__vector_cache *c = NULL;
    char path[1024];
    GALE_TRY(path_of(path, sizeof path, false));
    if (!gale__file_exists(path)) return GALE_OK;
    GALE_TRY(open_cache(false, &c));
    bool good = true;
    while (good && number(c, "SELECT count(*) FROM vectors") &&
           number(c, "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, "
                     "pragma_page_size") > limit_bytes)
        good = sqlite3_exec(c->db, oldest, NULL, NULL, NULL) == SQLITE_OK;
    good = good && sqlite3_exec(c->db, "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL) == SQLITE_OK;
    gale_status status = good ? GALE_OK : gale__fail(GALE_IO, "%s: %s", path, sqlite3_errmsg(c->db));
    gale__vector_cache_close(&c);
    return status;
}
#else
static gale_status missing(void)
{
    return gale__fail(
        GALE_UNSUPPORTED, "this build of gale does not include SQLite (libsqlite3-dev), so there is no vector cache");
}
gale_status gale__vector_cache_open(gale__vector_cache **out)
{
    (void)out;
    return missing();
}
void gale__vector_cache_close(gale__vector_cache **cache) { (void)cache; }
bool gale__vector_cache_get(gale__vector_cache *c, const gale__vector_key *key, float *vector, size_t dims)
{
    (void)c, (void)key, (void)vector, (void)dims;
    return false;
}
void gale__vector_cache_put(
    gale__vector_cache *c, const gale__vector_key *keys, const float *const *vectors, size_t count, size_t dims)
{
    (void)c, (void)keys, (void)vectors, (void)count, (void)dims;
}
gale_status gale__vector_cache_get_stats(gale__vector_cache_stats *out)
{
    (void)out;
    return missing();
}
gale_status gale__vector_cache_trim(uint64_t limit_bytes)
{
    (void)limit_bytes;
    return missing();
}
#endif

gale_status gale__vector_cache_clear(void)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char path[1024], file[1040];
    GALE_TRY(path_of(path, sizeof path, false));
    for (int i = 0; i < 3; i++) {
        snprintf(file, sizeof file, "%s%s", path, ends[i]);
        if (gale__file_exists(file)) GALE_TRY(gale__file_remove(file));
    }
    return GALE_OK;
}
