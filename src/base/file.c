/* Files, folders and memory maps.  A file is written under a temporary name, flushed to disk and renamed, so that
 * readers and crashes see either the old content or the new one. */
#include "base/file.h"
#include "base/env.h"
#include "base/thread.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static _Atomic uint64_t write_fail_at, write_asked;

void gale__file_fail_at(uint64_t n)
{
    atomic_store(&write_asked, 0);
    atomic_store(&write_fail_at, n);
}

static gale_status fail_errno(const char *path, const char *what)
{
    gale_status status = errno == ENOENT ? GALE_NOT_FOUND : errno == ENOMEM ? GALE_NO_MEMORY : GALE_IO;
    return gale__fail(status, "%s: %s: %s", path, what, strerror(errno));
}

/* Opens for reading and returns the size; folders are rejected here, because the error of read() is less clear.
 * to_map: so are pipes and devices, without waiting for the other end of a pipe. */
static gale_status open_file(const char *path, bool to_map, int *fd, size_t *size)
{
    int f = open(path, O_RDONLY | O_CLOEXEC | (to_map ? O_NONBLOCK : 0));
    struct stat st;
    if (f < 0) return fail_errno(path, "cannot open");
    gale_status status = GALE_OK;
    if (fstat(f, &st)) status = fail_errno(path, "cannot access");
    else if (S_ISDIR(st.st_mode)) status = gale__fail(GALE_IO, "%s: is a folder, not a file", path);
    else if (to_map && !S_ISREG(st.st_mode))
        status = gale__fail(GALE_IO, "%s: is a pipe or a device; copy its content to a file first", path);
    if (status != GALE_OK) {
        close(f);
        return status;
    }
    *fd = f;
    *size = st.st_size > 0 ? (size_t)st.st_size : 0;
    return GALE_OK;
}

/* Pipes and files in /proc have no size, so reading continues to the end regardless of the reported size. */
static gale_status read_all(int fd, const char *path, size_t limit, gale__bytes *b, size_t room)
{
    for (;;) {
        if (limit && b->size > limit)
            return gale__fail(GALE_LIMIT, "%s: larger than the limit of %zu bytes", path, limit);
        GALE_TRY(gale__grow(&b->data, &room, b->size + 4096, 1));
        ssize_t n = read(fd, (char *)b->data + b->size, room - b->size - 1);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno(path, "cannot read");
        if (n == 0) break;
        b->size += (size_t)n;
    }
    ((char *)b->data)[b->size] = 0;
    return GALE_OK;
}

gale_status gale__file_read(const char *path, size_t limit_bytes, gale__bytes *out)
{
    int fd = -1;
    size_t size = 0;
    GALE_TRY(open_file(path, false, &fd, &size));
    gale_status status = GALE_OK;
    gale__bytes b = {0};
    size_t room = 0;
    if (limit_bytes && size > limit_bytes)
        status = gale__fail(GALE_LIMIT, "%s: %zu bytes, larger than the limit of %zu", path, size, limit_bytes);
    if (status == GALE_OK) status = gale__grow(&b.data, &room, size + 4097, 1);
    if (status == GALE_OK) status = read_all(fd, path, limit_bytes, &b, room);
    close(fd);
    if (status == GALE_OK) *out = b;
    else gale__bytes_finish(&b);
    return status;
}

void gale__bytes_finish(gale__bytes *b)
{
    gale__free(b->data);
    *b = (gale__bytes){0};
}

gale_status gale__file_add(gale__file_out *out, const void *data, size_t size)
{
    for (const char *at = data; size;) {
        ssize_t n;
        if (atomic_fetch_add(&write_asked, 1) + 1 == atomic_load(&write_fail_at)) {
            n = -1;
            errno = ENOSPC;
        } else {
            n = write(out->fd, at, size < (1u << 20) ? size : 1u << 20);
        }
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno(out->path, "cannot write");
        at += n;
        size -= (size_t)n;
    }
    return GALE_OK;
}

static const char *folder_of(const char *path, char folder[4096])
{
    const char *slash = strrchr(path, '/');
    snprintf(folder, 4096, "%.*s", !slash || slash == path ? 1 : (int)(slash - path), slash ? path : ".");
    return folder;
}

