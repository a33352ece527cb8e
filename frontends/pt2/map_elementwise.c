/* Owns: mappings of elementwise operators, and torch's type promotion.
 * Does not own: layout (map_layout.c).
 * Next: map_layout.c. */
#include <math.h>
#include <string.h>

#include "base/convert.h"
#include "frontends/pt2/maps.h"

/* --- type promotion --- */
static uint32_t category(qf_dtype dtype) { /* 0 none, 1 bool, 2 integer, 3 float */
    if (dtype == QF_DTYPE_NONE) return 0;
    return dtype == QF_I1 ? 1 : qf_dtype_is_float(dtype) ? 3 : 2;
}

qf_dtype qf_pt2_wider(qf_dtype a, qf_dtype b) {
    if (a == QF_DTYPE_NONE || a == b) return b;
    if (b == QF_DTYPE_NONE) return a;
    if (category(a) != category(b)) return category(a) > category(b) ? a : b;
    if (qf_dtype_bits(a) != qf_dtype_bits(b)) return qf_dtype_bits(a) > qf_dtype_bits(b) ? a : b;
    return category(a) == 3 ? QF_F32 : QF_DTYPE_NONE; /* f16 with bf16 */
}

/* Tensors with axes decide; scalars, then numbers, only where they are of a higher kind. i8 with u8 is i16, which
 * QFuse lacks: none. */
static qf_dtype combine(qf_dtype strong, qf_dtype weak) {
    return category(weak) > category(strong) ? weak : strong;
}

typedef struct operand {
    qf_value value; /* 0: a number */
    qf_dtype dtype;
    uint32_t strength; /* 2 tensor, 1 scalar tensor, 0 number */
} operand;

static qf_dtype number_dtype(qf_pt2_call *call, const char *name) {
    qf_dim dim;
    if (qf_pt2_dim(call, name, &dim)) return QF_I64;
    bool boolean = qf_pt2_bool(call, name, false) == qf_pt2_bool(call, name, true);
    return boolean ? QF_I1 : QF_F32;
}

static bool read_operand(qf_pt2_call *call, const char *name, operand *out) {
    *out = (operand){.value = qf_pt2_in(call, name)};
    if (out->value.id) {
        out->dtype = qf_pt2_dtype_of(call, out->value);
        out->strength = qf_pt2_rank(call, out->value) == 0 ? 1 : 2;
        return out->dtype != QF_DTYPE_NONE;
    }
    if (!qf_pt2_is_number(call, name)) return false;
    out->dtype = number_dtype(call, name);
    return true;
}

qf_value qf_pt2_number_value(qf_pt2_call *call, const char *name, qf_dtype dtype) {
    qf_dim dim;
    int64_t whole;
    if (qf_pt2_dim(call, name, &dim) && !qf_dim_is_constant(call->import->context, dim, &whole))
        return qf_pt2_cast(call, qf_pt2_symbolic(call, dim), dtype);
    return qf_pt2_scalar(call, dtype, qf_pt2_number(call, name, 0));
}

static bool is_exact(qf_dtype dtype, double number) {
    if (!qf_dtype_is_float(dtype) || isnan(number)) return true;
    return qf_decode(dtype, qf_encode_f64(dtype, number, false)) == number;
}

/* torch keeps a number in f32 beside 16-bit tensors, where QFuse's operands have one dtype: both in f32 then. */
static qf_dtype compute_dtype(const qf_pt2_call *call, const operand *items, const char *const *names,
                              qf_dtype result) {
    bool narrow = result == QF_F16 || result == QF_BF16;
    for (uint32_t i = 0; narrow && i < 2; i++)
        if (!items[i].value.id &&
            (qf_pt2_is_symbolic(call, names[i]) || !is_exact(result, qf_pt2_number(call, names[i], 0))))
            return QF_F32;
    return result;
}

/* torch multiplies and divides a 16-bit tensor by a scalar tensor of a wider float as that float, where it stands
 * second. */
