/* Owns: layout, indexing and reductions over symbolic elements.
 * Does not own: arithmetic (symbolic_arithmetic.c).
 * Next: symbolic_ops.h. */
#include <string.h>

#include "ir/symbolic_ops.h"

void symbolic_unravel(const int64_t *dims, uint32_t rank, uint32_t index, int64_t *out_position) {
    for (uint32_t i = rank; i-- > 0;) {
        out_position[i] = dims[i] ? index % dims[i] : 0;
        index = dims[i] ? (uint32_t)(index / dims[i]) : 0;
    }
}

static uint32_t ravel(const int64_t *dims, uint32_t rank, const int64_t *position) {
    int64_t index = 0;
    for (uint32_t i = 0; i < rank; i++) index = index * dims[i] + position[i];
    return (uint32_t)index;
}

symbolic_element symbolic_broadcast_at(const symbolic_tensor *operand, const int64_t *position, uint32_t rank) {
    int64_t own[QF_MAX_RANK];
    if (operand->rank > rank || !operand->elements) return (symbolic_element){{0}, 1};
    for (uint32_t i = 0; i < operand->rank; i++) {
        int64_t at = position[rank - operand->rank + i];
        own[i] = operand->dims[i] == 1 ? 0 : at;
        if (own[i] >= operand->dims[i]) return (symbolic_element){{0}, 1};
    }
    return operand->elements[ravel(operand->dims, operand->rank, own)];
}

/* Element of a tensor at a position, unknown outside of it. */
static symbolic_element element_at(const symbolic_tensor *tensor, const int64_t *position) {
    if (!tensor->elements) return (symbolic_element){{0}, 1};
    for (uint32_t i = 0; i < tensor->rank; i++)
        if (position[i] < 0 || position[i] >= tensor->dims[i]) return (symbolic_element){{0}, 1};
    return tensor->elements[ravel(tensor->dims, tensor->rank, position)];
}

static bool constant_of(const symbolic_step *step, symbolic_element element, int64_t *out) {
    return symbolic_known(element) && element.denominator == 1 &&
           qf_dim_is_constant(step->context, element.numerator, out);
}

static bool readable(const symbolic_step *step) {
    return step->operand_count && step->operands[0].rank != QF_UNRANKED && step->operands[0].elements;
}

void symbolic_view(symbolic_step *step) {
    if (!readable(step) || step->operands[0].count != step->out.count) return;
    memcpy(step->out.elements, step->operands[0].elements, step->out.count * sizeof *step->out.elements);
}

void symbolic_full(symbolic_step *step) {
    if (!readable(step) || step->operands[0].count != 1) return;
    for (uint32_t i = 0; i < step->out.count; i++) step->out.elements[i] = step->operands[0].elements[0];
}

void symbolic_expand(symbolic_step *step) {
    int64_t position[QF_MAX_RANK];
    if (!readable(step)) return;
    for (uint32_t i = 0; i < step->out.count; i++) {
        symbolic_unravel(step->out.dims, step->out.rank, i, position);
        step->out.elements[i] = symbolic_broadcast_at(&step->operands[0], position, step->out.rank);
    }
}

void symbolic_permute(symbolic_step *step) {
    const qf_attribute *order = &step->node->attributes[QF_ATTR(permute, order)];
    int64_t position[QF_MAX_RANK], source[QF_MAX_RANK];
    if (!readable(step) || order->count != step->out.rank || step->operands[0].rank != step->out.rank) return;
    for (uint32_t i = 0; i < step->out.count; i++) {
        symbolic_unravel(step->out.dims, step->out.rank, i, position);
        for (uint32_t d = 0; d < step->out.rank; d++) source[order->ints[d]] = position[d];
        step->out.elements[i] = element_at(&step->operands[0], source);
    }
}

void symbolic_slice(symbolic_step *step) {
    const qf_attribute *starts = &step->node->attributes[QF_ATTR(slice, starts)];
    const qf_attribute *steps = &step->node->attributes[QF_ATTR(slice, steps)];
    int64_t position[QF_MAX_RANK], first[QF_MAX_RANK];
    uint32_t rank = step->out.rank;
    if (!readable(step) || starts->count != rank || steps->count != rank || step->operands[0].rank != rank) return;
    for (uint32_t d = 0; d < rank; d++)
        if (!qf_dim_is_constant(step->context, starts->dims[d], &first[d])) return;
    for (uint32_t i = 0; i < step->out.count; i++) {
        symbolic_unravel(step->out.dims, rank, i, position);
        for (uint32_t d = 0; d < rank; d++) position[d] = first[d] + position[d] * steps->ints[d];
        step->out.elements[i] = element_at(&step->operands[0], position);
    }
}

