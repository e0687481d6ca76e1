/* Outputs that overwrite an input: weights that an optimiser updates, caches, states.  Nothing has to be copied if
 * every element of the input is read for the last time before, or while, its place is written.  The accesses of a
 * kernel show whether it reads the input only at the elements it writes; for all others the order of steps decides. */
#include "graph/plan/planner.h"

static bool same_walk(const gale__nest *nest, const gale__nest_access *load, const gale__nest_access *store)
{
    if (load->n_guards || store->n_guards || load->offset != store->offset ||
        gale_type_size(load->type) != gale_type_size(store->type))
        return false;
    for (int d = 0; d < nest->n_outer + nest->n_inner; d++) {
        if (nest->extent[d] < 2) continue;
        if (load->stride[d] != store->stride[d] || (d >= nest->n_outer && load->stride[d] != 0)) return false;
    }
    return true;
}

/* Whether a nest reads a buffer only by plain loads, each at the element that it stores. */
static bool read_where_written(const gale__nest *nest, int buffer)
{
    const gale__nest_store *store = &nest->stores[0];
    if (nest->n_stores != 1 || store->index >= 0) return false;
    for (int i = 0; i < nest->n_code; i++) {
        const gale__nest_instr *in = &nest->code[i];
        bool reads =
            (in->op == GALE__NEST_LOAD || in->op == GALE__NEST_TAKE) && nest->accesses[in->access].buffer == buffer;
        if (!reads) continue;
        if (in->op == GALE__NEST_TAKE) return false;
        if (!same_walk(nest, &nest->accesses[in->access], &nest->accesses[store->access])) return false;
    }
    return true;
}

void gale__planner_note_reads(const gale__nest *nest, int first, uint8_t *writer, uint64_t *aligned)
{
    int written = 0;
    for (int i = 0; i < nest->n_buffers; i++)
        if (nest->buffers[i].written) written = i;
    for (int i = 0; i < nest->n_buffers; i++) {
        writer[first + i] = (uint8_t)(first + (nest->buffers[i].written ? i : written));
        if (!nest->buffers[i].written && read_where_written(nest, i)) *aligned |= (uint64_t)1 << (first + i);
    }
}

static bool is_at(const gale__plan_place *p, gale__plan_space space, int index)
{
    return p->space == space && p->index == index;
}

/* The ref of the step that is written by the part which reads ref k; -1: not known. */
static int writer_of(const gale__plan_step *s, int k)
{
    if (s->kind == GALE__STEP_COPY) return 0;
    return s->writer ? s->writer[k] : -1;
}

/* The first ref by which the step writes the output; n_refs: none. */
static int first_write(const gale__plan_step *s, int output)
{
    int k = 0;
    while (k < s->n_refs &&
           (!is_at(&s->refs[k], GALE__SPACE_OUTPUT, output) || (writer_of(s, k) >= 0 && writer_of(s, k) != k)))
        k++;
    return k;
}

/* Whether ref k, of the input, may be read by a step that runs when the output is written, or was before. */
static bool may_read(const gale__plan_step *s, int k, int output, bool written)
{
    int w = writer_of(s, k);
    bool aligned = s->kind == GALE__STEP_COPY || s->aligned >> k & 1;
    if (w < 0) return false;
    if (!written && w < first_write(s, output)) return true; /* a part of the kernel before the one that writes */
    return aligned && is_at(&s->refs[w], GALE__SPACE_OUTPUT, output) && s->refs[w].offset == s->refs[k].offset;
}

bool gale__plan_in_place(const gale__plan *plan, int output, int input)
{
    bool written = false;
    for (int i = 0; i < plan->n_steps; i++) {
        const gale__plan_step *s = &plan->steps[i];
        bool writes = first_write(s, output) < s->n_refs;
        for (int k = 0; k < s->n_refs && (written || writes); k++)
            if (is_at(&s->refs[k], GALE__SPACE_INPUT, input) && !may_read(s, k, output, written)) return false;
        written = written || writes;
    }
    return true;
}
