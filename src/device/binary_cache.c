/* Compiled kernels on disk: <cache folder>/kernels/XX/HEX.bin, where XX is the first two digits of HEX.  Each file is
 * a header (magic, size, checksum) and the data.  Old files are removed when the folder exceeds its limit, which is
 * checked on the first write of a process and then whenever a sixteenth of the limit has been written. */
#include "device/binary_cache.h"
#include "base/context.h"
#include "base/env.h"
#include "base/hash.h"
#include "base/thread.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 1152
#define MEBIBYTE (1024ull * 1024)

typedef struct header {
    char magic[8];
    uint64_t size, checksum;
} header;
static const char magic[8] = {'G', 'A', 'L', 'E', 'B', 'I', 'N', '1'};

void gale__binary_cache_key(const gale__bytes *parts, int count, char key[GALE__BINARY_KEY])
{
    gale__sha hash;
    uint8_t digest[32];
    gale__sha256_init(&hash);
    gale__sha_add(&hash, gale_version(), strlen(gale_version()) + 1);
    for (int i = 0; i < count; i++) {
        /* The size in front keeps "ab","c" apart from "a","bc". */
        uint64_t size = parts[i].size;
        gale__sha_add(&hash, &size, sizeof size);
        gale__sha_add(&hash, parts[i].data, parts[i].size);
    }
    gale__sha_end(&hash, digest);
    for (int i = 0; i < 32; i++) snprintf(key + 2 * i, 3, "%02x", digest[i]);
}

void gale__binary_cache_key_for(const void *code, size_t size, const char *device, const char *driver,
    const char *options, char key[GALE__BINARY_KEY])
{
    const gale__bytes parts[] = {
        {(void *)(uintptr_t)code, size},
        {(void *)(uintptr_t)device, strlen(device)},
        {(void *)(uintptr_t)driver, strlen(driver)},
        {(void *)(uintptr_t)options, strlen(options)},
    };
    gale__binary_cache_key(parts, 4, key);
}

static uint64_t limit_bytes(void)
{
    int64_t limit = gale__env_get_i64(GALE__ENV_CACHE_LIMIT_MB, 512);
    return limit > 0 ? (uint64_t)limit * MEBIBYTE : 0;
}

/* State of this process: the folder that could not be written (and was warned of), and how much may still be written
 * before the limit is looked at again. */
static gale__once once;
static gale__mutex lock;
static char broken[PATH_BYTES];
static uint64_t unchecked_bytes;
static bool checked;

static void init(void) { gale__mutex_init(&lock); }

static bool is_broken(const char *folder)
{
    gale__once_run(&once, init);
    gale__mutex_lock(&lock);
    bool same = !strcmp(broken, folder);
    gale__mutex_unlock(&lock);
    return same;
}

static void set_broken(const char *folder)
{
    gale__mutex_lock(&lock);
    bool first = strcmp(broken, folder) != 0;
    snprintf(broken, sizeof broken, "%s", folder);
    gale__mutex_unlock(&lock);
    if (first) gale__log(GALE__WARN, "compiled kernels are not cached: %s", gale_error());
}

static gale_status kernels_folder(char folder[PATH_BYTES])
{
    char root[1024];
    GALE_TRY(gale__cache_folder(root, sizeof root));
    snprintf(folder, PATH_BYTES, "%s/kernels", root);
    return GALE_OK;
}

static void file_path(const char *folder, const char *key, char path[PATH_BYTES + 80])
{
    snprintf(path, PATH_BYTES + 80, "%s/%.2s/%s.bin", folder, key, key);
}

static bool is_whole(const gale__bytes *file)
{
    header head;
    if (file->size < sizeof head) return false;
    memcpy(&head, file->data, sizeof head);
    const char *body = (const char *)file->data + sizeof head;
    return !memcmp(head.magic, magic, sizeof magic) && head.size == file->size - sizeof head &&
           head.checksum == gale__hash(body, head.size, 0);
}

bool gale__binary_cache_get(const char key[GALE__BINARY_KEY], gale__bytes *out)
{
    char folder[PATH_BYTES], path[PATH_BYTES + 80];
    if (!limit_bytes() || kernels_folder(folder) != GALE_OK) return false;
    file_path(folder, key, path);
    gale__bytes file = {0};
    if (!gale__file_exists(path) || gale__file_read(path, 0, &file) != GALE_OK) return false;
    if (!is_whole(&file)) {
        gale__log(GALE__INFO, "%s: damaged, removed", path);
        gale__file_remove(path);
        gale__bytes_finish(&file);
        return false;
    }
    gale__context_add(gale__context_current(), GALE__COUNT_CACHE_HITS, 1);
    file.size -= sizeof(header);
    memmove(file.data, (char *)file.data + sizeof(header), file.size);
    *out = file;
    return true;
}

