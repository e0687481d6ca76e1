/* Hashes: a fast one for tables, SHA-256 for names of things kept on disk. */
#ifndef GALE_BASE_HASH_H
#define GALE_BASE_HASH_H
#include "gale/base.h"
uint64_t gale__hash(const void *data, size_t size, uint64_t seed);
typedef struct gale__sha256 { uint32_t state[8]; uint64_t length; uint8_t block[64]; } gale__sha256;
void gale__sha256_init(gale__sha256 *s);
void gale__sha256_add(gale__sha256 *s, const void *data, size_t size);
void gale__sha256_end(gale__sha256 *s, uint8_t digest[32]);
void gale__sha256_hex(const void *data, size_t size, char hex[65]);
#endif
