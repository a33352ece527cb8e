/* Owns: shape rules of ops that address elements by index tensors: gathers, scatters, one_hot, top_k, arg_max.
 * Does not own: slices by attributes (infer_layout.c).
 * Next: infer_rules.h. */
#include <inttypes.h>
#include <string.h>

#include "ir/infer_rules.h"

static qf_status expect_index_dtype(const qf_infer_call *call, uint32_t operand) {
    qf_dtype dtype = infer_dtype(call, operand);
    if (dtype == QF_DTYPE_NONE || qf_dtype_kind_of(dtype) == QF_DTYPE_KIND_INTEGER) return QF_OK;
    return infer_operand_fault(call, operand, "an integer element type");
}

qf_status qf_infer_gather(qf_infer_call *call) {
    int64_t axis = call->attributes[QF_ATTR(gather, axis)].integer;
    qf_dim dims[2 * QF_MAX_RANK];
    INFER_TRY(expect_index_dtype(call, QF_IN(gather, indices)));
    if (!infer_ranked(call, 0) || !infer_ranked(call, 1)) return infer_set_unranked(call, 0, infer_dtype(call, 0));
    uint32_t rank = infer_rank(call, 0), index_rank = infer_rank(call, 1);
    INFER_TRY(infer_expect_axis(call, "axis", axis, rank));
    memcpy(dims, infer_dims(call, 0), (size_t)axis * sizeof *dims);
    if (index_rank) memcpy(dims + axis, infer_dims(call, 1), index_rank * sizeof *dims);
    for (uint32_t i = (uint32_t)axis + 1; i < rank; i++) dims[i - 1 + index_rank] = infer_dims(call, 0)[i];
    return infer_set(call, 0, infer_dtype(call, 0), dims, rank - 1 + index_rank);
}

qf_status qf_infer_gather_elements(qf_infer_call *call) {
    INFER_TRY(expect_index_dtype(call, QF_IN(gather_elements, indices)));
    if (infer_ranked(call, 0)) {
        uint32_t rank = infer_rank(call, 0);
        INFER_TRY(infer_expect_axis(call, "axis", call->attributes[QF_ATTR(gather_elements, axis)].integer, rank));
        INFER_TRY(infer_expect_rank(call, 1, rank, rank));
    }
    return infer_set_like(call, 0, infer_dtype(call, 0), 1);
}

/* The constant length of an index tensor's last axis: how many axes of x it addresses; -1 where it is no constant. */
static qf_status index_depth(const qf_infer_call *call, uint32_t low, int64_t *out_depth) {
    INFER_TRY(expect_index_dtype(call, 1));
    INFER_TRY(infer_expect_rank(call, 1, low + 1, QF_MAX_RANK));
    *out_depth = -1;
    if (!infer_ranked(call, 0) || !infer_ranked(call, 1)) return QF_OK;
    qf_dim last = infer_dims(call, 1)[infer_rank(call, 1) - 1];
    if (!qf_dim_is_constant(call->graph->context, last, out_depth)) {
        *out_depth = -1;
        return QF_OK;
    }
    if (*out_depth < 0 || *out_depth + low > infer_rank(call, 0))
        return infer_operand_fault(call, 1, "a last axis of %" PRIu32 " or less: it addresses axes of operand x",
                                   infer_rank(call, 0) - low);
    return QF_OK;
}

qf_status qf_infer_gather_nd(qf_infer_call *call) {
    int64_t batch = call->attributes[QF_ATTR(gather_nd, batch_dims)].integer, depth;
    qf_dim dims[2 * QF_MAX_RANK];
    if (batch < 0 || batch >= QF_MAX_RANK)
        return infer_fault(call, "attribute batch_dims is %" PRId64 ", expected 0 to %d", batch, QF_MAX_RANK - 1);
    INFER_TRY(infer_expect_rank(call, 0, (uint32_t)batch + 1, QF_MAX_RANK));
    INFER_TRY(index_depth(call, (uint32_t)batch, &depth));
    if (depth < 0) return infer_set_unranked(call, 0, infer_dtype(call, 0));
    for (uint32_t i = 0; i < batch; i++) INFER_TRY(infer_agree_axis(call, 1, i, infer_dims(call, 0)[i]));
    uint32_t rank = infer_rank(call, 0), kept = infer_rank(call, 1) - 1, first = (uint32_t)(batch + depth);
    memcpy(dims, infer_dims(call, 1), kept * sizeof *dims);
    memcpy(dims + kept, infer_dims(call, 0) + first, (rank - first) * sizeof *dims);
    return infer_set(call, 0, infer_dtype(call, 0), dims, kept + rank - first);
}

