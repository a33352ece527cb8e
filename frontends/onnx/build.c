/* Owns: reading a node's attributes and constants, and emitting nodes for it.
 * Does not own: which ops become which (map_*.c).
 * Next: map_elementwise.c. */
#include "frontends/onnx/build.h"

#include <string.h>

#include "base/convert.h"

enum { TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_STRING = 3, TYPE_INTS = 7 };

bool qf_onnx_wants(const qf_onnx_call *call, uint32_t output) {
    return output < call->output_count && *qf_onnx_text(call->node->output[output]) != '\0';
}

qf_onnx_outcome qf_onnx_done(qf_onnx_call *call, qf_value first) {
    if (!first.id || call->import->failed) {
        call->import->failed = true;
        return QF_ONNX_FAILED;
    }
    if (call->output_count) call->outputs[0] = first;
    return QF_ONNX_MAPPED;
}

qf_onnx_outcome qf_onnx_decline(qf_onnx_call *call, const char *reason) {
    call->reason = reason;
    return call->import->failed ? QF_ONNX_FAILED : QF_ONNX_DECLINED;
}

/* --- attributes --- */
const Onnx__AttributeProto *qf_onnx_attribute(const Onnx__NodeProto *node, const char *name) {
    for (size_t i = 0; i < node->n_attribute; i++)
        if (strcmp(qf_onnx_text(node->attribute[i]->name), name) == 0) return node->attribute[i];
    return NULL;
}

bool qf_onnx_has(const qf_onnx_call *call, const char *name) {
    return qf_onnx_attribute(call->node, name) != NULL;
}

static const Onnx__AttributeProto *typed(qf_onnx_call *call, const char *name, int type, const char *type_name) {
    const Onnx__AttributeProto *attribute = qf_onnx_attribute(call->node, name);
    if (!attribute || !attribute->has_type || (int)attribute->type == type) return attribute;
    (void)qf_onnx_fault(call, QF_ERROR_PARSE, "attribute '%s' of %s: expected %s, found attribute type %d", name,
                        qf_onnx_text(call->node->op_type), type_name, (int)attribute->type);
    return NULL;
}

int64_t qf_onnx_int(qf_onnx_call *call, const char *name, int64_t otherwise) {
    const Onnx__AttributeProto *attribute = typed(call, name, TYPE_INT, "an integer");
    return attribute ? attribute->i : otherwise;
}

double qf_onnx_float(qf_onnx_call *call, const char *name, double otherwise) {
    const Onnx__AttributeProto *attribute = typed(call, name, TYPE_FLOAT, "a float");
    return attribute ? (double)attribute->f : otherwise;
}

qf_text qf_onnx_string(qf_onnx_call *call, const char *name, const char *otherwise) {
    const Onnx__AttributeProto *attribute = typed(call, name, TYPE_STRING, "a string");
    if (!attribute) return qf_text_of(otherwise);
    return (qf_text){(const char *)attribute->s.data, attribute->s.len};
}

bool qf_onnx_ints(qf_onnx_call *call, const char *name, const int64_t **out, uint32_t *out_count) {
    const Onnx__AttributeProto *attribute = typed(call, name, TYPE_INTS, "integers");
    *out = attribute ? attribute->ints : NULL;
    *out_count = attribute ? (uint32_t)attribute->n_ints : 0;
    return attribute != NULL;
}

/* --- values --- */
uint32_t qf_onnx_rank(const qf_onnx_call *call, qf_value value) {
    return value.id ? qf_value_rank(qf_onnx_graph(call), value) : QF_UNRANKED;
}

qf_dtype qf_onnx_dtype_of(const qf_onnx_call *call, qf_value value) {
    return value.id ? qf_value_dtype(qf_onnx_graph(call), value) : QF_DTYPE_NONE;
}

qf_dim qf_onnx_dim(const qf_onnx_call *call, qf_value value, int32_t axis) {
    if (!value.id) return (qf_dim){0};
    return qf_type_dim(call->import->context, qf_value_type(qf_onnx_graph(call), value), axis);
}

