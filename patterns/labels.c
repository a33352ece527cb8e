/* Owns: atoms, splitting, regrouping, broadcasting backward.
 * Does not own: the layout ops (layout.c).
 * Next: layout.c. */
#include "patterns/labels.h"

#include <string.h>

#include "patterns/affine.h"

/* Longest list that regrouping looks at; real axes hold one to four atoms. */
#define MAX_FLAT 32

bool qf_labelling_init(qf_labelling *labels, qf_graph *graph, qf_symbolic *symbolic) {
    *labels = (qf_labelling){.graph = graph, .context = graph->context, .symbolic = symbolic, .atom_count = 1};
    labels->arena.context = graph->context;
    if (!QF_GROW(labels->context, labels->atoms, labels->atom_capacity, 32)) return false;
    labels->atoms[0] = (qf_atom){0};
    return true;
}

void qf_labelling_destroy(qf_labelling *labels) {
    QF_FREE_ITEMS(labels->context, labels->atoms, labels->atom_capacity);
    qf_arena_destroy(&labels->arena);
}

static qf_atom_id add_atom(qf_labelling *labels, qf_dim extent) {
    if (!QF_GROW(labels->context, labels->atoms, labels->atom_capacity, (uint64_t)labels->atom_count + 1)) return 0;
    labels->atoms[labels->atom_count] = (qf_atom){.extent = extent};
    return labels->atom_count++;
}

static bool make_axis(qf_labelling *labels, const qf_atom_id *atoms, uint32_t count, qf_axis *out) {
    *out = (qf_axis){0};
    if (!count) return true;
    out->atoms = qf_arena_copy(&labels->arena, atoms, count * sizeof *atoms);
    out->count = out->atoms ? count : 0;
    return out->atoms != NULL;
}

bool qf_labelling_new(qf_labelling *labels, qf_dim extent, qf_axis *out) {
    *out = (qf_axis){0};
    if (!extent.id) return false;
    if (qf_dim_is(labels->context, extent, 1)) return true;
    qf_atom_id atom = add_atom(labels, extent);
    return atom && make_axis(labels, &atom, 1, out);
}

bool qf_labelling_of_dims(qf_labelling *labels, const qf_dim *dims, uint32_t rank, qf_axes *out) {
    *out = (qf_axes){.rank = rank};
    if (rank > QF_MAX_RANK) return false;
    for (uint32_t i = 0; i < rank; i++)
        if (!qf_labelling_new(labels, dims[i], &out->axis[i])) return false;
    return true;
}

static bool resolve_into(const qf_labelling *labels, qf_axis axis, qf_atom_id *out, uint32_t *count) {
    qf_atom_id stack[MAX_FLAT];
    uint32_t depth = 0;
    for (uint32_t i = axis.count; i-- > 0;) {
        if (depth == MAX_FLAT) return false;
        stack[depth++] = axis.atoms[i];
    }
    while (depth) {
        qf_atom_id atom = stack[--depth];
        const qf_atom *data = &labels->atoms[atom];
        if (!data->outer) {
            if (*count == MAX_FLAT) return false;
            out[(*count)++] = atom;
            continue;
        }
        if (depth + 2 > MAX_FLAT) return false;
        stack[depth++] = data->inner;
        stack[depth++] = data->outer;
    }
    return true;
}

bool qf_labelling_resolve(qf_labelling *labels, qf_axis axis, qf_axis *out) {
    bool split = false;
    for (uint32_t i = 0; i < axis.count; i++) split = split || labels->atoms[axis.atoms[i]].outer != 0;
    *out = axis;
    if (!split) return true;
    qf_atom_id atoms[MAX_FLAT];
    uint32_t count = 0;
    return resolve_into(labels, axis, atoms, &count) && make_axis(labels, atoms, count, out);
}

bool qf_labelling_resolve_all(qf_labelling *labels, qf_axes *axes) {
    for (uint32_t i = 0; i < axes->rank; i++)
        if (!qf_labelling_resolve(labels, axes->axis[i], &axes->axis[i])) return false;
    return true;
}

bool qf_labelling_flatten(qf_labelling *labels, const qf_axes *axes, qf_axis *out) {
    qf_atom_id atoms[MAX_FLAT];
    uint32_t count = 0;
    for (uint32_t i = 0; i < axes->rank; i++)
        if (!resolve_into(labels, axes->axis[i], atoms, &count)) return false;
    return make_axis(labels, atoms, count, out);
}

bool qf_labelling_append(qf_labelling *labels, qf_axis a, qf_axis b, qf_axis *out) {
    qf_axes both = {.rank = 2, .axis = {a, b}};
    return qf_labelling_flatten(labels, &both, out);
}

qf_dim qf_labelling_extent(qf_labelling *labels, qf_axis axis) {
    qf_dim product = qf_dim_constant(labels->context, 1);
    for (uint32_t i = 0; i < axis.count; i++)
        product = qf_dim_multiply(labels->context, product, labels->atoms[axis.atoms[i]].extent);
    return product;
}

