/* Reads a text file in pieces: plain, gzip or zstd, detected by its first bytes. "-" is standard input. */
#ifndef GALE_TEXT_TEXT_FILE_H
#define GALE_TEXT_TEXT_FILE_H
#include "base/mem.h"

typedef struct gale__text_file gale__text_file;
gale_status gale__text_file_open(const char *path, gale__text_file **out);
void gale__text_file_close(gale__text_file **file);
/* Up to `room` bytes; *got 0: the end.  GALE_FORMAT: what is packed is damaged or cut. */
gale_status gale__text_file_read(gale__text_file *file, void *to, size_t room, size_t *got);
uint64_t gale__text_file_taken(const gale__text_file *file); /* bytes of the file read so far, before decompression */
#endif
