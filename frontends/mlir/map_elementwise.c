/* Owns: elementwise operations of StableHLO, arith, math and linalg.
 * Does not own: constants (constants.c), layout (map_layout.c).
 * Next: maps.h. */
#include "frontends/mlir/maps.h"

static qf_op operation(const qf_mlir_call *call) {
    return (qf_op)call->row->argument;
}

static bool is_boolean(const qf_mlir_call *call, qf_value value) {
    return qf_mlir_dtype_of(call, value) == QF_I1;
}

static bool is_unsigned(const qf_mlir_call *call, qf_value value) {
    return qf_mlir_dtype_of(call, value) == QF_U8;
}

static const char integers_of_bits[] = "it combines bits of integers";

/* --- one operand --- */
qf_mlir_outcome qf_mlir_map_unary(qf_mlir_call *call) {
    return qf_mlir_done(call, qf_import_unary(qf_mlir_target(call), operation(call), qf_mlir_in(call, 0)));
}

qf_mlir_outcome qf_mlir_map_square(qf_mlir_call *call) {
    return qf_mlir_done(call,
                        qf_import_binary(qf_mlir_target(call), QF_OP_mul, qf_mlir_in(call, 0), qf_mlir_in(call, 0)));
}

/* exp(x ln 2) */
qf_mlir_outcome qf_mlir_map_exp2(qf_mlir_call *call) {
    qf_value x = qf_mlir_in(call, 0), ln2 = qf_mlir_scalar(call, qf_mlir_dtype_of(call, x), 0.69314718055994531);
    qf_value product = qf_import_binary(qf_mlir_target(call), QF_OP_mul, x, ln2);
    return qf_mlir_done(call, qf_import_unary(qf_mlir_target(call), QF_OP_exp, product));
}

/* Near zero the difference keeps an absolute, not a relative precision. */
qf_mlir_outcome qf_mlir_map_exp_minus_one(qf_mlir_call *call) {
    qf_value x = qf_mlir_in(call, 0), one = qf_mlir_scalar(call, qf_mlir_dtype_of(call, x), 1.0);
    qf_value power = qf_import_unary(qf_mlir_target(call), QF_OP_exp, x);
    return qf_mlir_done(call, qf_import_binary(qf_mlir_target(call), QF_OP_sub, power, one));
}

qf_mlir_outcome qf_mlir_map_log_plus_one(qf_mlir_call *call) {
    qf_value x = qf_mlir_in(call, 0), one = qf_mlir_scalar(call, qf_mlir_dtype_of(call, x), 1.0);
    qf_value sum = qf_import_binary(qf_mlir_target(call), QF_OP_add, x, one);
    return qf_mlir_done(call, qf_import_unary(qf_mlir_target(call), QF_OP_log, sum));
}

qf_mlir_outcome qf_mlir_map_tangent(qf_mlir_call *call) {
    qf_value sine = qf_import_unary(qf_mlir_target(call), QF_OP_sin, qf_mlir_in(call, 0));
    qf_value cosine = qf_import_unary(qf_mlir_target(call), QF_OP_cos, qf_mlir_in(call, 0));
    return qf_mlir_done(call, qf_import_binary(qf_mlir_target(call), QF_OP_div, sine, cosine));
}

qf_mlir_outcome qf_mlir_map_invert(qf_mlir_call *call) {
    if (!is_boolean(call, qf_mlir_in(call, 0))) return qf_mlir_decline(call, integers_of_bits);
    return qf_mlir_done(call, qf_import_unary(qf_mlir_target(call), QF_OP_not, qf_mlir_in(call, 0)));
}

qf_mlir_outcome qf_mlir_map_is_finite(qf_mlir_call *call) {
    qf_value x = qf_mlir_in(call, 0);
    qf_value unusual =
        qf_import_binary(qf_mlir_target(call), QF_OP_or, qf_import_unary(qf_mlir_target(call), QF_OP_is_nan, x),
                         qf_import_unary(qf_mlir_target(call), QF_OP_is_inf, x));
    return qf_mlir_done(call, qf_import_unary(qf_mlir_target(call), QF_OP_not, unusual));
}

/* --- two operands --- */
/* On booleans sums are or, products and; the others order false before true. */
static qf_op boolean_operation(qf_op op) {
    switch (op) {
    case QF_OP_add:
    case QF_OP_maximum: return QF_OP_or;
    case QF_OP_mul:
    case QF_OP_minimum: return QF_OP_and;
    default: return QF_OP_none;
    }
}

qf_mlir_outcome qf_mlir_map_binary(qf_mlir_call *call) {
    qf_op op = operation(call);
    if (is_boolean(call, qf_mlir_in(call, 0))) op = boolean_operation(op);
    if (op == QF_OP_none) return qf_mlir_decline(call, "it computes with booleans");
    return qf_mlir_done(call, qf_import_binary(qf_mlir_target(call), op, qf_mlir_in(call, 0), qf_mlir_in(call, 1)));
}

