/* Owns: tests of caches and scales through whole runs: what changes in place, odd scales, dtypes by node, no host
 * reads. Does not own: sizes, guards and bindings (executor_test.c). Next: runtime/executor.c. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "tests/runtime/scale_counts.h"

#include <math.h>
#include <sys/mman.h>

#include <qfuse/pass.h>

#include "base/convert.h"
#include "runtime/executor.h"

/* Fused, cleaned, lowered in place and run: the cache write is not lost, byte for byte, and the output is FP8. */
static void fault_1_the_cache_write_is_not_lost(void **state) {
    (void)state;
    running r;
    running_parse(&r, "(%q: f32[1, 2, 4], %kc: f32[2, 16, 1, 4], %vc: f32[2, 16, 1, 4], %k: f32[1, 1, 4], %v: f32[1, "
                      "1, 4], %slots: i64[1], "
                      "%table: i32[1, 2], %lens: i32[1], %s: f32[]) {\n"
                      "  %k1 = kv_cache_write %kc, %k, %slots\n"
                      "  %v1 = kv_cache_write %vc, %v, %slots\n"
                      "  %a = paged_attention %q, %k1, %v1, %table, %lens {scale=0.5}\n"
                      "  %y = quantize %a, %s {dtype=f8E4M3FN}\n"
                      "  return %y, %k1, %v1\n}\n");
    qf_run *run = NULL;
    if (qf_run_pipeline(r.graph, NULL, &run) != QF_OK) fail_msg("%s", r.check.messages);
    qf_run_counts counts = {.struct_size = sizeof counts};
    qf_run_get_counts(run, &counts);
    assert_int_equal(counts.fused_fp8_out, 1);
    qf_run_destroy(run);
    assert_int_equal(qf_compile(r.graph, NULL, &r.plan), QF_OK);
    assert_int_equal(qf_executor_create(r.context, r.plan, NULL, &r.executor), QF_OK);
    float q[8] = {1, 0, 0, 0, 0, 1, 0, 0}, k[4] = {1, 2, 3, 4}, v[4] = {5, 6, 7, 8}, scale = 0.5f;
    float kc[128] = {0}, vc[128] = {0};
    int64_t slots[1] = {17};
    int32_t table[2] = {1, 0}, lens[1] = {2};
    running_bind(&r, "q", TENSOR(QF_F32, q, 1, 2, 4));
    running_bind(&r, "kc", TENSOR(QF_F32, kc, 2, 16, 1, 4));
    running_bind(&r, "vc", TENSOR(QF_F32, vc, 2, 16, 1, 4));
    running_bind(&r, "k", TENSOR(QF_F32, k, 1, 1, 4));
    running_bind(&r, "v", TENSOR(QF_F32, v, 1, 1, 4));
    running_bind(&r, "slots", TENSOR(QF_I64, slots, 1));
    running_bind(&r, "table", TENSOR(QF_I32, table, 1, 2));
    running_bind(&r, "lens", TENSOR(QF_I32, lens, 1));
    running_bind(&r, "s", SCALAR(QF_F32, &scale));
    qf_tensor in_place = TENSOR(QF_F32, kc, 2, 16, 1, 4);
    assert_int_equal(qf_executor_bind_output(r.executor, 1, &in_place), QF_OK);
    running_run(&r);
    for (int i = 0; i < 128; i++) {
        assert_true(kc[i] == (i / 4 == 17 ? k[i % 4] : 0));
        assert_true(((float *)running_output(&r, 2).data)[i] == (i / 4 == 17 ? v[i % 4] : 0));
        assert_true(vc[i] == 0);
    }
    /* Two keys, the first all zero: p = softmax(0, q k / 2). */
    double p = exp(0.5) / (1 + exp(0.5));
    double expected = qf_decode(QF_F8E4M3FN, qf_encode_f64(QF_F8E4M3FN, p * 5 / 0.5, true));
    assert_true(qf_decode(QF_F8E4M3FN, *(uint8_t *)running_output(&r, 0).data) == expected);
    running_close(&r);
}

