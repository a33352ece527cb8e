/* Owns: mappings of operators of complex tensors, which are real ones with a last axis of real and imaginary part.
 * Does not own: mappings that move elements and serve both kinds (map_layout.c).
 * Next: complex.h. */
#include <string.h>

#include "frontends/pt2/complex.h"
#include "frontends/pt2/maps.h"

static const char not_these[] = "it computes with complex numbers in a way that the importer does not know";

static const json_t *meta_of(const qf_pt2_call *call, uint32_t output) {
    if (output >= call->output_count || !*call->output_names[output]) return NULL;
    return qf_pt2_get(qf_pt2_get(call->scope->graph, "tensor_values"), call->output_names[output]);
}

bool qf_pt2_gives_complex(const qf_pt2_call *call, uint32_t output) {
    return qf_pt2_meta_is_complex(meta_of(call, output));
}

/* --- which tensors are complex --- */
typedef struct census {
    uint32_t complex, real; /* tensors among the arguments */
    bool first;             /* the first argument is complex */
} census;

static census count_arguments(qf_pt2_call *call) {
    census found = {0};
    for (size_t i = 0; i < json_array_size(call->arguments); i++) {
        uint32_t *tensors, count;
        if (!qf_pt2_tensors_of(call, json_array_get(call->arguments, i), &tensors, &count)) return found;
        for (uint32_t t = 0; t < count; t++) {
            if (!tensors[t]) continue;
            bool complex = call->import->tensors[tensors[t]].complex;
            *(complex ? &found.complex : &found.real) += 1;
            found.first |= complex && i == 0;
        }
    }
    return found;
}

bool qf_pt2_is_of_complex(qf_pt2_call *call) {
    for (uint32_t i = 0; i < call->output_count; i++)
        if (qf_pt2_gives_complex(call, i)) return true;
    return call->import->has_complex && count_arguments(call).complex > 0;
}

static bool is_complex_argument(qf_pt2_call *call, const char *name) {
    uint32_t tensor = qf_pt2_tensor_argument(call, name);
    return tensor && call->import->tensors[tensor].complex;
}

/* --- parts --- */
/* [.., 1]; which: 0 real, 1 imaginary. */
static qf_value part_of(qf_pt2_call *call, qf_value x, int64_t which) {
    uint32_t rank = qf_pt2_rank(call, x);
    if (rank == 0 || rank > QF_MAX_RANK) return (qf_value){0};
    return qf_pt2_slice_axis(call, x, rank - 1, qf_pt2_constant(call, which), qf_pt2_constant(call, which + 1), 1);
}

/* Of parts [.., 1] with the same shape. */
static qf_value join(qf_pt2_call *call, qf_value re, qf_value im) {
    uint32_t rank = qf_pt2_rank(call, re);
    if (rank == 0 || rank > QF_MAX_RANK) return (qf_value){0};
    return qf_pt2_concat(call, (qf_value[]){re, im}, 2, rank - 1);
}

static qf_value mul(qf_pt2_call *call, qf_value a, qf_value b) {
    return qf_pt2_binary(call, QF_OP_mul, a, b);
}

/* A real tensor as [.., 1]. */
static qf_value as_part(qf_pt2_call *call, qf_value x, qf_dtype dtype) {
    uint32_t rank = qf_pt2_rank(call, x);
    return rank < QF_MAX_RANK ? qf_pt2_unsqueeze(call, qf_pt2_cast(call, x, dtype), rank) : (qf_value){0};
}

/* The same numbers with imaginary parts of 0. */
static qf_value lift(qf_pt2_call *call, qf_value x, qf_dtype dtype) {
    qf_value re = as_part(call, x, dtype);
    return re.id ? join(call, re, qf_pt2_like(call, re, 0)) : re;
}

/* --- between real and complex --- */
qf_pt2_outcome qf_pt2_map_as_complex(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    uint32_t rank = qf_pt2_rank(call, x);
    qf_dtype dtype = qf_pt2_dtype_of(call, x);
    if (call->complex || rank == 0 || rank > QF_MAX_RANK || (dtype != QF_F32 && dtype != QF_F64) ||
        !qf_dim_is(call->import->context, qf_pt2_dim_of(call, x, -1), 2))
        return qf_pt2_decline(call, "its input has no last axis of two 32- or 64-bit floats");
    return qf_pt2_done(call, x);
}

