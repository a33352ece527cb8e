/* Owns: dtypes by the export schema's codes, sympy expressions as dims, ranges of symbols.
 * Does not own: values (tensors.c).
 * Next: tensors.c. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "frontends/pt2/import.h"

/* ScalarType of torch's export schema (not c10::ScalarType, where FLOAT8E4M3FN is 24). Unknown to QFuse: SHORT (3), the
 * complex ones (9 to 11, of which 10 and 11 are read as their parts), UINT16 (28). */
qf_dtype qf_pt2_dtype(int64_t code) {
    switch (code) {
    case 1: return QF_U8;          /* BYTE */
    case 2: return QF_I8;          /* CHAR */
    case 4: return QF_I32;         /* INT */
    case 5: return QF_I64;         /* LONG */
    case 6: return QF_F16;         /* HALF */
    case 7: return QF_F32;         /* FLOAT */
    case 8: return QF_F64;         /* DOUBLE */
    case 12: return QF_I1;         /* BOOL */
    case 13: return QF_BF16;       /* BFLOAT16 */
    case 29: return QF_F8E4M3FN;   /* FLOAT8E4M3FN */
    case 30: return QF_F8E5M2;     /* FLOAT8E5M2 */
    case 31: return QF_F8E4M3FNUZ; /* FLOAT8E4M3FNUZ */
    case 32: return QF_F8E5M2FNUZ; /* FLOAT8E5M2FNUZ */
    default: return QF_DTYPE_NONE;
    }
}

qf_dtype qf_pt2_part_dtype(int64_t code) {
    return code == 10 ? QF_F32 : code == 11 ? QF_F64 : QF_DTYPE_NONE; /* COMPLEXFLOAT, COMPLEXDOUBLE */
}

static int64_t code_of(const json_t *meta) {
    const json_t *dtype = qf_pt2_get(meta, "dtype");
    return json_is_integer(dtype) ? json_integer_value(dtype) : 0;
}

bool qf_pt2_meta_is_complex(const json_t *meta) {
    return qf_pt2_part_dtype(code_of(meta)) != QF_DTYPE_NONE;
}

qf_dtype qf_pt2_meta_dtype(const json_t *meta) {
    return qf_pt2_meta_is_complex(meta) ? qf_pt2_part_dtype(code_of(meta)) : qf_pt2_dtype(code_of(meta));
}

/* --- expressions: sympy's srepr, "Mul(Integer(2), Symbol('s0', positive=True))" --- */
#define MAX_NESTING 32

typedef struct reader {
    qf_context *context;
    const char *at;
    uint32_t depth;
} reader;

static void skip_spaces(reader *in) {
    while (*in->at == ' ') in->at++;
}

static bool accept(reader *in, char c) {
    skip_spaces(in);
    if (*in->at != c) return false;
    in->at++;
    return true;
}

static qf_dim read_expression(reader *in);

static qf_dim read_integer(reader *in) {
    char *end;
    skip_spaces(in);
    if (!isdigit((unsigned char)*in->at) && *in->at != '-') return (qf_dim){0};
    long long number = strtoll(in->at, &end, 10);
    if (end == in->at) return (qf_dim){0};
    in->at = end;
    return qf_dim_constant(in->context, number);
}

/* 'name', keyword=True, ...) */
static qf_dim read_symbol(reader *in) {
    if (!accept(in, '\'')) return (qf_dim){0};
    size_t size = strcspn(in->at, "'");
    if (!size || in->at[size] != '\'') return (qf_dim){0};
    qf_text name = {in->at, size};
    in->at += size + 1;
    size_t rest = strcspn(in->at, "()");
    if (in->at[rest] != ')') return (qf_dim){0};
    in->at += rest + 1;
    return qf_dim_named(in->context, name);
}

static qf_dim power(qf_context *context, qf_dim base, qf_dim exponent) {
    int64_t count;
    if (!qf_dim_is_constant(context, exponent, &count) || count < 0 || count > 8) return (qf_dim){0};
    qf_dim result = qf_dim_constant(context, 1);
    for (int64_t i = 0; i < count; i++) result = qf_dim_multiply(context, result, base);
    return result;
}

static bool is_word(qf_text word, const char *one, const char *other) {
    return qf_text_is(word, one) || qf_text_is(word, other);
}