void symbolic_concat(symbolic_step *step) {
    int64_t axis = step->node->attributes[QF_ATTR(concat, axis)].integer, offset = 0, position[QF_MAX_RANK];
    if (axis < 0 || axis >= step->out.rank) return;
    for (uint32_t p = 0; p < step->operand_count; p++) {
        const symbolic_tensor *part = &step->operands[p];
        if (part->rank != step->out.rank) return;
        for (uint32_t i = 0; part->elements && i < part->count; i++) {
            symbolic_unravel(part->dims, part->rank, i, position);
            position[axis] += offset;
            if (position[axis] >= step->out.dims[axis]) return;
            step->out.elements[ravel(step->out.dims, step->out.rank, position)] = part->elements[i];
        }
        offset += part->dims[axis];
    }
}

void symbolic_split(symbolic_step *step) {
    const qf_attribute *sizes = &step->node->attributes[QF_ATTR(split, sizes)];
    int64_t axis = step->node->attributes[QF_ATTR(split, axis)].integer, offset = 0, size, position[QF_MAX_RANK];
    if (!readable(step) || axis < 0 || axis >= step->out.rank || step->operands[0].rank != step->out.rank) return;
    for (uint32_t i = 0; i < step->result_index; i++) {
        if (i >= sizes->count || !qf_dim_is_constant(step->context, sizes->dims[i], &size)) return;
        offset += size;
    }
    for (uint32_t i = 0; i < step->out.count; i++) {
        symbolic_unravel(step->out.dims, step->out.rank, i, position);
        position[axis] += offset;
        step->out.elements[i] = element_at(&step->operands[0], position);
    }
}

void symbolic_pad(symbolic_step *step) {
    const qf_attribute *before = &step->node->attributes[QF_ATTR(pad, before)];
    const symbolic_tensor *x = &step->operands[0], *value = &step->operands[1];
    int64_t position[QF_MAX_RANK], first[QF_MAX_RANK];
    if (x->rank != step->out.rank || before->count != x->rank) return;
    for (uint32_t d = 0; d < x->rank; d++)
        if (!qf_dim_is_constant(step->context, before->dims[d], &first[d])) return;
    for (uint32_t i = 0; i < step->out.count; i++) {
        bool inside = true;
        symbolic_unravel(step->out.dims, step->out.rank, i, position);
        for (uint32_t d = 0; d < x->rank; d++) {
            position[d] -= first[d];
            inside = inside && position[d] >= 0 && position[d] < x->dims[d];
        }
        step->out.elements[i] = inside ? element_at(x, position) : symbolic_at(value, 0);
    }
}

void symbolic_gather(symbolic_step *step) {
    int64_t axis = step->node->attributes[QF_ATTR(gather, axis)].integer, index;
    const symbolic_tensor *x = &step->operands[0], *indices = &step->operands[1];
    int64_t position[QF_MAX_RANK], source[QF_MAX_RANK];
    if (!readable(step) || axis < 0 || axis >= x->rank || indices->rank == QF_UNRANKED || !indices->elements) return;
    if (step->out.rank != x->rank - 1 + indices->rank) return;
    for (uint32_t i = 0; i < step->out.count; i++) {
        symbolic_unravel(step->out.dims, step->out.rank, i, position);
        if (!constant_of(step, element_at(indices, position + axis), &index)) continue;
        for (uint32_t d = 0; d < x->rank; d++)
            source[d] = d < axis    ? position[d]
                        : d == axis ? (index < 0 ? index + x->dims[d] : index)
                                    : position[d - 1 + indices->rank];
        step->out.elements[i] = element_at(x, source);
    }
}

void symbolic_gather_elements(symbolic_step *step) {
    int64_t axis = step->node->attributes[QF_ATTR(gather_elements, axis)].integer, index, position[QF_MAX_RANK];
    const symbolic_tensor *x = &step->operands[0];
    if (!readable(step) || axis < 0 || axis >= x->rank || x->rank != step->out.rank) return;
    for (uint32_t i = 0; i < step->out.count; i++) {
        if (!constant_of(step, symbolic_at(&step->operands[1], i), &index)) continue;
        symbolic_unravel(step->out.dims, step->out.rank, i, position);
        position[axis] = index < 0 ? index + x->dims[axis] : index;
        step->out.elements[i] = element_at(x, position);
    }
}

