/* INTERLEAVE: a map whose results have few points along the last dimension, such as the channels of a pixel, while
 * loads run along the dimension before, such as planes of pixels.  A thread takes `vector` neighbours of the planes
 * with all of their channels: loads are whole vectors, and so are stores, because the results are adjacent. */
#include "kernel/schedule/schedule_emit.h"

#define LEAST_ALL 16384 /* points */
#define VECTOR 4

static int dims_of(const gale__nest *nest) { return nest->n_outer + nest->n_inner; }

/* Whether the results of a thread are adjacent, in whole vectors. */
static bool lies_together(const gale__nest *nest, const gale__nest_store *st)
{
    const gale__nest_access *a = &nest->accesses[st->access];
    int last = dims_of(nest) - 1;
    int64_t places = a->offset;
    for (int d = 0; d < last - 1; d++) places |= a->stride[d];
    return st->index < 0 && !a->n_guards && a->stride[last] == 1 && a->stride[last - 1] == nest->extent[last] &&
           places % VECTOR == 0 && gale_type_size(a->type) <= 4;
}

bool gale__schedule_choose_interleave(const gale__nest *nest, const gale_device_caps *caps, gale__schedule *s)
{
    int last = dims_of(nest) - 1;
    bool gains = false;
    if (last < 1 || nest->extent[last] > 4 || nest->extent[last - 1] % VECTOR ||
        gale__nest_count(nest, 0, last + 1) < LEAST_ALL)
        return false;
    for (int i = 0; i < nest->n_stores; i++)
        if (!lies_together(nest, &nest->stores[i])) return false;
    for (int i = 0; i < nest->n_code; i++) {
        if (nest->code[i].op != GALE__NEST_LOAD) continue;
        const gale__nest_access *a = &nest->accesses[nest->code[i].access];
        gains |= a->stride[last] && gale__schedule_access_width(nest, a, last - 1, VECTOR) == VECTOR;
    }
    if (!gains) return false;
    s->kind = GALE__SCHEDULE_INTERLEAVE;
    s->vector = VECTOR;
    s->tile_n = (uint16_t)nest->extent[last];
    s->rows = caps->group_max && caps->group_max < 256 ? 64 : 256;
    return true;
}

/* Threads past the end repeat the last vector and store nothing. */
static void place(gale__emit *e)
{
    gale__ir *ir = e->ir;
    int last = dims_of(e->nest) - 1;
    gale__ir_val coord[GALE__NEST_DIMS],
        first = gale__emit_widen(e, gale__emit_group(e)),
        top = gale__ir_op2(ir, GALE__SUB, e->index, e->layout.outer_count, gale__emit_index(e, 1));
    first = gale__emit_mul(e, first, gale__emit_index(e, e->schedule->rows));
    gale__ir_val mine = gale__emit_add(e, first, gale__emit_widen(e, e->tid)),
                 valid = gale__ir_op2(ir, GALE__LE, GALE_BOOL, mine, top);
    gale__emit_coords(e, gale__ir_op2(ir, GALE__IR_MIN, e->index, mine, top), 0, last, coord);
    for (int b = 0; b < e->outer_blocks; b++) {
        e->outer_valid[b] = valid;
        coord[last] = gale__emit_index(e, (uint32_t)b);
        gale__emit_outer_place(e, b, coord, last + 1);
    }
}

static void store(gale__emit *e, const gale__nest_store *st)
{
    const gale__nest_access *a = &e->nest->accesses[st->access];
    int n = e->outer_blocks;
    gale__ir_val ok, at = gale__emit_address(e, st->access, 0, -1, &ok), lanes[VECTOR];
    for (int i = 0; i < n * VECTOR; i += VECTOR) {
        for (int k = 0; k < VECTOR; k++) lanes[k] = gale__emit_get(e, st->value, (i + k) % n * VECTOR + (i + k) / n, 0);
        gale__ir_store_as(
            e->ir, a->buffer, a->type, VECTOR, gale__emit_add(e, at, gale__emit_index(e, (uint32_t)i)), lanes);
    }
}

gale_status gale__schedule_build_interleave(const gale__nest *nest, const gale__schedule *s, gale__ir *ir)
{
    gale__emit e = {.outer_blocks = s->tile_n, .outer_vector = VECTOR, .inner_blocks = 1, .inner_vector = 1};
    gale_status status = gale__emit_begin(&e, nest, s, ir);
    if (status == GALE_OK) {
        place(&e);
        for (int i = 0; i < nest->n_code; i++) gale__emit_instr(&e, i);
        gale__emit_if(&e, e.outer_valid[0]);
        for (int i = 0; i < nest->n_stores; i++) store(&e, &nest->stores[i]);
        gale__emit_close(&e);
    }
    gale__emit_end(&e);
    return status;
}