qf_pt2_outcome qf_pt2_map_as_real(qf_pt2_call *call) {
    if (!call->complex) return qf_pt2_decline(call, "its input is not complex");
    return qf_pt2_done(call, qf_pt2_in(call, "self"));
}

/* real, imag: row argument; real of a real tensor is itself. */
qf_pt2_outcome qf_pt2_map_part(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    uint32_t which = call->row->argument;
    if (!call->complex && which == 0) return qf_pt2_done(call, x);
    if (!call->complex) return qf_pt2_decline(call, "it takes the imaginary part of real numbers");
    return qf_pt2_done(call, qf_pt2_squeeze(call, part_of(call, x, which), qf_pt2_rank(call, x) - 1));
}

static qf_value conjugate(qf_pt2_call *call, qf_value x) {
    qf_value im = part_of(call, x, 1);
    return join(call, part_of(call, x, 0), im.id ? qf_import_unary(qf_pt2_target(call), QF_OP_neg, im) : im);
}

qf_pt2_outcome qf_pt2_map_conjugate(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    return qf_pt2_done(call, call->complex ? conjugate(call, x) : x);
}

/* The last two axes change places; mH and adjoint are conjugated as well. */
static qf_pt2_outcome map_matrix_transpose(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    uint32_t rank = qf_pt2_rank(call, x);
    if (rank > QF_MAX_RANK) return qf_pt2_decline(call, not_these);
    if (rank > 2) x = qf_pt2_swap(call, x, rank - 3, rank - 2);
    bool conjugates = strstr(call->row->target, "mH") || strstr(call->row->target, "adjoint");
    return qf_pt2_done(call, conjugates ? conjugate(call, x) : x);
}

/* The shape that two values broadcast to. */
static bool common_shape(const qf_pt2_call *call, qf_value a, qf_value b, qf_dim *out, uint32_t *out_rank) {
    uint32_t rank_a = qf_pt2_rank(call, a), rank_b = qf_pt2_rank(call, b), rank = rank_a > rank_b ? rank_a : rank_b;
    if (rank > QF_MAX_RANK) return false;
    for (uint32_t i = 0; i < rank; i++) {
        qf_dim x = i + rank_a >= rank ? qf_pt2_dim_of(call, a, (int32_t)(i + rank_a - rank)) : (qf_dim){0};
        qf_dim y = i + rank_b >= rank ? qf_pt2_dim_of(call, b, (int32_t)(i + rank_b - rank)) : (qf_dim){0};
        out[i] = !x.id || (y.id && qf_dim_is(call->import->context, x, 1)) ? y : x;
    }
    *out_rank = rank;
    return true;
}

/* Of the parts that a node gives, by what the program says of its result. */
static qf_dtype result_part(const qf_pt2_call *call) {
    const json_t *meta = meta_of(call, 0);
    return qf_pt2_meta_is_complex(meta) ? qf_pt2_meta_dtype(meta) : QF_DTYPE_NONE;
}

/* complex(real, imag): parts of one type, in one shape after broadcasting. */
static qf_pt2_outcome give_parts(qf_pt2_call *call, qf_value re, qf_value im) {
    qf_dim dims[QF_MAX_RANK];
    uint32_t rank;
    qf_dtype dtype = qf_pt2_dtype_of(call, re);
    if (call->import->failed) return QF_PT2_FAILED;
    if (dtype != qf_pt2_dtype_of(call, im) || dtype != result_part(call) || dtype == QF_DTYPE_NONE)
        return qf_pt2_decline(call, "its parts are not of the type that its result has");
    if (!common_shape(call, re, im, dims, &rank) || rank == QF_MAX_RANK) return qf_pt2_decline(call, not_these);
    re = qf_import_expand(qf_pt2_target(call), re, dims, rank);
    im = qf_import_expand(qf_pt2_target(call), im, dims, rank);
    return qf_pt2_done(call, join(call, as_part(call, re, dtype), as_part(call, im, dtype)));
}

qf_pt2_outcome qf_pt2_map_from_parts(qf_pt2_call *call) {
    return give_parts(call, qf_pt2_in(call, "real"), qf_pt2_in(call, "imag"));
}

