/* Owns: facts about values and ops that the matcher, predicates and recognisers share.
 * Does not own: predicates by name (predicates.c).
 * Next: predicates.h. */
#include <math.h>
#include <string.h>

#include "base/convert.h"
#include "patterns/predicates.h"

#define UNIFORM_MAX_ELEMENTS 4096
#define UNIFORM_MAX_DEPTH    8
#define EQUAL_BUDGET         256 /* nodes that one comparison may look at */

static bool literal_uniform(const qf_graph *graph, const qf_literal *literal, double *out_number) {
    uint64_t count;
    qf_dtype dtype = qf_type_dtype(graph->context, literal->type);
    if (!qf_type_static_count(graph->context, literal->type, &count) || !count || count > UNIFORM_MAX_ELEMENTS)
        return false;
    if (qf_dtype_bits(dtype) == 0) return false;
    *out_number = qf_load_f64(dtype, literal->data, 0);
    for (uint64_t i = 1; i < count; i++)
        if (!(qf_load_f64(dtype, literal->data, (int64_t)i) == *out_number)) return false;
    return true;
}

static bool cast_uniform(qf_dtype dtype, bool saturate, double *number) {
    if (dtype == QF_F64) return true;
    if (!qf_dtype_is_float(dtype) || qf_dtype_bits(dtype) < 8) return false;
    *number = qf_decode(dtype, qf_encode_f64(dtype, *number, saturate));
    return true;
}

bool qf_value_uniform(const qf_graph *graph, qf_value value, double *out_number) {
    qf_node casts[UNIFORM_MAX_DEPTH];
    uint32_t cast_count = 0;
    for (uint32_t depth = 0; depth < UNIFORM_MAX_DEPTH; depth++) {
        qf_node node = qf_value_producer(graph, value);
        if (!node.id) return false;
        qf_op op = qf_node_op(graph, node);
        if (op == QF_OP_constant) {
            const qf_literal *literal = qf_node_attribute(graph, node, QF_ATTR(constant, value))->literal;
            if (!literal || !literal_uniform(graph, literal, out_number)) return false;
            while (cast_count-- > 0) {
                qf_dtype dtype = (qf_dtype)qf_node_attribute(graph, casts[cast_count], QF_ATTR(cast, dtype))->integer;
                bool saturate = qf_node_attribute(graph, casts[cast_count], QF_ATTR(cast, saturate))->integer;
                if (!cast_uniform(dtype, saturate, out_number)) return false;
            }
            return true;
        }
        if (op == QF_OP_cast)
            casts[cast_count++] = node;
        else if (op != QF_OP_full && !qf_op_is_replayable(op))
            return false;
        value = qf_node_operand(graph, node, 0);
    }
    return false;
}

bool qf_value_is_scalar(const qf_graph *graph, qf_value value) {
    uint64_t count;
    return value.id && qf_type_static_count(graph->context, qf_value_type(graph, value), &count) && count == 1;
}

bool qf_attributes_equal(const qf_attribute_info *info, const qf_attribute *a, const qf_attribute *b) {
    switch (info->kind) {
    case QF_ATTRIBUTE_BOOL:
    case QF_ATTRIBUTE_INT:
    case QF_ATTRIBUTE_DTYPE:
    case QF_ATTRIBUTE_ENUM: return a->integer == b->integer;
    case QF_ATTRIBUTE_FLOAT: return a->number == b->number || (isnan(a->number) && isnan(b->number));
    case QF_ATTRIBUTE_DIM: return qf_dim_equal(a->dim, b->dim);
    case QF_ATTRIBUTE_STRING: return a->string.id == b->string.id;
    case QF_ATTRIBUTE_DIMS:
        return a->count == b->count && (!a->count || memcmp(a->dims, b->dims, a->count * sizeof *a->dims) == 0);
    case QF_ATTRIBUTE_INTS:
        return a->count == b->count && (!a->count || memcmp(a->ints, b->ints, a->count * sizeof *a->ints) == 0);
    case QF_ATTRIBUTE_LITERAL:
        return a->literal == b->literal ||
               (a->literal && b->literal && qf_type_equal(a->literal->type, b->literal->type) &&
                a->literal->size == b->literal->size &&
                memcmp(a->literal->data, b->literal->data, (size_t)a->literal->size) == 0);
    }
    return false;
}

