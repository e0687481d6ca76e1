/* Reading what will be borrowed. */
#include "onnx/shim.h"
#include <errno.h>
#include <unistd.h>
gale_status gale__pb_map_read(const gale__file_map *m, uint64_t offset, size_t size, void *to)
{
    for (char *at = to; size;) {
        ssize_t n = pread(m->fd, at, size < (1u << 30) ? size : 1u << 30, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return gale__fail(GALE_IO, "became shorter while it was read");
        at += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return GALE_OK;
}
gale_status gale__pb_borrow_map(gale_type type, int rank, const int64_t *dims, const gale__file_map *map, uint64_t offset, void (*release)(void *), void *owner, gale_tensor **out)
{
    gale_tensor *t = NULL;
    GALE_TRY(gale_tensor_create(NULL, type, rank, dims, &t));
    gale_status status = gale__pb_map_read(map, offset, t->size_bytes, t->host);
    if (status != GALE_OK) return gale_tensor_destroy(&t), status;
    release(owner);
    *out = t;
    return GALE_OK;
}