bool qf_onnx_axis(qf_onnx_call *call, int64_t axis, uint32_t rank, uint32_t *out) {
    int64_t wrapped = axis < 0 ? axis + (int64_t)rank : axis;
    if (wrapped < 0 || wrapped >= (int64_t)rank) {
        (void)qf_onnx_fault(call, QF_ERROR_VERIFY, "%s: expected an axis from %lld to %lld, found %lld",
                            qf_onnx_text(call->node->op_type), -(long long)rank, (long long)rank - 1, (long long)axis);
        return false;
    }
    *out = (uint32_t)wrapped;
    return true;
}

bool qf_onnx_elements(qf_onnx_call *call, qf_value value, const qf_dim **out, uint32_t *out_count) {
    return value.id && qf_symbolic_elements(call->import->symbolic, value, out, out_count);
}

bool qf_onnx_constants(qf_onnx_call *call, qf_value value, int64_t *out, uint32_t limit, uint32_t *out_count) {
    const qf_dim *dims;
    uint32_t count;
    if (!qf_onnx_elements(call, value, &dims, &count) || count > limit) return false;
    for (uint32_t i = 0; i < count; i++)
        if (!qf_dim_is_constant(call->import->context, dims[i], &out[i])) return false;
    *out_count = count;
    return true;
}

bool qf_onnx_number_of(const qf_onnx_call *call, qf_value value, double *out) {
    const qf_literal *literal = value.id ? qf_value_literal(qf_onnx_graph(call), value) : NULL;
    uint64_t count;
    if (!literal || !qf_type_static_count(call->import->context, literal->type, &count) || count != 1) return false;
    *out = qf_load_f64(qf_type_dtype(call->import->context, literal->type), literal->data, 0);
    return true;
}

bool qf_onnx_is_zero(const qf_onnx_call *call, qf_value value) {
    const qf_literal *literal = value.id ? qf_value_literal(qf_onnx_graph(call), value) : NULL;
    uint64_t count;
    if (!literal || !qf_type_static_count(call->import->context, literal->type, &count)) return false;
    qf_dtype dtype = qf_type_dtype(call->import->context, literal->type);
    for (uint64_t i = 0; i < count; i++)
        if (qf_load_f64(dtype, literal->data, (int64_t)i) != 0) return false;
    return true;
}

bool qf_onnx_read_axes(qf_onnx_call *call, uint32_t input, uint32_t rank, qf_onnx_axes *out) {
    const int64_t *listed = NULL;
    int64_t values[QF_MAX_RANK];
    uint32_t count = 0;
    *out = (qf_onnx_axes){0};
    if (qf_onnx_in(call, input).id) {
        if (!qf_onnx_constants(call, qf_onnx_in(call, input), values, QF_MAX_RANK, &count)) {
            call->reason = "its axes are computed at run time";
            return false;
        }
        listed = values;
    } else if (!qf_onnx_ints(call, "axes", &listed, &count)) {
        return true;
    }
    if (count > QF_MAX_RANK) {
        call->reason = "it has more axes than any tensor";
        return false;
    }
    bool seen[QF_MAX_RANK] = {false};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis;
        if (!qf_onnx_axis(call, listed[i], rank, &axis)) return false;
        if (seen[axis]) {
            (void)qf_onnx_fault(call, QF_ERROR_VERIFY, "%s: axis %u is listed twice", qf_onnx_text(call->node->op_type),
                                axis);
            return false;
        }
        seen[axis] = true;
    }
    for (uint32_t axis = 0; axis < rank && axis < QF_MAX_RANK; axis++)
        if (seen[axis]) out->items[out->count++] = axis;
    out->given = true;
    return true;
}

/* --- emitting --- */
qf_node qf_onnx_emit_node(qf_onnx_call *call, qf_op op, const qf_value *operands, uint32_t count,
                          const qf_attribute *attributes, uint32_t result_count) {
    if (call->import->failed) return (qf_node){0};
    qf_node_spec spec = {.op = op,
                         .operands = operands,
                         .operand_count = count,
                         .attributes = attributes,
                         .result_count = result_count,
                         .location = call->location};
    qf_node node = qf_graph_insert(qf_onnx_graph(call), (qf_node){0}, &spec);
    if (!node.id) call->import->failed = true;
    return node;
}

