/* Tiles: they cover the picture, their weights add up to one, and what is cut out and added up again is the picture. */
#include "jobs/upscale/tiles.h"
#include "test.h"
#include <math.h>

static uint32_t seed = 1;
static int64_t any(int64_t low, int64_t high)
{
    return seed = seed * 1664525u + 1013904223u, low + (int64_t)(seed >> 8) % (high - low + 1);
}

/* A whole tile, row by row. */
static void take(const gale__tiling *t, int64_t index, const float *picture, int planes, float *tile)
{
    for (int64_t i = 0; i < planes * t->y.tile; i++)
        gale__tile_take_row(t, index, i / t->y.tile, i % t->y.tile, picture, tile + i * t->x.tile);
}

static void add(
    const gale__tiling *t, int64_t index, int64_t scale, const float *tile, int planes, float *weights, float *picture)
{
    int64_t h = t->y.tile * scale;
    gale__tile_weights(t, index, scale, weights);
    for (int64_t i = 0; i < planes * h; i++)
        gale__tile_add_row(t, index, scale, i / h, i % h, tile + i * t->x.tile * scale, weights, picture);
}

TEST(positions)
{
    gale__tiling t;
    /* the figures of seed 000: 1087 x 1087, tile 256, overlap 64 are 36 tiles */
    CHECK_OK(gale__tiling_make(1087, 1087, &(gale__tile_wish){256, 256, 64, -1, 64}, &t));
    CHECK_EQ(gale__tiling_count(&t), 36);
    CHECK_EQ(gale__tile_axis_at(&t.x, 4), 768);
    CHECK_EQ(gale__tile_axis_at(&t.x, 5), 832); /* not 1087 - 256: a multiple of 64, as the others */
    CHECK_OK(gale__tiling_make(1087, 1087, &(gale__tile_wish){256, 256, 64, -1, 64, true}, &t));
    CHECK_EQ(gale__tile_axis_at(&t.x, 5), 1087 - 256);
    CHECK_OK(gale__tiling_make(256, 100, &(gale__tile_wish){256, 256, 32, -1, 64}, &t));
    CHECK(gale__tiling_count(&t) == 1 && t.x.tile == 256 && t.y.tile == 128);
    CHECK_OK(gale__tiling_make(300, 500, &(gale__tile_wish){0, 0, 32, -1, 0}, &t));
    CHECK(gale__tiling_count(&t) == 1 && t.x.tile == 300 && t.y.tile == 500);
    CHECK_OK(gale__tiling_make(
        100, 100, &(gale__tile_wish){256, 256, 0, -1, 0, .fixed_width = true}, &t)); /* the other follows the picture */
    CHECK(gale__tiling_count(&t) == 1 && t.x.tile == 256 && t.y.tile == 100);
    CHECK_FAILS(gale__tiling_make(100, 100, &(gale__tile_wish){64, 64, 64, -1, 0}, &t), INVALID);
    CHECK_FAILS(gale__tiling_make(0, 100, &(gale__tile_wish){64, 64, 16, -1, 0}, &t), INVALID);
}

static gale__tile_wish any_wish(void)
{
    int64_t tile = any(4, 40);
    return (gale__tile_wish){tile, any(0, 3) ? tile : any(4, 40), any(0, 3), any(-1, 3), any(0, 3) ? 0 : any(1, 8),
        any(0, 4) == 0, any(0, 4) == 0, (gale__tile_padding)any(0, 1)};
}

TEST(weights_add_up)
{
    for (int k = 0; k < 400; k++) {
        int64_t size = any(1, 200), tile = any(2, 64), overlap = any(0, tile - 1), scale = any(1, 4);
        gale__tiling t;
        float sums[800] = {0}, w[400];
        if (!CHECK_OK(gale__tiling_make(size, 8, &(gale__tile_wish){tile, 8, overlap, any(-1, 20), 0}, &t))) continue;
        for (int64_t i = 0; i < t.x.count; i++) {
            int64_t at = gale__tile_axis_at(&t.x, i);
            CHECK(at >= 0 && (t.x.count == 1 || at + t.x.tile <= size));
            gale__tile_axis_weights(&t.x, i, scale, w);
            for (int64_t x = 0; x < t.x.tile * scale && at * scale + x < size * scale; x++) {
                CHECK(w[x] >= 0 && w[x] <= 1);
                bool outer =
                    (i > 0 && x < t.x.margin * scale) || (i + 1 < t.x.count && x >= (t.x.tile - t.x.margin) * scale);
                if (outer) CHECK_EQ(w[x] * 1e6, 0);
                sums[at * scale + x] += w[x];
            }
        }
        for (int64_t x = 0; x < size * scale; x++) CHECK(fabsf(sums[x] - 1) < 1e-6f);
    }
}