/* Makes the rename durable. Not all file systems support this; the rename is valid in any case. */
static void sync_folder_of(const char *path)
{
    char folder[4096];
    folder_of(path, folder);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

/* Names of files that are being written, in fixed memory so that a signal handler can read them. The handler waits for
 * a file that is being opened, and none is opened after the handler has started. */
enum { OPEN_MOST = 8, TAKEN_MOST = 10000, FREE = 0, OPENING, OPEN };
static struct {
    _Atomic int state;
    char name[4096];
} open_names[OPEN_MOST];
static _Atomic bool ending;

/* Its slot, counted from 1; 0: all slots are taken. */
static int remember(const char *name)
{
    for (int i = 0, none = FREE; i < OPEN_MOST; i++, none = FREE)
        if (strlen(name) < sizeof open_names[i].name &&
            atomic_compare_exchange_strong(&open_names[i].state, &none, OPENING)) {
            strcpy(open_names[i].name, name);
            return i + 1;
        }
    return 0;
}

static void set_state(gale__file_out *o, int state)
{
    if (o->place) atomic_store(&open_names[o->place - 1].state, state);
    if (state == FREE) o->place = 0;
}

void gale__file_abandon_all(bool for_good)
{
    if (for_good) atomic_store(&ending, true);
    for (int i = 0; i < OPEN_MOST; i++) {
        /* The signal may have interrupted the very thread that holds it, so the wait is limited. */
        for (int k = 0; k < 100 && atomic_load(&open_names[i].state) == OPENING; k++)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        if (atomic_load(&open_names[i].state) != FREE) unlink(open_names[i].name);
    }
}

/* The target of a link is written, not the link itself. A device or a pipe is written to directly: renaming a file over
 * it would destroy it. */
static gale_status look_at_target(const char *path, gale__file_out *o)
{
    struct stat st;
    char real[PATH_MAX];
    bool link = !lstat(path, &st) && S_ISLNK(st.st_mode) && realpath(path, real);
    o->path = gale__strdup(link ? real : path);
    if (!o->path) return GALE_NO_MEMORY;
    if (stat(o->path, &st) || S_ISREG(st.st_mode)) return GALE_OK;
    if (S_ISDIR(st.st_mode)) return gale__fail(GALE_IO, "%s: is a folder, not a file", path);
    o->fd = open(o->path, O_WRONLY | O_CLOEXEC);
    return o->fd < 0 ? fail_errno(path, "cannot open") : GALE_OK;
}

/* A name that exists was left by a killed process with the same process number, as all first processes of containers
 * have; or it is in use there. In both cases the next name is tried. */
static gale_status open_beside(const char *path, gale__file_out *o)
{
    static _Atomic unsigned counter;
    const char *slash = strrchr(o->path, '/');
    int folder = slash ? (int)(slash + 1 - o->path) : 0;
    for (int left = TAKEN_MOST; o->fd < 0; left--) {
        gale__str name = {0};
        gale__str_addf(&name, "%.*s%.200s.%ld.%u.tmp", folder, o->path, o->path + folder, (long)getpid(),
            atomic_fetch_add(&counter, 1)); /* a name may have 255 bytes */
        gale_status status = gale__str_check(&name);
        o->name = status == GALE_OK ? name.text : NULL;
        o->place = o->name ? remember(o->name) : 0;
        errno = EINTR;
        if (o->name && !atomic_load(&ending)) o->fd = open(o->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        set_state(o, o->fd >= 0 ? OPEN : FREE);
        if (o->fd >= 0) break;
        if (status == GALE_OK && (errno != EEXIST || !left)) status = fail_errno(path, "cannot create");
        o->name = NULL;
        gale__str_finish(&name);
        GALE_TRY(status);
    }
    return GALE_OK;
}

gale_status gale__file_begin(const char *path, gale__file_out *out)
{
    gale__file_out o = {.fd = -1};
    gale_status status = look_at_target(path, &o);
    if (status == GALE_OK && o.fd < 0) status = open_beside(path, &o);
    if (status == GALE_OK) *out = o;
    else gale__free(o.path);
    return status;
}

void gale__file_drop(gale__file_out *out)
{
    if (!out->path) return;
    if (out->fd >= 0) close(out->fd);
    if (out->name) {
        unlink(out->name);
        set_state(out, FREE);
    }
    gale__free(out->name);
    gale__free(out->path);
    *out = (gale__file_out){.fd = -1};
}

void gale__file_keep(gale__file_out *out)
{
    if (out->fd >= 0) close(out->fd);
    gale__free(out->name);
    gale__free(out->path);
    *out = (gale__file_out){.fd = -1};
}

/* A link at the temporary path is not followed: its target must not be changed. */
static gale_status open_part(gale__file_out *o, uint64_t *have)
{
    struct stat st, named;
    o->fd = open(o->name, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (o->fd < 0) return fail_errno(o->name, "cannot create");
    bool taken = flock(o->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
    if (fstat(o->fd, &st)) return fail_errno(o->name, "cannot access");
    /* The other process may have finished between the two calls; then the open file already has its final name. */
    if (taken || stat(o->name, &named) || named.st_ino != st.st_ino)
        return gale__fail(GALE_IO, "%s: another process is writing it; wait for it, or choose another name", o->name);
    if (!S_ISREG(st.st_mode)) return gale__fail(GALE_IO, "%s: exists, but is not a regular file", o->name);
    *have = (uint64_t)st.st_size;
    return GALE_OK;
}

gale_status gale__file_resume(const char *path, gale__file_out *out, uint64_t *have)
{
    if (gale__folder_exists(path)) return gale__fail(GALE_IO, "%s: is a folder, not a file", path);
    gale__file_out o = {.path = gale__strdup(path), .fd = -1};
    gale__str name = {0};
    gale__str_addf(&name, "%s.part", path);
    o.name = name.text;
    gale_status status = o.path ? gale__str_check(&name) : GALE_NO_MEMORY;
    if (status == GALE_OK) status = open_part(&o, have);
    if (status == GALE_OK) *out = o;
    else gale__file_keep(&o);
    return status;
}

gale_status gale__file_restart(gale__file_out *out) { return gale__file_cut(out, 0); }

gale_status gale__file_cut(gale__file_out *out, uint64_t size)
{
    return ftruncate(out->fd, (off_t)size) ? fail_errno(out->name, "cannot truncate") : GALE_OK;
}

gale_status gale__file_sync(gale__file_out *out)
{
    return fdatasync(out->fd) && errno != EINVAL && errno != EROFS ? fail_errno(out->path, "cannot flush to disk")
                                                                   : GALE_OK;
}

/* Uses its own descriptor, since a resumed file is opened for appending only. */
gale_status gale__file_patch(const gale__file_out *out, uint64_t offset, const void *data, size_t size)
{
    const char *name = out->name ? out->name : out->path;
    int fd = open(name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return fail_errno(name, "cannot open");
    bool bad = pwrite(fd, data, size, (off_t)offset) != (ssize_t)size;
    gale_status status = bad ? fail_errno(name, "cannot write") : GALE_OK;
    if (close(fd) && status == GALE_OK) status = fail_errno(name, "cannot write");
    return status;
}

bool gale__file_is_stream(const char *path)
{
    struct stat st;
    return !stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

gale_status gale__file_end(gale__file_out *out)
{
    bool lost = !out->unflushed && fsync(out->fd) && errno != EINVAL && errno != EROFS;
    gale_status status = lost ? fail_errno(out->path, "cannot flush to disk") : GALE_OK;
    if (close(out->fd) && status == GALE_OK) status = fail_errno(out->path, "cannot write");
    out->fd = -1;
    if (status == GALE_OK && out->name && rename(out->name, out->path))
        status = fail_errno(out->path, "cannot rename into place");
    if (status == GALE_OK && out->name && !out->unflushed) sync_folder_of(out->path);
    gale__file_drop(out); /* the temporary name, if it still exists */
    return status;
}

static gale_status write_whole(const char *path, const void *data, size_t size, bool unflushed)
{
    gale__file_out out = {0};
    GALE_TRY(gale__file_begin(path, &out));
    out.unflushed = unflushed;
    gale_status status = gale__file_add(&out, data, size);
    if (status == GALE_OK) return gale__file_end(&out);
    gale__file_drop(&out);
    return status;
}

gale_status gale__file_write(const char *path, const void *data, size_t size)
{
    return write_whole(path, data, size, false);
}

gale_status gale__file_write_unflushed(const char *path, const void *data, size_t size)
{
    return write_whole(path, data, size, true);
}

gale_status gale__file_check(const char *path)
{
    struct stat st;
    char folder[4096];
    bool there = !stat(path, &st);
    if (there && S_ISDIR(st.st_mode)) return gale__fail(GALE_IO, "%s: is a folder, not a file", path);
    const char *where = there && !S_ISREG(st.st_mode) ? path : folder_of(path, folder);
    if (!access(where, W_OK)) return GALE_OK;
    return errno == ENOENT ? gale__fail(GALE_NOT_FOUND, "%s: cannot be written: no such folder: %s", path, where)
                           : fail_errno(path, "cannot be written");
}

bool gale__file_exists(const char *path) { return access(path, F_OK) == 0; }

bool gale__folder_exists(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

bool gale__file_identify(const char *path, gale__file_identity *out)
{
    struct stat st;
    if (stat(path, &st) || !S_ISREG(st.st_mode)) return false;
    *out = (gale__file_identity){(uint64_t)st.st_dev, (uint64_t)st.st_ino, (uint64_t)st.st_size};
    return true;
}

bool gale__file_same(const char *a, const char *b)
{
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

gale_status gale__file_remove(const char *path) { return remove(path) ? fail_errno(path, "cannot remove") : GALE_OK; }

static gale_status make_folder(const char *path, mode_t mode)
{
    char *part = gale__strdup(path);
    if (!part) return GALE_NO_MEMORY;
    gale_status status = GALE_OK;
    for (char *p = part; *p && status == GALE_OK;) {
        p += strspn(p, "/");
        p += strcspn(p, "/");
        char kept = *p;
        *p = 0;
        struct stat st;
        if (mkdir(part, mode) && errno != EEXIST) status = fail_errno(part, "cannot create the folder");
        else if (stat(part, &st) || !S_ISDIR(st.st_mode))
            status = gale__fail(GALE_IO, "%s: exists, but is not a folder", part);
        *p = kept;
    }
    gale__free(part);
    return status;
}

gale_status gale__folder_make(const char *path) { return make_folder(path, 0700); }
gale_status gale__folder_make_public(const char *path) { return make_folder(path, 0777); }

static int by_name(const void *a, const void *b)
{
    return strcmp(((const gale__file_info *)a)->name, ((const gale__file_info *)b)->name);
}

/* A file that has disappeared meanwhile is skipped: another process may be cleaning up. */
static gale_status add_info(DIR *dir, const char *name, gale__file_info **list, size_t *count, size_t *room)
{
    struct stat st;
    if (!strcmp(name, ".") || !strcmp(name, "..") || fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW))
        return GALE_OK;
    GALE_TRY(gale__grow((void **)list, room, *count + 1, sizeof **list));
    char *copy = gale__strdup(name);
    if (!copy) return GALE_NO_MEMORY;
    (*list)[(*count)++] = (gale__file_info){.name = copy,
        .size_bytes = (uint64_t)st.st_size,
        .time_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec,
        .folder = S_ISDIR(st.st_mode)};
    return GALE_OK;
}

gale_status gale__folder_list(const char *path, gale__file_info **out, size_t *count)
{
    DIR *dir = opendir(path);
    if (!dir) return fail_errno(path, "cannot list");
    gale_status status = GALE_OK;
    gale__file_info *list = NULL;
    size_t n = 0, room = 0;
    for (struct dirent *e; status == GALE_OK && (e = readdir(dir));)
        status = add_info(dir, e->d_name, &list, &n, &room);
    closedir(dir);
    if (status != GALE_OK) {
        gale__folder_list_free(&list, n);
        return status;
    }
    if (n) qsort(list, n, sizeof *list, by_name);
    *out = list;
    *count = n;
    return GALE_OK;
}

void gale__folder_list_free(gale__file_info **list, size_t count)
{
    for (size_t i = 0; i < count; i++) gale__free((*list)[i].name);
    gale__free(*list);
    *list = NULL;
}

gale_status gale__file_map_open(const char *path, gale__file_map *out)
{
    gale__file_map m = {.fd = -1};
    GALE_TRY(open_file(path, true, &m.fd, &m.size));
    m.path = gale__strdup(path);
    gale_status status = m.path ? GALE_OK : GALE_NO_MEMORY;
    m.data = m.size ? mmap(NULL, m.size, PROT_READ, MAP_PRIVATE, m.fd, 0) : (void *)"";
    if (m.data == MAP_FAILED) {
        status = fail_errno(path, "cannot map");
        m.data = NULL;
    }
    if (status != GALE_OK) {
        if (m.data && m.size) munmap((void *)(uintptr_t)m.data, m.size);
        close(m.fd);
        gale__free(m.path);
        return status;
    }
    *out = m;
    return GALE_OK;
}

static gale_status became_shorter(const gale__file_map *m)
{
    return gale__fail(GALE_IO, "%s: was truncated while it was read", m->path);
}

static gale_status read_part(const gale__file_map *m, uint64_t offset, size_t size, void *to)
{
    if (offset > m->size || size > m->size - offset)
        return gale__fail(GALE_IO, "%s: has %zu bytes; cannot read %zu bytes at offset %llu", m->path, m->size, size,
            (unsigned long long)offset);
    for (char *at = to; size;) {
        ssize_t n = pread(m->fd, at, size < (1u << 30) ? size : 1u << 30, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno(m->path, "cannot read");
        if (n == 0) return became_shorter(m);
        at += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return GALE_OK;
}

gale_status gale__file_map_read(const gale__file_map *m, uint64_t offset, size_t size, void *to)
{
    if (m->check) GALE_TRY(m->check(m->user));
    return read_part(m, offset, size, to);
}

gale_status gale__file_map_hash(const gale__file_map *m, gale__sha *s, char *hex)
{
    uint8_t piece[16384];
    for (size_t at = 0, n; at < m->size; at += n) {
        n = m->size - at < sizeof piece ? m->size - at : sizeof piece;
        GALE_TRY(read_part(m, at, n, piece));
        gale__sha_add(s, piece, n);
    }
    gale__sha_end_hex(s, hex);
    return GALE_OK;
}

gale_status gale__file_map_check(const gale__file_map *m)
{
    struct stat st;
    if (fstat(m->fd, &st)) return fail_errno(m->path, "cannot access");
    return (size_t)st.st_size < m->size ? became_shorter(m) : GALE_OK;
}

void gale__file_map_close(gale__file_map *m)
{
    if (m->data && m->size) munmap((void *)(uintptr_t)m->data, m->size);
    if (m->data) close(m->fd);
    gale__free(m->path);
    *m = (gale__file_map){.fd = -1};
}

enum { PIECE = 1 << 14, PIECES = 64, WHOLE = PIECE * PIECES };

typedef struct pieces {
    const gale__file_map *map;
    const uint8_t *memory;
    uint64_t size, step;
    uint8_t digests[PIECES][32];
    gale_status status[PIECES];
} pieces;

static void hash_piece(void *arg, size_t i, int worker)
{
    pieces *p = arg;
    uint8_t piece[PIECE];
    gale__sha sha;
    uint64_t left = p->size - i * p->step;
    size_t n = left < PIECE ? (size_t)left : PIECE;
    (void)worker;
    if (!p->memory) p->status[i] = gale__file_map_read(p->map, i * p->step, n, piece);
    gale__sha256_init(&sha);
    if (p->status[i] == GALE_OK) gale__sha_add(&sha, p->memory ? p->memory + i * p->step : piece, n);
    gale__sha_end(&sha, p->digests[i]);
}

/* Pieces are hashed on all cores: one would take 10 ms, in which a GPU embeds thousands of texts. */
gale_status gale__file_map_sample(const gale__file_map *m, const void *memory, uint64_t size, gale__sha *sha)
{
    pieces *p = gale__calloc(1, sizeof *p);
    gale_status status = GALE_OK;
    uint64_t count = size <= WHOLE ? (size + PIECE - 1) / PIECE : PIECES;
    if (!p) return GALE_NO_MEMORY;
    p->map = m, p->memory = memory, p->size = size;
    p->step = size <= WHOLE ? PIECE : (size - PIECE) / (PIECES - 1);
    gale__parallel((size_t)count, hash_piece, p);
    for (uint64_t i = 0; i < count && status == GALE_OK; i++)
        if (p->status[i] != GALE_OK) status = gale__fail(p->status[i], "%s: cannot be read", m->path);
    gale__sha_add(sha, &size, sizeof size);
    gale__sha_add(sha, p->digests, (size_t)count * sizeof *p->digests);
    gale__free(p);
    return status;
}

gale_status gale__file_sample(const char *path, gale__sha *sha)
{
    gale__file_map map;
    GALE_TRY(gale__file_map_open(path, &map));
    gale_status status = gale__file_map_sample(&map, NULL, map.size, sha);
    gale__file_map_close(&map);
    return status;
}

gale_status gale__cache_folder(char *buf, size_t size)
{
    const char *own = gale__env_get(GALE__ENV_CACHE), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n;
    if (*own) n = snprintf(buf, size, "%s", own);
    else if (xdg && *xdg == '/') n = snprintf(buf, size, "%s/gale", xdg);
    else if (home && *home) n = snprintf(buf, size, "%s/.cache/gale", home);
    else return gale__fail(GALE_NOT_FOUND, "no cache folder: none of GALE_CACHE, XDG_CACHE_HOME and HOME is set");
    return n < 0 || (size_t)n >= size ? gale__fail(GALE_LIMIT, "the cache folder's path is longer than %zu bytes", size)
                                      : GALE_OK;
}
