/* Contractions of f32 as three bf16 shares, by instructions that multiply tiles (simd_shares.c): when they are faster,
 * how operands are packed, and how tiles are summed.  Sums that are not finite are computed again as f32: shares
 * of infinities, and of products beyond the range, do not add up to what f32 gives. */
#include "base/cpu.h"
#include "base/env.h"
#include "kernel/cpu/contract.h"
#include "kernel/cpu/divide.h"
#include <math.h>
#include <string.h>

enum { SIDE = 32, LEAST = 24, K_LEAST = 32, ROWS_MOST = 128, LANES_MOST = 768 };

/* Nanoseconds, one core of a Granite Rapids Xeon: of a product as f32 and as shares, of an element that is cut; of a
 * weight that comes from far memory as f32, which tells for few rows; kernels of channels-last pixels fetch it in time.
 */
static const double PLAIN_NS = 0.0105, SHARES_NS = 0.0050, CUT_NS = 0.2, PLAIN_WEIGHT_NS = 0.15;

static bool is_constant(const gale__nest *nest, int value)
{
    const gale__nest_instr *in = &nest->code[value];
    return in->op == GALE__NEST_LOAD && nest->buffers[nest->accesses[in->access].buffer].constant;
}

/* The machine decides, and not the number of threads, on which results must not depend.  Processors of larger machines
 * are hyperthreads as a rule, and tiles are fed from the second cache, which two of them share: of 16 threads on 16
 * processors the slowest multiplies 48 to 60 G/s on tiles, 145 alone; as f32 44, and 91 alone.  That does not pay for
 * cutting. */
enum { PROCESSORS_MOST = 4, AMX_ANY = 2, AMX_ALWAYS = 3 };

bool gale__cpu_shares_wanted(bool faster)
{
    int64_t how = gale__env_get_i64(GALE__ENV_AMX, 1);
    if (!gale__simd_gemm_find(gale__cpu_shares_key()) || !strcmp(gale__env_get(GALE__ENV_MATRIX), "off")) return false;
    return how == AMX_ALWAYS || (faster && (how == AMX_ANY || gale__cpu_processors() <= PROCESSORS_MOST));
}

#define UNEVEN 0.4 /* of a task, that the last thread is behind the others */

void gale__cpu_shares_divide(int64_t m, int64_t n, int64_t k, int64_t width, int64_t *rows, int64_t *lanes)
{
    double least_ns = INFINITY;
    for (int64_t high = SIDE; high <= ROWS_MOST && high < m + SIDE; high += SIDE)
        for (int64_t part = parts(n, LANES_MOST), wide = 0; wide != SIDE; part++) {
            wide = round_up(parts(n, part), SIDE);
            double each = (double)parts(parts(m, high) * parts(n, wide), width) + UNEVEN,
                   ns = each * (double)round_up(k, SIDE) *
                        ((double)(high * wide) * SHARES_NS + (double)least(m, high) * CUT_NS +
                            (double)wide * GALE__SHARES_WEIGHT_NS);
            if (ns >= least_ns) continue;
            least_ns = ns;
            *rows = high;
            *lanes = wide;
        }
}

/* Of a product by a constant; infinite: other kernels, which wait so long for a weight, are faster. */
static double product_ns(int64_t m, int64_t n, int64_t k, double weight_ns)
{
    double padded = (double)(round_up(m, SIDE) * round_up(n, SIDE)) * (double)round_up(k, SIDE),
           ns = padded * SHARES_NS + (double)(m * k) * CUT_NS + (double)(n * k) * GALE__SHARES_WEIGHT_NS;
    bool faster = m >= LEAST && k >= K_LEAST && ns < (double)(n * k) * ((double)m * PLAIN_NS + weight_ns);
    return gale__cpu_shares_wanted(faster) ? ns : INFINITY;
}

double gale__cpu_shares_ns(int64_t m, int64_t n, int64_t k) { return product_ns(m, n, k, 0); }

