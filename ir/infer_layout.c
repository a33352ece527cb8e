/* Owns: shape rules of layout ops: view, permute, slice, concat, split, expand, pad.
 * Does not own: indexing by tensors (infer_indexing.c).
 * Next: infer_rules.h. */
#include <inttypes.h>
#include <string.h>

#include "ir/infer_rules.h"

qf_status qf_infer_view(qf_infer_call *call) {
    qf_context *context = call->graph->context;
    const qf_attribute *shape = &call->attributes[QF_ATTR(view, shape)];
    if (infer_ranked(call, 0)) {
        qf_dim count = qf_dim_product(context, shape->dims, shape->count);
        qf_dim found = qf_type_element_count(context, infer_type(call, 0));
        INFER_TRY(infer_agree(call, 0, "elements", count, found, NULL));
    }
    return infer_set(call, 0, infer_dtype(call, 0), shape->dims, shape->count);
}

/* The attribute names each axis of operand 0 once. */
static qf_status expect_permutation(const qf_infer_call *call, const qf_attribute *order, uint32_t rank) {
    uint32_t seen = 0;
    if (order->count != rank)
        return infer_operand_fault(call, 0, "rank %" PRIu32 ": attribute order has as many entries", order->count);
    for (uint32_t i = 0; i < rank; i++) {
        INFER_TRY(infer_expect_axis(call, "order", order->ints[i], rank));
        if (seen >> order->ints[i] & 1)
            return infer_fault(call, "attribute order names axis %" PRId64 " twice, expected each axis once",
                               order->ints[i]);
        seen |= 1u << order->ints[i];
    }
    return QF_OK;
}

qf_status qf_infer_permute(qf_infer_call *call) {
    const qf_attribute *order = &call->attributes[QF_ATTR(permute, order)];
    qf_dim dims[QF_MAX_RANK];
    if (!infer_ranked(call, 0)) return infer_set_unranked(call, 0, infer_dtype(call, 0));
    uint32_t rank = infer_rank(call, 0);
    INFER_TRY(expect_permutation(call, order, rank));
    for (uint32_t i = 0; i < rank; i++) dims[i] = infer_dims(call, 0)[order->ints[i]];
    return infer_set(call, 0, infer_dtype(call, 0), dims, rank);
}

static qf_status expect_entries(const qf_infer_call *call, const char *name, uint32_t found, uint32_t rank) {
    if (found == rank) return QF_OK;
    return infer_fault(call, "attribute %s has %" PRIu32 " entries, expected %" PRIu32 ": one an axis of operand %s",
                       name, found, rank, call->info->operands[0].name);
}

/* Provably a > b, or provably a < 0. */
static bool outside(const qf_infer_call *call, qf_dim a, qf_dim b) {
    qf_context *context = call->graph->context;
    qf_symbol_facts facts = qf_graph_facts(call->graph);
    int64_t bound;
    if (qf_dim_upper_bound(context, &facts, a, &bound) && bound < 0) return true;
    qf_dim beyond = qf_dim_subtract(context, a, b);
    return beyond.id && qf_dim_lower_bound(context, &facts, beyond, &bound) && bound > 0;
}

/* ceil((end - start) / step): the count of indices, where that is not provably negative. */
static qf_dim slice_count(const qf_infer_call *call, qf_dim start, qf_dim end, int64_t step) {
    qf_context *context = call->graph->context;
    qf_symbol_facts facts = qf_graph_facts(call->graph);
    int64_t bound, size = step < 0 ? -step : step;
    qf_dim span = step < 0 ? qf_dim_subtract(context, start, end) : qf_dim_subtract(context, end, start);
    if (qf_dim_upper_bound(context, &facts, span, &bound) && bound <= 0) return infer_constant(call, 0);
    if (size == 1) return span;
    return qf_dim_floor_divide(context, qf_dim_add_constant(context, span, size - 1), infer_constant(call, size));
}

qf_status qf_infer_slice(qf_infer_call *call) {
    qf_context *context = call->graph->context;
    const qf_attribute *starts = &call->attributes[QF_ATTR(slice, starts)],
                       *ends = &call->attributes[QF_ATTR(slice, ends)];
    const qf_attribute *steps = &call->attributes[QF_ATTR(slice, steps)];
    qf_dim dims[QF_MAX_RANK];
    uint32_t rank = infer_ranked(call, 0) ? infer_rank(call, 0) : starts->count;
    INFER_TRY(expect_entries(call, "starts", starts->count, rank));
    INFER_TRY(expect_entries(call, "ends", ends->count, rank));
    INFER_TRY(expect_entries(call, "steps", steps->count, rank));
    if (rank > QF_MAX_RANK) return infer_set(call, 0, QF_F32, NULL, rank);
    for (uint32_t i = 0; i < rank; i++) {
        if (!steps->ints[i] || steps->ints[i] == INT64_MIN)
            return infer_fault(call, "attribute steps is %" PRId64 " for axis %" PRIu32 ", expected another number",
                               steps->ints[i], i);
        bool reverse_to_first = steps->ints[i] < 0 && qf_dim_is(context, ends->dims[i], -1);
        if (infer_ranked(call, 0) && (outside(call, starts->dims[i], infer_dims(call, 0)[i]) ||
                                      (!reverse_to_first && outside(call, ends->dims[i], infer_dims(call, 0)[i]))))
            return infer_operand_fault(call, 0, "axis %" PRIu32 " to hold starts and ends", i);
        dims[i] = slice_count(call, starts->dims[i], ends->dims[i], steps->ints[i]);
    }
    return infer_set(call, 0, infer_dtype(call, 0), dims, rank);
}

