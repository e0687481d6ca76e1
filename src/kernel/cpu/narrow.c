/* See narrow.h: finds narrow operands, packs them, evaluates their zero points. */
#include "kernel/cpu/narrow.h"
#include "kernel/cpu/divide.h"
#include "kernel/cpu/interp.h"
#include "kernel/cpu/walk.h"
#include <string.h>

enum { UNIT_MOST = 8 };

/* --- Finding. --- */

static bool is_byte(int type) { return type == GALE_I8 || type == GALE_U8; }

/* A cast to `wide` of a load of a narrow type, less a zero point that does not depend on k. */
static bool look(const gale__nest *nest, int value, gale_type wide, gale__cpu_narrow *n)
{
    const gale__nest_instr *in = &nest->code[value];
    *n = (gale__cpu_narrow){.zero = -1};
    if (in->op == GALE__SUB && in->type == wide && wide == GALE_I32) {
        n->zero = in->b;
        in = &nest->code[in->a];
    }
    if (in->op != GALE__CAST || in->type != wide || nest->code[in->a].op != GALE__NEST_LOAD) return false;
    if (n->zero >= 0 && (nest->code[n->zero].inner || nest->code[n->zero].type != GALE_I32)) return false;
    n->access = &nest->accesses[nest->code[in->a].access];
    return wide == GALE_I32 ? is_byte(n->access->type) : n->access->type == GALE_BF16;
}

/* How the elements become those of the panel's type. */
static void fit(const gale__nest *nest, gale__cpu_narrow *n, gale_type type)
{
    n->widened = type == GALE_I16;
    if (is_byte(type) && type != n->access->type) {
        n->flip = 0x80;
        n->shift = type == GALE_I8 ? 128 : -128;
    }
    n->known = n->zero < 0 || nest->code[n->zero].op == GALE__NEST_CONST;
    n->point = (n->zero >= 0 && n->known ? (int32_t)nest->code[n->zero].imm : 0) - n->shift;
}

bool gale__cpu_narrow_look(const gale__nest *nest, int value, gale__cpu_narrow *n)
{
    if (!look(nest, value, GALE_I32, n)) return false;
    fit(nest, n, n->access->type);
    return true;
}

/* Better ones first. */
static const gale__simd_key keys[] = {
    {GALE_I8, GALE_I8, GALE_I32, 8},
    {GALE_I8, GALE_I8, GALE_I32, 4},
    {GALE_U8, GALE_I8, GALE_I32, 4},
    {GALE_I8, GALE_U8, GALE_I32, 4},
    {GALE_I16, GALE_I16, GALE_I32, 2},
    {GALE_BF16, GALE_BF16, GALE_F32, 4},
    {GALE_BF16, GALE_BF16, GALE_F32, 2},
};

static const gale__simd_gemm *find_gemm(gale_type sum, bool signed_rows)
{
    const gale__simd_gemm *found = NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !found; i++) {
        if (keys[i].sum != sum) continue;
        if (keys[i].a == keys[i].b || (keys[i].a == GALE_I8) == signed_rows) found = gale__simd_gemm_find(keys[i]);
    }
    return found;
}

bool gale__cpu_narrow_bytes(void) { return find_gemm(GALE_I32, false) != NULL; }

/* Where one factor has to be signed and the other unsigned: as they are, or else so that the one that changes its sign
 * is not the weights of signed bytes, whose zero point is 0 and then costs nothing. */
static bool wants_signed_rows(const gale__nest *nest, const gale__cpu_narrow *a, const gale__cpu_narrow *b)
{
    if (a->access->type != b->access->type) return a->access->type == GALE_I8;
    return nest->buffers[a->access->buffer].constant;
}

