/* Primaries to linear sRGB. */
#ifndef GALE_JOBS_EXR_COLOUR_H
#define GALE_JOBS_EXR_COLOUR_H
#include <stdbool.h>
/* The matrix from RGB of these primaries and white (x, y of red, green, blue, white) to linear sRGB, the white adapted
 * to D65 by Bradford.  False, and the identity, where they are sRGB's own or no primaries at all. */
bool gale__colour_matrix(const double primaries[8], double matrix[3][3]);
#endif