/* Scales are read on every run: a buffer changed in place changes the next run, without binding or compiling again. */
static void fault_31_scales_are_not_cached(void **state) {
    (void)state;
    running r;
    running_open(&r,
                 "(%x: f32[4], %s: f32[]) {\n  %y = quantize %x, %s {dtype=f8E4M3FN}\n  %z = dequantize %y, %s "
                 "{dtype=f32}\n  return %y, %z\n}\n",
                 NULL);
    float x[4] = {1, 2, 4, 8}, scale = 0.125f;
    running_bind(&r, "x", TENSOR(QF_F32, x, 4));
    running_bind(&r, "s", SCALAR(QF_F32, &scale));
    running_run(&r);
    uint8_t first[4];
    memcpy(first, running_output(&r, 0).data, 4);
    scale = 8.0f;
    running_run(&r);
    assert_memory_not_equal(first, running_output(&r, 0).data, 4);
    const uint8_t *codes = running_output(&r, 0).data;
    for (int i = 0; i < 4; i++) assert_true(qf_decode(QF_F8E4M3FN, codes[i]) == x[i] / 8.0);
    running_close(&r);
}

/* A device whose memory the host cannot touch: any host read of a scale, a length or a table would end the test. */
typedef struct sealed {
    uint32_t launches;
    const qf_kernel_step *steps;
} sealed;

static bool sealed_runs(qf_target target) {
    return target == QF_TARGET_cpu;
}
static qf_status sealed_create(qf_context *context, qf_device_settings *settings, void **out_state) {
    (void)context;
    *out_state = settings->stream;
    return QF_OK;
}
static void sealed_destroy(void *state) {
    (void)state;
}
static void *sealed_allocate(void *state, size_t size) {
    (void)state;
    void *memory = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}
static void sealed_release(void *state, void *memory, size_t size) {
    (void)state;
    if (memory) (void)munmap(memory, size);
}
static qf_status sealed_upload(void *state, void *destination, const void *source, size_t size) {
    (void)state, (void)destination, (void)source, (void)size;
    return QF_OK;
}
static qf_status sealed_prepare(void *state, qf_kernel_step *steps, uint32_t count, size_t *out_scratch) {
    sealed *device = state;
    (void)count;
    device->steps = steps;
    *out_scratch = 0;
    return QF_OK;
}
static qf_status sealed_launch(void *state, uint32_t step) {
    sealed *device = state;
    const qf_kernel_call *call = &device->steps[step].call;
    device->launches++;
    return call->operands[0].data && call->results[0].data ? QF_OK : QF_ERROR_INTERNAL;
}
static void sealed_mark(void *state, uint32_t step) {
    (void)state, (void)step;
}
static uint64_t sealed_elapsed(void *state, uint32_t from, uint32_t to) {
    (void)state, (void)from, (void)to;
    return 0;
}

static void fault_32_running_reads_nothing_on_the_host(void **state) {
    (void)state;
    static const qf_device_interface interface = {.name = "sealed",
                                                  .device_type = QF_DL_CUDA,
                                                  .runs = sealed_runs,
                                                  .create = sealed_create,
                                                  .destroy = sealed_destroy,
                                                  .allocate = sealed_allocate,
                                                  .release = sealed_release,
                                                  .upload = sealed_upload,
                                                  .prepare = sealed_prepare,
                                                  .launch = sealed_launch,
                                                  .mark = sealed_mark,
                                                  .elapsed = sealed_elapsed};
    running r;
    running_compile(&r, "(%q: f32[1, 2, T, 4], %k: f8E4M3FN[1, 1, S, 4], %v: f8E4M3FN[1, 1, S, 4], %lens: i32[1], %ks: "
                        "f32[], %vs: f32[], %os: f32[]) {\n"
                        "  %c = constant {value=f32[] 2.0}\n"
                        "  %m = mul %q, %c\n"
                        "  %a = attention %m, %k, %v, kv_lens=%lens, k_scale=%ks, v_scale=%vs, out_scale=%os "
                        "{scale=0.5, out=f8E4M3FN}\n"
                        "  return %a\n}\n");
    sealed device = {0};
    qf_executor_options options = {.struct_size = sizeof options, .stream = &device};
    assert_int_equal(qf_executor_create_on(r.context, r.plan, &options, &interface, &r.executor), QF_OK);
    char *memory = sealed_allocate(&device, 1 << 16);
    const char *names[] = {"q", "k", "v", "lens", "ks", "vs", "os"};
    const qf_tensor tensors[] = {TENSOR(QF_F32, memory, 1, 2, 3, 4),
                                 TENSOR(QF_F8E4M3FN, memory + 4096, 1, 1, 5, 4),
                                 TENSOR(QF_F8E4M3FN, memory + 8192, 1, 1, 5, 4),
                                 TENSOR(QF_I32, memory + 12288, 1),
                                 SCALAR(QF_F32, memory + 16384),
                                 SCALAR(QF_F32, memory + 16388),
                                 SCALAR(QF_F32, memory + 16392)};
    for (uint32_t i = 0; i < QF_COUNT_OF(names); i++) {
        qf_tensor tensor = tensors[i];
        tensor.device_type = QF_DL_CUDA;
        running_bind(&r, names[i], tensor);
    }
    running_run(&r);
    uint64_t allocations = r.check.allocations;
    running_run(&r);
    assert_int_equal(r.check.allocations, allocations);
    assert_int_equal(device.launches, 4);
    qf_tensor host = TENSOR(QF_F32, memory, 1, 2, 3, 4);
    assert_int_equal(qf_executor_bind_input(r.executor, 0, &host), QF_ERROR_INVALID_ARGUMENT);
    qf_executor_destroy(r.executor);
    r.executor = NULL;
    sealed_release(&device, memory, 1 << 16);
    running_close(&r);
}

