/* Owns: graphs whose scales have a free length N, and the bindings that run them, for every device.
 * Does not own: the devices' tests (scales_test.c, cuda_test.c).
 * Next: running.h. */
#ifndef QF_TESTS_RUNTIME_SCALE_COUNTS_H
#define QF_TESTS_RUNTIME_SCALE_COUNTS_H

#include "tests/runtime/running.h"

typedef struct scale_count_case {
    const char *text;
    int64_t several; /* a length above 1 that is right, too, or 0 */
} scale_count_case;

static const scale_count_case scale_count_cases[] = {
    {"(%q: f16[1, 4, 3, 16], %k: f16[1, 2, 5, 16], %n: f32[N]) {\n"
     "  %a = attention %q, %k, %k, p_scale=%n {scale=0.1, p=graph}\n  return %a\n}\n",
     0},
    {"(%q: f16[1, 4, 3, 16], %k: f16[1, 2, 5, 16], %n: f32[N]) {\n"
     "  %a = attention %q, %k, %k, out_scale=%n {scale=0.1, out=f8E4M3FN}\n  return %a\n}\n",
     0},
    {"(%q: f8E4M3FN[1, 4, 3, 16], %k: f16[1, 2, 5, 16], %n: f32[N]) {\n"
     "  %a = attention %q, %k, %k, q_scale=%n {scale=0.1, out=f16}\n  return %a\n}\n",
     2},
    {"(%q: f16[2, 4, 16], %k: f16[3, 4, 2, 16], %t: i32[2, 1], %l: i32[2], %n: f32[N]) {\n"
     "  %a = paged_attention %q, %k, %k, %t, %l, out_scale=%n {scale=0.1, out=f8E4M3FN}\n  return %a\n}\n",
     0},
    {"(%x: f16[3, 16], %n: f32[N]) {\n  %y = rms_norm %x, out_scale=%n {axis=1, out=f8E4M3FN}\n  return %y\n}\n", 0},
    {"(%x: f16[3, 16], %n: f32[N]) {\n  %y, %z = add_rms_norm %x, %x, out_scale=%n {axis=1, out=f8E4M3FN}\n"
     "  return %y\n}\n",
     0},
    {"(%x: f16[3, 16], %n: f32[N]) {\n  %y = silu_mul %x, out_scale=%n {out=f8E4M3FN}\n  return %y\n}\n", 0},
    {"(%a: f8E4M3FN[3, 16], %b: f8E4M3FN[16, 16], %s: f32[], %n: f32[N]) {\n"
     "  %y = scaled_matmul %a, %b, %s, %s, out_scale=%n {out=f8E4M3FN}\n  return %y\n}\n",
     0},
    {"(%x: f32[3, 16], %n: f32[N]) {\n  %y, %z = dynamic_quantize %x, upper_bound=%n {dtype=f8E4M3FN}\n"
     "  return %y\n}\n",
     0},
    {"(%c: f8E4M3FN[3, 4, 2, 16], %x: f16[2, 2, 16], %i: i64[2], %n: f32[N]) {\n"
     "  %y = kv_cache_write %c, %x, %i, scale=%n\n  return %y\n}\n",
     2},
    {"(%q: f16[2, 4, 16], %k: f16[2, 2, 16], %t: f32[9, 16], %i: i64[2], %c: f8E4M3FN[3, 4, 2, 16], %n: f32[N], "
     "%s: f32[]) {\n"
     "  %x, %y, %z = rope_quantize_cache_write %q, %k, %k, %t, %i, %i, %c, %c, q_scale=%n, k_scale=%s, v_scale=%s {}\n"
     "  return %x, %y, %z\n}\n",
     0},
    {"(%q: f16[2, 4, 16], %k: f16[2, 2, 16], %t: f32[9, 16], %i: i64[2], %c: f8E4M3FN[3, 4, 2, 16], %n: f32[N], "
     "%s: f32[]) {\n"
     "  %x, %y, %z = rope_quantize_cache_write %q, %k, %k, %t, %i, %i, %c, %c, q_scale=%s, k_scale=%n, v_scale=%n {}\n"
     "  return %x, %y, %z\n}\n",
     2}};

/* Binds every input to `data` (4 KiB, zeroed), %n with `count` numbers, and says how the run ends. */
static inline qf_status scale_count_try(running *r, const scale_count_case *of, const char *target, void *data,
                                        int64_t count) {
    running_parse(r, of->text);
    qf_compile_options compile = {.struct_size = sizeof compile, .target = target};
    if (qf_compile(r->graph, &compile, &r->plan) != QF_OK) fail_msg("%s", r->check.messages);
    qf_executor_options options = {.struct_size = sizeof options};
    if (qf_executor_create(r->context, r->plan, &options, &r->executor) != QF_OK) fail_msg("%s", r->check.messages);
    for (uint32_t i = 0; i < r->plan->input_count; i++) {
        const qf_plan_tensor_record *record = qf_plan_tensor_at(r->plan, r->plan->inputs[i].tensor);
        qf_tensor tensor = {.dtype = (qf_dtype)record->dtype,
                            .rank = record->rank,
                            .data = data,
                            .device_type = target ? QF_DL_CUDA : QF_DL_CPU};
        for (uint32_t axis = 0; axis < record->rank; axis++)
            if (!qf_plan_evaluate(r->plan, r->plan->dims[record->first_dim + axis].expression, &count,
                                  &tensor.dims[axis]))
                fail_msg("a dim of input %u", i);
        if (record->rank == 1 && record->dtype == QF_F32 && !count) tensor.data = NULL;
        if (qf_executor_bind_input(r->executor, i, &tensor) != QF_OK) return QF_ERROR_INTERNAL;
    }
    return qf_executor_run(r->executor);
}

/* One scale, or one a head where those may be several; nothing else is taken, and what is refused is located or names
 * its step. */
static inline void scale_counts_are_checked(const char *target, void (*begin)(void)) {
    static _Alignas(64) char data[4096];
    for (size_t i = 0; i < QF_COUNT_OF(scale_count_cases); i++)
        for (int64_t count = 0; count < 5; count++) {
            running r;
            if (begin) begin();
            qf_status status = scale_count_try(&r, &scale_count_cases[i], target, data, count);
            bool right = count == 1 || (count && count == scale_count_cases[i].several);
            /* A build without nvcc has no kernels to launch, but has looked at everything by then. */
            bool bare = target && status == QF_ERROR_DEVICE && strstr(r.check.messages, "it was built without nvcc");
            if (right && status != QF_OK && !bare) fail_msg("%s%s", scale_count_cases[i].text, r.check.messages);
            if (!right && status != QF_ERROR_GUARD && status != QF_ERROR_INVALID_ARGUMENT)
                fail_msg("%s%lld scales: status %d", scale_count_cases[i].text, (long long)count, (int)status);
            if (!right && !strstr(r.check.messages, " test.qf:2:3: ")) fail_msg("%s", r.check.messages);
            running_close(&r);
        }
}

#endif
