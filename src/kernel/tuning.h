/* Which schedules were measured to be the fastest on a device: a record on disk that planning asks, and that only
 * `gale tune` changes.  It is read when the device first plans a contraction; a plan never measures anything.
 *
 * A choice holds for a class of contractions: equal types, columns, k and directions of the operands, and numbers of
 * rows and batches that the same power of two is next to.  So it does not depend on the exact batch. */
#ifndef GALE_KERNEL_TUNING_H
#define GALE_KERNEL_TUNING_H
#include "device/device.h"
#include "kernel/schedule/schedule.h"

#define GALE__TUNING_KEY 112
typedef void gale__tuning_watch(void *user, const gale__nest *nest);
typedef struct gale__tuning_entry {
    uint64_t hash;
    char key[GALE__TUNING_KEY];
    const gale__schedule_want *want;
} gale__tuning_entry;
typedef struct gale__tuning {
    bool loaded;
    gale__tuning_entry *entries;
    size_t count, capacity;
    gale__tuning_watch *watch; /* NULL: nobody watches */
    void *user;
} gale__tuning; /* of a device, under its lock */

/* "f16 f16 512x768x3072 ..."; false: nothing that has a choice, or may have one (batch_invariant). */
bool gale__tuning_key(const gale__nest *nest, char out[GALE__TUNING_KEY]);
/* What the record says of the nest; false: nothing, or nothing that it can have. */
bool gale__tuning_choose(gale_device *device, const gale__nest *nest, gale__schedule *out);
/* For this device, until it is closed; and for good, beside what other processes have recorded meanwhile. */
gale_status gale__tuning_set(gale_device *device, const char *key, const gale__schedule_want *want);
gale_status gale__tuning_save(gale_device *device);
/* Calls `watch` for every contraction that is planned on the device from now on; NULL: no more. */
gale_status gale__tuning_follow(gale_device *device, gale__tuning_watch *watch, void *user);
void gale__tuning_finish(gale__tuning *t);
#endif