qf_value qf_onnx_emit(qf_onnx_call *call, qf_op op, const qf_value *operands, uint32_t count,
                      const qf_attribute *attributes) {
    const qf_op_info *info = qf_op_info_of(op);
    for (uint32_t i = 0; i < count && i < info->required_operands; i++)
        if (!operands[i].id) {
            call->import->failed = true;
            return (qf_value){0};
        }
    qf_node node = qf_onnx_emit_node(call, op, operands, count, attributes, 0);
    return node.id ? qf_node_result(qf_onnx_graph(call), node, 0) : (qf_value){0};
}

qf_value qf_onnx_unary(qf_onnx_call *call, qf_op op, qf_value x) {
    return qf_onnx_emit(call, op, &x, 1, NULL);
}

qf_value qf_onnx_binary(qf_onnx_call *call, qf_op op, qf_value a, qf_value b) {
    return qf_onnx_emit(call, op, (qf_value[]){a, b}, 2, NULL);
}

qf_value qf_onnx_where(qf_onnx_call *call, qf_value condition, qf_value a, qf_value b) {
    return qf_onnx_emit(call, QF_OP_where, (qf_value[]){condition, a, b}, 3, NULL);
}

qf_value qf_onnx_clamp(qf_onnx_call *call, qf_value x, qf_value low, qf_value high) {
    return qf_onnx_emit(call, QF_OP_clamp, (qf_value[]){x, low, high}, 3, NULL);
}

static void defaults(qf_onnx_call *call, qf_op op, qf_attribute *attributes) {
    qf_attributes_default(qf_onnx_graph(call), op, attributes);
}

qf_value qf_onnx_cast(qf_onnx_call *call, qf_value x, qf_dtype dtype, bool saturate) {
    if (x.id && qf_onnx_dtype_of(call, x) == dtype) return x;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    defaults(call, QF_OP_cast, attributes);
    attributes[QF_ATTR(cast, dtype)].integer = dtype;
    attributes[QF_ATTR(cast, saturate)].integer = saturate;
    return qf_onnx_emit(call, QF_OP_cast, &x, 1, attributes);
}

static bool dims_known(qf_onnx_call *call, const qf_dim *dims, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (!dims[i].id) call->import->failed = true;
    return !call->import->failed;
}

static bool has_dims(const qf_onnx_call *call, qf_value x, const qf_dim *dims, uint32_t rank) {
    if (qf_onnx_rank(call, x) != rank) return false;
    const qf_dim *own = qf_value_dims(qf_onnx_graph(call), x);
    for (uint32_t i = 0; i < rank; i++)
        if (!qf_dim_equal(own[i], dims[i])) return false;
    return true;
}

static qf_value emit_shaped(qf_onnx_call *call, qf_op op, uint32_t attribute, qf_value x, const qf_dim *dims,
                            uint32_t rank) {
    if (!x.id || !dims_known(call, dims, rank)) return (qf_value){0};
    if (has_dims(call, x, dims, rank)) return x;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    defaults(call, op, attributes);
    attributes[attribute] = (qf_attribute){.dims = dims, .count = rank};
    return qf_onnx_emit(call, op, &x, 1, attributes);
}

qf_value qf_onnx_view(qf_onnx_call *call, qf_value x, const qf_dim *dims, uint32_t rank) {
    return emit_shaped(call, QF_OP_view, QF_ATTR(view, shape), x, dims, rank);
}

qf_value qf_onnx_expand(qf_onnx_call *call, qf_value x, const qf_dim *dims, uint32_t rank) {
    return emit_shaped(call, QF_OP_expand, QF_ATTR(expand, shape), x, dims, rank);
}

qf_value qf_onnx_permute(qf_onnx_call *call, qf_value x, const int64_t *order, uint32_t rank) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    defaults(call, QF_OP_permute, attributes);
    attributes[QF_ATTR(permute, order)] = (qf_attribute){.ints = order, .count = rank};
    return qf_onnx_emit(call, QF_OP_permute, &x, 1, attributes);
}

qf_value qf_onnx_concat(qf_onnx_call *call, const qf_value *parts, uint32_t count, uint32_t axis) {
    for (uint32_t i = 0; i < count; i++)
        if (!parts[i].id) call->import->failed = true;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    defaults(call, QF_OP_concat, attributes);
    attributes[QF_ATTR(concat, axis)].integer = axis;
    return qf_onnx_emit(call, QF_OP_concat, parts, count, attributes);
}