static gale_status write_file(const char *folder, const char *key, const void *data, size_t size)
{
    char path[PATH_BYTES + 80];
    snprintf(path, sizeof path, "%s/%.2s", folder, key);
    GALE_TRY(gale__folder_make(path));
    file_path(folder, key, path);
    header head = {.size = size, .checksum = gale__hash(data, size, 0)};
    memcpy(head.magic, magic, sizeof magic);
    char *whole = gale__alloc(sizeof head + size);
    if (!whole) return GALE_NO_MEMORY;
    memcpy(whole, &head, sizeof head);
    memcpy(whole + sizeof head, data, size);
    gale_status status = gale__file_write_unflushed(path, whole, sizeof head + size);
    gale__free(whole);
    return status;
}

/* Whether it is time to look at the folder's size. */
static bool trim_is_due(uint64_t written, uint64_t limit)
{
    gale__mutex_lock(&lock);
    unchecked_bytes += written;
    bool due = !checked || unchecked_bytes > limit / 16;
    if (due) {
        checked = true;
        unchecked_bytes = 0;
    }
    gale__mutex_unlock(&lock);
    return due;
}

void gale__binary_cache_put(const char key[GALE__BINARY_KEY], const void *data, size_t size)
{
    char folder[PATH_BYTES] = "(no folder)";
    uint64_t limit = limit_bytes();
    if (!limit || size > limit) return;
    gale__once_run(&once, init);
    gale_status status = kernels_folder(folder);
    if (is_broken(folder)) return;
    if (status == GALE_OK) status = write_file(folder, key, data, size);
    if (status == GALE_NO_MEMORY) return;
    if (status != GALE_OK) set_broken(folder);
    else if (trim_is_due(size, limit)) gale__binary_cache_trim(limit);
}

/* Every file of the cache, with the folder it is in. */
typedef struct entry {
    char path[PATH_BYTES + 160];
    uint64_t size_bytes, time_ns;
} entry;
typedef struct entries {
    entry *items;
    size_t count, capacity;
    uint64_t total_bytes;
} entries;

static gale_status add_folder(entries *all, const char *folder)
{
    gale__file_info *list = NULL;
    size_t count = 0;
    gale_status status = gale__folder_list(folder, &list, &count);
    /* Another process may have removed it meanwhile. */
    if (status != GALE_OK) return status == GALE_NO_MEMORY ? status : GALE_OK;
    GALE_GO(gale__grow((void **)&all->items, &all->capacity, all->count + count, sizeof *all->items));
    for (size_t i = 0; i < count; i++) {
        if (list[i].folder) continue;
        entry *e = &all->items[all->count++];
        snprintf(e->path, sizeof e->path, "%s/%s", folder, list[i].name);
        e->size_bytes = list[i].size_bytes;
        e->time_ns = list[i].time_ns;
        all->total_bytes += e->size_bytes;
    }
done:
    gale__folder_list_free(&list, count);
    return status;
}

static gale_status list_all(entries *all)
{
    char folder[PATH_BYTES], path[PATH_BYTES + 80];
    GALE_TRY(kernels_folder(folder));
    for (int i = 0; i < 256; i++) {
        snprintf(path, sizeof path, "%s/%02x", folder, i);
        if (gale__file_exists(path)) GALE_TRY(add_folder(all, path));
    }
    return GALE_OK;
}

gale_status gale__binary_cache_get_stats(gale__binary_cache_stats *out)
{
    entries all = {0};
    gale__binary_cache_stats stats = {.limit_bytes = limit_bytes()};
    char folder[PATH_BYTES];
    gale_status status;
    GALE_GO(kernels_folder(folder));
    GALE_GO(list_all(&all));
    snprintf(stats.folder, sizeof stats.folder, "%s", folder);
    stats.files = all.count;
    stats.size_bytes = all.total_bytes;
    *out = stats;
done:
    gale__free(all.items);
    return status;
}

static int by_time(const void *a, const void *b)
{
    uint64_t x = ((const entry *)a)->time_ns, y = ((const entry *)b)->time_ns;
    return x < y ? -1 : x > y;
}

gale_status gale__binary_cache_trim(uint64_t keep_bytes)
{
    entries all = {0};
    gale_status status;
    GALE_GO(list_all(&all));
    if (all.total_bytes > keep_bytes) {
        qsort(all.items, all.count, sizeof *all.items, by_time);
        /* Removes a quarter more than needed, so that the next write does not reach the limit again. */
        uint64_t goal = keep_bytes - keep_bytes / 4;
        for (size_t i = 0; i < all.count && all.total_bytes > goal; i++) {
            if (gale__file_remove(all.items[i].path) != GALE_OK) continue;
            all.total_bytes -= all.items[i].size_bytes;
        }
    }
done:
    gale__free(all.items);
    return status;
}

gale_status gale__binary_cache_clear(void) { return gale__binary_cache_trim(0); }