qf_status qf_infer_concat(qf_infer_call *call) {
    qf_context *context = call->graph->context;
    int64_t axis = call->attributes[QF_ATTR(concat, axis)].integer;
    qf_dtype dtype;
    qf_dim dims[QF_MAX_RANK];
    if (!infer_has(call, 0)) return infer_fault(call, "operand parts is missing: expected one part or more");
    INFER_TRY(infer_same_dtype(call, 0, call->operand_count, &dtype));
    for (uint32_t i = 0; i < call->operand_count; i++)
        if (!infer_ranked(call, i)) return infer_set_unranked(call, 0, dtype);
    uint32_t rank = infer_rank(call, 0);
    INFER_TRY(infer_expect_axis(call, "axis", axis, rank));
    memcpy(dims, infer_dims(call, 0), rank * sizeof *dims);
    for (uint32_t i = 1; i < call->operand_count; i++) {
        INFER_TRY(infer_expect_rank(call, i, rank, rank));
        const qf_dim *part = infer_dims(call, i);
        for (uint32_t d = 0; d < rank; d++) {
            if (d == axis)
                dims[d] = qf_dim_add(context, dims[d], part[d]);
            else if (!qf_dim_equal(dims[d], part[d]))
                INFER_TRY(infer_agree(call, i, "elements on an axis that is not joined", dims[d], part[d], &dims[d]));
        }
    }
    return infer_set(call, 0, dtype, dims, rank);
}

qf_status qf_infer_split(qf_infer_call *call) {
    qf_context *context = call->graph->context;
    const qf_attribute *sizes = &call->attributes[QF_ATTR(split, sizes)];
    int64_t axis = call->attributes[QF_ATTR(split, axis)].integer;
    qf_dim dims[QF_MAX_RANK], sum = infer_constant(call, 0);
    if (sizes->count != call->result_count)
        return infer_fault(call, "there are %" PRIu32 " results, expected %" PRIu32 ": one for each of sizes",
                           call->result_count, sizes->count);
    if (!infer_ranked(call, 0)) {
        for (uint32_t i = 0; i < sizes->count; i++) INFER_TRY(infer_set_unranked(call, i, infer_dtype(call, 0)));
        return QF_OK;
    }
    uint32_t rank = infer_rank(call, 0);
    INFER_TRY(infer_expect_axis(call, "axis", axis, rank));
    memcpy(dims, infer_dims(call, 0), rank * sizeof *dims);
    for (uint32_t i = 0; i < sizes->count; i++) sum = qf_dim_add(context, sum, sizes->dims[i]);
    INFER_TRY(infer_agree(call, 0, "elements on the axis to split", sum, dims[axis], NULL));
    for (uint32_t i = 0; i < sizes->count; i++) {
        dims[axis] = sizes->dims[i];
        INFER_TRY(infer_set(call, i, infer_dtype(call, 0), dims, rank));
    }
    return QF_OK;
}

qf_status qf_infer_expand(qf_infer_call *call) {
    const qf_attribute *shape = &call->attributes[QF_ATTR(expand, shape)];
    INFER_TRY(infer_broadcasts_to(call, 0, shape->dims, shape->count));
    return infer_set(call, 0, infer_dtype(call, 0), shape->dims, shape->count);
}

qf_status qf_infer_pad(qf_infer_call *call) {
    qf_context *context = call->graph->context;
    const qf_attribute *before = &call->attributes[QF_ATTR(pad, before)],
                       *after = &call->attributes[QF_ATTR(pad, after)];
    qf_dtype dtype;
    qf_dim dims[QF_MAX_RANK];
    INFER_TRY(infer_same_dtype(call, 0, 2, &dtype));
    INFER_TRY(infer_expect_rank(call, QF_IN(pad, value), 0, 0));
    if (!infer_ranked(call, 0)) return infer_set_unranked(call, 0, dtype);
    uint32_t rank = infer_rank(call, 0);
    INFER_TRY(expect_entries(call, "before", before->count, rank));
    INFER_TRY(expect_entries(call, "after", after->count, rank));
    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = qf_dim_add(context, infer_dims(call, 0)[i], qf_dim_add(context, before->dims[i], after->dims[i]));
        if (outside(call, infer_constant(call, 0), dims[i]))
            return infer_operand_fault(call, 0, "axis %" PRIu32 " to hold what is cropped", i);
    }
    return infer_set(call, 0, dtype, dims, rank);
}