/* Whole slices at constant indices; one unknown index makes every element unknown. */
void symbolic_scatter_nd(symbolic_step *step) {
    const symbolic_tensor *x = &step->operands[0], *indices = &step->operands[1], *updates = &step->operands[2];
    if (!readable(step) || indices->rank == QF_UNRANKED || !indices->rank || updates->rank == QF_UNRANKED) return;
    int64_t depth = indices->dims[indices->rank - 1], index;
    if (depth < 1 || depth > x->rank || !indices->elements) return;
    uint32_t slice = 1, rows = (uint32_t)(indices->count / depth);
    for (uint32_t d = (uint32_t)depth; d < x->rank; d++) slice *= (uint32_t)x->dims[d];
    if (updates->count != rows * slice) return;
    for (uint32_t i = 0; i < indices->count; i++)
        if (!constant_of(step, indices->elements[i], &index)) return;
    memcpy(step->out.elements, x->elements, step->out.count * sizeof *x->elements);
    for (uint32_t row = 0; row < rows; row++) {
        uint32_t first = 0;
        for (uint32_t d = 0; d < depth; d++) {
            (void)constant_of(step, indices->elements[row * (uint32_t)depth + d], &index);
            if (index < 0) index += x->dims[d];
            if (index < 0 || index >= x->dims[d]) return;
            first = first * (uint32_t)x->dims[d] + (uint32_t)index;
        }
        for (uint32_t i = 0; i < slice; i++)
            step->out.elements[first * slice + i] = symbolic_at(updates, row * slice + i);
    }
}

/* --- reductions --- */

static qf_op combining_op(qf_op op) {
    switch (op) {
    case QF_OP_reduce_sum: return QF_OP_add;
    case QF_OP_reduce_prod: return QF_OP_mul;
    case QF_OP_reduce_max: return QF_OP_maximum;
    default: return QF_OP_minimum;
    }
}

void symbolic_reduce(symbolic_step *step) {
    const qf_attribute *axes = &step->node->attributes[QF_ATTR(reduce_sum, axes)];
    bool keep = step->node->attributes[QF_ATTR(reduce_sum, keep)].integer != 0, filled[SYMBOLIC_MAX_ELEMENTS] = {false};
    const symbolic_tensor *x = &step->operands[0];
    qf_op op = combining_op(step->node->op);
    int64_t position[QF_MAX_RANK], target[QF_MAX_RANK];
    uint32_t reduced = 0;
    if (!readable(step)) return;
    for (uint32_t i = 0; i < axes->count; i++)
        reduced |= axes->ints[i] >= 0 && axes->ints[i] < x->rank ? 1u << axes->ints[i] : 0;
    for (uint32_t i = 0; i < x->count; i++) {
        uint32_t rank = 0;
        symbolic_unravel(x->dims, x->rank, i, position);
        for (uint32_t d = 0; d < x->rank; d++)
            if (!(reduced >> d & 1))
                target[rank++] = position[d];
            else if (keep)
                target[rank++] = 0;
        if (rank != step->out.rank) return;
        uint32_t at = ravel(step->out.dims, rank, target);
        step->out.elements[at] =
            filled[at] ? symbolic_binary(step, op, step->out.elements[at], x->elements[i]) : x->elements[i];
        filled[at] = true;
    }
    if (x->count || (op != QF_OP_add && op != QF_OP_mul)) return;
    for (uint32_t i = 0; i < step->out.count; i++)
        step->out.elements[i] = symbolic_integer(qf_dim_constant(step->context, op == QF_OP_mul));
}

void symbolic_cumulative_sum(symbolic_step *step) {
    int64_t axis = step->node->attributes[QF_ATTR(cumulative_sum, axis)].integer, position[QF_MAX_RANK];
    bool exclusive = step->node->attributes[QF_ATTR(cumulative_sum, exclusive)].integer != 0;
    bool reverse = step->node->attributes[QF_ATTR(cumulative_sum, reverse)].integer != 0;
    const symbolic_tensor *x = &step->operands[0];
    if (!readable(step) || axis < 0 || axis >= x->rank || x->rank != step->out.rank) return;
    for (uint32_t i = 0; i < step->out.count; i++) {
        symbolic_element sum = symbolic_integer(qf_dim_constant(step->context, 0));
        symbolic_unravel(x->dims, x->rank, i, position);
        int64_t own = position[axis];
        for (int64_t at = 0; at < x->dims[axis]; at++) {
            bool counted = reverse ? at > own : at < own;
            position[axis] = at;
            if (counted || (at == own && !exclusive))
                sum = symbolic_binary(step, QF_OP_add, sum, element_at(x, position));
        }
        step->out.elements[i] = sum;
    }
}