bool gale__cpu_shares_fit(const gale__cpu_contract *c, const gale__contraction *info, bool turned)
{
    return is_constant(c->nest, turned ? info->a : info->b) &&
           product_ns(c->a.rows.count, c->b.rows.count, c->k.count, PLAIN_WEIGHT_NS) < INFINITY;
}

gale__simd_key gale__cpu_shares_key(void) { return (gale__simd_key){GALE_F32, GALE_F32, GALE_F32, SIDE}; }

size_t gale__cpu_shares_temp(const gale__cpu_contract *c) { return (size_t)(2 * SIDE * c->kc) * sizeof(float); }

/* One panel of kn steps, lanes side by side. */
static void cut_panel(const float *x, int64_t kn, char *out)
{
    const gale__simd_shares *s = &gale__simd_get()->shares;
    for (int64_t k = 0; k < kn; k += SIDE, out += GALE__SHARES_UNIT)
        for (int64_t i = 0; i < GALE__SHARES_PAIR; i++) {
            const float *at = x + (k + i) * SIDE;
            int64_t n = kn - k - i;
            s->cut_lanes(out + i * GALE__SHARES_ROW, 0, at,
                n > GALE__SHARES_PAIR ? at + GALE__SHARES_PAIR * SIDE : NULL, n > 0 ? SIDE : 0);
            for (int64_t t = 0; t < 6 && n <= 0; t++)
                memset(out + i * GALE__SHARES_ROW + t * GALE__SHARES_UNIT / 6, 0, GALE__SHARES_ROW);
        }
}

void gale__cpu_shares_pack(const gale__cpu_contract *c, const gale__cpu_operand *o, gale__cpu_frame *f, int64_t r0,
    int64_t rows, int64_t k0, int64_t kn, char *temp, char *out)
{
    const gale__simd *simd = f->tape->simd;
    float *other = (float *)(void *)temp + SIDE * kn;
    for (int64_t r = 0; r < rows; r += SIDE, out += (size_t)parts(kn, SIDE) * GALE__SHARES_UNIT) {
        int64_t n = least(SIDE, rows - r);
        size_t pitch = (size_t)kn;
        const void *from = temp;
        if (o->along_k) from = gale__cpu_contract_gather(c, o, f, r0 + r, n, k0, kn, temp, &pitch);
        else gale__cpu_contract_deal(c, o, f, r0 + r, n, k0, kn, temp);
        if ((o == &c->a) != c->bands.upright) {
            if (!o->along_k) {
                simd->interleave[0](other, from, SIDE, (size_t)kn, (size_t)kn, SIDE);
                from = other;
            }
            simd->shares.cut_rows(out, from, pitch, (size_t)n, (size_t)kn);
        } else {
            if (o->along_k) {
                simd->interleave[0](other, from, pitch, (size_t)n, SIDE, (size_t)kn);
                from = other;
            }
            cut_panel(from, kn, out);
        }
    }
}

/* tile = (or +=, unless first) a panel set times b panel set, over kn. */
void gale__cpu_shares_multiply(const gale__cpu_contract *c, char *tile, const char *a, const char *b, int64_t rows,
    int64_t lanes, int64_t kn, bool first, bool plain)
{
    size_t steps = gale__cpu_contract_steps(c, kn), units = (size_t)gale__cpu_contract_units(c, kn);
    gale__simd_gemm_open(&c->gemm);
    for (int64_t j = 0; j < lanes; j += SIDE)
        for (int64_t i = 0; i < rows; i += SIDE) {
            const gale__simd_part *part = gale__simd_part_for(&c->gemm, rows - i);
            char *to = tile + (size_t)(i * c->tile_lanes + j) * c->size;
            (plain      ? gale__simd_get()->shares.plain
                : first ? part->fresh
                        : part->tile)(to, (size_t)c->tile_lanes, a + (size_t)i * steps, b + (size_t)j * steps, units);
        }
    gale__simd_gemm_close(&c->gemm);
}