/* abs * cos(angle), abs * sin(angle) */
qf_pt2_outcome qf_pt2_map_from_polar(qf_pt2_call *call) {
    qf_value size = qf_pt2_in(call, "abs"), angle = qf_pt2_in(call, "angle");
    if (qf_pt2_dtype_of(call, size) != qf_pt2_dtype_of(call, angle) || !qf_dtype_is_float(qf_pt2_dtype_of(call, angle)))
        return qf_pt2_decline(call, "its size and its angle are not floats of one type");
    return give_parts(call, mul(call, size, qf_import_unary(qf_pt2_target(call), QF_OP_cos, angle)),
                      mul(call, size, qf_import_unary(qf_pt2_target(call), QF_OP_sin, angle)));
}

/* complex to complex of another width, real to complex, complex to real: the real part. */
static qf_pt2_outcome map_cast(qf_pt2_call *call) {
    const char *name = qf_pt2_text(qf_pt2_get(json_array_get(call->arguments, 0), "name"));
    qf_value x = qf_pt2_in(call, name);
    qf_dtype dtype = qf_pt2_meta_dtype(meta_of(call, 0));
    if (dtype == QF_DTYPE_NONE || qf_pt2_dtype_of(call, x) == QF_DTYPE_NONE)
        return qf_pt2_decline(call, "its element types are not QFuse's");
    bool gives = qf_pt2_gives_complex(call, 0);
    if (call->complex && gives) return qf_pt2_done(call, qf_pt2_cast(call, x, dtype));
    if (gives) return qf_pt2_done(call, lift(call, x, dtype));
    x = qf_pt2_squeeze(call, part_of(call, x, 0), qf_pt2_rank(call, x) - 1);
    return qf_pt2_done(call, qf_pt2_cast(call, x, dtype));
}

/* --- arithmetic --- */
/* An operand: a complex tensor; a real one, or a number, as `re` alone; a complex number as both parts. */
typedef struct operand {
    qf_value whole;  /* complex tensors */
    qf_value re, im; /* others: [.., 1] or [] */
} operand;

/* {"real": a, "imag": b} as an argument. */
static bool read_complex_number(const qf_pt2_call *call, const char *name, double *out_re, double *out_im) {
    for (size_t i = 0; i < json_array_size(call->arguments); i++) {
        const json_t *argument = json_array_get(call->arguments, i);
        if (strcmp(qf_pt2_text(qf_pt2_get(argument, "name")), name) != 0) continue;
        const json_t *number = qf_pt2_get(qf_pt2_get(argument, "arg"), "as_complex");
        const json_t *re = qf_pt2_get(number, "real"), *im = qf_pt2_get(number, "imag");
        if (!json_is_number(re) || !json_is_number(im)) return false;
        *out_re = json_number_value(re);
        *out_im = json_number_value(im);
        return true;
    }
    return false;
}

/* NULL, or why the operand cannot be read. */
static const char *read_operand(qf_pt2_call *call, const char *name, qf_dtype dtype, operand *out) {
    qf_value x = qf_pt2_in(call, name);
    double re, im;
    *out = (operand){0};
    if (x.id) {
        qf_dtype own = qf_pt2_dtype_of(call, x);
        if (own == QF_DTYPE_NONE || (is_complex_argument(call, name) && own == QF_F64 && dtype != QF_F64))
            return "its element types are not QFuse's";
        if (is_complex_argument(call, name))
            out->whole = qf_pt2_cast(call, x, dtype);
        else
            out->re = qf_pt2_rank(call, x) ? as_part(call, x, dtype) : qf_pt2_cast(call, x, dtype);
        return out->whole.id || out->re.id ? NULL : not_these;
    }
    if (qf_pt2_is_number(call, name)) {
        out->re = qf_pt2_number_value(call, name, dtype);
    } else if (read_complex_number(call, name, &re, &im)) {
        out->re = qf_pt2_scalar(call, dtype, re);
        out->im = qf_pt2_scalar(call, dtype, im);
    }
    return out->re.id ? NULL : not_these;
}

static qf_value product_of_wholes(qf_pt2_call *call, qf_value a, qf_value b) {
    qf_value ar = part_of(call, a, 0), ai = part_of(call, a, 1), br = part_of(call, b, 0), bi = part_of(call, b, 1);
    qf_value re = qf_pt2_binary(call, QF_OP_sub, mul(call, ar, br), mul(call, ai, bi));
    qf_value im = qf_pt2_binary(call, QF_OP_add, mul(call, ar, bi), mul(call, ai, br));
    return join(call, re, im);
}

/* A complex number in the shape of nothing: [2]. */
static qf_value number_as_whole(qf_pt2_call *call, const operand *x) {
    return join(call, qf_pt2_unsqueeze(call, x->re, 0), qf_pt2_unsqueeze(call, x->im, 0));
}

