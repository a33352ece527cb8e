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

qf_value qf_onnx_softmax(qf_onnx_call *call, qf_value x, uint32_t axis) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_softmax, attributes);
    attributes[QF_ATTR(softmax, axis)].integer = axis;
    return qf_import_op(qf_onnx_target(call), QF_OP_softmax, &x, 1, attributes);
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
    return qf_import_binary(qf_onnx_target(call), QF_OP_mul, x,
                            qf_onnx_number(call, qf_onnx_dtype_of(call, x), factor));
}

qf_dim qf_onnx_constant(const qf_onnx_call *call, int64_t value) {
    return qf_dim_constant(call->import->context, value);
}

qf_value qf_onnx_literal(qf_onnx_call *call, qf_dtype dtype, const void *data, const int64_t *sizes, uint32_t rank) {
    qf_dim dims[QF_MAX_RANK];
    size_t count = 1;
    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = qf_onnx_constant(call, sizes[i]);
        count *= (size_t)sizes[i];
    }
    qf_literal literal = {.type = qf_type_tensor(call->import->context, dtype, dims, rank),
                          .size = qf_dtype_bytes(dtype, count),
                          .data = data};
    if (!literal.type.id) return (qf_value){0};
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_constant, attributes);
    attributes[QF_ATTR(constant, value)].literal = &literal;
    return qf_import_op(qf_onnx_target(call), QF_OP_constant, NULL, 0, attributes);
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
