/* Cleaning before enlarging: whether a picture needs it, and how much of it is taken. */
#ifndef GALE_JOBS_CLEANING_H
#define GALE_JOBS_CLEANING_H
#include "media/picture.h"
/* Whether compression or noise are such that the picture is better after the cleaning network than before. */
bool gale__cleaning_is_needed(const gale_picture_condition *found);
/* Why, for people: "JPEG quality 75", "noise 3.2", "JPEG blocks"; "" where it is not needed. */
void gale__cleaning_reason(const gale_picture_condition *found, char *out, size_t size);
/* What the cleaning network is told of a JPEG file of this quality, the nearest that it knows; 0: no JPEG file. */
float gale__cleaning_quality(int jpeg_quality);
/* A copy as floats: what is cleaned must not be rounded before it is enlarged. */
gale_status gale__cleaning_begin(const gale_picture *in, gale_picture **out);
/* `amount` of the cleaned picture and the rest of `before`; alpha is that of before. */
void gale__cleaning_blend(const gale_picture *before, double amount, gale_picture *cleaned);
/* The result in the type of the picture that it was made from. */
gale_status gale__cleaning_end(const gale_picture *in, const gale_picture *result, gale_picture **out);
#endif
