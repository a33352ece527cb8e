/* Owns: cases of ops that compute element by element, of casts and of constants.
 * Does not own: layout (layout_cases.c), quantisation (quantise_cases.c).
 * Next: cases.h. */
#include <string.h>

#include "tests/gpu/conformance/cases.h"

static const qf_dtype every_dtype[] = {QF_F32,    QF_F16,        QF_BF16,       QF_F64,       QF_F8E4M3FN,
                                       QF_F8E5M2, QF_F8E4M3FNUZ, QF_F8E5M2FNUZ, QF_F8E8M0FNU, QF_F4E2M1FN,
                                       QF_I1,     QF_I8,         QF_U8,         QF_I32,       QF_I64};

static bool is_float(qf_dtype dtype) {
    return qf_dtype_is_float(dtype);
}

static bool is_whole(qf_dtype dtype) {
    return qf_dtype_kind_of(dtype) == QF_DTYPE_KIND_INTEGER;
}

/* Narrow and unusual types get fewer shapes. */
static bool is_common(qf_dtype dtype) {
    return dtype == QF_F32 || dtype == QF_F16 || dtype == QF_BF16 || dtype == QF_I32;
}

static const shape shapes[] = {{2, {3, 37}},
                               {1, {100003}},
                               {0, {0}},
                               {3, {4, 0, 5}},
                               {4, {2, 1, 3, 64}},
                               {1, {4096}},
                               {8, {1, 2, 1, 3, 1, 2, 1, 5}}};

static void unary(suite *to, qf_op op, qf_dtype dtype, shape dims, fill values, const char *attributes,
                  const char *name, qf_dtype result) {
    test_case *test = &to->test;
    case_begin(to, test, op, "%s_%s%s", qf_dtype_name(dtype), shape_text(dims), name);
    (void)case_add_input(test, "x", dtype, dims, values);
    case_node(test, "  %%y = %s %%x %s", qf_op_name(op), attributes);
    case_output(test, "y", bound_of(op, dtype, result));
    test->small = shape_count(dims) < 1000;
    case_end(test);
}

static void unary_shapes(suite *to, qf_op op, qf_dtype dtype, fill values, const char *attributes, const char *name,
                         qf_dtype result) {
    uint32_t count = is_common(dtype) ? QF_COUNT_OF(shapes) : 2;
    for (uint32_t i = 0; i < count; i++) unary(to, op, dtype, shapes[i], values, attributes, name, result);
}

/* Functions of floats, each on a range where it means something, and on odd values. */
static void functions(suite *to) {
    static const struct {
        qf_op op;
        double low, high;
    } ops[] = {{QF_OP_exp, -20, 20},      {QF_OP_log, 1e-3, 50}, {QF_OP_sqrt, 0, 100},     {QF_OP_rsqrt, 1e-3, 100},
               {QF_OP_reciprocal, -4, 4}, {QF_OP_tanh, -6, 6},   {QF_OP_sigmoid, -15, 15}, {QF_OP_erf, -4, 4},
               {QF_OP_sin, -30, 30},      {QF_OP_cos, -30, 30},  {QF_OP_floor, -9, 9},     {QF_OP_ceil, -9, 9},
               {QF_OP_round, -9, 9},      {QF_OP_silu, -10, 10}};
    static const qf_dtype dtypes[] = {QF_F32, QF_F16, QF_BF16, QF_F64, QF_F8E4M3FN, QF_F8E5M2};
    for (uint32_t i = 0; i < QF_COUNT_OF(ops); i++)
        for (uint32_t j = 0; j < QF_COUNT_OF(dtypes); j++) {
            unary_shapes(to, ops[i].op, dtypes[j], UNIFORM(ops[i].low, ops[i].high), "", "", dtypes[j]);
            unary(to, ops[i].op, dtypes[j], SHAPE(5000), ODD, "", "_odd", dtypes[j]);
        }
    static const char *const forms[] = {"{approximate=erf}", "{approximate=tanh}", "{approximate=quick}"};
    for (uint32_t i = 0; i < QF_COUNT_OF(forms); i++)
        for (uint32_t j = 0; j < QF_COUNT_OF(dtypes); j++)
            unary_shapes(to, QF_OP_gelu, dtypes[j], UNIFORM(-6, 6), forms[i], forms[i], dtypes[j]);
}