static qf_value product(qf_pt2_call *call, operand a, operand b) {
    if (a.im.id) a.whole = number_as_whole(call, &a);
    if (b.im.id) b.whole = number_as_whole(call, &b);
    if (a.whole.id && b.whole.id) return product_of_wholes(call, a.whole, b.whole);
    return mul(call, a.whole.id ? a.whole : a.re, b.whole.id ? b.whole : b.re);
}

/* As a complex value; real tensors of [.., 1] and numbers of [] get imaginary parts of 0. */
static qf_value whole_of(qf_pt2_call *call, const operand *x) {
    if (x->whole.id) return x->whole;
    qf_value re = qf_pt2_rank(call, x->re) ? x->re : qf_pt2_unsqueeze(call, x->re, 0), im = x->im;
    if (!re.id) return re;
    im = im.id ? qf_pt2_unsqueeze(call, im, 0) : qf_pt2_like(call, re, 0);
    return join(call, re, im);
}

static qf_pt2_outcome map_arithmetic(qf_pt2_call *call) {
    qf_op op = (qf_op)call->row->argument;
    qf_dtype dtype = result_part(call);
    operand a, b;
    if (dtype == QF_DTYPE_NONE || (op != QF_OP_add && op != QF_OP_sub && op != QF_OP_mul) ||
        (qf_pt2_has(call, "alpha") && qf_pt2_int(call, "alpha", 0) != 1))
        return qf_pt2_decline(call, not_these);
    const char *reason = read_operand(call, "self", dtype, &a);
    if (!reason) reason = read_operand(call, "other", dtype, &b);
    if (reason) return qf_pt2_decline(call, reason);
    if (op == QF_OP_mul) return qf_pt2_done(call, product(call, a, b));
    return qf_pt2_done(call, qf_pt2_binary(call, op, whole_of(call, &a), whole_of(call, &b)));
}

/* By a real divisor. */
static qf_pt2_outcome map_divide(qf_pt2_call *call) {
    qf_dtype dtype = result_part(call);
    operand a, b;
    if (dtype == QF_DTYPE_NONE || qf_pt2_has(call, "rounding_mode") || call->row->argument)
        return qf_pt2_decline(call, not_these);
    const char *reason = read_operand(call, "self", dtype, &a);
    if (!reason) reason = read_operand(call, "other", dtype, &b);
    if (!reason && (!a.whole.id || b.whole.id || b.im.id)) reason = "it divides by complex numbers";
    if (reason) return qf_pt2_decline(call, reason);
    return qf_pt2_done(call, qf_pt2_binary(call, QF_OP_div, a.whole, b.re));
}

static qf_pt2_outcome map_unary(qf_pt2_call *call) {
    if ((qf_op)call->row->argument != QF_OP_neg) return qf_pt2_decline(call, not_these);
    return qf_pt2_map_unary(call);
}

/* e^re * (cos im, sin im) */
static qf_pt2_outcome map_exponential(qf_pt2_call *call) {
    if ((qf_op)call->row->argument != QF_OP_exp) return qf_pt2_decline(call, not_these);
    qf_value x = qf_pt2_in(call, "self"), angle = part_of(call, x, 1);
    qf_value size = qf_import_unary(qf_pt2_target(call), QF_OP_exp, part_of(call, x, 0));
    return qf_pt2_done(call, join(call, mul(call, size, qf_import_unary(qf_pt2_target(call), QF_OP_cos, angle)),
                                  mul(call, size, qf_import_unary(qf_pt2_target(call), QF_OP_sin, angle))));
}

/* gather_elements would need indices of the last axis. */
static qf_pt2_outcome map_gather(qf_pt2_call *call) {
    if ((qf_op)call->row->argument != QF_OP_gather) return qf_pt2_decline(call, not_these);
    return qf_pt2_map_gather(call);
}

/* --- which mapping serves complex tensors --- */
typedef enum expectation {
    ANY,   /* the mapping sees to it */
    FIRST, /* the first tensor is complex, and no other one */
    ALL    /* every tensor is */
} expectation;

typedef enum result { SAME_KIND, COMPLEX, REAL, EITHER } result;

typedef struct complex_row {
    qf_pt2_map of, map; /* the mapping of the row in ops.def; the one that serves in its place */
    expectation reads;
    result gives;
    bool scalars; /* also of tensors without axes */
} complex_row;

