/* Owns: tests of running plans: sizes, guards, in-place caches, scales that change, weights, threads, memory.
 * Does not own: lowering (tests/codegen), plan files (tests/plan), kernels (tests/kernels).
 * Next: runtime/executor.c. */
#define _DEFAULT_SOURCE /* mkdtemp, truncate, MAP_ANONYMOUS */

#include "tests/runtime/running.h"

#include <math.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/convert.h"
#include "runtime/executor.h"

static void lengths_change_between_runs(void **state) {
    (void)state;
    running r;
    running_open(&r,
                 "(%x: f32[T, 2], %y: f32[2]) {\n  %a = add %x, %y\n  %b = reduce_sum %a {axes=[0], keep=false}\n  "
                 "return %b\n}\n",
                 NULL);
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[2] = {10, 20};
    running_bind(&r, "y", TENSOR(QF_F32, y, 2));
    for (int64_t rows = 1; rows <= 4; rows++) {
        running_bind(&r, "x", TENSOR(QF_F32, x, rows, 2));
        running_run(&r);
        float expected[2] = {0, 0};
        for (int64_t i = 0; i < rows; i++) expected[0] += x[2 * i] + y[0], expected[1] += x[2 * i + 1] + y[1];
        running_expect(&r, 0, expected, 2);
    }
    running_bind(&r, "x", TENSOR(QF_F32, NULL, 0, 2));
    running_run(&r);
    running_expect(&r, 0, (float[]){0, 0}, 2);
    running_close(&r);
}

/* After the first run at the largest sizes nothing is allocated. */
static void running_allocates_nothing(void **state) {
    (void)state;
    running r;
    running_open(&r, "(%x: f32[T, 4]) {\n  %a = exp %x\n  %b = softmax %a {axis=1}\n  %c = neg %b\n  return %c\n}\n",
                 NULL);
    float x[32] = {0};
    running_bind(&r, "x", TENSOR(QF_F32, x, 8, 4));
    running_run(&r);
    uint64_t allocations = r.check.allocations;
    for (int64_t rows = 1; rows <= 8; rows++) {
        running_bind(&r, "x", TENSOR(QF_F32, x, rows, 4));
        running_run(&r);
        running_run(&r);
    }
    assert_int_equal(r.check.allocations, allocations);
    qf_executor_memory memory = {.struct_size = sizeof memory};
    qf_executor_memory_use(r.executor, &memory);
    assert_true(memory.workspace_bytes > 0 && memory.unshared_bytes > 0);
    running_close(&r);
}

