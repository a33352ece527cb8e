/* Owns: emitting nodes for an operation, as far as MLIR has words of its own for it.
 * Does not own: what every frontend emits (frontends/emit.h), the operation's attributes (attributes.c).
 * Next: attributes.c. */
#include "frontends/mlir/build.h"

#include "base/convert.h"

qf_mlir_outcome qf_mlir_done(qf_mlir_call *call, qf_value first) {
    if (!first.id || call->import->failed) return QF_MLIR_FAILED;
    if (call->result_count) call->results[0] = first;
    return QF_MLIR_MAPPED;
}

qf_mlir_outcome qf_mlir_decline(qf_mlir_call *call, const char *reason) {
    call->reason = reason;
    return QF_MLIR_DECLINED;
}

qf_type qf_mlir_result_type(qf_mlir_call *call, uint32_t index) {
    if (index >= call->result_count) return (qf_type){0};
    return qf_mlir_type(call->import, mlirValueGetType(mlirOperationGetResult(call->operation, index)));
}

qf_dtype qf_mlir_result_dtype(qf_mlir_call *call) {
    qf_type type = qf_mlir_result_type(call, 0);
    return type.id ? qf_type_dtype(call->import->context, type) : QF_DTYPE_NONE;
}

bool qf_mlir_result_dims(qf_mlir_call *call, const qf_dim **out_dims, uint32_t *out_rank) {
    const qf_context *context = call->import->context;
    qf_type type = qf_mlir_result_type(call, 0);
    if (!type.id || !qf_type_is_ranked(context, type)) return false;
    *out_dims = qf_type_dims(context, type);
    *out_rank = qf_type_rank(context, type);
    for (uint32_t i = 0; i < *out_rank; i++)
        if (!qf_dim_is_constant(context, (*out_dims)[i], NULL)) return false;
    return true;
}

uint32_t qf_mlir_rank(const qf_mlir_call *call, qf_value value) {
    return value.id ? qf_value_rank(qf_mlir_graph(call), value) : QF_UNRANKED;
}

qf_dtype qf_mlir_dtype_of(const qf_mlir_call *call, qf_value value) {
    return value.id ? qf_value_dtype(qf_mlir_graph(call), value) : QF_DTYPE_NONE;
}

qf_dim qf_mlir_dim_of(const qf_mlir_call *call, qf_value value, uint32_t axis) {
    if (!value.id) return (qf_dim){0};
    return qf_type_dim(call->import->context, qf_value_type(qf_mlir_graph(call), value), (int32_t)axis);
}

qf_dim qf_mlir_constant(const qf_mlir_call *call, int64_t value) {
    return qf_dim_constant(call->import->context, value);
}

/* Looks through layout nodes and full. */
bool qf_mlir_uniform(const qf_mlir_call *call, qf_value value, double *out_number) {
    const qf_graph *graph = qf_mlir_graph(call);
    for (uint32_t steps = 0; value.id && steps < 64; steps++) {
        qf_op op = qf_node_op(graph, qf_value_producer(graph, value));
        if (op != QF_OP_view && op != QF_OP_expand && op != QF_OP_full && op != QF_OP_permute) break;
        value = qf_node_operand(graph, qf_value_producer(graph, value), 0);
    }
    const qf_literal *literal = value.id ? qf_value_literal(graph, value) : NULL;
    uint64_t count;
    if (!literal || !qf_type_static_count(graph->context, literal->type, &count) || !count) return false;
    qf_dtype dtype = qf_type_dtype(graph->context, literal->type);
    *out_number = qf_load_f64(dtype, literal->data, 0);
    for (uint64_t i = 1; i < count; i++)
        if (qf_load_f64(dtype, literal->data, (int64_t)i) != *out_number) return false;
    return true;
}

qf_value qf_mlir_permute(qf_mlir_call *call, qf_value x, const int64_t *order, uint32_t rank) {
    bool same = true;
    for (uint32_t i = 0; i < rank; i++) same &= order[i] == (int64_t)i;
    return same ? x : qf_import_permute(qf_mlir_target(call), x, order, rank);
}

qf_value qf_mlir_spread(qf_mlir_call *call, qf_value x, const int64_t *axes, uint32_t count, const qf_dim *dims,
                        uint32_t rank) {
    int64_t order[QF_MAX_RANK] = {0}, source[QF_MAX_RANK];
    uint32_t next = 0;
    if (rank > QF_MAX_RANK || qf_mlir_rank(call, x) != count) return (qf_value){0};
    for (uint32_t i = 0; i < rank; i++) source[i] = -1;
    for (uint32_t i = 0; i < count; i++) {
        if (axes[i] < 0 || axes[i] >= (int64_t)rank || source[axes[i]] >= 0) return (qf_value){0};
        source[axes[i]] = i;
    }
    qf_dim apart[QF_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) {
        if (source[i] >= 0) order[next++] = source[i];
        apart[i] = source[i] >= 0 ? qf_mlir_dim_of(call, x, (uint32_t)source[i]) : qf_mlir_constant(call, 1);
    }
    x = qf_mlir_permute(call, x, order, count);
    return qf_import_expand(qf_mlir_target(call), qf_import_view(qf_mlir_target(call), x, apart, rank), dims, rank);
}

qf_value qf_mlir_squeeze_all(qf_mlir_call *call, qf_value x) {
    return qf_import_view(qf_mlir_target(call), x, NULL, 0);
}

qf_value qf_mlir_contract(qf_mlir_call *call, const char *equation, qf_value a, qf_value b, qf_dtype out) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_dtype left = qf_mlir_dtype_of(call, a), right = qf_mlir_dtype_of(call, b);
    bool mixed = left != right && !(qf_dtype_is_float8(left) && qf_dtype_is_float8(right));
    if (mixed) { /* both as the result, which holds either */
        a = qf_mlir_cast(call, a, out);
        b = qf_mlir_cast(call, b, out);
    }
    qf_mlir_defaults(call, QF_OP_contract, attributes);
    attributes[QF_ATTR(contract, equation)].string = qf_intern_c(call->import->context, equation);
    if (qf_mlir_dtype_of(call, a) != out) attributes[QF_ATTR(contract, out)].integer = out;
    return qf_import_op(qf_mlir_target(call), QF_OP_contract, (qf_value[]){a, b}, 2, attributes);
}
