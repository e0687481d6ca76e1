/* Files in the cache folder with stored data on one device with one driver. */
#ifndef GALE_DEVICE_RECORD_H
#define GALE_DEVICE_RECORD_H
#include "base/json.h"
#include "device/device.h"

/* CACHE/KIND/HASH.json; `extra` distinguishes further what the record depends on. */
gale_status gale__record_path(
    const gale_device_info *info, const char *kind, const char *extra, char *path, size_t size);
/* *out is NULL where there is no usable record.  The arena is the caller's. */
void gale__record_read(
    const gale_device_info *info, const char *kind, const char *extra, gale__arena *arena, gale__json **out);
/* Writes the object that `fill` adds to; backend, name and driver are in it already. */
typedef void gale__record_fill(gale__json_out *j, const void *user);
gale_status gale__record_write(
    const gale_device_info *info, const char *kind, const char *extra, gale__record_fill *fill, const void *user);
/* Counts all records of a kind and the bytes they take, and removes them if `clear` says so. */
gale_status gale__record_list(const char *kind, bool clear, char folder[1024], uint64_t *files, uint64_t *size_bytes);
#endif