static void missing_and_wrong_bindings_are_named(void **state) {
    (void)state;
    running r;
    running_open(&r, "(%ids: i64[T], %mask: f32[T, S]) {\n  %a = exp %mask\n  return %a, %ids\n}\n", NULL);
    int64_t ids[4] = {0};
    float mask[16] = {0};
    running_bind(&r, "ids", TENSOR(QF_I64, ids, 4));
    running_refused(&r, QF_ERROR_INVALID_ARGUMENT, "input 1 \"mask\" is not bound");
    running_bind(&r, "mask", TENSOR(QF_F32, mask, 3, 2));
    running_refused(&r, QF_ERROR_GUARD, "input \"mask\" axis 0 is 3, expected T = 4 (T from input \"ids\", axis 0)");
    qf_tensor wrong = TENSOR(QF_F16, mask, 4, 2);
    assert_int_equal(qf_executor_bind_input(r.executor, 1, &wrong), QF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(r.check.messages, "expected f32 of rank 2, found f16 of rank 2"));
    wrong = TENSOR(QF_F32, (char *)mask + 1, 3, 2);
    assert_int_equal(qf_executor_bind_input(r.executor, 1, &wrong), QF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(qf_executor_bind_input(r.executor, 7, &wrong), QF_ERROR_INVALID_ARGUMENT);
    running_bind(&r, "mask", TENSOR(QF_F32, mask, 4, 2));
    running_run(&r);
    running_close(&r);
}

/* A mask whose length was frozen at export: the assumed equality is a guard, and a run with another length names both
 * sizes. */
static void fault_66_mask_frozen_at_export(void **state) {
    (void)state;
    running r;
    running_open(&r, "(%scores: f32[B, T, S], %mask: f32[16, 16]) {\n  %y = add %scores, %mask\n  return %y\n}\n",
                 NULL);
    float scores[512] = {0}, mask[256] = {0};
    running_dump_has(&r, "guard ");
    running_bind(&r, "mask", TENSOR(QF_F32, mask, 16, 16));
    running_bind(&r, "scores", TENSOR(QF_F32, scores, 2, 16, 16));
    running_run(&r);
    running_bind(&r, "scores", TENSOR(QF_F32, scores, 1, 16, 12));
    r.check.messages[0] = '\0';
    assert_int_equal(qf_executor_run(r.executor), QF_ERROR_GUARD);
    assert_non_null(strstr(r.check.messages, "S"));
    assert_non_null(strstr(r.check.messages, "16"));
    assert_non_null(strstr(r.check.messages, "12"));
    running_close(&r);
}

static void facts_are_checked_at_launch(void **state) {
    (void)state;
    running r;
    running_open(&r, "(%x: f32[T]) symbols(T min 4 max 64 div 4) {\n  %y = neg %x\n  return %y\n}\n", NULL);
    float x[128] = {0};
    running_bind(&r, "x", TENSOR(QF_F32, x, 6));
    running_refused(&r, QF_ERROR_GUARD, "T is 6 (input \"x\", axis 0), expected a multiple of 4");
    running_bind(&r, "x", TENSOR(QF_F32, x, 128));
    running_refused(&r, QF_ERROR_GUARD, "at most 64");
    running_bind(&r, "x", TENSOR(QF_F32, x, 0));
    running_refused(&r, QF_ERROR_GUARD, "at least 4");
    running_bind(&r, "x", TENSOR(QF_F32, x, 8));
    running_run(&r);
    running_close(&r);
}

static void an_opaque_op_is_named_before_anything_runs(void **state) {
    (void)state;
    running r;
    running_open(
        &r,
        "(%x: f32[4]) {\n  %a = neg %x\n  %y = opaque %a {name=\"vendor.op\", pure=true} : f32[4]\n  return %y\n}\n",
        NULL);
    float x[4] = {0};
    running_bind(&r, "x", TENSOR(QF_F32, x, 4));
    running_refused(&r, QF_ERROR_UNSUPPORTED, "test.qf:3:3: step 1 (vendor.op) cannot run: the op is opaque");
    running_close(&r);
}

/* --- caches --- */

static const char cache_graph[] = "(%cache: f32[2, 2, 1, 2], %new: f32[R, 1, 2], %slots: i64[R]) {\n"
                                  "  %out = kv_cache_write %cache, %new, %slots\n"
                                  "  %y = neg %out\n"
                                  "  return %out, %y\n}\n";

static void check_cache_run(running *r) {
    float rows[4] = {10, 11, 12, 13};
    int64_t slots[2] = {2, -1};
    running_bind(r, "new", TENSOR(QF_F32, rows, 2, 1, 2));
    running_bind(r, "slots", TENSOR(QF_I64, slots, 2));
    running_run(r);
    running_expect(r, 0, (float[]){0, 1, 2, 3, 10, 11, 6, 7}, 8);
    running_expect(r, 1, (float[]){-0.0f, -1, -2, -3, -10, -11, -6, -7}, 8);
}

static void a_cache_is_updated_where_it_lies(void **state) {
    (void)state;
    running r;
    running_open(&r, cache_graph, NULL);
    float cache[8] = {0, 1, 2, 3, 4, 5, 6, 7}, untouched[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    qf_tensor tensor = TENSOR(QF_F32, cache, 2, 2, 1, 2);
    running_bind(&r, "cache", tensor);
    check_cache_run(&r); /* the executor's own output: the input keeps its bytes */
    assert_memory_equal(cache, untouched, sizeof cache);
    assert_int_equal(qf_executor_bind_output(r.executor, 0, &tensor), QF_OK);
    check_cache_run(&r);
    assert_true(cache[4] == 10 && cache[5] == 11 && cache[6] == 6);
    running_close(&r);
}

/* A part of the input's memory, or an output that does not update it, is refused. */
static void other_overlaps_are_refused(void **state) {
    (void)state;
    running r;
    running_open(&r, cache_graph, NULL);
    float memory[16] = {0}, rows[2] = {0};
    int64_t slots[1] = {0};
    running_bind(&r, "cache", TENSOR(QF_F32, memory, 2, 2, 1, 2));
    running_bind(&r, "new", TENSOR(QF_F32, rows, 1, 1, 2));
    running_bind(&r, "slots", TENSOR(QF_I64, slots, 1));
    qf_tensor shifted = TENSOR(QF_F32, memory + 2, 2, 2, 1, 2), whole = TENSOR(QF_F32, memory, 2, 2, 1, 2);
    assert_int_equal(qf_executor_bind_output(r.executor, 0, &shifted), QF_OK);
    running_refused(&r, QF_ERROR_INVALID_ARGUMENT, "the two are not the same bytes");
    assert_int_equal(qf_executor_bind_output(r.executor, 0, NULL), QF_OK);
    assert_int_equal(qf_executor_bind_output(r.executor, 1, &whole), QF_OK);
    running_refused(&r, QF_ERROR_INVALID_ARGUMENT, "output 1 \"y\" lies in the memory of input 0 \"cache\"");
    running_close(&r);
}

/* Where an older version of the cache is read later, both versions are right. */
static void older_versions_stay_readable(void **state) {
    (void)state;
    running r;
    running_open(&r,
                 "(%cache: f32[2, 2, 1, 2], %new: f32[R, 1, 2], %slots: i64[R]) {\n"
                 "  %c0 = neg %cache\n"
                 "  %c1 = kv_cache_write %c0, %new, %slots\n"
                 "  %c2 = kv_cache_write %c1, %new, %slots\n"
                 "  %old = neg %c0\n"
                 "  return %c2, %old, %c1\n}\n",
                 NULL);
    float cache[8] = {0, 1, 2, 3, 4, 5, 6, 7}, rows[2] = {9, 8};
    int64_t slots[1] = {3};
    running_bind(&r, "cache", TENSOR(QF_F32, cache, 2, 2, 1, 2));
    running_bind(&r, "new", TENSOR(QF_F32, rows, 1, 1, 2));
    running_bind(&r, "slots", TENSOR(QF_I64, slots, 1));
    running_run(&r);
    running_expect(&r, 0, (float[]){-0.0f, -1, -2, -3, -4, -5, 9, 8}, 8);
    running_expect(&r, 1, cache, 8);
    running_expect(&r, 2, (float[]){-0.0f, -1, -2, -3, -4, -5, 9, 8}, 8);
    running_dump_has(&r, "copied: the old version is read by a later step");
    running_close(&r);
}

/* The cache write survives beside a quantised attention that reads the cache, byte for byte. */
static void fault_1_the_cache_write_is_not_lost(void **state) {
    (void)state;
    running r;
    running_open(&r,
                 "(%q: f32[1, 2, 4], %kc: f32[2, 16, 1, 4], %vc: f32[2, 16, 1, 4], %k: f32[1, 1, 4], %v: f32[1, 1, 4], "
                 "%slots: i64[1], %table: i32[1, 2], %lens: i32[1], %s: f32[]) {\n"
                 "  %k1 = kv_cache_write %kc, %k, %slots\n"
                 "  %v1 = kv_cache_write %vc, %v, %slots\n"
                 "  %a = paged_attention %q, %k1, %v1, %table, %lens, out_scale=%s {scale=0.5, out=f8E4M3FN}\n"
                 "  return %a, %k1, %v1\n}\n",
                 NULL);
    float q[8] = {1, 0, 0, 0, 0, 1, 0, 0}, k[4] = {1, 2, 3, 4}, v[4] = {5, 6, 7, 8}, scale = 0.5f;
    static float kc[128], vc[128];
    int64_t slots[1] = {17};
    int32_t table[2] = {1, 0}, lens[1] = {2};
    memset(kc, 0, sizeof kc), memset(vc, 0, sizeof vc);
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
    assert_memory_equal(kc + 17 * 4, k, sizeof k);
    assert_memory_equal((float *)running_output(&r, 2).data + 17 * 4, v, sizeof v);
    assert_true(vc[17 * 4] == 0);
    /* Two keys, the first all zero: p = softmax(0, q k / 2). */
    double p = exp(0.5) / (1 + exp(0.5));
    double expected = qf_decode(QF_F8E4M3FN, qf_encode_f64(QF_F8E4M3FN, p * 5 / 0.5, true));
    assert_true(fabs(expected - qf_decode(QF_F8E4M3FN, *(uint8_t *)running_output(&r, 0).data)) < 1e-9);
    running_close(&r);
}

/* --- scales --- */

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
} sealed;

static bool sealed_runs(qf_target target) {
    return target == QF_TARGET_cpu;
}
static qf_status sealed_create(qf_context *context, const qf_device_settings *settings, void **out_state) {
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
static qf_status sealed_prepare(void *state, const qf_device_step *steps, uint32_t count, size_t *out_scratch) {
    (void)state, (void)steps, (void)count;
    *out_scratch = 64;
    return QF_OK;
}
static qf_status sealed_launch(void *state, qf_device_step *step) {
    sealed *device = state;
    device->launches++;
    return step->call.operands[0].data && step->call.results[0].data && step->call.scratch ? QF_OK : QF_ERROR_INTERNAL;
}
static void sealed_mark(void *state, uint32_t step) {
    (void)state, (void)step;
}
static uint64_t sealed_elapsed(void *state, uint32_t step) {
    (void)state, (void)step;
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

/* --- weights --- */

static void write_file(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static const char weight_graph[] = "(%x: f32[2]) {\n"
                                   "  %w = parameter {name=\"layer.weight\", file=\"w.bin\", offset=4} : f32[2]\n"
                                   "  %u = parameter {name=\"layer.odd\", file=\"w.bin\", offset=13} : f32[1]\n"
                                   "  %a = mul %x, %w\n  %y = add %a, %u\n  return %y\n}\n";

static void weights_come_from_files_below_the_root(void **state) {
    (void)state;
    char root[] = "/tmp/qfuse-weights-XXXXXX", path[64], link[64];
    assert_non_null(mkdtemp(root));
    unsigned char bytes[20] = {0};
    memcpy(bytes + 4, (float[]){2, 3}, 8);
    memcpy(bytes + 13, &(float){0.5f}, 4);
    (void)snprintf(path, sizeof path, "%s/w.bin", root);
    write_file(path, bytes, sizeof bytes);
    running r;
    qf_executor_options options = {.struct_size = sizeof options, .weights_root = root};
    running_open(&r, weight_graph, &options);
    float x[2] = {10, 20};
    running_bind(&r, "x", TENSOR(QF_F32, x, 2));
    running_run(&r);
    running_expect(&r, 0, (float[]){20.5f, 60.5f}, 2);
    float own[2] = {1, 1};
    qf_tensor tensor = TENSOR(QF_F32, own, 2);
    assert_int_equal(qf_executor_bind_parameter(r.executor, "layer.weight", &tensor), QF_OK);
    running_run(&r);
    running_expect(&r, 0, (float[]){10.5f, 20.5f}, 2);
    assert_int_equal(qf_executor_bind_parameter(r.executor, "layer.other", &tensor), QF_ERROR_NOT_FOUND);
    running_close(&r);
    /* Cut files, links that lead out, and no root at all. */
    assert_int_equal(truncate(path, 10), 0);
    running_open(&r, weight_graph, &options);
    running_bind(&r, "x", TENSOR(QF_F32, x, 2));
    running_refused(&r, QF_ERROR_IO, "takes 8 bytes at 4 of \"w.bin\", which has 10");
    running_close(&r);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(link, sizeof link, "%s", "/etc/passwd");
    assert_int_equal(symlink(link, path), 0);
    running_open(&r, weight_graph, &options);
    running_bind(&r, "x", TENSOR(QF_F32, x, 2));
    running_refused(&r, QF_ERROR_INVALID_ARGUMENT, "lead out of");
    running_close(&r);
    running_open(&r, weight_graph, NULL);
    running_bind(&r, "x", TENSOR(QF_F32, x, 2));
    running_refused(&r, QF_ERROR_NOT_FOUND, "set weights_root");
    running_close(&r);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(root), 0);
}

static void names_that_climb_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {"../w.bin", "a/../../w.bin", "/etc/passwd", ".."};
    for (uint32_t i = 0; i < QF_COUNT_OF(names); i++) {
        char text[256];
        (void)snprintf(text, sizeof text,
                       "(%%x: f32[2]) {\n  %%w = parameter {name=\"w\", file=\"%s\"} : f32[2]\n  %%y = add %%x, %%w\n  "
                       "return %%y\n}\n",
                       names[i]);
        running r;
        qf_executor_options options = {.struct_size = sizeof options, .weights_root = "/tmp"};
        running_open(&r, text, &options);
        float x[2] = {0};
        running_bind(&r, "x", TENSOR(QF_F32, x, 2));
        running_refused(&r, QF_ERROR_INVALID_ARGUMENT, "expected a relative name below the folder of weights");
        running_close(&r);
    }
}

/* --- threads --- */

typedef struct worker {
    const qf_plan *plan;
    int64_t rows;
    bool right;
} worker;

static void *work(void *argument) {
    worker *self = argument;
    check_state check;
    memset(&check, 0, sizeof check);
    qf_context *context = NULL;
    qf_executor *executor = NULL;
    if (qf_context_create(NULL, &context) != QF_OK || qf_executor_create(context, self->plan, NULL, &executor) != QF_OK)
        return NULL;
    float x[64];
    for (int i = 0; i < 64; i++) x[i] = (float)(i + self->rows);
    self->right = true;
    for (int i = 0; i < 200 && self->right; i++) {
        qf_tensor in = TENSOR(QF_F32, x, self->rows, 4), out;
        self->right = qf_executor_bind_input(executor, 0, &in) == QF_OK && qf_executor_run(executor) == QF_OK &&
                      qf_executor_output(executor, 0, &out) == QF_OK;
        for (int64_t j = 0; self->right && j < self->rows * 4; j++)
            self->right = ((float *)out.data)[j] == x[j] * 2 + 1;
    }
    qf_executor_destroy(executor);
    qf_context_destroy(context);
    return NULL;
}

static void two_threads_share_a_plan(void **state) {
    (void)state;
    running r;
    running_compile(&r, "(%x: f32[T, 4]) {\n  %two = constant {value=f32[] 2.0}\n  %one = constant {value=f32[] 1.0}\n"
                        "  %a = mul %x, %two\n  %y = add %a, %one\n  return %y\n}\n");
    worker workers[2] = {{r.plan, 3, false}, {r.plan, 16, false}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(workers[0].right && workers[1].right);
    running_close(&r);
}

/* --- the rest --- */

typedef struct seen {
    uint32_t steps, operands, results;
} seen;

static qf_status count_step(void *user, uint32_t step, const qf_tensor *operands, uint32_t operand_count,
                            const qf_tensor *results, uint32_t result_count) {
    seen *counts = user;
    (void)step;
    counts->steps++;
    for (uint32_t i = 0; i < operand_count; i++) counts->operands += operands[i].data != NULL;
    for (uint32_t i = 0; i < result_count; i++) counts->results += results[i].data != NULL;
    return QF_OK;
}

static void observers_see_every_step(void **state) {
    (void)state;
    running r;
    qf_executor_options options = {.struct_size = sizeof options, .time_steps = true, .thread_count = 2};
    running_open(&r,
                 "(%x: f32[64, 64], %c: f32[]) {\n  %a = exp %x\n  %b = clamp %a, high=%c\n  %d = softmax %b "
                 "{axis=1}\n  return %d\n}\n",
                 &options);
    static float x[4096];
    float high = 2;
    seen counts = {0};
    running_bind(&r, "x", TENSOR(QF_F32, x, 64, 64));
    running_bind(&r, "c", SCALAR(QF_F32, &high));
    qf_executor_observe(r.executor, count_step, &counts);
    running_run(&r);
    assert_int_equal(counts.steps, 3);
    assert_int_equal(counts.operands, 4); /* low is absent */
    assert_int_equal(counts.results, 3);
    assert_true(qf_executor_step_time(r.executor, 0) > 0 && qf_executor_step_time(r.executor, 2) > 0);
    running_close(&r);
}

static void sizes_that_no_input_has_come_from_the_host(void **state) {
    (void)state;
    running r;
    running_open(&r, "(%x: f32[]) {\n  %y = full %x {shape=[N]}\n  return %y\n}\n", NULL);
    float x = 3;
    running_bind(&r, "x", SCALAR(QF_F32, &x));
    running_refused(&r, QF_ERROR_INVALID_ARGUMENT, "no input's shape determines the size N");
    assert_int_equal(qf_executor_bind_symbol(r.executor, "N", 2), QF_OK);
    running_run(&r);
    running_expect(&r, 0, (float[]){3, 3}, 2);
    assert_int_equal(qf_executor_bind_symbol(r.executor, "N", -1), QF_OK);
    running_refused(&r, QF_ERROR_GUARD, "N is -1");
    assert_int_equal(qf_executor_bind_symbol(r.executor, "M", 1), QF_ERROR_NOT_FOUND);
    running_close(&r);
}

/* Every allocation of making and running an executor fails once. */
static void fails_at_every_allocation(void **state) {
    (void)state;
    running r;
    running_compile(&r, "(%x: f32[T, 8]) {\n  %a = exp %x\n  %b = softmax %a {axis=1}\n  %c = contract %b, %x "
                        "{equation=\"td,sd->ts\"}\n  return %c\n}\n");
    float x[24] = {0};
    qf_tensor in = TENSOR(QF_F32, x, 3, 8);
    for (uint64_t n = 1;; n++) {
        r.check.fail_at = r.check.allocations + n;
        qf_executor *executor = NULL;
        qf_status status = qf_executor_create(r.context, r.plan, NULL, &executor);
        if (status == QF_OK) status = qf_executor_bind_input(executor, 0, &in);
        if (status == QF_OK) status = qf_executor_run(executor);
        bool fired = r.check.allocations >= r.check.fail_at;
        r.check.fail_at = 0;
        qf_context_clear_status(r.context);
        if (executor && fired) assert_int_equal(qf_executor_run(executor), QF_OK); /* usable again */
        qf_executor_destroy(executor);
        assert_int_equal(status, fired ? QF_ERROR_OUT_OF_MEMORY : QF_OK);
        if (!fired) break;
    }
    running_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lengths_change_between_runs),
                                       cmocka_unit_test(running_allocates_nothing),
                                       cmocka_unit_test(missing_and_wrong_bindings_are_named),
                                       cmocka_unit_test(fault_66_mask_frozen_at_export),
                                       cmocka_unit_test(facts_are_checked_at_launch),
                                       cmocka_unit_test(an_opaque_op_is_named_before_anything_runs),
                                       cmocka_unit_test(a_cache_is_updated_where_it_lies),
                                       cmocka_unit_test(other_overlaps_are_refused),
                                       cmocka_unit_test(older_versions_stay_readable),
                                       cmocka_unit_test(fault_1_the_cache_write_is_not_lost),
                                       cmocka_unit_test(fault_31_scales_are_not_cached),
                                       cmocka_unit_test(fault_32_running_reads_nothing_on_the_host),
                                       cmocka_unit_test(fault_36_odd_scales_are_defined),
                                       cmocka_unit_test(fault_69_a_nan_scale_stays_where_it_is),
                                       cmocka_unit_test(fault_45_cache_dtypes_are_decided_per_node),
                                       cmocka_unit_test(weights_come_from_files_below_the_root),
                                       cmocka_unit_test(names_that_climb_are_refused),
                                       cmocka_unit_test(two_threads_share_a_plan),
                                       cmocka_unit_test(observers_see_every_step),
                                       cmocka_unit_test(sizes_that_no_input_has_come_from_the_host),
                                       cmocka_unit_test(fails_at_every_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
