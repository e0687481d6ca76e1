/* RGB to XYZ by the primaries, the white to D65 by Bradford's cone responses, XYZ to linear sRGB. */
#include "jobs/exr/colour.h"
#include <math.h>
#include <string.h>

typedef double matrix3[3][3];
static const double rec709[8] = {0.64, 0.33, 0.30, 0.60, 0.15, 0.06, 0.3127, 0.3290};

static void multiply(const matrix3 a, const matrix3 b, matrix3 out)
{
    matrix3 m;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) m[i][j] = a[i][0] * b[0][j] + a[i][1] * b[1][j] + a[i][2] * b[2][j];
    memcpy(out, m, sizeof m);
}

/* By cofactors; false where there is none. */
static bool invert(const matrix3 a, matrix3 out)
{
    matrix3 m;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            int r = (j + 1) % 3, s = (j + 2) % 3, c = (i + 1) % 3, d = (i + 2) % 3;
            m[i][j] = a[r][c] * a[s][d] - a[r][d] * a[s][c];
        }
    double det = a[0][0] * m[0][0] + a[0][1] * m[1][0] + a[0][2] * m[2][0];
    for (int i = 0; i < 9; i++) m[i / 3][i % 3] /= det;
    if (!isfinite(det) || fabs(det) < 1e-12) return false;
    memcpy(out, m, sizeof m);
    return true;
}

static void apply(const matrix3 m, const double v[3], double out[3])
{
    for (int i = 0; i < 3; i++) out[i] = m[i][0] * v[0] + m[i][1] * v[1] + m[i][2] * v[2];
}

static bool white_of(const double p[8], double xyz[3])
{
    xyz[0] = p[6] / p[7];
    xyz[1] = 1;
    xyz[2] = (1 - p[6] - p[7]) / p[7];
    return isfinite(xyz[0] + xyz[2]);
}

/* Columns are the primaries' XYZ, scaled so that they add up to white. */
static bool to_xyz(const double p[8], matrix3 out)
{
    matrix3 columns, inverse;
    double white[3], scale[3];
    for (int i = 0; i < 3; i++) {
        columns[0][i] = p[2 * i];
        columns[1][i] = p[2 * i + 1];
        columns[2][i] = 1 - p[2 * i] - p[2 * i + 1];
    }
    if (!white_of(p, white) || !invert((const double(*)[3])columns, inverse)) return false;
    apply((const double(*)[3])inverse, white, scale);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) out[i][j] = columns[i][j] * scale[j];
    return true;
}

static bool adapt(const double p[8], matrix3 out)
{
    static const double bradford[3][3] = {
        {0.8951, 0.2664, -0.1614}, {-0.7502, 1.7135, 0.0367}, {0.0389, -0.0685, 1.0296}};
    matrix3 inverse, scale = {{0}};
    double from[3], to[3], a[3], b[3];
    if (!white_of(p, from) || !white_of(rec709, to) || !invert(bradford, inverse)) return false;
    apply(bradford, from, a);
    apply(bradford, to, b);
    for (int i = 0; i < 3; i++) scale[i][i] = b[i] / a[i];
    multiply((const double(*)[3])scale, bradford, out);
    multiply((const double(*)[3])inverse, (const double(*)[3])out, out);
    return isfinite(out[0][0] + out[1][1] + out[2][2]);
}

bool gale__colour_matrix(const double p[8], matrix3 out)
{
    matrix3 xyz, white, back, rgb;
    bool same = true;
    for (int i = 0; i < 9; i++) out[i / 3][i % 3] = i % 4 == 0;
    for (int i = 0; i < 8; i++) same = same && fabs(p[i] - rec709[i]) < 5e-4;
    if (same || !to_xyz(p, xyz) || !adapt(p, white) || !to_xyz(rec709, rgb) || !invert((const double(*)[3])rgb, back))
        return false;
    multiply((const double(*)[3])white, (const double(*)[3])xyz, out);
    multiply((const double(*)[3])back, (const double(*)[3])out, out);
    return true;
}