qf_value qf_onnx_slice_axis(qf_onnx_call *call, qf_value x, uint32_t axis, qf_dim start, qf_dim end) {
    uint32_t rank = qf_onnx_rank(call, x);
    if (rank > QF_MAX_RANK || axis >= rank) {
        call->import->failed = true;
        return (qf_value){0};
    }
    qf_dim starts[QF_MAX_RANK], ends[QF_MAX_RANK];
    int64_t steps[QF_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) {
        starts[i] = i == axis ? start : qf_onnx_constant(call, 0);
        ends[i] = i == axis ? end : qf_onnx_dim(call, x, (int32_t)i);
        steps[i] = 1;
    }
    if (!dims_known(call, starts, rank) || !dims_known(call, ends, rank)) return (qf_value){0};
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    defaults(call, QF_OP_slice, attributes);
    attributes[QF_ATTR(slice, starts)] = (qf_attribute){.dims = starts, .count = rank};
    attributes[QF_ATTR(slice, ends)] = (qf_attribute){.dims = ends, .count = rank};
    attributes[QF_ATTR(slice, steps)] = (qf_attribute){.ints = steps, .count = rank};
    return qf_onnx_emit(call, QF_OP_slice, &x, 1, attributes);
}

/* The reductions have the same columns. */
qf_value qf_onnx_reduce(qf_onnx_call *call, qf_op op, qf_value x, const int64_t *axes, uint32_t count, bool keep) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    defaults(call, op, attributes);
    attributes[QF_ATTR(reduce_sum, axes)] = (qf_attribute){.ints = axes, .count = count};
    attributes[QF_ATTR(reduce_sum, keep)].integer = keep;
    return qf_onnx_emit(call, op, &x, 1, attributes);
}

qf_value qf_onnx_contract(qf_onnx_call *call, const char *equation, qf_value a, qf_value b) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    defaults(call, QF_OP_contract, attributes);
    attributes[QF_ATTR(contract, equation)].string = qf_intern_c(call->import->context, equation);
    return qf_onnx_emit(call, QF_OP_contract, (qf_value[]){a, b}, 2, attributes);
}

qf_value qf_onnx_softmax(qf_onnx_call *call, qf_value x, uint32_t axis) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    defaults(call, QF_OP_softmax, attributes);
    attributes[QF_ATTR(softmax, axis)].integer = axis;
    return qf_onnx_emit(call, QF_OP_softmax, &x, 1, attributes);
}

qf_value qf_onnx_iota(qf_onnx_call *call, qf_dtype dtype, qf_dim count, qf_dim start, qf_dim step) {
    if (!dims_known(call, (qf_dim[]){count, start, step}, 3)) return (qf_value){0};
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    defaults(call, QF_OP_iota, attributes);
    attributes[QF_ATTR(iota, shape)] = (qf_attribute){.dims = &count, .count = 1};
    attributes[QF_ATTR(iota, dtype)].integer = dtype;
    attributes[QF_ATTR(iota, start)].dim = start;
    attributes[QF_ATTR(iota, step)].dim = step;
    return qf_onnx_emit(call, QF_OP_iota, NULL, 0, attributes);
}

qf_value qf_onnx_number(qf_onnx_call *call, qf_dtype dtype, double number) {
    union {
        uint8_t bytes[8];
        double aligned;
    } element = {{0}};
    if (qf_dtype_is_float(dtype))
        qf_store_f64(dtype, element.bytes, 0, number, true);
    else
        qf_store_i64(dtype, element.bytes, 0, (int64_t)number);
    qf_literal literal = {.type = qf_type_tensor(call->import->context, dtype, NULL, 0),
                          .size = qf_dtype_bytes(dtype, 1),
                          .data = element.bytes};
    if (!literal.type.id) call->import->failed = true;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    defaults(call, QF_OP_constant, attributes);
    attributes[QF_ATTR(constant, value)].literal = &literal;
    return qf_onnx_emit(call, QF_OP_constant, NULL, 0, attributes);
}