const gale__simd_gemm *gale__cpu_narrow_find(
    const gale__nest *nest, int mul, int a, int b, bool tiles, gale__cpu_narrow *narrow_a, gale__cpu_narrow *narrow_b)
{
    gale_type wide = (gale_type)nest->code[mul].type;
    if ((wide != GALE_I32 && wide != GALE_F32) || !look(nest, a, wide, narrow_a) || !look(nest, b, wide, narrow_b))
        return NULL;
    gale__simd_key tile = {(uint8_t)narrow_a->access->type, (uint8_t)narrow_b->access->type, (uint8_t)wide, 0};
    tile.group = wide == GALE_I32 ? 64 : 32;
    const gale__simd_gemm *found = tiles ? gale__simd_gemm_find(tile) : NULL;
    if (!found) found = find_gemm(wide, wants_signed_rows(nest, narrow_a, narrow_b));
    if (!found) return NULL;
    fit(nest, narrow_a, (gale_type)found->key.a);
    fit(nest, narrow_b, (gale_type)found->key.b);
    return found;
}

size_t gale__cpu_narrow_unit(const gale__simd_gemm *gemm)
{
    return gale_type_size((gale_type)gemm->key.a) * gemm->key.group;
}

gale_status gale__cpu_narrow_init(gale__cpu_narrow *n, const gale__nest *nest)
{
    uint8_t wanted[GALE__NEST_CODE_MAX] = {0};
    int reg[GALE__NEST_CODE_MAX];
    gale__cpu_tape_init(&n->tape, nest);
    if (n->known) return GALE_OK;
    wanted[n->zero] = 1;
    for (int i = n->zero; i >= 0; i--) {
        const gale__nest_instr *in = &nest->code[i];
        const int32_t operand[3] = {in->a, in->b, in->c};
        for (int k = 0; wanted[i] && k < gale__nest_arity(in); k++) wanted[operand[k]] = 1;
    }
    for (int i = 0; i <= n->zero; i++)
        if (wanted[i]) GALE_TRY(gale__cpu_tape_emit(&n->tape, i, reg));
    n->out = reg[n->zero];
    n->section.count = (int)n->tape.n_steps;
    gale__cpu_section *sections[1] = {&n->section};
    gale__cpu_tape_keep(&n->tape, n->out);
    return gale__cpu_tape_finish_build(&n->tape, sections, 1, NULL, 0, 512);
}

void gale__cpu_narrow_points(
    const gale__cpu_narrow *n, gale__cpu_frame *f, const gale__cpu_span *rows, int64_t r0, int64_t count, int32_t *out)
{
    for (int64_t i = 0; i < count && n->known; i++) out[i] = n->point;
    if (n->known) return;
    int64_t block = (int64_t)n->tape.block;
    for (int64_t i = 0; i < count; i += block) {
        int64_t len = least(block, count - i);
        gale__cpu_frame_set(f, rows, r0 + i, (size_t)len);
        gale__cpu_frame_run(f, n->section);
        const int32_t *points = f->registers[n->out];
        for (int64_t j = 0; j < len; j++) out[i + j] = points[j] - n->shift;
    }
}

/* --- Packing. --- */

/* Two blocks of units, and a row of elements. */
size_t gale__cpu_units_temp(const gale__cpu_tape *t) { return 3 * t->block * UNIT_MOST; }

static int32_t sum_of(const void *elements, bool with_sign, int64_t n)
{
    uint32_t sum = 0;
    if (with_sign)
        for (int64_t i = 0; i < n; i++) sum += (uint32_t)((const int8_t *)elements)[i];
    else
        for (int64_t i = 0; i < n; i++) sum += ((const uint8_t *)elements)[i];
    return (int32_t)sum;
}

/* sums[i] += element i. */
static void add_to(int32_t *sums, const void *elements, bool with_sign, int64_t n)
{
    if (with_sign)
        for (int64_t i = 0; i < n; i++) sums[i] += ((const int8_t *)elements)[i];
    else
        for (int64_t i = 0; i < n; i++) sums[i] += ((const uint8_t *)elements)[i];
}