/* arith on i1 wraps around, which StableHLO does not do. */
qf_mlir_outcome qf_mlir_map_integer(qf_mlir_call *call) {
    if (is_boolean(call, qf_mlir_in(call, 0))) return qf_mlir_decline(call, "it computes with integers of one bit");
    return qf_mlir_map_binary(call);
}

/* With the sign of the first operand. */
qf_mlir_outcome qf_mlir_map_remainder(qf_mlir_call *call) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    if (is_boolean(call, qf_mlir_in(call, 0))) return qf_mlir_decline(call, "it computes with booleans");
    qf_mlir_defaults(call, QF_OP_mod, attributes);
    attributes[QF_ATTR(mod, fmod)].integer = 1;
    return qf_mlir_done(call, qf_import_op(qf_mlir_target(call), QF_OP_mod, call->operands, 2, attributes));
}

qf_mlir_outcome qf_mlir_map_logical(qf_mlir_call *call) {
    if (!is_boolean(call, qf_mlir_in(call, 0))) return qf_mlir_decline(call, integers_of_bits);
    return qf_mlir_done(
        call, qf_import_binary(qf_mlir_target(call), operation(call), qf_mlir_in(call, 0), qf_mlir_in(call, 1)));
}

/* --- comparisons --- */
static qf_value comparison(qf_mlir_call *call, qf_op op, bool negated) {
    qf_value a = qf_mlir_in(call, 0), b = qf_mlir_in(call, 1);
    if (is_boolean(call, a)) { /* ordering of booleans: as integers */
        a = qf_mlir_cast(call, a, QF_I32);
        b = qf_mlir_cast(call, b, QF_I32);
    }
    qf_value y = qf_import_binary(qf_mlir_target(call), op, a, b);
    return negated ? qf_import_unary(qf_mlir_target(call), QF_OP_not, y) : y;
}

qf_mlir_outcome qf_mlir_map_compare(qf_mlir_call *call) {
    static const struct direction {
        const char *word;
        qf_op op;
        bool negated;
    } directions[] = {{"EQ", QF_OP_equal, false},   {"NE", QF_OP_equal, true},       {"GE", QF_OP_greater_equal, false},
                      {"GT", QF_OP_greater, false}, {"LE", QF_OP_less_equal, false}, {"LT", QF_OP_less, false}};
    const char *direction = qf_mlir_printed(call, "comparison_direction"),
               *type = qf_mlir_printed(call, "compare_type");
    if (call->import->failed) return QF_MLIR_FAILED;
    if (qf_mlir_printed_word(type, "TOTALORDER")) return qf_mlir_decline(call, "it orders NaN and zeros of both signs");
    for (size_t i = 0; direction && i < QF_COUNT_OF(directions); i++)
        if (qf_mlir_printed_word(direction, directions[i].word))
            return qf_mlir_done(call, comparison(call, directions[i].op, directions[i].negated));
    return qf_mlir_decline(call, "its direction is none that the importer knows");
}

/* arith's numbers: 1 to 6 ordered (oeq ogt oge olt ole one), 8 to 13 unordered. An unordered comparison is the negation
 * of the opposite ordered one. */
qf_mlir_outcome qf_mlir_map_compare_float(qf_mlir_call *call) {
    switch (qf_mlir_int(call, "predicate", -1)) {
    case 1: return qf_mlir_done(call, comparison(call, QF_OP_equal, false));
    case 2: return qf_mlir_done(call, comparison(call, QF_OP_greater, false));
    case 3: return qf_mlir_done(call, comparison(call, QF_OP_greater_equal, false));
    case 4: return qf_mlir_done(call, comparison(call, QF_OP_less, false));
    case 5: return qf_mlir_done(call, comparison(call, QF_OP_less_equal, false));
    case 9: return qf_mlir_done(call, comparison(call, QF_OP_less_equal, true));
    case 10: return qf_mlir_done(call, comparison(call, QF_OP_less, true));
    case 11: return qf_mlir_done(call, comparison(call, QF_OP_greater_equal, true));
    case 12: return qf_mlir_done(call, comparison(call, QF_OP_greater, true));
    case 13: return qf_mlir_done(call, comparison(call, QF_OP_equal, true));
    default: return qf_mlir_decline(call, "its predicate asks for NaN");
    }
}

/* eq ne slt sle sgt sge ult ule ugt uge. */
qf_mlir_outcome qf_mlir_map_compare_integer(qf_mlir_call *call) {
    static const qf_op ops[] = {QF_OP_equal,      QF_OP_equal,   QF_OP_less,
                                QF_OP_less_equal, QF_OP_greater, QF_OP_greater_equal};
    int64_t predicate = qf_mlir_int(call, "predicate", -1);
    bool boolean = is_boolean(call, qf_mlir_in(call, 0)), natural = is_unsigned(call, qf_mlir_in(call, 0));
    if (predicate < 0 || predicate > 9) return qf_mlir_decline(call, "its predicate is none that the importer knows");
    if (predicate >= 6 && (boolean || natural))
        predicate -= 4; /* our order of those is the unsigned one */
    else if (predicate >= 2 && (predicate >= 6 || boolean || natural))
        return qf_mlir_decline(call, "it compares integers of another sign than their type has");
    return qf_mlir_done(call, comparison(call, ops[predicate], predicate == 1));
}