/* Scale 0, negative, infinite, denormal and NaN give what the division gives, saturated; NaN alone gives NaN. */
static void fault_36_odd_scales_are_defined(void **state) {
    (void)state;
    running r;
    running_open(&r, "(%x: f32[3], %s: f32[]) {\n  %y = quantize %x, %s {dtype=f8E4M3FN}\n  return %y\n}\n", NULL);
    float x[3] = {1, -2, 0}, scale;
    running_bind(&r, "x", TENSOR(QF_F32, x, 3));
    running_bind(&r, "s", SCALAR(QF_F32, &scale));
    const struct {
        float scale;
        double expected[3]; /* NAN: NaN */
    } cases[] = {{0.0f, {448, -448, NAN}},
                 {-1.0f, {-1, 2, 0}},
                 {INFINITY, {0, 0, 0}},
                 {1e-42f, {448, -448, 0}},
                 {NAN, {NAN, NAN, NAN}}};
    for (uint32_t i = 0; i < QF_COUNT_OF(cases); i++) {
        scale = cases[i].scale;
        running_run(&r);
        const uint8_t *codes = running_output(&r, 0).data;
        for (int j = 0; j < 3; j++) {
            double found = qf_decode(QF_F8E4M3FN, codes[j]);
            if (isnan(cases[i].expected[j]) ? !isnan(found) : found != cases[i].expected[j])
                fail_msg("scale %g, element %d: %g, expected %g", (double)scale, j, found, cases[i].expected[j]);
        }
    }
    running_close(&r);
}

/* A NaN scale makes NaN what it touches and nothing else; the verifier warned once, with the place. */
static void fault_69_a_nan_scale_stays_where_it_is(void **state) {
    (void)state;
    running r;
    running_open(&r,
                 "(%x: f32[2]) {\n"
                 "  %bad = constant {value=f32[] nan}\n  %good = constant {value=f32[] 0.5}\n"
                 "  %y = quantize %x, %bad {dtype=f8E4M3FN}\n  %z = quantize %x, %good {dtype=f8E4M3FN}\n"
                 "  return %y, %z\n}\n",
                 NULL);
    float x[2] = {1, 2};
    running_bind(&r, "x", TENSOR(QF_F32, x, 2));
    running_run(&r);
    for (int i = 0; i < 2; i++) {
        assert_true(isnan(qf_decode(QF_F8E4M3FN, ((uint8_t *)running_output(&r, 0).data)[i])));
        assert_true(qf_decode(QF_F8E4M3FN, ((uint8_t *)running_output(&r, 1).data)[i]) == x[i] / 0.5);
    }
    running_close(&r);
}