static void signs(suite *to) {
    static const qf_op ops[] = {QF_OP_neg, QF_OP_abs, QF_OP_sign, QF_OP_relu};
    for (uint32_t i = 0; i < QF_COUNT_OF(ops); i++)
        for (uint32_t j = 0; j < QF_COUNT_OF(every_dtype); j++) {
            if (every_dtype[j] == QF_I1) continue;
            unary_shapes(to, ops[i], every_dtype[j], ODD, "", "_odd", every_dtype[j]);
        }
    unary_shapes(to, QF_OP_not, QF_I1, MOSTLY(0.5), "", "", QF_I1);
    for (uint32_t j = 0; j < QF_COUNT_OF(every_dtype); j++) {
        if (!is_float(every_dtype[j])) continue;
        unary_shapes(to, QF_OP_is_nan, every_dtype[j], ODD, "", "", QF_I1);
        unary_shapes(to, QF_OP_is_inf, every_dtype[j], ODD, "", "", QF_I1);
    }
}

static void casts(suite *to) {
    char attributes[80], name[64];
    for (uint32_t i = 0; i < QF_COUNT_OF(every_dtype); i++)
        for (uint32_t j = 0; j < QF_COUNT_OF(every_dtype); j++) {
            bool narrow = qf_dtype_is_float8(every_dtype[j]) || every_dtype[j] == QF_F4E2M1FN;
            for (int saturate = 1; saturate >= !narrow; saturate--) {
                (void)snprintf(attributes, sizeof attributes, "{dtype=%s, saturate=%s}", qf_dtype_name(every_dtype[j]),
                               saturate ? "true" : "false");
                (void)snprintf(name, sizeof name, "_to_%s%s", qf_dtype_name(every_dtype[j]),
                               saturate ? "" : "_unsaturated");
                unary(to, QF_OP_cast, every_dtype[i], SHAPE(4099), ODD, attributes, name, every_dtype[j]);
            }
        }
    unary(to, QF_OP_cast, QF_F32, SHAPE(1 << 20), NORMAL(100, 0), "{dtype=f8E4M3FN}", "_large", QF_F8E4M3FN);
    unary(to, QF_OP_cast, QF_BF16, SHAPE(0, 7), NORMAL(1, 0), "{dtype=f32}", "_empty", QF_F32);
    unary(to, QF_OP_bitcast, QF_U8, SHAPE(3, 41), ODD, "{dtype=f8E4M3FN}", "_f8", QF_F8E4M3FN);
    unary(to, QF_OP_bitcast, QF_F32, SHAPE(1000), ODD, "{dtype=i32}", "_i32", QF_I32);
    unary(to, QF_OP_copy, QF_F16, SHAPE(13, 77), ODD, "", "", QF_F16);
    unary(to, QF_OP_copy, QF_F4E2M1FN, SHAPE(33), ODD, "", "", QF_F4E2M1FN);
    unary(to, QF_OP_copy, QF_F32, SHAPE(0), ODD, "", "_empty", QF_F32);
}

static void binary(suite *to, qf_op op, qf_dtype dtype, shape a, shape b, fill x, fill y, const char *attributes,
                   qf_dtype result) {
    test_case *test = &to->test;
    case_begin(to, test, op, "%s_%s_%s%s", qf_dtype_name(dtype), shape_text(a), shape_text(b), attributes);
    (void)case_add_input(test, "a", dtype, a, x);
    (void)case_add_input(test, "b", dtype, b, y);
    case_node(test, "  %%y = %s %%a, %%b %s", qf_op_name(op), attributes);
    case_output(test, "y", bound_of(op, dtype, result));
    test->small = shape_count(a) < 1000;
    case_end(test);
}

static const struct {
    shape a, b;
} pairs[] = {{{2, {13, 65}}, {2, {13, 65}}},
             {{2, {7, 129}}, {1, {129}}},
             {{3, {2, 5, 1}}, {3, {2, 1, 8}}},
             {{1, {70001}}, {0, {0}}},
             {{0, {0}}, {0, {0}}},
             {{2, {0, 3}}, {2, {1, 3}}},
             {{4, {2, 3, 4, 64}}, {4, {2, 1, 1, 64}}},
             {{4, {2, 1, 16, 16}}, {2, {16, 1}}},
             {{2, {1, 256}}, {2, {300, 1}}},
             {{8, {2, 1, 2, 1, 2, 1, 2, 3}}, {8, {1, 2, 1, 2, 1, 2, 1, 3}}}};

static void binary_shapes(suite *to, qf_op op, qf_dtype dtype, fill x, fill y, const char *attributes,
                          qf_dtype result) {
    uint32_t count = is_common(dtype) ? QF_COUNT_OF(pairs) : 3;
    for (uint32_t i = 0; i < count; i++) binary(to, op, dtype, pairs[i].a, pairs[i].b, x, y, attributes, result);
}