static bool values_equal(const qf_graph *graph, qf_value a, qf_value b, uint32_t *budget) {
    if (a.id == b.id) return true;
    if (!a.id || !b.id || !qf_type_equal(qf_value_type(graph, a), qf_value_type(graph, b))) return false;
    qf_node first = qf_value_producer(graph, a), second = qf_value_producer(graph, b);
    if (!first.id || !second.id || !*budget) return false;
    --*budget;
    const qf_node_data *x = qf_node_at(graph, first), *y = qf_node_at(graph, second);
    if (x->op != y->op || x->operand_count != y->operand_count || !qf_op_has_trait(x->op, QF_TRAIT_PURE) ||
        qf_value_at(graph, a)->result_index != qf_value_at(graph, b)->result_index)
        return false;
    const qf_op_info *info = qf_op_info_of(x->op);
    for (uint32_t i = 0; i < info->attribute_count; i++)
        if (!qf_attributes_equal(&info->attributes[i], &x->attributes[i], &y->attributes[i])) return false;
    for (uint32_t i = 0; i < x->operand_count; i++)
        if (!values_equal(graph, x->operands[i].value, y->operands[i].value, budget)) return false;
    return true;
}

bool qf_values_equal(const qf_graph *graph, qf_value a, qf_value b) {
    uint32_t budget = EQUAL_BUDGET;
    return values_equal(graph, a, b, &budget);
}

bool qf_op_is_replayable(qf_op op) {
    return op == QF_OP_view || op == QF_OP_permute || op == QF_OP_slice || op == QF_OP_expand || op == QF_OP_copy;
}

bool qf_scales_equal(const qf_graph *graph, qf_value a, qf_value b) {
    double x, y;
    if (a.id == b.id || qf_values_equal(graph, a, b)) return true;
    return qf_value_dtype(graph, a) == qf_value_dtype(graph, b) && qf_value_uniform(graph, a, &x) &&
           qf_value_uniform(graph, b, &y) && x == y;
}

static bool same_dims(const qf_graph *graph, qf_value a, qf_value b) {
    uint32_t rank = qf_value_rank(graph, a);
    return rank != QF_UNRANKED && rank == qf_value_rank(graph, b) &&
           (!rank || memcmp(qf_value_dims(graph, a), qf_value_dims(graph, b), rank * sizeof(qf_dim)) == 0);
}

bool qf_node_is_pointwise(const qf_graph *graph, qf_node node, uint32_t operand) {
    const qf_node_data *data = qf_node_at(graph, node);
    bool quantises = data->op == QF_OP_quantize || data->op == QF_OP_dequantize;
    if (quantises) {
        uint32_t axis = data->op == QF_OP_quantize ? QF_ATTR(quantize, axis) : QF_ATTR(dequantize, axis);
        if (operand != 0 || data->attributes[axis].integer != -1) return false;
    } else if (!qf_op_has_trait(data->op, QF_TRAIT_ELEMENTWISE)) {
        return false;
    }
    for (uint32_t i = 0; i < data->operand_count; i++) {
        qf_value other = data->operands[i].value;
        if (i != operand && other.id && !qf_value_is_scalar(graph, other)) return false;
    }
    return operand < data->operand_count && data->operands[operand].value.id &&
           same_dims(graph, data->operands[operand].value, qf_result_at(data, 0));
}

bool qf_dtype_widens(qf_dtype from, qf_dtype to) {
    if (from == to) return qf_dtype_is_float(to);
    if (to == QF_F64) return from == QF_F32 || from == QF_F16 || from == QF_BF16 || qf_dtype_is_float8(from);
    if (to == QF_F32) return from == QF_F16 || from == QF_BF16 || qf_dtype_is_float8(from);
    if (to == QF_BF16) return qf_dtype_is_float8(from);
    return to == QF_F16 && (from == QF_F8E4M3FN || from == QF_F8E5M2);
}
