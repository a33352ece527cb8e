/* Owns: fuzzing plans: arbitrary bytes give an error or a plan; a plan writes and reads back the same, and runs to a
 * status. Does not own: mutation (driver.c), graphs (graph_fuzz.c). Next: driver.c, plan/validate.c. */
#include "tests/fuzz/fuzz.h"

#include <qfuse/codegen.h>
#include <qfuse/runtime.h>

#include "ir/text.h"
#include "plan/format.h"

/* An input is a plan file whose size and checksum are put right; or, where it does not begin as one, a valid plan
 * chosen by its first byte and changed by each following 8 bytes: section, record (2), byte in record, kind of change,
 * value (3). */

static const char *const seeds[] = {
    "graph @g(%x: f32[B, T, 8], %cache: f32[2, 16, 1, 8], %slots: i64[B*T]) symbols(T min 1 max 64) assume(B == 1) {\n"
    "  %c = constant {value=f32[8] [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]}\n  %w = parameter {name=\"w\"} : f32[8]\n"
    "  %y = mul %x, %c\n  %z = add %y, %w\n  %r = view %z {shape=[B*T, 1, 8]}\n"
    "  %k = kv_cache_write %cache, %r, %slots\n  %s = softmax %z {axis=2}\n"
    "  %g = slice %s {starts=[0, 0, 0], ends=[B, floordiv(T, 2), 8], steps=[1, 1, 1]}\n  return %g, %k\n}\n",
    "graph @g(%q: f32[1, 4, T, 8], %k: f8E4M3FN[1, 2, S, 8], %v: f8E4M3FN[1, 2, S, 8], %m: i1[T, S], %l: i32[1], %s: "
    "f32[]) {\n"
    "  %a, %e = attention %q, %k, %v, mask=%m, kv_lens=%l, k_scale=%s, v_scale=%s, out_scale=%s {scale=0.5, "
    "causal=true, window_left=4, "
    "softcap=3.0, out=f8E4M3FN}\n  return %a, %e\n}\n",
    "graph @g(%q: f16[R, 4, 8], %k: f8E4M3FN[4, 16, 2, 8], %v: f8E4M3FN[4, 16, 2, 8], %t: i32[R, 2], %l: i32[R], %s: "
    "f32[2]) {\n"
    "  %a = paged_attention %q, %k, %v, %t, %l, k_scale=%s, v_scale=%s {scale=0.5}\n  %c = cast %a {dtype=f32}\n  "
    "return %c\n}\n",
    "graph @g(%x: f32[N, 4, H, 6], %w: f32[8, 2, 3, 3], %i: i64[3], %e: i64[N, 2]) {\n"
    "  %c = conv %x, %w {strides=[1, 2], pads_before=[1, 1], pads_after=[1, 1], dilations=[1, 1], groups=2}\n"
    "  %p = permute %c {order=[0, 2, 3, 1]}\n  %g = gather %p, %i {axis=3}\n  %a, %b = split %p {axis=3, sizes=[3, "
    "5]}\n"
    "  %j = concat %g, %a, %b {axis=3}\n  %r = reduce_max %j {axes=[1, 2], keep=false}\n  %k, %n = top_k %r {k=2, "
    "axis=1}\n"
    "  %m = arg_max %r {axis=1}\n  return %k, %n, %m, %j\n}\n",
    "graph @g(%x: f32[T, 4, 8], %t: f32[16, 8], %p: i64[T], %w: f32[8], %s: f32[], %a: f8E4M3FN[T, 16], %b: "
    "f8E4M3FN[16, 8]) {\n"
    "  %r = rope %x, %t, positions=%p\n  %n = rms_norm %r, weight=%w, out_scale=%s {axis=2, out=f8E4M3FN}\n  %d = "
    "dequantize %n, %s {dtype=f32}\n"
    "  %q, %z = dynamic_quantize %d {dtype=f8E5M2, granularity=group, group=4}\n  %v = view %r {shape=[T, 32]}\n  %h = "
    "silu_mul %v\n"
    "  %m = scaled_matmul %a, %b, %s, %s {out=f32}\n  %c = contract %m, %m {equation=\"ab,cb->ac\"}\n  return %q, %z, "
    "%h, %c\n}\n",
    "graph @g(%x: i64[T, 4], %u: i64[2, 4], %i: i64[2, 1], %v: f32[2]) {\n  %s = scatter_nd %x, %i, %u\n  %g = "
    "gather_nd %s, %i\n"
    "  %h = one_hot %g, %v {depth=3}\n  %y = symbolic {values=[T, 2*T], shape=[2]}\n  %z = iota {shape=[T, 2], axis=0, "
    "step=T}\n"
    "  %o = shape_of %h\n  %c = cumulative_sum %x {axis=0}\n  %l = less %c, %s\n  %w = where %l, %c, %s\n  %k = "
    "scatter_elements %w, %w, %c {axis=1}\n"
    "  return %h, %y, %z, %o, %k\n}\n",
    "graph @g(%x: f32[T, 4, 8], %w: f32[8], %i: i64[T, 4, 8], %c: i1[T, 4, 8], %s: f32[]) {\n"
    "  %a = neg %x\n"
    "  %d = exp %a\n"
    "  %e = sub %d, %x\n"
    "  %f = div %e, %w\n"
    "  %g = equal %f, %x\n"
    "  %h = xor %g, %c\n"
    "  %j = minimum %f, %w\n"
    "  %k = is_nan %j\n"
    "  %l = gelu %j\n"
    "  %m = log_softmax %l {axis=1}\n"
    "  %n = reduce_mean %m {axes=[2], keep=true}\n"
    "  %o = layer_norm %m, weight=%w, bias=%w {axis=2}\n"
    "  %p = full %s {shape=[T, 8]}\n"
    "  %r = mod %i, %i\n"
    "  %t = gather_elements %o, %r {axis=2}\n"
    "  %u = clamp %t, low=%s, high=%s\n"
    "  %v = pad %u, %s {before=[0, 1, 0], after=[1, 0, 0]}\n"
    "  return %h, %k, %n, %p, %v\n"
    "}\n",
    "graph @g(%x: f32[T, 4, 8], %r: f32[T, 4, 8], %w: f32[8], %s: f32[], %b: f32[8, 6], %k: f8E4M3FN[2, 4, 2, 8], %t: "
    "f32[16, 8], %p: i64[T]) {\n"
    "  %y, %z = add_rms_norm %x, %r, weight=%w, out_scale=%s {axis=2, out=f8E4M3FN}\n"
    "  %m = matmul %z, %b\n"
    "  %l = triangle %m\n"
    "  %q = quantize %l, %s {dtype=f8E5M2}\n"
    "  %c = bitcast %q {dtype=i8}\n"
    "  %h = slice %x {starts=[0, 0, 0], ends=[T, 2, 8], steps=[1, 1, 1]}\n"
    "  %e = expand %h {shape=[2, T, 2, 8]}\n"
    "  %o, %u, %v = rope_quantize_cache_write %x, %h, %h, %t, %p, %p, %k, %k, q_scale=%s, k_scale=%s, v_scale=%s\n"
    "  return %y, %c, %e, %o, %u, %v\n"
    "}\n",
};