static void arithmetic(suite *to) {
    static const qf_op ops[] = {QF_OP_add, QF_OP_sub, QF_OP_mul, QF_OP_div, QF_OP_minimum, QF_OP_maximum};
    static const qf_op compares[] = {QF_OP_equal, QF_OP_less, QF_OP_less_equal, QF_OP_greater, QF_OP_greater_equal};
    for (uint32_t j = 0; j < QF_COUNT_OF(every_dtype); j++) {
        qf_dtype dtype = every_dtype[j];
        if (dtype != QF_I1) {
            for (uint32_t i = 0; i < QF_COUNT_OF(ops); i++) binary_shapes(to, ops[i], dtype, ODD, ODD, "", dtype);
            fill base = is_whole(dtype) ? INTEGERS(0, 9) : UNIFORM(0.1, 4);
            fill power = is_whole(dtype) ? INTEGERS(0, 5) : UNIFORM(-2, 3);
            binary_shapes(to, QF_OP_pow, dtype, base, power, "", dtype);
            if (dtype != QF_F8E8M0FNU) binary_shapes(to, QF_OP_pow, dtype, ODD, ODD, "", dtype);
            binary_shapes(to, QF_OP_mod, dtype, ODD, is_whole(dtype) ? INTEGERS(0, 7) : NORMAL(3, 0), "{fmod=false}",
                          dtype);
            binary_shapes(to, QF_OP_mod, dtype, ODD, ODD, "{fmod=true}", dtype);
        }
        for (uint32_t i = 0; i < (dtype == QF_I1 ? 1 : QF_COUNT_OF(compares)); i++)
            binary_shapes(to, compares[i], dtype, ODD, ODD, "", QF_I1);
    }
    binary_shapes(to, QF_OP_and, QF_I1, MOSTLY(0.5), MOSTLY(0.5), "", QF_I1);
    binary_shapes(to, QF_OP_or, QF_I1, MOSTLY(0.5), MOSTLY(0.5), "", QF_I1);
    binary_shapes(to, QF_OP_xor, QF_I1, MOSTLY(0.5), MOSTLY(0.5), "", QF_I1);
    binary(to, QF_OP_add, QF_BF16, SHAPE(1024, 1024), SHAPE(1024), NORMAL(1, 0), NORMAL(1, 0), "", QF_BF16);
}

static void choices(suite *to) {
    for (uint32_t j = 0; j < QF_COUNT_OF(every_dtype); j++) {
        qf_dtype dtype = every_dtype[j];
        for (uint32_t i = 0; i < QF_COUNT_OF(pairs); i++) {
            test_case *test = &to->test;
            if (i > 2 && !is_common(dtype)) break;
            case_begin(to, test, QF_OP_where, "%s_%s", qf_dtype_name(dtype), shape_text(pairs[i].a));
            (void)case_add_input(test, "c", QF_I1, pairs[i].b, MOSTLY(0.4));
            (void)case_add_input(test, "a", dtype, pairs[i].a, ODD);
            (void)case_add_input(test, "b", dtype, SCALAR, ODD);
            case_node(test, "  %%y = where %%c, %%a, %%b");
            case_output(test, "y", bound_of(QF_OP_where, dtype, dtype));
            test->small = true;
            case_end(test);
        }
        if (dtype == QF_I1) continue;
        for (int bounds = 1; bounds <= 3; bounds++) {
            test_case *test = &to->test;
            case_begin(to, test, QF_OP_clamp, "%s_%s%s", qf_dtype_name(dtype), bounds & 1 ? "low" : "",
                       bounds & 2 ? "high" : "");
            (void)case_add_input(test, "x", dtype, SHAPE(3, 333), ODD);
            (void)case_add_input(test, "low", dtype, SCALAR, is_whole(dtype) ? INTEGERS(1, 2) : UNIFORM(-2, 1));
            (void)case_add_input(test, "high", dtype, SHAPE(333), is_whole(dtype) ? INTEGERS(2, 90) : UNIFORM(1, 3));
            case_node(test, "  %%y = clamp %%x%s%s", bounds & 1 ? ", low=%low" : "", bounds & 2 ? ", high=%high" : "");
            case_output(test, "y", bound_of(QF_OP_clamp, dtype, dtype));
            case_end(test);
        }
    }
}

/* A value that no input gives: the whole graph is the case's text. */
static void source(suite *to, qf_op op, const char *variant, const char *line, qf_dtype result) {
    test_case *test = &to->test;
    case_begin(to, test, op, "%s", variant);
    case_node(test, "%s", line);
    case_output(test, "y", bound_of(op, result, result));
    test->small = true;
    case_end(test);
}

