/* Owns: the named predicates of the rule language and their lookup.
 * Does not own: facts about values that other code needs too (facts.c).
 * Next: predicates.def. */
#include "patterns/predicates.h"

#include <math.h>
#include <string.h>

#include "base/convert.h"

static qf_dtype dtype_of(const qf_predicate_call *call, uint32_t argument) {
    qf_value value = call->arguments[argument].value;
    return value.id ? qf_value_dtype(call->graph, value) : QF_DTYPE_NONE;
}

static int64_t integer_of(const qf_predicate_call *call, uint32_t argument) {
    return call->arguments[argument].attribute->integer;
}

static double number_of(const qf_predicate_call *call, uint32_t argument) {
    const qf_predicate_argument *given = &call->arguments[argument];
    return given->kind == QF_ATTRIBUTE_FLOAT ? given->attribute->number : (double)given->attribute->integer;
}

static bool named_dtype(const qf_predicate_call *call, uint32_t argument, qf_dtype dtype) {
    return qf_text_is(qf_string_text(call->graph->context, call->arguments[argument].name), qf_dtype_name(dtype));
}

static bool predicate_is_fp8(const qf_predicate_call *call) {
    return qf_dtype_is_float8((qf_dtype)integer_of(call, 0)) && integer_of(call, 0) != QF_F8E8M0FNU;
}

static bool predicate_attention_writes(const qf_predicate_call *call) {
    return integer_of(call, 0) == QF_F8E4M3FN || integer_of(call, 0) == QF_F8E5M2;
}

static bool predicate_dtype(const qf_predicate_call *call) {
    return named_dtype(call, 1, dtype_of(call, 0));
}

static bool predicate_dtype_is(const qf_predicate_call *call) {
    return named_dtype(call, 1, (qf_dtype)integer_of(call, 0));
}

static bool predicate_same_dtype(const qf_predicate_call *call) {
    return dtype_of(call, 0) == dtype_of(call, 1);
}

static bool predicate_has_dtype(const qf_predicate_call *call) {
    return dtype_of(call, 0) == (qf_dtype)integer_of(call, 1);
}

static bool predicate_sixteen_bit(const qf_predicate_call *call) {
    return dtype_of(call, 0) == QF_F16 || dtype_of(call, 0) == QF_BF16;
}

static bool predicate_floating(const qf_predicate_call *call) {
    return predicate_sixteen_bit(call) || dtype_of(call, 0) == QF_F32;
}

static bool predicate_widening(const qf_predicate_call *call) {
    return qf_dtype_widens(dtype_of(call, 0), dtype_of(call, 1));
}

static bool predicate_holds(const qf_predicate_call *call) {
    qf_dtype dtype = dtype_of(call, 0);
    double number = number_of(call, 1);
    if (dtype == QF_F64) return true;
    if (dtype == QF_F32) return (double)(float)number == number;
    if (dtype != QF_F16 && dtype != QF_BF16) return false;
    return qf_decode(dtype, qf_encode_f64(dtype, number, false)) == number;
}

static bool predicate_scalar(const qf_predicate_call *call) {
    qf_value value = call->arguments[0].value;
    return qf_value_is_scalar(call->graph, value) && qf_value_rank(call->graph, value) <= 1;
}

static bool predicate_head_scale(const qf_predicate_call *call) {
    const qf_graph *graph = call->graph;
    qf_value scale = call->arguments[0].value, x = call->arguments[1].value;
    uint32_t rank = qf_value_rank(graph, x);
    double axis = number_of(call, 2);
    return rank != QF_UNRANKED && axis >= 0 && axis < rank && qf_value_rank(graph, scale) == 1 &&
           qf_dim_equal(qf_value_dims(graph, scale)[0], qf_value_dims(graph, x)[(uint32_t)axis]);
}

static bool predicate_constant(const qf_predicate_call *call) {
    qf_op op = qf_node_op(call->graph, qf_value_producer(call->graph, call->arguments[0].value));
    return op == QF_OP_constant || op == QF_OP_parameter;
}

static bool predicate_present(const qf_predicate_call *call) {
    return call->arguments[0].value.id != 0;
}

static bool predicate_fp8(const qf_predicate_call *call) {
    return qf_dtype_is_float8(dtype_of(call, 0)) && dtype_of(call, 0) != QF_F8E8M0FNU;
}

static bool predicate_bounds(const qf_predicate_call *call) {
    double largest = qf_dtype_largest(dtype_of(call, 0));
    return predicate_fp8(call) && number_of(call, 1) == -largest && number_of(call, 2) == largest;
}

static bool predicate_divides(const qf_predicate_call *call) {
    return integer_of(call, 0) == QF_VALUE_div || integer_of(call, 0) == QF_VALUE_mul_recip;
}

static bool predicate_square(const qf_predicate_call *call) {
    const qf_graph *graph = call->graph;
    qf_value square = call->arguments[0].value, x = call->arguments[1].value;
    qf_node node = qf_producer_of_op(graph, square, QF_OP_mul);
    if (node.id)
        return qf_values_equal(graph, qf_node_operand(graph, node, 0), x) &&
               qf_values_equal(graph, qf_node_operand(graph, node, 1), x);
    double exponent;
    node = qf_producer_of_op(graph, square, QF_OP_pow);
    return node.id && qf_values_equal(graph, qf_node_operand(graph, node, 0), x) &&
           qf_value_uniform(graph, qf_node_operand(graph, node, 1), &exponent) && exponent == 2.0;
}

static bool predicate_ordered(const qf_predicate_call *call) {
    return number_of(call, 0) <= number_of(call, 1);
}