const char *const *qf_fuzz_dictionary(void) {
    return NULL;
}

#define CHANGE         8
#define RUN_MEMORY     ((size_t)2 << 20)
#define LOAD_MEMORY(n) (8 * (n) + ((size_t)256 << 10))
#define COMPILE_MEMORY ((size_t)64 << 20)

static void append(void *user, const char *data, size_t size) {
    qf_buffer_append(user, data, size);
}

/* The plan of a seed graph, as bytes. */
static void compile_seed(qf_context *context, const char *text, qf_buffer *out) {
    qf_plan *plan = NULL;
    qf_graph *graph = qf_graph_parse(context, qf_text_of(text), "seed");
    FUZZ_CHECK(graph && qf_compile(graph, NULL, &plan) == QF_OK);
    FUZZ_CHECK(qf_plan_to_bytes(context, plan, append, out) == QF_OK && !out->failed);
    qf_plan_destroy(plan);
    qf_graph_destroy(graph);
}

static uint64_t get(const uint8_t *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static void put(uint8_t *at, int bytes, uint64_t value) {
    for (int i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> (8 * i));
}

static void put_right(uint8_t *file, size_t size) {
    if (size < QF_PLAN_HEADER) return;
    put(file + 16, 8, size);
    put(file + 24, 8, qf_plan_checksum(file + QF_PLAN_CHECKED_FROM, size - QF_PLAN_CHECKED_FROM));
}

static void change(uint8_t *file, const uint8_t *how) {
    const uint8_t *entry = file + QF_PLAN_HEADER + (size_t)(how[0] % QF_PLAN_SECTION_COUNT) * QF_PLAN_SECTION_ENTRY;
    uint64_t stride = get(entry + 4, 4), count = get(entry + 8, 8), offset = get(entry + 16, 8);
    if (!count) return;
    uint8_t *record = file + offset + get(how + 1, 2) % count * stride;
    uint64_t value = get(how + 5, 3);
    if (stride < 4 || how[4] % 4 == 0) {
        record[how[3] % stride] = (uint8_t)value;
        return;
    }
    uint8_t *field = record + how[3] % (stride / 4) * 4;
    if (how[4] % 4 == 1) put(field, 4, get(field, 4) + value % 5 - 2);
    if (how[4] % 4 == 2) put(field, 4, value % 12);
    if (how[4] % 4 == 3) put(field, 4, value % 3 ? UINT64_MAX << (value % 32) : value);
}

/* Memory for running: more than the limit is refused, which is a status like any other. */
static void *limited(void *user, void *pointer, size_t old_size, size_t new_size) {
    fuzz_memory *memory = user;
    if (new_size == 0) {
        memory->live -= pointer ? old_size : 0;
        free(pointer);
        return NULL;
    }
    if (new_size > memory->limit || memory->live + new_size - (pointer ? old_size : 0) > memory->limit) return NULL;
    void *result = realloc(pointer, new_size);
    if (result) memory->live += new_size - (pointer ? old_size : 0);
    return result;
}

/* A tensor of a plan's input or parameter, with `extent` for every open dim; false where it takes too much. */
static bool make_tensor(const qf_plan_tensor_info *info, int64_t extent, qf_tensor *out) {
    *out = (qf_tensor){.dtype = info->dtype, .rank = info->rank};
    if (info->rank > QF_TENSOR_MAX_RANK) return false;
    for (uint32_t i = 0; i < info->rank; i++) out->dims[i] = info->dims[i] < 0 ? extent : info->dims[i];
    uint64_t bytes = qf_tensor_bytes(out);
    if (bytes > RUN_MEMORY / 8) return false;
    uint8_t *data = malloc(bytes ? bytes : 1);
    FUZZ_CHECK(data);
    uint32_t width = qf_dtype_bits(info->dtype) >= 8 ? qf_dtype_bits(info->dtype) / 8 : 1;
    for (uint64_t i = 0; i < bytes; i++)
        data[i] = i % width ? 0 : (uint8_t)(i / width % 2); /* integers 0, 1; tiny floats */
    out->data = data;
    return true;
}

static void run_bound(const qf_plan *plan, qf_executor *executor, int64_t extent, qf_tensor *tensors) {
    uint32_t inputs = qf_plan_input_count(plan), parameters = qf_plan_parameter_count(plan);
    qf_plan_tensor_info info;
    for (uint32_t i = 0; i < inputs; i++)
        if (!qf_plan_input(plan, i, &info) || !make_tensor(&info, extent, &tensors[i]) ||
            qf_executor_bind_input(executor, i, &tensors[i]) != QF_OK)
            return;
    for (uint32_t i = 0; i < parameters; i++)
        if (!qf_plan_parameter(plan, i, &info) || !make_tensor(&info, extent, &tensors[inputs + i]) ||
            qf_executor_bind_parameter(executor, info.name, &tensors[inputs + i]) != QF_OK)
            return;
    for (uint32_t i = 0; i < plan->symbol_count; i++)
        if (plan->symbols[i].kind == QF_PLAN_HOST &&
            qf_executor_bind_symbol(executor, qf_plan_symbol(plan, i), extent) != QF_OK)
            return;
    if (qf_executor_run(executor) != QF_OK) return;
    for (uint32_t i = 0; i < qf_plan_output_count(plan); i++) {
        qf_tensor out;
        FUZZ_CHECK(qf_executor_output(executor, i, &out) == QF_OK);
        uint64_t bytes = qf_tensor_bytes(&out);
        for (uint64_t j = 0; j < bytes; j++) FUZZ_CHECK(((volatile const uint8_t *)out.data)[j] <= 255); /* readable */
    }
}

static void run(const qf_plan *plan, int64_t extent) {
    fuzz_memory memory = {.limit = RUN_MEMORY};
    qf_context_options options = {
        .struct_size = sizeof options, .allocator = {limited, &memory}, .handler = fuzz_message};
    qf_context *context = NULL;
    qf_executor *executor = NULL;
    size_t count = (size_t)qf_plan_input_count(plan) + qf_plan_parameter_count(plan);
    qf_tensor *tensors = calloc(count + 1, sizeof *tensors);
    FUZZ_CHECK(tensors && qf_context_create(&options, &context) == QF_OK);
    if (qf_executor_create(context, plan, NULL, &executor) == QF_OK) run_bound(plan, executor, extent, tensors);
    qf_executor_destroy(executor);
    for (size_t i = 0; i < count; i++) free(tensors[i].data);
    free(tensors);
    fuzz_destroy(context, &memory);
}

static void load_and_run(const uint8_t *file, size_t size) {
    fuzz_memory memory;
    qf_context *context = fuzz_context(&memory, LOAD_MEMORY(size));
    qf_plan *plan = NULL;
    qf_status status = qf_plan_from_bytes(context, file, size, &plan);
    FUZZ_CHECK((status == QF_OK) == (plan != NULL));
    memory.limit = COMPILE_MEMORY;
    if (plan) {
        qf_buffer first = {.context = context}, second = {.context = context}, text = {.context = context};
        qf_plan *again = NULL;
        FUZZ_CHECK(qf_plan_print(context, plan, append, &text) == QF_OK);
        FUZZ_CHECK(qf_plan_to_bytes(context, plan, append, &first) == QF_OK);
        FUZZ_CHECK(qf_plan_from_bytes(context, first.data, first.size, &again) == QF_OK);
        FUZZ_CHECK(qf_plan_to_bytes(context, again, append, &second) == QF_OK);
        FUZZ_CHECK(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
        for (int64_t extent = 1; extent <= 3; extent += 2) run(plan, extent);
        qf_plan_destroy(again);
        qf_buffer_destroy(&first);
        qf_buffer_destroy(&second);
        qf_buffer_destroy(&text);
    }
    qf_plan_destroy(plan);
    fuzz_destroy(context, &memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    fuzz_memory memory;
    qf_context *context = fuzz_context(&memory, COMPILE_MEMORY);
    qf_buffer file = {.context = context};
    if (size >= 8 && memcmp(data, QF_PLAN_MAGIC, 8) == 0) {
        qf_buffer_append(&file, data, size);
    } else {
        compile_seed(context, seeds[data[0] % QF_COUNT_OF(seeds)], &file);
        for (size_t at = 1; at + CHANGE <= size; at += CHANGE) change((uint8_t *)file.data, data + at);
    }
    put_right((uint8_t *)file.data, file.size);
    load_and_run((const uint8_t *)file.data, file.size);
    qf_buffer_destroy(&file);
    fuzz_destroy(context, &memory);
    return 0;
}