static bool keeps_scalar(const operand *items, qf_dtype result) {
    bool narrow = result == QF_F16 || result == QF_BF16;
    return narrow && items[0].strength == 2 && items[1].strength == 1 &&
           (items[1].dtype == QF_F32 || items[1].dtype == QF_F64);
}

static bool promote(qf_pt2_call *call, const char *a, const char *b, bool as_float, bool scales, qf_pt2_pair *out) {
    operand items[2];
    const char *const names[] = {a, b};
    if (!read_operand(call, a, &items[0]) || !read_operand(call, b, &items[1])) return false;
    qf_dtype by_strength[3] = {QF_DTYPE_NONE, QF_DTYPE_NONE, QF_DTYPE_NONE};
    for (uint32_t i = 0; i < 2; i++) {
        qf_dtype *slot = &by_strength[items[i].strength];
        *slot = qf_pt2_wider(*slot, items[i].dtype);
        if (*slot == QF_DTYPE_NONE) return false;
    }
    qf_dtype result = combine(combine(by_strength[2], by_strength[1]), by_strength[0]);
    if (as_float && category(result) != 3) result = QF_F32;
    bool kept = scales && keeps_scalar(items, result);
    qf_dtype compute = kept ? QF_F32 : compute_dtype(call, items, names, result);
    for (uint32_t i = 0; i < 2; i++) {
        /* Elsewhere a scalar tensor of a wider float is rounded to the result's dtype first. */
        qf_value value = items[i].value;
        if (value.id)
            value = qf_pt2_cast(call, kept && i == 1 ? value : qf_pt2_cast(call, value, result), compute);
        else
            value = qf_pt2_number_value(call, names[i], compute);
        *(i ? &out->b : &out->a) = value;
    }
    out->result = result;
    return true;
}

bool qf_pt2_promote(qf_pt2_call *call, const char *a, const char *b, bool as_float, qf_pt2_pair *out) {
    return promote(call, a, b, as_float, false, out);
}

static const char unknown_types[] = "it mixes element types, or reads some, that QFuse does not have";

static qf_op operation(const qf_pt2_call *call) {
    return (qf_op)call->row->argument;
}

/* --- one operand --- */
qf_pt2_outcome qf_pt2_map_unary(qf_pt2_call *call) {
    return qf_pt2_done(call, qf_import_unary(qf_pt2_target(call), operation(call), qf_pt2_in(call, "self")));
}

/* Functions of integers give f32. */
qf_pt2_outcome qf_pt2_map_unary_float(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    if (!qf_dtype_is_float(qf_pt2_dtype_of(call, x))) x = qf_pt2_cast(call, x, QF_F32);
    return qf_pt2_done(call, qf_import_unary(qf_pt2_target(call), operation(call), x));
}

qf_pt2_outcome qf_pt2_map_logical_not(qf_pt2_call *call) {
    return qf_pt2_done(
        call, qf_import_unary(qf_pt2_target(call), QF_OP_not, qf_pt2_cast(call, qf_pt2_in(call, "self"), QF_I1)));
}

qf_pt2_outcome qf_pt2_map_bitwise_not(qf_pt2_call *call) {
    if (qf_pt2_dtype_of(call, qf_pt2_in(call, "self")) != QF_I1)
        return qf_pt2_decline(call, "it inverts bits of integers");
    return qf_pt2_map_logical_not(call);
}

qf_pt2_outcome qf_pt2_map_gelu(qf_pt2_call *call) {
    const char *kind = qf_pt2_string(call, "approximate", "none");
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_gelu, attributes);
    attributes[QF_ATTR(gelu, approximate)].integer = strcmp(kind, "tanh") == 0 ? QF_VALUE_tanh : QF_VALUE_erf;
    qf_value x = qf_pt2_in(call, "self");
    return qf_pt2_done(call, qf_import_op(qf_pt2_target(call), QF_OP_gelu, &x, 1, attributes));
}

qf_pt2_outcome qf_pt2_map_square(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    return qf_pt2_done(call, qf_pt2_binary(call, QF_OP_mul, x, x));
}