qf_status qf_infer_scatter_nd(qf_infer_call *call) {
    const uint32_t updates = QF_IN(scatter_nd, updates);
    int64_t depth;
    INFER_TRY(infer_expect_dtype(call, updates, infer_dtype(call, 0)));
    INFER_TRY(index_depth(call, 0, &depth));
    if (depth >= 0 && infer_ranked(call, updates)) {
        uint32_t kept = infer_rank(call, 1) - 1, rank = kept + infer_rank(call, 0) - (uint32_t)depth;
        INFER_TRY(infer_expect_rank(call, updates, rank, rank));
        for (uint32_t i = 0; i < rank; i++)
            INFER_TRY(infer_agree_axis(
                call, updates, i, i < kept ? infer_dims(call, 1)[i] : infer_dims(call, 0)[i - kept + (uint32_t)depth]));
    }
    return infer_set_like(call, 0, infer_dtype(call, 0), 0);
}

qf_status qf_infer_scatter_elements(qf_infer_call *call) {
    const uint32_t updates = QF_IN(scatter_elements, updates), indices = QF_IN(scatter_elements, indices);
    INFER_TRY(expect_index_dtype(call, indices));
    INFER_TRY(infer_expect_dtype(call, updates, infer_dtype(call, 0)));
    if (infer_ranked(call, 0)) {
        uint32_t rank = infer_rank(call, 0);
        INFER_TRY(infer_expect_axis(call, "axis", call->attributes[QF_ATTR(scatter_elements, axis)].integer, rank));
        INFER_TRY(infer_expect_rank(call, indices, rank, rank));
        INFER_TRY(infer_expect_rank(call, updates, rank, rank));
        for (uint32_t i = 0; i < rank && infer_ranked(call, indices) && infer_ranked(call, updates); i++)
            INFER_TRY(infer_agree_axis(call, updates, i, infer_dims(call, indices)[i]));
    }
    return infer_set_like(call, 0, infer_dtype(call, 0), 0);
}

qf_status qf_infer_one_hot(qf_infer_call *call) {
    const uint32_t values = QF_IN(one_hot, values);
    int64_t axis = call->attributes[QF_ATTR(one_hot, axis)].integer;
    qf_dim dims[QF_MAX_RANK + 1];
    INFER_TRY(expect_index_dtype(call, 0));
    INFER_TRY(infer_expect_rank(call, values, 1, 1));
    if (infer_ranked(call, values)) INFER_TRY(infer_agree_axis(call, values, 0, infer_constant(call, 2)));
    if (!infer_ranked(call, 0)) return infer_set_unranked(call, 0, infer_dtype(call, values));
    uint32_t rank = infer_rank(call, 0);
    if (axis == -1) axis = rank;
    INFER_TRY(infer_expect_axis(call, "axis", axis, rank + 1));
    for (uint32_t i = 0; i <= rank; i++)
        dims[i] = i == axis ? call->attributes[QF_ATTR(one_hot, depth)].dim : infer_dims(call, 0)[i < axis ? i : i - 1];
    return infer_set(call, 0, infer_dtype(call, values), dims, rank + 1);
}

qf_status qf_infer_arg_reduce(qf_infer_call *call) {
    int64_t axis = call->attributes[QF_ATTR(arg_max, axis)].integer;
    bool keep = call->attributes[QF_ATTR(arg_max, keep)].integer != 0;
    qf_dim dims[QF_MAX_RANK];
    uint32_t kept = 0;
    if (!infer_ranked(call, 0)) return infer_set_unranked(call, 0, QF_I64);
    INFER_TRY(infer_expect_axis(call, "axis", axis, infer_rank(call, 0)));
    for (uint32_t i = 0; i < infer_rank(call, 0); i++)
        if (i != axis || keep) dims[kept++] = i == axis ? infer_constant(call, 1) : infer_dims(call, 0)[i];
    return infer_set(call, 0, QF_I64, dims, kept);
}

qf_status qf_infer_top_k(qf_infer_call *call) {
    qf_context *context = call->graph->context;
    qf_dim k = call->attributes[QF_ATTR(top_k, k)].dim, dims[QF_MAX_RANK];
    int64_t axis = call->attributes[QF_ATTR(top_k, axis)].integer, excess;
    uint32_t rank = infer_rank(call, 0);
    if (infer_ranked(call, 0)) {
        INFER_TRY(infer_expect_axis(call, "axis", axis, rank));
        memcpy(dims, infer_dims(call, 0), rank * sizeof *dims);
        qf_symbol_facts facts = qf_graph_facts(call->graph);
        if (qf_dim_lower_bound(context, &facts, qf_dim_subtract(context, k, dims[axis]), &excess) && excess > 0)
            return infer_operand_fault(call, 0, "at least k elements on axis %" PRId64, axis);
        dims[axis] = k;
    }
    INFER_TRY(infer_set(call, QF_OUT(top_k, values), infer_dtype(call, 0), dims, rank));
    return infer_set(call, QF_OUT(top_k, indices), QF_I64, dims, rank);
}
