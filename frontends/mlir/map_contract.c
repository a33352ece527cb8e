/* Owns: contractions and reductions of StableHLO.
 * Does not own: those of linalg (map_linalg.c).
 * Next: map_linalg.c. */
#include <math.h>
#include <stdio.h>

#include "frontends/mlir/maps.h"

typedef struct axis_list {
    int64_t items[QF_MAX_RANK];
    uint32_t count;
} axis_list;

/* Every axis of one side, at most once. */
static bool place_labels(char *labels, uint32_t rank, const axis_list *axes, char first) {
    for (uint32_t i = 0; i < axes->count; i++) {
        if (axes->items[i] < 0 || axes->items[i] >= (int64_t)rank || labels[axes->items[i]]) return false;
        labels[axes->items[i]] = (char)(first + (int)i);
    }
    return true;
}

/* Result: batch axes, free axes of the left, free axes of the right. */
static bool make_equation(qf_mlir_call *call, const axis_list *batch, const axis_list *inner, char *equation) {
    uint32_t ranks[2] = {qf_mlir_rank(call, qf_mlir_in(call, 0)), qf_mlir_rank(call, qf_mlir_in(call, 1))};
    char labels[2][QF_MAX_RANK + 1] = {{0}, {0}}, result[3 * QF_MAX_RANK + 1], next = 'A';
    uint32_t count = 0;
    if (ranks[0] > QF_MAX_RANK || ranks[1] > QF_MAX_RANK || batch[0].count != batch[1].count ||
        inner[0].count != inner[1].count)
        return false;
    for (uint32_t i = 0; i < batch[0].count; i++) result[count++] = (char)('a' + (int)i);
    for (uint32_t side = 0; side < 2; side++) {
        if (!place_labels(labels[side], ranks[side], &batch[side], 'a') ||
            !place_labels(labels[side], ranks[side], &inner[side], 'k'))
            return false;
        for (uint32_t i = 0; i < ranks[side]; i++)
            if (!labels[side][i]) result[count++] = labels[side][i] = next++;
    }
    result[count] = '\0';
    (void)snprintf(equation, 64, "%s,%s->%s", labels[0], labels[1], result);
    return count <= QF_MAX_RANK;
}

static qf_mlir_outcome emit_dot(qf_mlir_call *call, const axis_list *batch, const axis_list *inner) {
    char equation[64];
    qf_dtype out = qf_mlir_result_dtype(call);
    if (out == QF_DTYPE_NONE || qf_mlir_dtype_of(call, qf_mlir_in(call, 0)) == QF_DTYPE_NONE ||
        qf_mlir_dtype_of(call, qf_mlir_in(call, 1)) == QF_DTYPE_NONE)
        return qf_mlir_decline(call, "QFuse does not have its element types");
    if (!make_equation(call, batch, inner, equation))
        return qf_mlir_decline(call, "its dimension numbers do not fit its operands");
    return qf_mlir_done(call, qf_mlir_contract(call, equation, qf_mlir_in(call, 0), qf_mlir_in(call, 1), out));
}

/* `algorithm` and `precision_config` say how fast sums may be made, and change no more than rounding. */
qf_mlir_outcome qf_mlir_map_dot_general(qf_mlir_call *call) {
    axis_list batch[2] = {{{0}, 0}}, inner[2] = {{{0}, 0}};
    const char *text = qf_mlir_printed(call, "dot_dimension_numbers");
    if (!text) return call->import->failed ? QF_MLIR_FAILED : qf_mlir_decline(call, "it has no dimension numbers");
    static const char *const names[][2] = {{"lhs_batching_dimensions", "rhs_batching_dimensions"},
                                           {"lhs_contracting_dimensions", "rhs_contracting_dimensions"}};
    for (uint32_t side = 0; side < 2; side++) {
        (void)qf_mlir_printed_ints(text, names[0][side], batch[side].items, QF_MAX_RANK, &batch[side].count);
        (void)qf_mlir_printed_ints(text, names[1][side], inner[side].items, QF_MAX_RANK, &inner[side].count);
    }
    return emit_dot(call, batch, inner);
}

/* Vectors and matrices: the last axis of the left with the first of the right. */
qf_mlir_outcome qf_mlir_map_dot(qf_mlir_call *call) {
    uint32_t rank = qf_mlir_rank(call, qf_mlir_in(call, 0));
    if (rank < 1 || rank > 2) return qf_mlir_decline(call, "its operands are neither vectors nor matrices");
    axis_list batch[2] = {{{0}, 0}}, inner[2] = {{{(int64_t)rank - 1}, 1}, {{0}, 1}};
    return emit_dot(call, batch, inner);
}

/* --- reductions --- */
typedef struct reduction {
    const char *body; /* the one operation of the region */
    qf_op reduce, combine;
    double identity;
    bool boolean;
} reduction;