/* Elements as stored become those of panels. */
void gale__cpu_narrow_convert(const gale__cpu_narrow *n, const void *from, int64_t count, void *to)
{
    if (n->widened && n->access->type == GALE_I8)
        for (int64_t i = 0; i < count; i++) ((int16_t *)to)[i] = ((const int8_t *)from)[i];
    else if (n->widened)
        for (int64_t i = 0; i < count; i++) ((int16_t *)to)[i] = ((const uint8_t *)from)[i];
    else if (n->flip)
        for (int64_t i = 0; i < count; i++) ((uint8_t *)to)[i] = ((const uint8_t *)from)[i] ^ 0x80;
    else memcpy(to, from, (size_t)count * gale_type_size(n->access->type));
}

/* Units of one row into its place of each step. */
static void spread(char *to, size_t pitch, const char *from, size_t unit, int64_t n)
{
    if (unit == 64)
        for (int64_t i = 0; i < n; i++) memcpy(to + (size_t)i * pitch, from + i * 64, 64);
    else if (unit == 8)
        for (int64_t i = 0; i < n; i++) memcpy(to + (size_t)i * pitch, from + i * 8, 8);
    else if (unit == 4)
        for (int64_t i = 0; i < n; i++) memcpy(to + (size_t)i * pitch, from + i * 4, 4);
    else
        for (int64_t i = 0; i < n; i++) memcpy(to + (size_t)i * pitch, from + (size_t)i * unit, unit);
}

/* One row of kn elements, its units in an order of their own. */
static void spread_ordered(const gale__cpu_units *u, const char *from, char *to, size_t pitch)
{
    size_t element = u->unit / (size_t)u->group;
    for (int64_t k = 0; k < u->places; k++) {
        char *place = to + (size_t)(k / u->group) * pitch + (size_t)(k % u->group) * element;
        if (u->order[k] < 0) memset(place, 0, element);
        else memcpy(place, from + (size_t)u->order[k] * element, element);
    }
}

/* Units of a row. */
static int64_t steps_of(const gale__cpu_units *u, int64_t kn)
{
    int64_t together = u->group * u->together;
    return (kn + together - 1) / together * u->together;
}

/* Of the block at hand: in memory where they are adjacent there, else in a register. */
static const char *elements_of(const gale__cpu_units *u, gale__cpu_frame *f)
{
    const gale__nest_access *a = u->narrow->access;
    gale__cpu_piece piece;
    if (gale__cpu_walk_plain(f, a, &piece) && piece.inside && piece.stride == 1)
        return (const char *)f->buffers[a->buffer] + piece.address * (int64_t)gale_type_size(a->type);
    gale__cpu_frame_run(f, u->section);
    return f->registers[u->out];
}

/* Lanes walk k: a row after the other, its units dealt out. */
static void pack_along_k(const gale__cpu_units *u, gale__cpu_frame *f, int64_t r0, int64_t count, int64_t k0,
    int64_t kn, char *temp, char *out, int32_t *sums)
{
    const gale__cpu_narrow *n = u->narrow;
    int64_t steps = u->order ? u->places / u->group : steps_of(u, kn), used = (kn + u->group - 1) / u->group,
            block = (int64_t)f->tape->block / u->group * u->group;
    size_t pitch = (size_t)u->width * u->unit, element = u->unit / (size_t)u->group;
    for (int64_t r = 0; r < count; r++) {
        char *panel = out + (size_t)(r / u->width * steps) * pitch + (size_t)(r % u->width) * u->unit;
        gale__cpu_frame_seek(f, u->rows, r0 + r);
        for (int64_t k = 0; k < kn; k += block) {
            int64_t len = least(block, kn - k), units = (len + u->group - 1) / u->group;
            gale__cpu_frame_set(f, u->k, k0 + k, (size_t)len);
            const char *from = elements_of(u, f);
            if (sums) sums[r] += sum_of(from, n->access->type == GALE_I8, len);
            if (n->flip || n->widened || u->order || len % u->group) {
                gale__cpu_narrow_convert(n, from, len, u->order ? temp + (size_t)k * element : temp);
                if (u->order) continue;
                memset(temp + (size_t)len * element, 0, (size_t)(units * u->group - len) * element);
                from = temp;
            }
            spread(panel + (size_t)(k / u->group) * pitch, pitch, from, u->unit, units);
        }
        if (u->order) spread_ordered(u, temp, panel, pitch);
        for (int64_t s = used; s < steps && !u->order; s++) memset(panel + (size_t)s * pitch, 0, u->unit);
    }
    size_t filled = (size_t)(count % u->width) * u->unit; /* of the last panel's steps */
    char *last = out + (size_t)(count / u->width * steps) * pitch;
    for (int64_t s = 0; s < steps && filled; s++) memset(last + (size_t)s * pitch + filled, 0, pitch - filled);
}

