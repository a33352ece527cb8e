/* Owns: labels: what each axis of a value means, as lists of atoms that flow backward from results to operands.
 * Does not own: what the labels are used for (attention.h), index arithmetic over them (affine.h).
 * Next: labels.c, contraction.h. */
#ifndef QF_PATTERNS_LABELS_H
#define QF_PATTERNS_LABELS_H

#include "ir/graph.h"
#include "ir/infer.h"

/* An index of qf_labelling.atoms, from 1. Splitting an atom leaves every list that holds it valid: the two halves stand
 * in its place once the list is resolved. */
typedef uint32_t qf_atom_id;

/* One axis: atoms, outermost first. An axis of extent 1 has none. */
typedef struct qf_axis {
    uint32_t count;
    const qf_atom_id *atoms;
} qf_axis;

typedef struct qf_axes {
    uint32_t rank;
    qf_axis axis[QF_MAX_RANK];
} qf_axes;

struct qf_affine;

typedef struct qf_atom {
    qf_dim extent;
    qf_atom_id outer, inner;            /* 0: not split */
    const struct qf_affine *definition; /* the atom's index as a function of others; NULL: a free index */
} qf_atom;

/* The labels of one candidate. All lists live in `arena`. Functions return false when labels cannot be carried over, or
 * when memory ran out (then the context's status says so). */
typedef struct qf_labelling {
    qf_graph *graph;
    qf_context *context;
    qf_symbolic *symbolic;
    qf_arena arena;
    qf_atom *atoms;
    uint32_t atom_count, atom_capacity;
} qf_labelling;

bool qf_labelling_init(qf_labelling *labels, qf_graph *graph, qf_symbolic *symbolic);
void qf_labelling_destroy(qf_labelling *labels);

/* A fresh atom of this extent as a list; the empty list for extent 1. */
bool qf_labelling_new(qf_labelling *labels, qf_dim extent, qf_axis *out);
bool qf_labelling_of_dims(qf_labelling *labels, const qf_dim *dims, uint32_t rank, qf_axes *out);
/* Replaces split atoms by their parts. */
bool qf_labelling_resolve(qf_labelling *labels, qf_axis axis, qf_axis *out);
bool qf_labelling_resolve_all(qf_labelling *labels, qf_axes *axes);
/* All atoms of all axes in order, resolved. */
bool qf_labelling_flatten(qf_labelling *labels, const qf_axes *axes, qf_axis *out);
bool qf_labelling_append(qf_labelling *labels, qf_axis a, qf_axis b, qf_axis *out);
/* One list for each dim from the flat list, splitting atoms where a boundary cuts them. */
bool qf_labelling_regroup(qf_labelling *labels, qf_axis flat, const qf_dim *dims, uint32_t rank, qf_axes *out);
qf_dim qf_labelling_extent(qf_labelling *labels, qf_axis axis);
bool qf_labelling_contains(qf_axis axis, qf_atom_id atom);
bool qf_labelling_equal(qf_axis a, qf_axis b);                              /* both resolved */
bool qf_labelling_axes_equal(qf_labelling *labels, qf_axes *a, qf_axes *b); /* resolves both */
bool qf_labelling_same_set(qf_axis a, qf_axis b);                           /* both resolved */
/* Atoms of `a` that are (keep) or are not in `b`, in the order of `a`. */
bool qf_labelling_filter(qf_labelling *labels, qf_axis a, qf_axis b, bool keep, qf_axis *out);

/* Labels of a broadcast operand from the labels of the result. */
bool qf_labelling_broadcast_value(qf_labelling *labels, qf_value operand, const qf_axes *result, qf_axes *out);

/* What a node that moves or repeats elements reads: `*out_source` with labels `*out`. False for other nodes, and for
 * selections (slice, split, gather) that drop elements. `value` is a result of the node. A cast is not layout. */
bool qf_labelling_through_layout(qf_labelling *labels, qf_value value, const qf_axes *axes, qf_value *out_source,
                                 qf_axes *out);

#endif