/* --- two operands --- */
/* alpha scales the second operand of add and sub. */
static qf_value scale_second(qf_pt2_call *call, qf_value b) {
    double alpha = qf_pt2_number(call, "alpha", 1);
    if (alpha == 1) return b;
    return qf_pt2_binary(call, QF_OP_mul, b, qf_pt2_scalar(call, qf_pt2_dtype_of(call, b), alpha));
}

qf_pt2_outcome qf_pt2_map_binary(qf_pt2_call *call) {
    qf_pt2_pair pair;
    if (!promote(call, "self", "other", false, operation(call) == QF_OP_mul, &pair))
        return qf_pt2_decline(call, unknown_types);
    if (pair.result == QF_I1 && operation(call) == QF_OP_mul)
        return qf_pt2_done(call, qf_pt2_binary(call, QF_OP_and, pair.a, pair.b));
    qf_value y = qf_pt2_binary(call, operation(call), pair.a, scale_second(call, pair.b));
    return qf_pt2_done(call, qf_pt2_cast(call, y, pair.result));
}

qf_pt2_outcome qf_pt2_map_reversed(qf_pt2_call *call) { /* other - self */
    qf_pt2_pair pair;
    if (!qf_pt2_promote(call, "self", "other", false, &pair)) return qf_pt2_decline(call, unknown_types);
    if (qf_pt2_number(call, "alpha", 1) != 1) return qf_pt2_decline(call, "it scales an operand");
    return qf_pt2_done(call, qf_pt2_cast(call, qf_pt2_binary(call, operation(call), pair.b, pair.a), pair.result));
}

/* Floor of the quotient, for integers too (QFuse's integer division truncates). */
static qf_value floor_quotient(qf_pt2_call *call, qf_value a, qf_value b) {
    if (qf_dtype_is_float(qf_pt2_dtype_of(call, a)))
        return qf_import_unary(qf_pt2_target(call), QF_OP_floor, qf_pt2_binary(call, QF_OP_div, a, b));
    qf_value remainder = qf_pt2_binary(call, QF_OP_mod, a, b); /* has the sign of b */
    return qf_pt2_binary(call, QF_OP_div, qf_pt2_binary(call, QF_OP_sub, a, remainder), b);
}

static qf_value truncated_quotient(qf_pt2_call *call, qf_value a, qf_value b) {
    qf_dtype dtype = qf_pt2_dtype_of(call, a);
    qf_value y = qf_pt2_binary(call, QF_OP_div, a, b);
    if (!qf_dtype_is_float(dtype)) return y;
    qf_value negative = qf_pt2_binary(call, QF_OP_less, y, qf_pt2_scalar(call, dtype, 0));
    return qf_import_where(qf_pt2_target(call), negative, qf_import_unary(qf_pt2_target(call), QF_OP_ceil, y),
                           qf_import_unary(qf_pt2_target(call), QF_OP_floor, y));
}

qf_pt2_outcome qf_pt2_map_divide(qf_pt2_call *call) {
    const char *mode = qf_pt2_string(call, "rounding_mode", call->row->argument ? "floor" : "");
    qf_pt2_pair pair;
    if (!promote(call, "self", "other", !*mode, !*mode, &pair)) return qf_pt2_decline(call, unknown_types);
    qf_value y = strcmp(mode, "floor") == 0   ? floor_quotient(call, pair.a, pair.b)
                 : strcmp(mode, "trunc") == 0 ? truncated_quotient(call, pair.a, pair.b)
                                              : qf_pt2_binary(call, QF_OP_div, pair.a, pair.b);
    return qf_pt2_done(call, qf_pt2_cast(call, y, pair.result));
}

qf_pt2_outcome qf_pt2_map_compare(qf_pt2_call *call) {
    qf_pt2_pair pair;
    if (!qf_pt2_promote(call, "self", "other", false, &pair)) return qf_pt2_decline(call, unknown_types);
    if (pair.result == QF_I1) { /* ordering of booleans: as integers */
        pair.a = qf_pt2_cast(call, pair.a, QF_I32);
        pair.b = qf_pt2_cast(call, pair.b, QF_I32);
    }
    return qf_pt2_done(call, qf_pt2_binary(call, operation(call), pair.a, pair.b));
}