/* --- three operands --- */
qf_mlir_outcome qf_mlir_map_select(qf_mlir_call *call) {
    return qf_mlir_done(
        call, qf_import_where(qf_mlir_target(call), qf_mlir_in(call, 0), qf_mlir_in(call, 1), qf_mlir_in(call, 2)));
}

qf_mlir_outcome qf_mlir_map_clamp(qf_mlir_call *call) {
    return qf_mlir_done(
        call, qf_import_clamp(qf_mlir_target(call), qf_mlir_in(call, 1), qf_mlir_in(call, 0), qf_mlir_in(call, 2)));
}

/* --- conversions --- */
static const char unknown_type[] = "QFuse does not have its element types";

qf_mlir_outcome qf_mlir_map_convert(qf_mlir_call *call) {
    qf_dtype dtype = qf_mlir_result_dtype(call), own = qf_mlir_dtype_of(call, qf_mlir_in(call, 0));
    if (dtype == QF_DTYPE_NONE || own == QF_DTYPE_NONE) return qf_mlir_decline(call, unknown_type);
    return qf_mlir_done(call, qf_mlir_cast(call, qf_mlir_in(call, 0), dtype));
}

/* An integer of one bit is -1 where it is signed, 1 where it is not; our booleans are 1. */
qf_mlir_outcome qf_mlir_map_convert_signed(qf_mlir_call *call) {
    if (is_boolean(call, qf_mlir_in(call, 0))) return qf_mlir_decline(call, "it extends the sign of one bit");
    return qf_mlir_map_convert(call);
}

qf_mlir_outcome qf_mlir_map_convert_unsigned(qf_mlir_call *call) {
    if (!is_boolean(call, qf_mlir_in(call, 0)) && !is_unsigned(call, qf_mlir_in(call, 0)))
        return qf_mlir_decline(call, "it reads signed integers as unsigned ones");
    return qf_mlir_map_convert(call);
}

qf_mlir_outcome qf_mlir_map_bitcast(qf_mlir_call *call) {
    qf_dtype dtype = qf_mlir_result_dtype(call), own = qf_mlir_dtype_of(call, qf_mlir_in(call, 0));
    if (dtype == QF_DTYPE_NONE || own == QF_DTYPE_NONE) return qf_mlir_decline(call, unknown_type);
    if (qf_dtype_bits(dtype) != qf_dtype_bits(own))
        return qf_mlir_decline(call, "it reads bytes as elements of another width");
    if (dtype == own) return qf_mlir_done(call, qf_mlir_in(call, 0));
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_mlir_defaults(call, QF_OP_bitcast, attributes);
    attributes[QF_ATTR(bitcast, dtype)].integer = dtype;
    return qf_mlir_done(call, qf_import_op(qf_mlir_target(call), QF_OP_bitcast, call->operands, 1, attributes));
}

/* To the bits of a type that QFuse has; other widths round and flush in ways that no cast does. */
qf_mlir_outcome qf_mlir_map_reduce_precision(qf_mlir_call *call) {
    qf_value x = qf_mlir_in(call, 0);
    qf_dtype own = qf_mlir_dtype_of(call, x);
    int64_t exponent = qf_mlir_int(call, "exponent_bits", 0), mantissa = qf_mlir_int(call, "mantissa_bits", -1);
    bool whole = (own == QF_F32 && exponent >= 8 && mantissa >= 23) ||
                 (own == QF_BF16 && exponent >= 8 && mantissa >= 7) ||
                 (own == QF_F16 && exponent >= 5 && mantissa >= 10);
    if (whole) return qf_mlir_done(call, x);
    if (own != QF_F32 || exponent != 8 || mantissa != 7)
        return qf_mlir_decline(call, "it rounds to a format that QFuse does not have");
    return qf_mlir_done(call, qf_mlir_cast(call, qf_mlir_cast(call, x, QF_BF16), QF_F32));
}

/* --- as it is --- */
qf_mlir_outcome qf_mlir_map_identity(qf_mlir_call *call) {
    return qf_mlir_done(call, qf_mlir_in(call, 0));
}

/* It tells the partitioner something, and has no result. */
qf_mlir_outcome qf_mlir_map_nothing(qf_mlir_call *call) {
    return call->result_count ? qf_mlir_decline(call, "it has a result") : QF_MLIR_MAPPED;
}

qf_mlir_outcome qf_mlir_map_barrier(qf_mlir_call *call) {
    if (call->operand_count != call->result_count) return qf_mlir_decline(call, "its operands are not its results");
    for (uint32_t i = 0; i < call->result_count; i++) call->results[i] = call->operands[i];
    return QF_MLIR_MAPPED;
}