bool qf_labelling_contains(qf_axis axis, qf_atom_id atom) {
    for (uint32_t i = 0; i < axis.count; i++)
        if (axis.atoms[i] == atom) return true;
    return false;
}

bool qf_labelling_equal(qf_axis a, qf_axis b) {
    return a.count == b.count && (a.count == 0 || memcmp(a.atoms, b.atoms, a.count * sizeof *a.atoms) == 0);
}

bool qf_labelling_axes_equal(qf_labelling *labels, qf_axes *a, qf_axes *b) {
    if (a->rank != b->rank || !qf_labelling_resolve_all(labels, a) || !qf_labelling_resolve_all(labels, b))
        return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (!qf_labelling_equal(a->axis[i], b->axis[i])) return false;
    return true;
}

bool qf_labelling_same_set(qf_axis a, qf_axis b) {
    if (a.count != b.count) return false;
    for (uint32_t i = 0; i < a.count; i++)
        if (!qf_labelling_contains(b, a.atoms[i])) return false;
    return true;
}

bool qf_labelling_filter(qf_labelling *labels, qf_axis a, qf_axis b, bool keep, qf_axis *out) {
    qf_atom_id atoms[MAX_FLAT];
    uint32_t count = 0;
    if (a.count > MAX_FLAT) return false;
    for (uint32_t i = 0; i < a.count; i++)
        if (qf_labelling_contains(b, a.atoms[i]) == keep) atoms[count++] = a.atoms[i];
    return make_axis(labels, atoms, count, out);
}

/* A list of innermost-first atoms, consumed from its end of the innermost. */
typedef struct flat_stack {
    qf_atom_id items[MAX_FLAT + 1]; /* the innermost last */
    uint32_t count;
} flat_stack;

/* Cuts the innermost `need` elements off the top atom. */
static bool split_top(qf_labelling *labels, flat_stack *stack, qf_dim need, qf_atom_id *out_inner) {
    qf_atom_id whole = stack->items[stack->count - 1];
    qf_dim rest = qf_dim_divide_exactly(labels->context, labels->atoms[whole].extent, need);
    if (!rest.id) return false;
    qf_atom_id outer = add_atom(labels, rest), inner = add_atom(labels, need);
    if (!outer || !inner) return false;
    labels->atoms[whole].outer = outer;
    labels->atoms[whole].inner = inner;
    stack->items[stack->count - 1] = outer;
    *out_inner = inner;
    return true;
}

/* The atoms of one dim, innermost first from the stack, written outermost first. */
static bool take_dim(qf_labelling *labels, flat_stack *stack, qf_dim dim, qf_axis *out) {
    qf_atom_id taken[MAX_FLAT];
    uint32_t count = 0;
    qf_dim need = dim;
    while (!qf_dim_is(labels->context, need, 1)) {
        if (!stack->count || count == MAX_FLAT) return false;
        qf_atom_id top = stack->items[stack->count - 1];
        qf_dim quotient = qf_dim_divide_exactly(labels->context, need, labels->atoms[top].extent);
        if (quotient.id) {
            stack->count--;
            need = quotient;
        } else {
            if (!split_top(labels, stack, need, &top)) return false;
            need = qf_dim_constant(labels->context, 1);
        }
        taken[count++] = top;
    }
    for (uint32_t i = 0; i < count / 2; i++) {
        qf_atom_id swap = taken[i];
        taken[i] = taken[count - 1 - i];
        taken[count - 1 - i] = swap;
    }
    return make_axis(labels, taken, count, out);
}

bool qf_labelling_regroup(qf_labelling *labels, qf_axis flat, const qf_dim *dims, uint32_t rank, qf_axes *out) {
    *out = (qf_axes){.rank = rank};
    flat_stack stack = {.count = 0};
    if (rank > QF_MAX_RANK || !resolve_into(labels, flat, stack.items, &stack.count)) return false;
    for (uint32_t i = rank; i-- > 0;)
        if (!take_dim(labels, &stack, dims[i], &out->axis[i])) return false;
    return stack.count == 0;
}

static bool broadcast_dims(qf_labelling *labels, const qf_dim *dims, uint32_t rank, const qf_axes *result,
                           qf_axes *out) {
    *out = (qf_axes){.rank = rank};
    if (rank > result->rank) return false;
    for (uint32_t i = 0; i < rank; i++)
        if (!qf_dim_is(labels->context, dims[i], 1)) out->axis[i] = result->axis[result->rank - rank + i];
    return true;
}

bool qf_labelling_broadcast_value(qf_labelling *labels, qf_value operand, const qf_axes *result, qf_axes *out) {
    uint32_t rank = qf_value_rank(labels->graph, operand);
    return rank != QF_UNRANKED && broadcast_dims(labels, qf_value_dims(labels->graph, operand), rank, result, out);
}