/* A host's configuration string is read strictly; "auto" decides nothing, so that only tensors' types do. */
static void fault_44_configuration_strings_are_strict(void **state) {
    (void)state;
    qf_dtype dtype;
    const struct {
        const char *text;
        qf_dtype dtype;
    } good[] = {{"auto", QF_DTYPE_NONE},
                {"fp8", QF_F8E4M3FN},
                {"fp8_e4m3", QF_F8E4M3FN},
                {"fp8_e5m2", QF_F8E5M2},
                {"bfloat16", QF_BF16}};
    for (uint32_t i = 0; i < QF_COUNT_OF(good); i++) {
        assert_int_equal(qf_dtype_from_cache_string(good[i].text, &dtype), QF_OK);
        assert_int_equal(dtype, good[i].dtype);
    }
    const char *const bad[] = {"",     "FP8",  " fp8",  "fp8 ",       "fp8_e4m4", "fp8_e4m3,",
                               "e4m3", "Auto", "uint8", "fp8_e5m2\n", NULL};
    for (uint32_t i = 0; i < QF_COUNT_OF(bad); i++) {
        dtype = QF_F8E5M2;
        assert_int_equal(qf_dtype_from_cache_string(bad[i], &dtype), QF_ERROR_NOT_FOUND);
        assert_int_equal(dtype, QF_DTYPE_NONE);
    }
}

/* Two layers of one model with caches of different FP8 types: each decodes its own. */
static void fault_45_cache_dtypes_are_decided_per_node(void **state) {
    (void)state;
    running r;
    running_open(&r,
                 "(%q: f32[1, 1, 1, 2], %k: f8E4M3FN[1, 1, 1, 2], %v: f8E4M3FN[1, 1, 1, 2], %k2: f8E5M2[1, 1, 1, 2], "
                 "%v2: f8E5M2[1, 1, 1, 2], %s: f32[]) {\n"
                 "  %a = attention %q, %k, %v, k_scale=%s, v_scale=%s {scale=1.0}\n"
                 "  %b = attention %q, %k2, %v2, k_scale=%s, v_scale=%s {scale=1.0}\n"
                 "  return %a, %b\n}\n",
                 NULL);
    float q[2] = {1, 1}, scale = 2.0f;
    uint8_t codes[2] = {0x40, 0x3C}; /* e4m3: 2, 1.5; e5m2: 2, 1 */
    running_bind(&r, "q", TENSOR(QF_F32, q, 1, 1, 1, 2));
    running_bind(&r, "k", TENSOR(QF_F8E4M3FN, codes, 1, 1, 1, 2));
    running_bind(&r, "v", TENSOR(QF_F8E4M3FN, codes, 1, 1, 1, 2));
    running_bind(&r, "k2", TENSOR(QF_F8E5M2, codes, 1, 1, 1, 2));
    running_bind(&r, "v2", TENSOR(QF_F8E5M2, codes, 1, 1, 1, 2));
    running_bind(&r, "s", SCALAR(QF_F32, &scale));
    running_run(&r);
    running_expect(&r, 0, (float[]){4, 3}, 2);
    running_expect(&r, 1, (float[]){4, 2}, 2);
    running_close(&r);
}

static void scales_of_a_wrong_count_are_refused(void **state) {
    (void)state;
    scale_counts_are_checked(NULL, NULL);
}

/* Kernels get no address of the host for an empty tensor, and do not take it for an absent one. */
static void empty_tensors_have_no_address(void **state) {
    (void)state;
    running r;
    running_open(&r, "(%x: f32[T, 4]) {\n  %y = neg %x\n  return %y\n}\n", NULL);
    running_bind(&r, "x", TENSOR(QF_F32, NULL, 0, 4));
    running_run(&r);
    assert_true((uintptr_t)r.executor->steps[0].call.operands[0].data == QF_EMPTY_ADDRESS);
    running_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fault_1_the_cache_write_is_not_lost),
                                       cmocka_unit_test(fault_31_scales_are_not_cached),
                                       cmocka_unit_test(fault_32_running_reads_nothing_on_the_host),
                                       cmocka_unit_test(fault_36_odd_scales_are_defined),
                                       cmocka_unit_test(fault_69_a_nan_scale_stays_where_it_is),
                                       cmocka_unit_test(fault_44_configuration_strings_are_strict),
                                       cmocka_unit_test(fault_45_cache_dtypes_are_decided_per_node),
                                       cmocka_unit_test(scales_of_a_wrong_count_are_refused),
                                       cmocka_unit_test(empty_tensors_have_no_address)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