static void sources(suite *to) {
    source(to, QF_OP_iota, "i64", "  %y = iota {shape=[3, 5, 7], axis=1}", QF_I64);
    source(to, QF_OP_iota, "f16_steps", "  %y = iota {shape=[40, 3], axis=0, dtype=f16, start=5, step=3}", QF_F16);
    source(to, QF_OP_iota, "i32_down", "  %y = iota {shape=[1000], axis=0, dtype=i32, start=7, step=-2}", QF_I32);
    source(to, QF_OP_iota, "f8", "  %y = iota {shape=[600], axis=0, dtype=f8E4M3FN}", QF_F8E4M3FN);
    source(to, QF_OP_iota, "empty", "  %y = iota {shape=[0, 4], axis=1}", QF_I64);
    source(to, QF_OP_symbolic, "vector", "  %y = symbolic {values=[3, 4, min(7, 5)], shape=[3]}", QF_I64);
    source(to, QF_OP_symbolic, "scalar", "  %y = symbolic {values=[42], shape=[]}", QF_I64);
    source(to, QF_OP_constant, "f16", "  %y = constant {value=f16[2, 2] [1.0, -2.5, inf, nan]}", QF_F16);
    source(to, QF_OP_constant, "f4", "  %y = constant {value=f4E2M1FN[3] [1.0, -6.0, 0.5]}", QF_F4E2M1FN);
    for (uint32_t j = 0; j < QF_COUNT_OF(every_dtype); j++) {
        test_case *test = &to->test;
        case_begin(to, test, QF_OP_full, "%s", qf_dtype_name(every_dtype[j]));
        (void)case_add_input(test, "value", every_dtype[j], SCALAR, ODD);
        case_node(test, "  %%y = full %%value {shape=[5, 257]}");
        case_output(test, "y", bound_of(QF_OP_full, every_dtype[j], every_dtype[j]));
        case_end(test);
    }
    test_case *test = &to->test;
    case_begin(to, test, QF_OP_shape_of, "all");
    (void)case_add_input(test, "x", QF_F16, SHAPE(3, 0, 9), ODD);
    case_node(test, "  %%y = shape_of %%x {start=0, end=3}");
    case_output(test, "y", bound_of(QF_OP_shape_of, QF_I64, QF_I64));
    case_end(test);
}

/* Chains of steps, which a GPU may run as one launch. */
static void chain(suite *to, const char *name, qf_dtype dtype, shape dims, const char *body, bound within) {
    test_case *test = &to->test;
    case_begin(to, test, QF_OP_return, "%s_%s_%s", name, qf_dtype_name(dtype), shape_text(dims));
    (void)case_add_input(test, "x", dtype, dims, NORMAL(2, 0.1));
    (void)case_add_input(test, "b", dtype, SHAPE(dims.dims[dims.rank - 1]), NORMAL(1, 0));
    (void)case_add_input(test, "s", QF_F32, SCALAR, UNIFORM(0.02, 0.03));
    case_node(test, "%s", body);
    case_output(test, "y", within);
    test->small = shape_count(dims) < 5000;
    case_end(test);
}

static void chains(suite *to) {
    static const qf_dtype dtypes[] = {QF_F32, QF_F16, QF_BF16};
    const bound exact = {.kind = BOUND_VALUES}, codes = {.kind = BOUND_CODES, .share = 0.999, .most_off = 1};
    for (uint32_t i = 0; i < QF_COUNT_OF(dtypes); i++) {
        shape few = SHAPE(7, 33), many = SHAPE(513, 1024);
        const char *sums = "  %t = mul %x, %b\n  %u = add %t, %x\n  %y = sub %u, %b";
        chain(to, "sums", dtypes[i], few, sums, exact);
        chain(to, "sums", dtypes[i], many, sums, exact);
        const char *quantised = "  %t = silu %x\n  %u = mul %t, %b\n  %y = quantize %u, %s {dtype=f8E4M3FN}";
        chain(to, "silu_quantize", dtypes[i], few, quantised, codes);
        chain(to, "silu_quantize", dtypes[i], many, quantised, codes);
        const char *twice = "  %t = add %x, %b\n  %u = maximum %t, %x\n  %v = mul %t, %t\n  %y = less %u, %v";
        chain(to, "diamond", dtypes[i], few, twice, exact);
        const char *spelled = "  %w = cast %x {dtype=f32}\n  %d = div %w, %s\n  %lo = constant {value=f32[] -448.0}\n"
                              "  %hi = constant {value=f32[] 448.0}\n  %c = clamp %d, low=%lo, high=%hi\n"
                              "  %y = cast %c {dtype=f8E4M3FN}";
        chain(to, "spelled_quantize", dtypes[i], few, spelled, exact);
        chain(to, "spelled_quantize", dtypes[i], many, spelled, exact);
    }
}

void elementwise_cases(suite *to) {
    functions(to);
    signs(to);
    casts(to);
    arithmetic(to);
    choices(to);
    sources(to);
    chains(to);
}