static const reduction reductions[] = {
    {"stablehlo.add", QF_OP_reduce_sum, QF_OP_add, 0, false},
    {"stablehlo.multiply", QF_OP_reduce_prod, QF_OP_mul, 1, false},
    {"stablehlo.maximum", QF_OP_reduce_max, QF_OP_maximum, -INFINITY, false},
    {"stablehlo.minimum", QF_OP_reduce_min, QF_OP_minimum, INFINITY, false},
    {"stablehlo.or", QF_OP_reduce_max, QF_OP_or, 0, true},
    {"stablehlo.and", QF_OP_reduce_min, QF_OP_and, 1, true},
    {"arith.addf", QF_OP_reduce_sum, QF_OP_add, 0, false},
    {"arith.addi", QF_OP_reduce_sum, QF_OP_add, 0, false},
    {"arith.mulf", QF_OP_reduce_prod, QF_OP_mul, 1, false},
    {"arith.muli", QF_OP_reduce_prod, QF_OP_mul, 1, false},
    {"arith.maximumf", QF_OP_reduce_max, QF_OP_maximum, -INFINITY, false},
    {"arith.minimumf", QF_OP_reduce_min, QF_OP_minimum, INFINITY, false},
};

static bool reads_both(MlirOperation body, MlirBlock block) {
    if (mlirOperationGetNumOperands(body) != 2 || mlirBlockGetNumArguments(block) != 2) return false;
    const void *a = mlirOperationGetOperand(body, 0).ptr, *b = mlirOperationGetOperand(body, 1).ptr;
    const void *x = mlirBlockGetArgument(block, 0).ptr, *y = mlirBlockGetArgument(block, 1).ptr;
    return (a == x && b == y) || (a == y && b == x);
}

/* One operation on both arguments, whose result is returned. */
static const reduction *find_reduction(qf_mlir_call *call) {
    MlirBlock block = qf_mlir_only_block(call->operation, 0);
    if (mlirBlockIsNull(block)) return NULL;
    MlirOperation body = mlirBlockGetFirstOperation(block);
    if (mlirOperationIsNull(body) || !reads_both(body, block) || mlirOperationGetNumResults(body) != 1) return NULL;
    MlirOperation last = mlirOperationGetNextInBlock(body);
    if (mlirOperationIsNull(last) || !mlirOperationIsNull(mlirOperationGetNextInBlock(last)) ||
        mlirOperationGetNumOperands(last) != 1 ||
        mlirOperationGetOperand(last, 0).ptr != mlirOperationGetResult(body, 0).ptr)
        return NULL;
    qf_text name = qf_mlir_name(body);
    for (size_t i = 0; i < QF_COUNT_OF(reductions); i++)
        if (qf_text_is(name, reductions[i].body)) return &reductions[i];
    return NULL;
}

static qf_value emit_reduction(qf_mlir_call *call, const reduction *kind, qf_value x, qf_value start,
                               const int64_t *axes, uint32_t count) {
    bool boolean = qf_mlir_dtype_of(call, x) == QF_I1;
    double begin;
    if (boolean) x = qf_mlir_cast(call, x, QF_I32);
    qf_value y = count ? qf_import_reduce(qf_mlir_target(call), kind->reduce, x, axes, count, false) : x;
    if (boolean) y = qf_mlir_cast(call, y, QF_I1);
    bool neutral = qf_mlir_uniform(call, start, &begin) && begin == kind->identity;
    return neutral ? y : qf_import_binary(qf_mlir_target(call), kind->combine, y, start);
}

qf_mlir_outcome qf_mlir_map_reduce(qf_mlir_call *call) {
    int64_t axes[QF_MAX_RANK];
    uint32_t count, rank = qf_mlir_rank(call, qf_mlir_in(call, 0)), seen = 0;
    const reduction *kind = find_reduction(call);
    qf_dtype dtype = qf_mlir_dtype_of(call, qf_mlir_in(call, 0));
    if (!kind || kind->boolean != (dtype == QF_I1) || dtype == QF_DTYPE_NONE)
        return qf_mlir_decline(call, "its body is not one sum, product, maximum or minimum");
    if (rank > QF_MAX_RANK || !qf_mlir_ints(call, "dimensions", axes, QF_MAX_RANK, &count))
        return qf_mlir_decline(call, "its dimensions are missing");
    for (uint32_t i = 0; i < count; i++) {
        if (axes[i] < 0 || axes[i] >= (int64_t)rank || seen >> axes[i] & 1)
            return qf_mlir_decline(call, "its dimensions do not fit its operand");
        seen |= 1u << axes[i];
    }
    return qf_mlir_done(call, emit_reduction(call, kind, qf_mlir_in(call, 0), qf_mlir_in(call, 1), axes, count));
}

/* Between groups of one there is nothing to reduce, unless the groups are of replicas, and span all partitions: so
 * where a channel is given whose ids are not global. */
qf_mlir_outcome qf_mlir_map_all_reduce(qf_mlir_call *call) {
    MlirAttribute groups = qf_mlir_attribute(call->operation, "replica_groups");
    MlirType type = mlirAttributeIsNull(groups) ? (MlirType){NULL} : mlirAttributeGetType(groups);
    bool alone = !mlirTypeIsNull(type) && mlirTypeIsARankedTensor(type) && mlirShapedTypeGetRank(type) == 2 &&
                 mlirShapedTypeGetDimSize(type, 0) > 0 && mlirShapedTypeGetDimSize(type, 1) == 1;
    alone = alone && (mlirAttributeIsNull(qf_mlir_attribute(call->operation, "channel_handle")) ||
                      !mlirAttributeIsNull(qf_mlir_attribute(call->operation, "use_global_device_ids")));
    return alone ? qf_mlir_done(call, qf_mlir_in(call, 0)) : qf_mlir_decline(call, "it sums over several devices");
}
