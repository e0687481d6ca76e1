/* Hashes: a fast one for tables, SHA-256 for names of files in caches, SHA-1 where a format requires it. */
#ifndef GALE_BASE_HASH_H
#define GALE_BASE_HASH_H
#include "gale/base.h"
uint64_t gale__hash(const void *data, size_t size, uint64_t seed);
typedef struct gale__sha {
    uint32_t state[8];
    uint64_t length;
    uint8_t block[64];
    int bytes; /* of the digest */
    void (*add_block)(uint32_t state[8], const uint8_t *block);
} gale__sha;
void gale__sha256_init(gale__sha *s); /* 32 bytes */
void gale__sha1_init(gale__sha *s);   /* 20 bytes */
void gale__sha_add(gale__sha *s, const void *data, size_t size);
void gale__sha_end(gale__sha *s, uint8_t *digest);
void gale__sha_end_hex(gale__sha *s, char *hex); /* in lower case, zero-terminated */
bool gale__hex_read(
    const char *text, size_t digits, char *hex); /* in lower case; false: not that many hexadecimal digits */
void gale__sha256_hex(const void *data, size_t size, char hex[65]);
#endif