static qf_dim apply(qf_context *context, qf_text function, qf_dim a, qf_dim b) {
    if (qf_text_is(function, "Add")) return qf_dim_add(context, a, b);
    if (qf_text_is(function, "Mul")) return qf_dim_multiply(context, a, b);
    if (qf_text_is(function, "Pow")) return power(context, a, b);
    if (is_word(function, "FloorDiv", "CleanDiv")) return qf_dim_floor_divide(context, a, b);
    if (is_word(function, "Mod", "PythonMod")) return qf_dim_modulo(context, a, b);
    if (is_word(function, "Max", "max")) return qf_dim_maximum(context, a, b);
    if (is_word(function, "Min", "min")) return qf_dim_minimum(context, a, b);
    return (qf_dim){0};
}

static qf_dim read_call(reader *in) {
    size_t size = 0;
    while (isalpha((unsigned char)in->at[size])) size++;
    qf_text function = {in->at, size};
    in->at += size;
    if (!size || !accept(in, '(')) return (qf_dim){0};
    if (qf_text_is(function, "Symbol")) return read_symbol(in);
    qf_dim result = read_expression(in);
    if (qf_text_is(function, "Integer")) return accept(in, ')') ? result : (qf_dim){0};
    while (result.id && accept(in, ',')) {
        qf_dim next = read_expression(in);
        if (!next.id) return next;
        result = apply(in->context, function, result, next);
    }
    return accept(in, ')') ? result : (qf_dim){0};
}

static qf_dim read_expression(reader *in) {
    if (in->depth == MAX_NESTING) return (qf_dim){0};
    in->depth++;
    skip_spaces(in);
    qf_dim result = isalpha((unsigned char)*in->at) ? read_call(in) : read_integer(in);
    in->depth--;
    return result;
}

/* 0: not understood. */
static qf_dim expression_of(qf_context *context, const char *text) {
    reader in = {.context = context, .at = text};
    qf_dim result = read_expression(&in);
    skip_spaces(&in);
    return *in.at ? (qf_dim){0} : result;
}

qf_dim qf_pt2_size(qf_pt2_import *import, const json_t *size) {
    const json_t *number = qf_pt2_get(size, "as_int");
    if (json_is_integer(number) && json_integer_value(number) >= 0)
        return qf_dim_constant(import->context, json_integer_value(number));
    const json_t *expression = qf_pt2_get(qf_pt2_get(size, "as_expr"), "expr_str");
    qf_dim dim = {0};
    if (json_is_string(expression)) dim = expression_of(import->context, json_string_value(expression));
    return dim.id ? dim : qf_dim_fresh(import->context, "u");
}

qf_type qf_pt2_meta_type(qf_pt2_import *import, const json_t *meta, const char *location) {
    qf_position position = {.location = location};
    const json_t *sizes = qf_pt2_get(meta, "sizes"), *dtype = qf_pt2_get(meta, "dtype");
    qf_dim dims[QF_MAX_RANK];
    if (!json_is_array(sizes) || !json_is_integer(dtype)) {
        (void)qf_fail(import->context, QF_ERROR_PARSE, &position, "expected a tensor's dtype and sizes, found none");
        return (qf_type){0};
    }
    bool complex = qf_pt2_meta_is_complex(meta);
    size_t rank = json_array_size(sizes);
    if (rank + complex > QF_MAX_RANK) {
        (void)qf_fail(import->context, QF_ERROR_LIMIT, &position, "a tensor of rank %zu; at most %d is supported", rank,
                      QF_MAX_RANK);
        return (qf_type){0};
    }
    for (size_t i = 0; i < rank; i++) {
        dims[i] = qf_pt2_size(import, json_array_get(sizes, i));
        if (!dims[i].id) return (qf_type){0};
    }
    if (complex) dims[rank++] = qf_dim_constant(import->context, 2);
    return qf_type_tensor(import->context, qf_pt2_meta_dtype(meta), dims, (uint32_t)rank);
}

/* --- ranges: of symbols; those of expressions over them follow --- */
bool qf_pt2_add_ranges(qf_pt2_import *import) {
    json_t *ranges = qf_pt2_get(import->program, "range_constraints");
    const char *name;
    json_t *range;
    json_object_foreach(ranges, name, range) {
        if (name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")]) continue;
        qf_dim dim = qf_dim_named(import->context, qf_text_of(name));
        if (!dim.id) return false;
        const json_t *least = qf_pt2_get(range, "min_val"), *most = qf_pt2_get(range, "max_val");
        qf_symbol_fact fact = {.symbol = qf_dim_as_symbol(import->context, dim), .maximum = INT64_MAX, .divisor = 1};
        if (!fact.symbol.id) continue;
        if (json_is_integer(least)) fact.minimum = json_integer_value(least);
        if (json_is_integer(most)) fact.maximum = json_integer_value(most);
        if (fact.minimum < 0) fact.minimum = 0;
        if (fact.maximum >= fact.minimum && !qf_graph_add_fact(import->graph, fact)) return false;
    }
    return true;
}