qf_pt2_outcome qf_pt2_map_not_equal(qf_pt2_call *call) {
    qf_pt2_pair pair;
    if (!qf_pt2_promote(call, "self", "other", false, &pair)) return qf_pt2_decline(call, unknown_types);
    return qf_pt2_done(
        call, qf_import_unary(qf_pt2_target(call), QF_OP_not, qf_pt2_binary(call, QF_OP_equal, pair.a, pair.b)));
}

qf_pt2_outcome qf_pt2_map_logical(qf_pt2_call *call) {
    qf_value a = qf_pt2_cast(call, qf_pt2_in(call, "self"), QF_I1),
             b = qf_pt2_cast(call, qf_pt2_in(call, "other"), QF_I1);
    if (!b.id && qf_pt2_is_number(call, "other")) b = qf_pt2_number_value(call, "other", QF_I1);
    return qf_pt2_done(call, qf_pt2_binary(call, operation(call), a, b));
}

/* Of booleans; bits of integers are not known to QFuse. */
qf_pt2_outcome qf_pt2_map_bitwise(qf_pt2_call *call) {
    qf_value b = qf_pt2_in(call, "other");
    if (qf_pt2_dtype_of(call, qf_pt2_in(call, "self")) != QF_I1 || (b.id && qf_pt2_dtype_of(call, b) != QF_I1))
        return qf_pt2_decline(call, "it combines bits of integers");
    return qf_pt2_map_logical(call);
}

/* --- three operands --- */
qf_pt2_outcome qf_pt2_map_where(qf_pt2_call *call) {
    qf_pt2_pair pair;
    if (!qf_pt2_promote(call, "self", "other", false, &pair)) return qf_pt2_decline(call, unknown_types);
    qf_value condition = qf_pt2_cast(call, qf_pt2_in(call, "condition"), QF_I1);
    return qf_pt2_done(call,
                       qf_pt2_cast(call, qf_import_where(qf_pt2_target(call), condition, pair.a, pair.b), pair.result));
}

/* self keeps its dtype. */
qf_pt2_outcome qf_pt2_map_masked_fill(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self"), value = qf_pt2_in(call, "value");
    qf_dtype dtype = qf_pt2_dtype_of(call, x);
    value = value.id ? qf_pt2_cast(call, value, dtype) : qf_pt2_number_value(call, "value", dtype);
    return qf_pt2_done(
        call, qf_import_where(qf_pt2_target(call), qf_pt2_cast(call, qf_pt2_in(call, "mask"), QF_I1), value, x));
}

static qf_value bound_of(qf_pt2_call *call, const char *name, qf_dtype dtype) {
    qf_value tensor = qf_pt2_in(call, name);
    if (tensor.id) return qf_pt2_cast(call, tensor, dtype);
    return qf_pt2_is_number(call, name) ? qf_pt2_number_value(call, name, dtype) : (qf_value){0};
}

static bool is_fraction(const qf_pt2_call *call, const char *name) {
    if (!qf_pt2_is_number(call, name) || qf_pt2_is_symbolic(call, name)) return false;
    double number = qf_pt2_number(call, name, 0);
    return floor(number) != number;
}

qf_pt2_outcome qf_pt2_map_clamp(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    qf_dtype dtype = qf_pt2_dtype_of(call, x);
    bool fractions = !qf_dtype_is_float(dtype) && (is_fraction(call, "min") || is_fraction(call, "max"));
    if (fractions) return qf_pt2_decline(call, "it clamps integers to a fraction");
    qf_value low = bound_of(call, "min", dtype), high = bound_of(call, "max", dtype);
    if (!low.id && !high.id) return qf_pt2_done(call, x);
    return qf_pt2_done(call, qf_import_clamp(qf_pt2_target(call), x, low, high));
}

/* A base that is a number, or an exponent that is one. */
qf_pt2_outcome qf_pt2_map_power(qf_pt2_call *call) {
    qf_pt2_pair pair;
    if (!qf_pt2_promote(call, "self", "exponent", false, &pair)) return qf_pt2_decline(call, unknown_types);
    qf_value y = qf_pt2_binary(call, QF_OP_pow, pair.a, pair.b);
    return qf_pt2_done(call, qf_pt2_cast(call, y, pair.result));
}

