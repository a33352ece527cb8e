/* Owns: elementwise kernels: unary, binary, where, clamp, cast.
 * Does not own: broadcasting (broadcast.c), conversions (base/convert.h).
 * Next: cpu.h. */
#include "kernels/cpu/cpu.h"

#include <math.h>

/* Elements of a block; even, so that no two threads share a byte of packed 4-bit results. */
#define BLOCK             512
#define BLOCKS_PER_THREAD 16

typedef struct elementwise {
    const qf_kernel_call *call;
    qf_view *y;
    qf_reader readers[3];
    int64_t count, mode; /* mode: the attribute of gelu, mod and cast */
} elementwise;

/* A block of an operand or of the result, in its domain. */
typedef union block {
    float f32[BLOCK];
    double f64[BLOCK];
    int64_t i64[BLOCK];
} block;

static qf_status start(const qf_kernel_call *call, elementwise *job) {
    *job = (elementwise){.call = call, .y = &call->results[0], .count = qf_view_count(&call->results[0])};
    for (uint32_t i = 0; i < 3; i++) {
        const qf_view *operand = qf_call_operand(call, i);
        if (operand && !qf_reader_start(&job->readers[i], operand, job->y))
            return qf_cpu_fail(call, QF_ERROR_INVALID_ARGUMENT, "%s: operand %u does not broadcast to the result",
                               qf_op_name(call->op), i);
    }
    return QF_OK;
}

static void run(elementwise *job, qf_cpu_body body) {
    qf_cpu_parallel(job->call->thread_count, (job->count + BLOCK - 1) / BLOCK, BLOCKS_PER_THREAD, body, job);
}

static int64_t block_size(const elementwise *job, int64_t index) {
    int64_t rest = job->count - index * BLOCK;
    return rest < BLOCK ? rest : BLOCK;
}

static void load(const elementwise *job, uint32_t operand, qf_domain domain, int64_t index, block *out) {
    int64_t count = block_size(job, index);
    const qf_reader *reader = &job->readers[operand];
    switch (domain) {
    case QF_DOMAIN_F32: qf_reader_f32(reader, index * BLOCK, count, out->f32); return;
    case QF_DOMAIN_F64: qf_reader_f64(reader, index * BLOCK, count, out->f64); return;
    case QF_DOMAIN_I64: qf_reader_i64(reader, index * BLOCK, count, out->i64); return;
    }
}

static void store(const elementwise *job, qf_domain domain, int64_t index, const block *in) {
    int64_t count = block_size(job, index);
    qf_view *y = job->y;
    switch (domain) {
    case QF_DOMAIN_F32: qf_store_array_f32(y->dtype, y->data, index * BLOCK, count, in->f32, true); return;
    case QF_DOMAIN_F64: qf_store_array_f64(y->dtype, y->data, index * BLOCK, count, in->f64, true); return;
    case QF_DOMAIN_I64: qf_store_array_i64(y->dtype, y->data, index * BLOCK, count, in->i64); return;
    }
}

/* --- the functions, once for f32 and once for f64 --- */

#define LOOP(expression)                                                                                               \
    for (int64_t i = 0; i < count; i++) y[i] = (expression);                                                           \
    return true

