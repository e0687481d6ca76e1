/* Files and folders.  A written file appears completely or not at all. */
#ifndef GALE_BASE_FILE_H
#define GALE_BASE_FILE_H
#include "hash.h"
#include "str.h"

typedef struct gale__bytes {
    void *data;
    size_t size;
} gale__bytes;
gale_status gale__file_read(
    const char *path, size_t limit_bytes, gale__bytes *out); /* 0: no limit; followed by a spare zero byte */
void gale__bytes_finish(gale__bytes *b);
gale_status gale__file_write(const char *path, const void *data, size_t size); /* temporary file, fsync, rename */
/* Without fsync, which takes milliseconds: for caches whose readers notice what a power failure has left of a file. */
gale_status gale__file_write_unflushed(const char *path, const void *data, size_t size);
/* The same in pieces; begin is followed by end or drop; drop after end does nothing. fd -1 and all zero: not begun. */
typedef struct gale__file_out {
    char *path, *name;
    int fd, place; /* place: slot among the remembered names */
    bool unflushed;
} gale__file_out;
gale_status gale__file_begin(const char *path, gale__file_out *out);
gale_status gale__file_add(gale__file_out *out, const void *data, size_t size);
gale_status gale__file_end(gale__file_out *out);
void gale__file_drop(gale__file_out *out);
/* Removes files that are being written under temporary names. For the handler of a terminating signal: takes no lock
 * and allocates nothing. for_good: no new file is begun afterwards. */
void gale__file_abandon_all(bool for_good);
/* The same over several runs of the program: PATH.part is started or resumed, with the bytes so far in `have`; keep
 * closes it and leaves it for the next run. GALE_IO if another process is writing it. */
gale_status gale__file_resume(const char *path, gale__file_out *out, uint64_t *have);
gale_status gale__file_restart(gale__file_out *out);            /* empties it */
gale_status gale__file_cut(gale__file_out *out, uint64_t size); /* what is behind is gone */
gale_status gale__file_sync(gale__file_out *out);               /* flushes to disk, before anything relies on it */
gale_status gale__file_patch(const gale__file_out *out, uint64_t offset, const void *data, size_t size);
void gale__file_keep(gale__file_out *out);
bool gale__file_is_stream(const char *path); /* a device or a pipe */
void gale__file_fail_at(uint64_t n);         /* for tests: the n-th write from now fails with a full disk (0: none) */
bool gale__file_exists(const char *path);
bool gale__folder_exists(const char *path);
/* The identity of a regular file, independent of its names; false if there is no such file. */
typedef struct gale__file_identity {
    uint64_t device, number, size_bytes;
} gale__file_identity;
bool gale__file_identify(const char *path, gale__file_identity *out);
bool gale__file_same(const char *a, const char *b); /* whether both names refer to the same file */
gale_status gale__file_remove(const char *path);
gale_status gale__folder_make(const char *path); /* with parents, mode 0700 */
gale_status gale__folder_make_public(
    const char *path); /* the same for folders handed to users, with the permissions of their umask */
/* Whether it can be written, as far as this can be determined without writing: for long work that writes only at the
 * end. */
gale_status gale__file_check(const char *path);
typedef struct gale__file_info {
    char *name;
    uint64_t size_bytes, time_ns;
    bool folder;
} gale__file_info;
gale_status gale__folder_list(const char *path, gale__file_info **out, size_t *count); /* sorted by name */
void gale__folder_list_free(gale__file_info **list, size_t count);
/* Read-only map of a file. Touching a mapped page that was truncated meanwhile kills the process; so large parts are
 * read with gale__file_map_read, which detects this, and the mapped address only identifies them. */
typedef struct gale__file_map {
    const void *data;
    size_t size;
    int fd;
    char *path;
    gale_status (*check)(void *user); /* called before every gale__file_map_read, from any thread; NULL after opening */
    void *user;
} gale__file_map;
gale_status gale__file_map_open(const char *path, gale__file_map *out);
gale_status gale__file_map_read(const gale__file_map *m, uint64_t offset, size_t size, void *to); /* any thread */
gale_status gale__file_map_hash(
    const gale__file_map *m, gale__sha *s /* begun */, char *hex); /* of the whole file; does not call `check` */
gale_status gale__file_map_check(const gale__file_map *m);         /* whether the file still has its original size */
void gale__file_map_close(gale__file_map *m);
/* Adds what identifies a file: its size and its bytes, or samples of them if it is large, since hashing a gigabyte of
 * weights would take longer than a short job. */
gale_status gale__file_sample(const char *path, gale__sha *sha /* begun */);
/* The same of a file that is open, or of memory instead, unless that is NULL. */
gale_status gale__file_map_sample(const gale__file_map *m, const void *memory, uint64_t size, gale__sha *sha);

/* The user's cache folder for gale: $GALE_CACHE, else $XDG_CACHE_HOME/gale, else ~/.cache/gale.
 * Written into buf without creating it; GALE_NOT_FOUND when no home is known. */
gale_status gale__cache_folder(char *buf, size_t size);

/* Libraries opened at run time. */
typedef struct gale__dl gale__dl;
gale_status gale__dl_open(const char *const *sonames,
    gale__dl **out); /* NULL-terminated list; the message names all of them and the last reason */
void *gale__dl_symbol(gale__dl *dl, const char *name); /* NULL when missing */
const char *gale__dl_name(const gale__dl *dl);         /* the soname that was opened */
void gale__dl_close(gale__dl **dl);
#endif