#define MOVES(name, reads, scalars)                                                                                    \
    { qf_pt2_map_##name, qf_pt2_map_##name, reads, SAME_KIND, scalars }
static const complex_row complex_rows[] = {
    MOVES(identity, FIRST, true),
    MOVES(dropout, FIRST, true),
    MOVES(reshape, FIRST, true),
    MOVES(reshape_as, ALL, true),
    MOVES(unsqueeze, FIRST, true),
    MOVES(squeeze, FIRST, true),
    MOVES(flatten, FIRST, false),
    MOVES(unflatten, FIRST, false),
    MOVES(expand, FIRST, true),
    MOVES(expand_as, ALL, true),
    MOVES(permute, FIRST, true),
    MOVES(transpose, FIRST, false),
    MOVES(move_axes, FIRST, false),
    MOVES(flip, FIRST, false),
    MOVES(roll, FIRST, false),
    MOVES(slice, FIRST, false),
    MOVES(select, FIRST, false),
    MOVES(narrow, FIRST, false),
    MOVES(split, FIRST, false),
    MOVES(split_sizes, FIRST, false),
    MOVES(chunk, FIRST, false),
    MOVES(unbind, FIRST, false),
    MOVES(repeat, FIRST, false),
    MOVES(repeat_interleave, FIRST, false),
    MOVES(join, ALL, true),
    MOVES(index, FIRST, false),
    MOVES(embedding, FIRST, false),
    {qf_pt2_map_matrix_transpose, map_matrix_transpose, FIRST, SAME_KIND, true},
    {qf_pt2_map_gather, map_gather, FIRST, SAME_KIND, false},
    {qf_pt2_map_unary, map_unary, FIRST, SAME_KIND, true},
    {qf_pt2_map_unary_float, map_exponential, FIRST, SAME_KIND, true},
    {qf_pt2_map_binary, map_arithmetic, ANY, COMPLEX, true},
    {qf_pt2_map_divide, map_divide, ANY, COMPLEX, true},
    {qf_pt2_map_cast, map_cast, ANY, EITHER, true},
    {qf_pt2_map_cast_like, map_cast, ANY, EITHER, true},
    {qf_pt2_map_as_complex, qf_pt2_map_as_complex, ANY, COMPLEX, true},
    {qf_pt2_map_as_real, qf_pt2_map_as_real, FIRST, REAL, true},
    {qf_pt2_map_part, qf_pt2_map_part, FIRST, REAL, true},
    {qf_pt2_map_conjugate, qf_pt2_map_conjugate, FIRST, SAME_KIND, true},
    {qf_pt2_map_from_parts, qf_pt2_map_from_parts, ANY, COMPLEX, true},
    {qf_pt2_map_from_polar, qf_pt2_map_from_polar, ANY, COMPLEX, true},
    {qf_pt2_map_size, qf_pt2_map_size, FIRST, REAL, true},
    {qf_pt2_map_element_count, qf_pt2_map_element_count, FIRST, REAL, true},
    {qf_pt2_map_nothing, qf_pt2_map_nothing, ANY, EITHER, true},
};

static const complex_row *find_row(const qf_pt2_call *call) {
    for (size_t i = 0; i < QF_COUNT_OF(complex_rows); i++)
        if (complex_rows[i].of == call->row->map) return &complex_rows[i];
    return NULL;
}

static bool as_expected(qf_pt2_call *call, const complex_row *row, const census *found) {
    bool reads = row->reads == ANY || (found->first && (row->reads == FIRST ? found->complex == 1 : found->real == 0));
    for (uint32_t i = 0; reads && row->gives != EITHER && i < call->output_count; i++)
        if (meta_of(call, i)) reads = qf_pt2_gives_complex(call, i) == (row->gives != REAL);
    return reads;
}

qf_pt2_outcome qf_pt2_map_complex(qf_pt2_call *call) {
    const complex_row *row = find_row(call);
    census found = count_arguments(call);
    if (call->import->failed) return QF_PT2_FAILED;
    if (!row || !as_expected(call, row, &found)) return qf_pt2_decline(call, not_these);
    call->complex = found.first;
    if (!row->scalars &&
        qf_pt2_rank(call, qf_pt2_in(call, qf_pt2_text(qf_pt2_get(json_array_get(call->arguments, 0), "name")))) == 1)
        return qf_pt2_decline(call, not_these);
    return row->map(call);
}