#define DEFINE_FLOAT_FUNCTIONS(type, name, f)                                                                          \
    static inline type sigmoid_##name(type x) {                                                                        \
        return 1 / (1 + exp##f(-x));                                                                                   \
    }                                                                                                                  \
    static type gelu_##name(type x, int64_t approximate) {                                                             \
        if (approximate == QF_VALUE_quick) return x * sigmoid_##name((type)1.702 * x);                                 \
        if (approximate == QF_VALUE_tanh)                                                                              \
            return (type)0.5 * x * (1 + tanh##f((type)0.7978845608028653559 * (x + (type)0.044715 * x * x * x)));      \
        return (type)0.5 * x * (1 + erf##f(x * (type)0.70710678118654752440));                                         \
    }                                                                                                                  \
    static inline type smaller_##name(type a, type b) {                                                                \
        return isnan(a) ? a : isnan(b) || b < a ? b : a;                                                               \
    }                                                                                                                  \
    static inline type larger_##name(type a, type b) {                                                                 \
        return isnan(a) ? a : isnan(b) || b > a ? b : a;                                                               \
    }                                                                                                                  \
    static inline type remainder_##name(type a, type b) {                                                              \
        type rest = fmod##f(a, b);                                                                                     \
        return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;                                                   \
    }                                                                                                                  \
    static bool unary_##name(qf_op op, int64_t mode, int64_t count, const type *x, type *y) {                          \
        switch (op) {                                                                                                  \
        case QF_OP_neg: LOOP(-x[i]);                                                                                   \
        case QF_OP_abs: LOOP(fabs##f(x[i]));                                                                           \
        case QF_OP_exp: LOOP(exp##f(x[i]));                                                                            \
        case QF_OP_log: LOOP(log##f(x[i]));                                                                            \
        case QF_OP_sqrt: LOOP(sqrt##f(x[i]));                                                                          \
        case QF_OP_rsqrt: LOOP(1 / sqrt##f(x[i]));                                                                     \
        case QF_OP_reciprocal: LOOP(1 / x[i]);                                                                         \
        case QF_OP_tanh: LOOP(tanh##f(x[i]));                                                                          \
        case QF_OP_sigmoid: LOOP(sigmoid_##name(x[i]));                                                                \
        case QF_OP_erf: LOOP(erf##f(x[i]));                                                                            \
        case QF_OP_sin: LOOP(sin##f(x[i]));                                                                            \
        case QF_OP_cos: LOOP(cos##f(x[i]));                                                                            \
        case QF_OP_floor: LOOP(floor##f(x[i]));                                                                        \
        case QF_OP_ceil: LOOP(ceil##f(x[i]));                                                                          \
        case QF_OP_round: LOOP(rint##f(x[i]));                                                                         \
        case QF_OP_sign: LOOP(x[i] > 0 ? 1 : x[i] < 0 ? -1 : x[i]);                                                    \
        case QF_OP_relu: LOOP(x[i] < 0 ? 0 : x[i]);                                                                    \
        case QF_OP_silu: LOOP(x[i] * sigmoid_##name(x[i]));                                                            \
        case QF_OP_gelu: LOOP(gelu_##name(x[i], mode));                                                                \
        default: return false;                                                                                         \
        }                                                                                                              \
    }                                                                                                                  \
    static bool binary_##name(qf_op op, int64_t mode, int64_t count, const type *a, const type *b, type *y) {          \
        switch (op) {                                                                                                  \
        case QF_OP_add: LOOP(a[i] + b[i]);                                                                             \
        case QF_OP_sub: LOOP(a[i] - b[i]);                                                                             \
        case QF_OP_mul: LOOP(a[i] * b[i]);                                                                             \
        case QF_OP_div: LOOP(a[i] / b[i]);                                                                             \
        case QF_OP_pow: LOOP(pow##f(a[i], b[i]));                                                                      \
        case QF_OP_mod: LOOP(mode ? fmod##f(a[i], b[i]) : remainder_##name(a[i], b[i]));                               \
        case QF_OP_minimum: LOOP(smaller_##name(a[i], b[i]));                                                          \
        case QF_OP_maximum: LOOP(larger_##name(a[i], b[i]));                                                           \
        default: return false;                                                                                         \
        }                                                                                                              \
    }                                                                                                                  \
    static bool predicate_##name(qf_op op, int64_t count, const type *a, const type *b, int64_t *y) {                  \
        switch (op) {                                                                                                  \
        case QF_OP_is_nan: LOOP(isnan(a[i]) != 0);                                                                     \
        case QF_OP_is_inf: LOOP(isinf(a[i]) != 0);                                                                     \
        case QF_OP_not: LOOP(a[i] == 0);                                                                               \
        case QF_OP_and: LOOP(a[i] != 0 && b[i] != 0);                                                                  \
        case QF_OP_or: LOOP(a[i] != 0 || b[i] != 0);                                                                   \
        case QF_OP_xor: LOOP((a[i] != 0) != (b[i] != 0));                                                              \
        case QF_OP_equal: LOOP(a[i] == b[i]);                                                                          \
        case QF_OP_less: LOOP(a[i] < b[i]);                                                                            \
        case QF_OP_less_equal: LOOP(a[i] <= b[i]);                                                                     \
        case QF_OP_greater: LOOP(a[i] > b[i]);                                                                         \
        case QF_OP_greater_equal: LOOP(a[i] >= b[i]);                                                                  \
        default: return false;                                                                                         \
        }                                                                                                              \
    }

DEFINE_FLOAT_FUNCTIONS(float, f32, f)
DEFINE_FLOAT_FUNCTIONS(double, f64, )

/* --- integers: two's complement by unsigned arithmetic; the store keeps the low bits of the dtype --- */

static int64_t negate(int64_t a) {
    return (int64_t)(0 - (uint64_t)a);
}

static int64_t divide(int64_t a, int64_t b) {
    return b == 0 ? 0 : b == -1 ? negate(a) : a / b;
}

static int64_t modulo(int64_t a, int64_t b, int64_t sign_of_a) {
    if (b == 0 || b == -1) return 0;
    int64_t rest = a % b;
    return !sign_of_a && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static int64_t power(int64_t base, int64_t exponent) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
    uint64_t result = 1, square = (uint64_t)base;
    for (; exponent; exponent >>= 1, square *= square)
        if (exponent & 1) result *= square;
    return (int64_t)result;
}

static bool unary_i64(qf_op op, int64_t mode, int64_t count, const int64_t *x, int64_t *y) {
    (void)mode;
    switch (op) {
    case QF_OP_neg: LOOP(negate(x[i]));
    case QF_OP_abs: LOOP(x[i] < 0 ? negate(x[i]) : x[i]);
    case QF_OP_sign: LOOP((x[i] > 0) - (x[i] < 0));
    case QF_OP_relu: LOOP(x[i] < 0 ? 0 : x[i]);
    case QF_OP_floor:
    case QF_OP_ceil:
    case QF_OP_round: LOOP(x[i]);
    default: return false;
    }
}

static bool binary_i64(qf_op op, int64_t mode, int64_t count, const int64_t *a, const int64_t *b, int64_t *y) {
    switch (op) {
    case QF_OP_add: LOOP((int64_t)((uint64_t)a[i] + (uint64_t)b[i]));
    case QF_OP_sub: LOOP((int64_t)((uint64_t)a[i] - (uint64_t)b[i]));
    case QF_OP_mul: LOOP((int64_t)((uint64_t)a[i] * (uint64_t)b[i]));
    case QF_OP_div: LOOP(divide(a[i], b[i]));
    case QF_OP_pow: LOOP(power(a[i], b[i]));
    case QF_OP_mod: LOOP(modulo(a[i], b[i], mode));
    case QF_OP_minimum: LOOP(a[i] < b[i] ? a[i] : b[i]);
    case QF_OP_maximum: LOOP(a[i] > b[i] ? a[i] : b[i]);
    default: return false;
    }
}

static bool predicate_i64(qf_op op, int64_t count, const int64_t *a, const int64_t *b, int64_t *y) {
    switch (op) {
    case QF_OP_is_nan:
    case QF_OP_is_inf: LOOP(0);
    case QF_OP_not: LOOP(a[i] == 0);
    case QF_OP_and: LOOP(a[i] && b[i]);
    case QF_OP_or: LOOP(a[i] || b[i]);
    case QF_OP_xor: LOOP(!a[i] != !b[i]);
    case QF_OP_equal: LOOP(a[i] == b[i]);
    case QF_OP_less: LOOP(a[i] < b[i]);
    case QF_OP_less_equal: LOOP(a[i] <= b[i]);
    case QF_OP_greater: LOOP(a[i] > b[i]);
    case QF_OP_greater_equal: LOOP(a[i] >= b[i]);
    default: return false;
    }
}

/* --- kernels --- */

static qf_domain domain_of(const elementwise *job) {
    return qf_domain_of(job->call->operands[0].dtype);
}

/* Runs the op on `count` elements; returns the domain that it wrote y in. False in *known for an op that the domain
 * lacks. */
static qf_domain apply(qf_op op, int64_t mode, qf_domain domain, int64_t count, const block *a, const block *b,
                       block *y, bool *known) {
    bool computed = false;
    *known = true;
    switch (domain) {
    case QF_DOMAIN_F32:
        computed = b ? binary_f32(op, mode, count, a->f32, b->f32, y->f32) : unary_f32(op, mode, count, a->f32, y->f32);
        if (!computed) *known = predicate_f32(op, count, a->f32, b ? b->f32 : NULL, y->i64);
        break;
    case QF_DOMAIN_F64:
        computed = b ? binary_f64(op, mode, count, a->f64, b->f64, y->f64) : unary_f64(op, mode, count, a->f64, y->f64);
        if (!computed) *known = predicate_f64(op, count, a->f64, b ? b->f64 : NULL, y->i64);
        break;
    case QF_DOMAIN_I64:
        computed = b ? binary_i64(op, mode, count, a->i64, b->i64, y->i64) : unary_i64(op, mode, count, a->i64, y->i64);
        if (!computed) *known = predicate_i64(op, count, a->i64, b ? b->i64 : NULL, y->i64);
        break;
    }
    return computed ? domain : QF_DOMAIN_I64;
}

static void apply_body(void *context, uint32_t thread, int64_t first, int64_t last) {
    const elementwise *job = context;
    bool is_binary = job->call->operand_count > 1, known;
    block a, b, y;
    (void)thread;
    for (int64_t index = first; index < last; index++) {
        load(job, 0, domain_of(job), index, &a);
        if (is_binary) load(job, 1, domain_of(job), index, &b);
        qf_domain written = apply(job->call->op, job->mode, domain_of(job), block_size(job, index), &a,
                                  is_binary ? &b : NULL, &y, &known);
        store(job, written, index, &y);
    }
}

static qf_status apply_to_all(const qf_kernel_call *call, int64_t mode) {
    elementwise job;
    block none = {.f32 = {0}};
    bool known;
    qf_status status = start(call, &job);
    if (status) return status;
    (void)apply(call->op, mode, domain_of(&job), 0, &none, call->operand_count > 1 ? &none : NULL, &none, &known);
    if (!known)
        return qf_cpu_fail(call, QF_ERROR_UNSUPPORTED, "%s has no meaning for %s", qf_op_name(call->op),
                           qf_dtype_name(call->operands[0].dtype));
    job.mode = mode;
    run(&job, apply_body);
    return QF_OK;
}

qf_status qf_cpu_unary(const qf_kernel_call *call) {
    return apply_to_all(call, call->op == QF_OP_gelu ? call->attributes[QF_ATTR(gelu, approximate)].integer : 0);
}

qf_status qf_cpu_binary(const qf_kernel_call *call) {
    QF_CPU_EXPECT(call, call->operand_count == 2 && call->operands[0].dtype == call->operands[1].dtype,
                  "two operands of one dtype");
    return apply_to_all(call, call->op == QF_OP_mod ? call->attributes[QF_ATTR(mod, fmod)].integer : 0);
}

static void where_body(void *context, uint32_t thread, int64_t first, int64_t last) {
    const elementwise *job = context;
    qf_domain domain = qf_domain_of(job->y->dtype);
    block condition, a, b;
    (void)thread;
    for (int64_t index = first; index < last; index++) {
        int64_t count = block_size(job, index);
        load(job, 0, QF_DOMAIN_I64, index, &condition);
        load(job, 1, domain, index, &a);
        load(job, 2, domain, index, &b);
        for (int64_t i = 0; i < count; i++) {
            if (condition.i64[i]) continue;
            if (domain == QF_DOMAIN_F32)
                a.f32[i] = b.f32[i];
            else
                a.i64[i] = b.i64[i]; /* f64 and i64 have one size; the bits move */
        }
        store(job, domain, index, &a);
    }
}

qf_status qf_cpu_where(const qf_kernel_call *call) {
    elementwise job;
    qf_status status = start(call, &job);
    if (status) return status;
    QF_CPU_EXPECT(call, call->operands[1].dtype == call->operands[2].dtype, "operands of one dtype");
    run(&job, where_body);
    return QF_OK;
}

static void clamp_body(void *context, uint32_t thread, int64_t first, int64_t last) {
    const elementwise *job = context;
    block x, limit, y;
    bool known;
    (void)thread;
    for (int64_t index = first; index < last; index++) {
        load(job, 0, domain_of(job), index, &x);
        for (uint32_t operand = 1; operand <= 2; operand++) {
            if (!job->readers[operand].view) continue;
            load(job, operand, domain_of(job), index, &limit);
            (void)apply(operand == 1 ? QF_OP_maximum : QF_OP_minimum, 0, domain_of(job), block_size(job, index), &x,
                        &limit, &y, &known);
            x = y;
        }
        store(job, domain_of(job), index, &x);
    }
}

qf_status qf_cpu_clamp(const qf_kernel_call *call) {
    elementwise job;
    qf_status status = start(call, &job);
    if (status) return status;
    run(&job, clamp_body);
    return QF_OK;
}

static void cast_body(void *context, uint32_t thread, int64_t first, int64_t last) {
    const elementwise *job = context;
    const qf_view *x = &job->call->operands[0];
    int64_t end = last * BLOCK < job->count ? last * BLOCK : job->count, begin = first * BLOCK;
    (void)thread;
    qf_convert_array(job->y->dtype, (unsigned char *)job->y->data + qf_dtype_bytes(job->y->dtype, (uint64_t)begin),
                     x->dtype, (const unsigned char *)x->data + qf_dtype_bytes(x->dtype, (uint64_t)begin), end - begin,
                     job->mode != 0);
}

qf_status qf_cpu_cast(const qf_kernel_call *call) {
    elementwise job;
    qf_status status = start(call, &job);
    if (status) return status;
    QF_CPU_EXPECT(call, qf_view_count(&call->operands[0]) == job.count, "a result of the operand's shape");
    job.mode = call->attributes[QF_ATTR(cast, saturate)].integer;
    run(&job, cast_body);
    return QF_OK;
}
