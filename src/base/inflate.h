/* Deflate (RFC 1951), the compression of zip, PNG and gzip: decompression only. */
#ifndef GALE_BASE_INFLATE_H
#define GALE_BASE_INFLATE_H
#include "mem.h"
/* Decompresses a raw stream to exactly out_size bytes; used (may be NULL): bytes of input that were read. GALE_FORMAT
 * if it is malformed, truncated or of another length. */
gale_status gale__inflate(const void *data, size_t size, void *out, size_t out_size, size_t *used);
uint32_t gale__crc32(uint32_t crc /* of what came before, or 0 */, const void *data, size_t size);
#endif