/* --- casts --- */
qf_pt2_outcome qf_pt2_map_cast(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, qf_pt2_has(call, "self") ? "self" : "a");
    qf_dtype dtype;
    if (!qf_pt2_dtype_argument(call, "dtype", qf_pt2_dtype_of(call, x), &dtype) ||
        qf_pt2_dtype_of(call, x) == QF_DTYPE_NONE)
        return qf_pt2_decline(call, "its element types are not QFuse's");
    return qf_pt2_done(call, qf_pt2_cast(call, x, dtype));
}

qf_pt2_outcome qf_pt2_map_cast_like(qf_pt2_call *call) {
    qf_value other = qf_pt2_in(call, "other");
    if (qf_pt2_dtype_of(call, other) == QF_DTYPE_NONE) return qf_pt2_decline(call, "its element types are not QFuse's");
    return qf_pt2_done(call, qf_pt2_cast(call, qf_pt2_in(call, "self"), qf_pt2_dtype_of(call, other)));
}

qf_pt2_outcome qf_pt2_map_bitcast(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    qf_dtype dtype, own = qf_pt2_dtype_of(call, x);
    if (!qf_pt2_dtype_argument(call, "dtype", own, &dtype) || own == QF_DTYPE_NONE ||
        qf_dtype_bits(own) != qf_dtype_bits(dtype))
        return qf_pt2_decline(call, "it reads bytes as elements of another width");
    return qf_pt2_done(call, qf_pt2_bitcast(call, x, dtype));
}

/* --- as it is --- */
qf_pt2_outcome qf_pt2_map_identity(qf_pt2_call *call) {
    const json_t *first = json_array_get(call->arguments, 0);
    return qf_pt2_done(call, qf_pt2_in(call, qf_pt2_text(qf_pt2_get(first, "name"))));
}

qf_pt2_outcome qf_pt2_map_dropout(qf_pt2_call *call) {
    if (qf_pt2_bool(call, "train", false) && qf_pt2_number(call, "p", 0.5) != 0)
        return qf_pt2_decline(call, "it drops elements at random (train)");
    return qf_pt2_map_identity(call);
}

/* src in the type and shape of self. */
qf_pt2_outcome qf_pt2_map_replace(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    uint32_t rank = qf_pt2_rank(call, x);
    if (rank > QF_MAX_RANK) return qf_pt2_decline(call, "the shape of its input is unknown");
    qf_value y = qf_pt2_cast(call, qf_pt2_in(call, "src"), qf_pt2_dtype_of(call, x));
    return qf_pt2_done(call, qf_import_expand(qf_pt2_target(call), y, qf_value_dims(qf_pt2_graph(call), x), rank));
}

/* Every element of self becomes a number. */
qf_pt2_outcome qf_pt2_map_fill(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self"), value = qf_pt2_in(call, "value");
    uint32_t rank = qf_pt2_rank(call, x);
    if (rank > QF_MAX_RANK) return qf_pt2_decline(call, "the shape of its input is unknown");
    if (value.id)
        return qf_pt2_done(call,
                           qf_import_expand(qf_pt2_target(call), qf_pt2_cast(call, value, qf_pt2_dtype_of(call, x)),
                                            qf_value_dims(qf_pt2_graph(call), x), rank));
    value = qf_pt2_has(call, "value") ? qf_pt2_number_value(call, "value", qf_pt2_dtype_of(call, x))
                                      : qf_pt2_scalar(call, qf_pt2_dtype_of(call, x), 0); /* zero_ */
    return qf_pt2_done(call, qf_import_full(qf_pt2_target(call), value, qf_value_dims(qf_pt2_graph(call), x), rank));
}

/* Checks of what is known already, and hints. */
qf_pt2_outcome qf_pt2_map_nothing(qf_pt2_call *call) {
    (void)call;
    return QF_PT2_MAPPED;
}