/* A "network" that repeats pixels: what comes out is the picture, enlarged, wherever the tiles lie. */
TEST(identity)
{
    for (int k = 0; k < (test_light() ? 20 : 120); k++) {
        int64_t w = any(1, 90), h = any(1, 90), scale = any(1, 3);
        gale__tile_wish wish = any_wish();
        gale__tiling t;
        if (gale__tiling_make(w, h, &wish, &t) != GALE_OK) continue;
        int64_t tw = t.x.tile, th = t.y.tile;
        float *picture = gale__calloc((size_t)(w * h * 2), sizeof *picture),
              *tile = gale__calloc((size_t)(tw * th * 2), sizeof *tile),
              *large = gale__calloc((size_t)(tw * th * scale * scale * 2), sizeof *large);
        float *out = gale__calloc((size_t)(w * h * scale * scale * 2), sizeof *out),
              *weights = gale__calloc((size_t)((tw + th) * scale), sizeof *weights);
        for (int64_t i = 0; i < w * h * 2; i++) picture[i] = (float)any(0, 1000) / 1000;
        for (int64_t i = 0; i < gale__tiling_count(&t); i++) {
            take(&t, i, picture, 2, tile);
            for (int64_t n = 0; n < tw * th * scale * scale * 2; n++) {
                int64_t x = n % (tw * scale), y = n / (tw * scale) % (th * scale), c = n / (tw * th * scale * scale);
                large[n] = tile[(c * th + y / scale) * tw + x / scale];
            }
            add(&t, i, scale, large, 2, weights, out);
        }
        float worst = 0;
        for (int64_t n = 0; n < w * h * scale * scale * 2; n++) {
            int64_t x = n % (w * scale), y = n / (w * scale) % (h * scale), c = n / (w * h * scale * scale);
            worst = fmaxf(worst, fabsf(out[n] - picture[(c * h + y / scale) * w + x / scale]));
        }
        CHECK(worst < 1e-6f);
        gale__free(picture);
        gale__free(tile);
        gale__free(large);
        gale__free(out);
        gale__free(weights);
    }
}

TEST(padding)
{
    static const float row[3] = {1, 2, 3};
    static const char *const wanted[2] = {"12333333", "12321232"};
    for (int k = 0; k < 2; k++) {
        gale__tiling t;
        float tile[8];
        CHECK_OK(gale__tiling_make(
            3, 1, &(gale__tile_wish){8, 1, 0, -1, 0, .fixed_width = true, .padding = (gale__tile_padding)k}, &t));
        take(&t, 0, row, 1, tile);
        for (int i = 0; i < 8; i++) CHECK_EQ(tile[i], wanted[k][i] - '0');
    }
}

/* A blur that sees three pixels to each side and takes what lies beyond for zero: tiled equals whole where the margin
 * covers it. */
static void blur(const float *from, float *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t k = -3; k <= 3; k++) sum += i + k >= 0 && i + k < n ? from[i + k] : 0;
        to[i] = (float)(sum / 7);
    }
}

TEST(tiled_equals_whole)
{
    float picture[500], whole[500], out[500] = {0}, tile[64], done[64], weights[65];
    gale__tiling t;
    for (int i = 0; i < 500; i++) picture[i] = (float)any(0, 1000) / 1000;
    blur(picture, whole, 500);
    CHECK_OK(gale__tiling_make(500, 1, &(gale__tile_wish){64, 1, 16, 3, 0}, &t));
    for (int64_t i = 0; i < t.x.count; i++) {
        take(&t, i, picture, 1, tile);
        blur(tile, done, 64);
        add(&t, i, 1, done, 1, weights, out);
    }
    float worst = 0;
    for (int i = 0; i < 500; i++) worst = fmaxf(worst, fabsf(out[i] - whole[i]));
    CHECK(worst < 1e-6f);
}

TESTS(ROW(positions), ROW(weights_add_up), ROW(identity), ROW(padding), ROW(tiled_equals_whole))