char *gale__cpu_narrow_weave(const gale__simd *simd, char *from, char *to, int64_t group, int64_t n, size_t element)
{
    for (int size = element == 2; group > 1; group /= 2, element *= 2, size++) {
        size_t row = (size_t)n * element;
        for (int64_t g = 0; g < group; g += 2)
            simd->zip[size](to + (size_t)g * row, from + (size_t)g * row, from + (size_t)(g + 1) * row, (size_t)n);
        char *other = from;
        from = to;
        to = other;
    }
    return from;
}

static void next_k(gale__cpu_frame *f, const gale__cpu_span *k)
{
    for (int j = k->n - 1; j >= 0; j--) {
        if (++f->at[k->dim[j]] < k->extent[j]) return;
        f->at[k->dim[j]] = 0;
    }
}

/* Lanes walk the rows: `group` steps at a time, woven. */
static void pack_along_rows(const gale__cpu_units *u, gale__cpu_frame *f, int64_t r0, int64_t count, int64_t k0,
    int64_t kn, char *temp, char *out, int32_t *sums)
{
    const gale__cpu_narrow *n = u->narrow;
    int64_t steps = steps_of(u, kn), most = (int64_t)f->tape->block / u->width * u->width;
    size_t row_bytes = (size_t)u->width * u->unit, element = u->unit / (size_t)u->group;
    char *other = temp + f->tape->block * UNIT_MOST, *units;
    for (int64_t r = 0; r < count; r += most) {
        int64_t lanes = least(most, count - r), whole = lanes / u->width;
        size_t rest = (size_t)(lanes % u->width) * u->unit, pitch = row_bytes * (size_t)steps;
        gale__cpu_frame_seek(f, u->k, k0);
        gale__cpu_frame_set(f, u->rows, r0 + r, (size_t)lanes);
        for (int64_t s = 0; s < steps; s++) {
            for (int64_t g = 0; g < u->group; g++) {
                char *row = temp + (size_t)(g * lanes) * element;
                if (s * u->group + g >= kn) {
                    memset(row, 0, (size_t)lanes * element);
                    continue;
                }
                gale__cpu_frame_run(f, u->section);
                if (sums) add_to(sums + r, f->registers[u->out], n->access->type == GALE_I8, lanes);
                gale__cpu_narrow_convert(n, f->registers[u->out], lanes, row);
                next_k(f, u->k);
            }
            units = gale__cpu_narrow_weave(f->tape->simd, temp, other, u->group, lanes, element);
            char *to = out + (size_t)(r / u->width) * pitch + (size_t)s * row_bytes;
            for (int64_t p = 0; p < whole; p++, to += pitch, units += row_bytes) memcpy(to, units, row_bytes);
            if (rest) memcpy(to, units, rest), memset(to + rest, 0, row_bytes - rest);
        }
    }
}

void gale__cpu_units_pack(const gale__cpu_units *u, gale__cpu_frame *f, int64_t r0, int64_t count, int64_t k0,
    int64_t kn, char *temp, char *out, int32_t *sums)
{
    int64_t padded = (count + u->width - 1) / u->width * u->width;
    if (sums) memset(sums, 0, (size_t)padded * sizeof *sums);
    if (u->along_k || u->order) pack_along_k(u, f, r0, count, k0, kn, temp, out, sums);
    else pack_along_rows(u, f, r0, count, k0, kn, temp, out, sums);
    for (int64_t i = 0; sums && i < count; i++) sums[i] -= u->narrow->shift * (int32_t)kn;
}