qf_value qf_onnx_filled(qf_onnx_call *call, qf_dtype dtype, double number, const qf_dim *dims, uint32_t rank) {
    qf_value value = qf_onnx_number(call, dtype, number);
    if (!dims_known(call, dims, rank)) return (qf_value){0};
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    defaults(call, QF_OP_full, attributes);
    attributes[QF_ATTR(full, shape)] = (qf_attribute){.dims = dims, .count = rank};
    return qf_onnx_emit(call, QF_OP_full, &value, 1, attributes);
}

qf_value qf_onnx_symbolic(qf_onnx_call *call, const qf_dim *dims, uint32_t count, bool scalar) {
    if (!dims_known(call, dims, count)) return (qf_value){0};
    int64_t length = count, number;
    if (scalar && qf_dim_is_constant(call->import->context, dims[0], &number))
        return qf_onnx_number(call, QF_I64, (double)number);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    defaults(call, QF_OP_symbolic, attributes);
    attributes[QF_ATTR(symbolic, values)] = (qf_attribute){.dims = dims, .count = count};
    attributes[QF_ATTR(symbolic, shape)] = (qf_attribute){.ints = &length, .count = scalar ? 0 : 1};
    return qf_onnx_emit(call, QF_OP_symbolic, NULL, 0, attributes);
}

qf_value qf_onnx_widen(qf_onnx_call *call, qf_value x) {
    return qf_onnx_dtype_of(call, x) == QF_F64 ? x : qf_onnx_cast(call, x, QF_F32, true);
}

qf_value qf_onnx_narrow(qf_onnx_call *call, qf_value y, qf_value like) {
    return qf_onnx_cast(call, y, qf_onnx_dtype_of(call, like), true);
}

bool qf_onnx_is_stepwise(const qf_onnx_call *call, qf_value x) {
    qf_dtype dtype = qf_onnx_dtype_of(call, x);
    return call->import->options.stepwise_16bit && (dtype == QF_F16 || dtype == QF_BF16);
}

qf_value qf_onnx_scale(qf_onnx_call *call, qf_value x, double factor) {
    if (factor == 1.0) return x;
    return qf_onnx_binary(call, QF_OP_mul, x, qf_onnx_number(call, qf_onnx_dtype_of(call, x), factor));
}

qf_dim qf_onnx_constant(const qf_onnx_call *call, int64_t value) {
    return qf_dim_constant(call->import->context, value);
}

static bool wide_float(qf_dtype dtype) {
    return qf_dtype_is_float(dtype) && qf_dtype_bits(dtype) >= 16;
}

bool qf_onnx_harmonise(qf_onnx_call *call, qf_value *values, uint32_t count) {
    qf_dtype widest = QF_DTYPE_NONE;
    bool mixed = false;
    for (uint32_t i = 0; i < count; i++) {
        qf_dtype dtype = qf_onnx_dtype_of(call, values[i]);
        if (!wide_float(dtype)) continue;
        mixed |= widest != QF_DTYPE_NONE && widest != dtype;
        if (widest == QF_DTYPE_NONE || qf_dtype_bits(dtype) > qf_dtype_bits(widest))
            widest = dtype;
        else if (dtype != widest && qf_dtype_bits(dtype) == qf_dtype_bits(widest))
            widest = QF_F32; /* f16 with bf16 */
    }
    if (!mixed) return false;
    qf_onnx_warn(call, "%s mixes floating-point types, which the specification does not allow; computed in %s",
                 qf_onnx_text(call->node->op_type), qf_dtype_name(widest));
    for (uint32_t i = 0; i < count; i++)
        if (wide_float(qf_onnx_dtype_of(call, values[i]))) values[i] = qf_onnx_cast(call, values[i], widest, true);
    return true;
}

qf_onnx_outcome qf_onnx_done_mixed(qf_onnx_call *call, qf_value first, bool mixed) {
    if (mixed && first.id && !call->scope->parent && qf_onnx_wants(call, 0)) {
        qf_type declared = qf_onnx_declared_type(call->import, call->node->output[0]);
        qf_dtype dtype = declared.id ? qf_type_dtype(call->import->context, declared) : QF_DTYPE_NONE;
        if (wide_float(dtype) && wide_float(qf_onnx_dtype_of(call, first)))
            first = qf_onnx_cast(call, first, dtype, true);
    }
    return qf_onnx_done(call, first);
}
