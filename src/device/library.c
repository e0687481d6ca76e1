/* Loads libraries by symbol lists.  A failure leaves nothing behind, so that a later call can succeed once the library
 * has been installed or memory is available. */
#include "device/library.h"
#include "base/thread.h"
#include <stdio.h>
#include <string.h>

static gale__once once;
static gale__mutex lock;

static void init_lock(void) { gale__mutex_init(&lock); }

static gale_status fill_table(gale__library *library, gale__dl *dl)
{
    for (size_t i = 0; i < library->count; i++) {
        void *symbol = gale__dl_symbol(dl, library->symbols[i]);
        if (!symbol)
            return gale__fail(
                GALE_NOT_FOUND, "%s has no %s: %s", gale__dl_name(dl), library->symbols[i], library->too_old);
        memcpy((char *)library->table + i * sizeof symbol, &symbol, sizeof symbol);
    }
    return GALE_OK;
}

gale_status gale__library_load(gale__library *library)
{
    gale_status status = GALE_OK;
    gale__once_run(&once, init_lock);
    gale__mutex_lock(&lock);
    if (!library->dl) {
        gale__dl *dl = NULL;
        status = gale__dl_open(library->sonames, &dl);
        if (status == GALE_OK) status = fill_table(library, dl);
        if (status == GALE_OK) library->dl = dl;
        else gale__dl_close(&dl);
    }
    gale__mutex_unlock(&lock);
    return status;
}

gale_status gale__driver_fail(const gale__driver_errors *errors, int code, const char *format, va_list args)
{
    char text[1024];
    vsnprintf(text, sizeof text, format, args);
    for (size_t i = 0; i < errors->count; i++)
        if (errors->list[i].code == code)
            return gale__fail(errors->list[i].status, "%s: %s (%d)", text, errors->list[i].name, code);
    return gale__fail(GALE_INTERNAL, "%s: %s error %d", text, errors->api, code);
}
