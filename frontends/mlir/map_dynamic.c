/* Owns: slices whose starts are values: read from and written into, as caches are.
 * Does not own: slices with constant starts (map_layout.c).
 * Next: maps.h. */
#include "frontends/mlir/maps.h"

static const char unknown_shape[] = "the shapes of its operands are not known, or do not fit each other";

/* Constant extents of the whole and of the part, no larger. */
static bool read_extents(qf_mlir_call *call, qf_value whole, const int64_t *part, uint32_t rank, int64_t *extents) {
    for (uint32_t i = 0; i < rank; i++)
        if (!qf_dim_is_constant(call->import->context, qf_mlir_dim_of(call, whole, i), &extents[i]) || part[i] < 0 ||
            part[i] > extents[i])
            return false;
    return true;
}

/* The start along an axis, within what StableHLO allows: i32[]. */
static qf_value clipped_start(qf_mlir_call *call, uint32_t operand, int64_t largest) {
    qf_value start = qf_mlir_cast(call, qf_mlir_in(call, operand), QF_I32);
    qf_value low = qf_mlir_scalar(call, QF_I32, 0), high = qf_mlir_scalar(call, QF_I32, (double)largest);
    return qf_import_clamp(qf_mlir_target(call), start, low, high);
}

static qf_value counting(qf_mlir_call *call, int64_t count) {
    return qf_import_iota(qf_mlir_target(call), QF_I32, qf_mlir_constant(call, count), qf_mlir_constant(call, 0),
                          qf_mlir_constant(call, 1));
}

/* Starts are scalars, one an axis. */
static bool scalar_starts(const qf_mlir_call *call, uint32_t first, uint32_t rank) {
    for (uint32_t i = 0; i < rank; i++)
        if (qf_mlir_rank(call, qf_mlir_in(call, first + i)) != 0) return false;
    return call->operand_count == first + rank && call->result_count == 1;
}

qf_mlir_outcome qf_mlir_map_dynamic_slice(qf_mlir_call *call) {
    int64_t sizes[QF_MAX_RANK], extents[QF_MAX_RANK];
    qf_value x = qf_mlir_in(call, 0);
    uint32_t rank = qf_mlir_rank(call, x), count;
    if (rank > QF_MAX_RANK || !qf_mlir_ints(call, "slice_sizes", sizes, QF_MAX_RANK, &count) || count != rank ||
        !scalar_starts(call, 1, rank) || !read_extents(call, x, sizes, rank, extents))
        return qf_mlir_decline(call, unknown_shape);
    for (uint32_t i = 0; i < rank; i++) {
        if (sizes[i] == extents[i]) continue;
        qf_value start = clipped_start(call, 1 + i, extents[i] - sizes[i]);
        x = qf_import_gather(qf_mlir_target(call), x,
                             qf_import_binary(qf_mlir_target(call), QF_OP_add, counting(call, sizes[i]), start), i);
    }
    return qf_mlir_done(call, x);
}

/* Where a place lies within the part, the part's element; else the whole's. */
qf_mlir_outcome qf_mlir_map_dynamic_update_slice(qf_mlir_call *call) {
    int64_t sizes[QF_MAX_RANK], extents[QF_MAX_RANK];
    qf_value whole = qf_mlir_in(call, 0), part = qf_mlir_in(call, 1), inside = {0};
    uint32_t rank = qf_mlir_rank(call, whole);
    if (rank > QF_MAX_RANK || qf_mlir_rank(call, part) != rank || !scalar_starts(call, 2, rank))
        return qf_mlir_decline(call, unknown_shape);
    for (uint32_t i = 0; i < rank; i++)
        if (!qf_dim_is_constant(call->import->context, qf_mlir_dim_of(call, part, i), &sizes[i]))
            return qf_mlir_decline(call, unknown_shape);
    if (!read_extents(call, whole, sizes, rank, extents)) return qf_mlir_decline(call, unknown_shape);
    for (uint32_t i = 0; i < rank; i++) {
        if (sizes[i] == extents[i]) continue;
        if (!sizes[i]) return qf_mlir_done(call, whole);
        qf_value zero = qf_mlir_scalar(call, QF_I32, 0), last = qf_mlir_scalar(call, QF_I32, (double)(sizes[i] - 1));
        qf_value place = qf_import_binary(qf_mlir_target(call), QF_OP_sub, counting(call, extents[i]),
                                          clipped_start(call, 2 + i, extents[i] - sizes[i]));
        qf_value within = qf_import_clamp(qf_mlir_target(call), place, zero, last);
        part = qf_import_gather(qf_mlir_target(call), part, within, i);
        qf_dim dims[QF_MAX_RANK];
        for (uint32_t axis = 0; axis < rank; axis++) dims[axis] = qf_mlir_constant(call, axis == i ? extents[i] : 1);
        qf_value here = qf_import_view(qf_mlir_target(call),
                                       qf_import_binary(qf_mlir_target(call), QF_OP_equal, place, within), dims, rank);
        inside = inside.id ? qf_import_binary(qf_mlir_target(call), QF_OP_and, inside, here) : here;
    }
    return qf_mlir_done(call, inside.id ? qf_import_where(qf_mlir_target(call), inside, part, whole) : part);
}