static bool predicate_nonzero(const qf_predicate_call *call) {
    return number_of(call, 0) != 0;
}

static bool predicate_power_of_two(const qf_predicate_call *call) {
    int exponent;
    double number = number_of(call, 0);
    return number > 0 && isfinite(number) && frexp(number, &exponent) == 0.5;
}

static bool predicate_positive(const qf_predicate_call *call) {
    return number_of(call, 0) > 0 && isfinite(number_of(call, 0));
}

static bool predicate_equal(const qf_predicate_call *call) {
    return number_of(call, 0) == number_of(call, 1);
}

static bool predicate_same_shape(const qf_predicate_call *call) {
    const qf_graph *graph = call->graph;
    qf_value a = call->arguments[0].value, b = call->arguments[1].value;
    uint32_t rank = qf_value_rank(graph, a);
    return rank != QF_UNRANKED && rank == qf_value_rank(graph, b) &&
           (!rank || memcmp(qf_value_dims(graph, a), qf_value_dims(graph, b), rank * sizeof(qf_dim)) == 0);
}

static bool predicate_suffix_axes(const qf_predicate_call *call) {
    uint32_t rank = qf_value_rank(call->graph, call->arguments[0].value);
    const qf_attribute *axes = call->arguments[1].attribute;
    if (rank == QF_UNRANKED || !axes->count || axes->count > rank) return false;
    uint32_t found = 0;
    for (uint32_t i = 0; i < axes->count; i++)
        if (axes->ints[i] >= (int64_t)(rank - axes->count) && axes->ints[i] < (int64_t)rank)
            found |= (uint32_t)1 << axes->ints[i];
    uint32_t wanted = (((uint32_t)1 << axes->count) - 1) << (rank - axes->count);
    *call->arguments[2].attribute = (qf_attribute){.integer = rank - axes->count};
    return found == wanted;
}

static bool predicate_last_axis(const qf_predicate_call *call) {
    uint32_t rank = qf_value_rank(call->graph, call->arguments[0].value);
    return rank != QF_UNRANKED && integer_of(call, 1) == (int64_t)rank - 1;
}

static bool predicate_norm_weight(const qf_predicate_call *call) {
    const qf_graph *graph = call->graph;
    qf_value weight = call->arguments[0].value, x = call->arguments[1].value;
    uint32_t rank = qf_value_rank(graph, x), own = qf_value_rank(graph, weight);
    int64_t axis = integer_of(call, 2);
    if (rank == QF_UNRANKED || own == QF_UNRANKED || axis < 0 || own != rank - axis) return false;
    return memcmp(qf_value_dims(graph, weight), qf_value_dims(graph, x) + axis, own * sizeof(qf_dim)) == 0;
}

static bool predicate_halves(const qf_predicate_call *call) {
    const qf_attribute *sizes = call->arguments[2].attribute;
    uint32_t rank = qf_value_rank(call->graph, call->arguments[0].value);
    return rank != QF_UNRANKED && integer_of(call, 1) == (int64_t)rank - 1 && sizes->count == 2 &&
           qf_dim_equal(sizes->dims[0], sizes->dims[1]);
}

static bool predicate_result_dtype(const qf_predicate_call *call) {
    *call->arguments[1].attribute = (qf_attribute){.integer = dtype_of(call, 0)};
    return dtype_of(call, 0) != QF_DTYPE_NONE;
}

static bool predicate_via_dtype(const qf_predicate_call *call) {
    qf_dtype dtype = dtype_of(call, 0);
    *call->arguments[1].attribute = (qf_attribute){.integer = dtype == QF_F32 ? QF_DTYPE_NONE : dtype};
    return predicate_floating(call);
}

static bool give_number(const qf_predicate_call *call, double number) {
    *call->arguments[2].attribute = (qf_attribute){.number = number};
    return isfinite(number) && (number != 0 || number_of(call, 0) == 0);
}

static bool predicate_times(const qf_predicate_call *call) {
    return give_number(call, number_of(call, 0) * number_of(call, 1));
}

static bool predicate_over(const qf_predicate_call *call) {
    return number_of(call, 1) != 0 && give_number(call, number_of(call, 0) / number_of(call, 1));
}

/* A scale that nobody knows is taken to be calibrated: the largest code stands for the largest element, which the dtype
 * held. */
static bool predicate_dequantise_fits(const qf_predicate_call *call) {
    double scale;
    if (!qf_value_uniform(call->graph, call->arguments[0].value, &scale)) return true;
    return scale > 0 && scale * qf_dtype_largest(dtype_of(call, 1)) <= qf_dtype_largest(dtype_of(call, 2));
}

/* code * scale must neither overflow nor lose bits in f32 for any code: then its quotient by the scale is within an ulp
 * of the code, and rounding to FP8 gives the code back. 2^-16 is e5m2's smallest number; e4m3's is larger. */
static bool predicate_safe_round_trip(const qf_predicate_call *call) {
    double scale;
    if (!qf_value_uniform(call->graph, call->arguments[0].value, &scale)) return false;
    double largest = qf_dtype_largest(dtype_of(call, 1));
    return scale > 0 && scale * largest < 0x1p127 && scale * 0x1p-18 > 0x1p-126;
}

static const qf_predicate_info table[] = {
#define PREDICATE(name, signature, reason, doc) {#name, signature, doc, QF_REASON_##reason, predicate_##name},
#include "patterns/predicates.def"
#undef PREDICATE
};

const qf_predicate_info *qf_predicate_find(qf_text name) {
    for (size_t i = 0; i < QF_COUNT_OF(table); i++)
        if (qf_text_is(name, table[i].name)) return &table[i];
    return NULL;
}
