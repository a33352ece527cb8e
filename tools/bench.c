/* Owns: `qfuse bench`: ceilings of the device, attention of given shapes, or a graph or plan, each timed and set
 * against them. Does not own: timing (bench_run.c), lines limited by memory (bench_stream.c), the peers' figures
 * (bench/attention.py). Next: bench.h; docs/gpu.md. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <qfuse/codegen.h>

#include "ir/text.h"
#include "tools/bench.h"
#include "tools/inputs.h"

typedef struct shape_row {
    uint64_t batch, heads, kv_heads, head_dim, rows, keys, page; /* page 0: dense */
    qf_dtype type, out;
    bool causal;
} shape_row;

/* --- printing --- */

static void print_head(const bench *at) {
    const qf_device_info *info = &at->device.info;
    (void)printf("%s, target %s", info->name, info->target);
    if (info->processor_count)
        (void)printf(", %u multiprocessors, driver for CUDA %u.%u, %s", info->processor_count,
                     info->driver_version / 1000, info->driver_version % 1000 / 10,
                     info->has_cublaslt ? "cuBLASLt" : "no cuBLASLt");
    (void)printf("\n%-44s %11s %9s %9s %9s %9s\n", "", "median us", "spread %", "GB/s", "TFLOPS", "of ceiling");
}

/* Three significant digits. */
static void print_number(double number) {
    (void)printf("%9.*f ", number >= 100 ? 0 : number >= 10 ? 1 : number >= 1 ? 2 : 4, number);
}

void bench_print(const bench *at, const char *name, const bench_times *times, double bytes, double flops,
                 bench_ceiling ceiling, double products) {
    double rate = bytes / times->median * 1e-3, speed = flops / times->median * 1e-6;
    (void)printf("%-44s %11.2f %9.1f ", name, times->median, 100 * (times->most - times->least) / times->median);
    print_number(rate);
    if (flops > 0)
        print_number(speed);
    else
        (void)printf("%9s ", "");
    double by_bytes = at->copy_rate > 0 ? rate / at->copy_rate : 0, by_flops = products > 0 ? speed / products : 0;
    if (ceiling == BENCH_COPY || (ceiling == BENCH_PRODUCTS && by_bytes > by_flops))
        (void)printf("%6.0f %% of copy", 100 * by_bytes);
    else if (ceiling == BENCH_PRODUCTS)
        (void)printf("%6.0f %% of products", 100 * by_flops);
    (void)printf("%s\n", times->replayed || at->device.host ? "" : " (not replayed from a graph)");
    (void)fflush(stdout);
}

/* --- plans from text --- */

static qf_plan *compile_text(bench *at, const char *text) {
    qf_graph *graph = qf_graph_parse(at->tool->context, qf_text_of(text), "bench");
    qf_plan *plan = NULL;
    qf_compile_options options = {.struct_size = sizeof options, .target = at->device.info.target};
    if (graph && qf_compile(graph, &options, &plan) != QF_OK) plan = NULL;
    qf_graph_destroy(graph);
    return plan;
}

bool bench_fill_random(void *user, uint32_t index, uint32_t set, const qf_plan_tensor_info *info, qf_tensor *tensor) {
    bench *at = user;
    *tensor = (qf_tensor){.dtype = info->dtype, .rank = info->rank};
    memcpy(tensor->dims, info->dims, sizeof info->dims);
    return bench_random(&at->device, tensor, 1000u * set + index);
}

bool bench_text(bench *at, const char *text, uint32_t sets, bench_fill fill, bench_times *out, double *out_bytes) {
    qf_plan *plan = compile_text(at, text);
    bench_plan *timed = plan ? bench_plan_open(&at->device, plan, sets, fill, at) : NULL;
    bool done = timed && bench_plan_time(timed, at->seconds, out);
    if (done) *out_bytes = bench_plan_bytes(timed);
    bench_plan_close(timed);
    return done;
}

/* --- ceilings --- */

/* The ceiling of bandwidth: a large copy. */
static bool copy_ceiling(bench *at) {
    char text[200], name[64];
    bench_times times;
    double bytes = 0;
    unsigned long long count = (at->device.host ? 1u << 26 : 1u << 30) / sizeof(float);
    (void)snprintf(text, sizeof text, "graph @copy(%%x: f32[%llu]) {\n  %%y = copy %%x\n  return %%y\n}\n", count);
    if (!bench_text(at, text, 1, bench_fill_random, &times, &bytes)) return false;
    at->copy_rate = bytes / times.median * 1e-3;
    (void)snprintf(name, sizeof name, "copy, %llu MiB", count * sizeof(float) >> 20);
    bench_print(at, name, &times, bytes, 0, BENCH_NONE, 0);
    return true;
}

/* A product whose second operand lies as [n, k], which FP8 tensor cores ask for. */
static bool product_ceiling(bench *at, const char *type, const char *name, double *out_rate) {
    char text[300], label[64];
    bench_times times;
    double bytes = 0, size = at->device.host ? 384 : 8192;
    (void)snprintf(text, sizeof text,
                   "graph @product(%%a: %s[%.0f, %.0f], %%b: %s[%.0f, %.0f]) {\n"
                   "  %%y = contract %%a, %%b {equation=\"mk,nk->mn\", out=bf16}\n  return %%y\n}\n",
                   type, size, size, type, size, size);
    if (!bench_text(at, text, 1, bench_fill_random, &times, &bytes)) return false;
    *out_rate = 2 * size * size * size / times.median * 1e-6;
    (void)snprintf(label, sizeof label, "%s product, %.0f^3", name, size);
    bench_print(at, label, &times, bytes, 2 * size * size * size, BENCH_NONE, 0);
    return true;
}

/* --- attention --- */

static double needed_pairs(const shape_row *row) {
    double rows = (double)row->rows, keys = (double)row->keys;
    if (!row->causal) return rows * keys;
    /* Row t stands at key t + keys - rows. */
    double first = keys - rows + 1, seen = 0;
    if (first >= 1) return rows * (first + keys) / 2;
    seen = keys * (keys + 1) / 2;
    return seen;
}

static double attention_flops(const shape_row *row) {
    return 4 * needed_pairs(row) * (double)(row->batch * row->heads * row->head_dim);
}

/* Bytes that a run cannot do without: q, the keys and values once, the result. */
static double attention_bytes(const shape_row *row) {
    double width = qf_dtype_bits(row->type) / 8.0, out = qf_dtype_bits(row->out) / 8.0;
    double q = (double)(row->batch * row->rows * row->heads * row->head_dim);
    double kv = 2 * (double)(row->batch * row->keys * row->kv_heads * row->head_dim);
    return q * width + kv * width + q * out;
}

static uint64_t pages_of(const shape_row *row) {
    return (row->keys + row->page - 1) / row->page;
}

typedef struct type_text {
    char text[96];
} type_text;

/* "%name: type[2, 3]" */
static type_text input_text(const char *name, qf_dtype dtype, uint32_t rank, const uint64_t *dims) {
    type_text out;
    size_t used = (size_t)snprintf(out.text, sizeof out.text, "%%%s: %s[", name, qf_dtype_name(dtype));
    for (uint32_t i = 0; i < rank; i++)
        used += (size_t)snprintf(out.text + used, sizeof out.text - used, "%s%" PRIu64, i ? ", " : "", dims[i]);
    (void)snprintf(out.text + used, sizeof out.text - used, "]");
    return out;
}

#define INPUT(name, dtype, ...)                                                                                        \
    input_text(name, dtype, sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), (const uint64_t[]){__VA_ARGS__})

static void paged_text(const shape_row *row, const char *ends, char *text, size_t size) {
    uint64_t pages = row->batch * pages_of(row);
    type_text q = INPUT("q", row->type, row->batch * row->rows, row->heads, row->head_dim);
    type_text k = INPUT("k", row->type, pages, row->page, row->kv_heads, row->head_dim);
    type_text v = INPUT("v", row->type, pages, row->page, row->kv_heads, row->head_dim);
    type_text table = INPUT("table", QF_I32, row->batch, pages_of(row));
    type_text lens = INPUT("lens", QF_I32, row->batch), start = INPUT("start", QF_I32, row->batch + 1);
    (void)snprintf(text, size,
                   "graph @attention(%s, %s, %s, %s, %s, %s, %%s: f32[]) {\n"
                   "  %%y = paged_attention %%q, %%k, %%v, %%table, %%lens%s%s\n  return %%y\n}\n",
                   q.text, k.text, v.text, table.text, lens.text, start.text, row->rows > 1 ? ", q_start=%start" : "",
                   ends);
}

static void dense_text(const shape_row *row, const char *ends, char *text, size_t size) {
    type_text q = INPUT("q", row->type, row->batch, row->rows, row->heads, row->head_dim);
    type_text k = INPUT("k", row->type, row->batch, row->keys, row->kv_heads, row->head_dim);
    type_text v = INPUT("v", row->type, row->batch, row->keys, row->kv_heads, row->head_dim);
    (void)snprintf(text, size,
                   "graph @attention(%s, %s, %s, %%s: f32[]) {\n  %%y = attention %%q, %%k, %%v%s\n  return %%y\n}\n",
                   q.text, k.text, v.text, ends);
}

static void attention_text(const shape_row *row, char *text, size_t size) {
    bool narrow = qf_dtype_is_float8(row->type), narrow_out = qf_dtype_is_float8(row->out);
    char ends[300];
    (void)snprintf(ends, sizeof ends, "%s%s {scale=%.9g, causal=%s, out=%s%s%s}",
                   narrow ? ", q_scale=%s, k_scale=%s, v_scale=%s" : "", narrow_out ? ", out_scale=%s" : "",
                   1 / sqrt((double)row->head_dim), row->causal ? "true" : "false", qf_dtype_name(row->out),
                   narrow ? ", p=kernel" : "", row->page ? ", layout=nhd" : ", layout=bshd");
    if (row->page)
        paged_text(row, ends, text, size);
    else
        dense_text(row, ends, text, size);
}

/* Integers for table, lens, start: pages in an order that no prefetcher follows. */
static int32_t *integers_for(const shape_row *row, const char *name, uint64_t count) {
    int32_t *numbers = malloc((count + 1) * sizeof *numbers);
    if (!numbers) return NULL;
    for (uint64_t i = 0; i < count; i++)
        numbers[i] =
            strcmp(name, "lens") == 0 ? (int32_t)row->keys : (int32_t)(strcmp(name, "start") == 0 ? i * row->rows : i);
    uint64_t state = 88172645463325252u;
    for (uint64_t i = count; strcmp(name, "table") == 0 && i > 1; i--) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        int32_t kept = numbers[i - 1];
        numbers[i - 1] = numbers[state % i];
        numbers[state % i] = kept;
    }
    return numbers;
}

static bool fill_attention(void *user, uint32_t index, uint32_t set, const qf_plan_tensor_info *info,
                           qf_tensor *tensor) {
    bench *at = user;
    const shape_row *row = at->row;
    float scale = 0.05f;
    *tensor = (qf_tensor){.dtype = info->dtype, .rank = info->rank};
    memcpy(tensor->dims, info->dims, sizeof info->dims);
    if (strcmp(info->name, "s") == 0) return bench_upload(&at->device, tensor, &scale);
    if (info->dtype != QF_I32) return bench_random(&at->device, tensor, 1000u * set + index);
    int32_t *numbers = integers_for(row, info->name, qf_tensor_bytes(tensor) / sizeof *numbers);
    bool done = numbers && bench_upload(&at->device, tensor, numbers);
    free(numbers);
    return done;
}

static bool attention_row(bench *at, const shape_row *row) {
    char text[1600], name[96];
    bench_times times;
    double bytes = 0;
    at->row = row;
    attention_text(row, text, sizeof text);
    bool done = bench_text(at, text, 0, fill_attention, &times, &bytes);
    at->row = NULL;
    if (!done) return false;
    int used =
        snprintf(name, sizeof name, "%s->%s b%" PRIu64 " %" PRIu64 "/%" PRIu64 " d%" PRIu64, qf_dtype_name(row->type),
                 qf_dtype_name(row->out), row->batch, row->heads, row->kv_heads, row->head_dim);
    used += snprintf(name + used, sizeof name - (size_t)used, " q%" PRIu64 " k%" PRIu64 "%s", row->rows, row->keys,
                     row->causal && row->rows > 1 ? " causal" : "");
    if (row->page) (void)snprintf(name + used, sizeof name - (size_t)used, " p%" PRIu64, row->page);
    double ceiling = qf_dtype_is_float8(row->type) ? at->narrow_rate : at->wide_rate;
    bench_print(at, name, &times, attention_bytes(row), attention_flops(row), BENCH_PRODUCTS, ceiling);
    return true;
}

/* --- which rows --- */

static const shape_row on_gpu[] = {{1, 32, 8, 128, 2048, 2048, 0, QF_F8E4M3FN, QF_F8E4M3FN, true},
                                   {4, 32, 8, 128, 4096, 4096, 0, QF_F8E4M3FN, QF_F8E4M3FN, true},
                                   {1, 32, 8, 128, 16384, 16384, 0, QF_F8E4M3FN, QF_F8E4M3FN, true},
                                   {1, 32, 8, 128, 16384, 16384, 64, QF_F8E4M3FN, QF_F8E4M3FN, true},
                                   {1, 32, 8, 128, 1, 1024, 64, QF_F8E4M3FN, QF_F8E4M3FN, true},
                                   {8, 32, 8, 128, 1, 4096, 64, QF_F8E4M3FN, QF_F8E4M3FN, true},
                                   {32, 32, 8, 128, 1, 4096, 64, QF_F8E4M3FN, QF_F8E4M3FN, true},
                                   {128, 32, 8, 128, 1, 4096, 64, QF_F8E4M3FN, QF_F8E4M3FN, true},
                                   {1, 8, 1, 128, 1, 65536, 64, QF_F8E4M3FN, QF_F8E4M3FN, true},
                                   {32, 32, 8, 128, 1, 4096, 64, QF_BF16, QF_BF16, true}};
static const shape_row on_cpu[] = {{1, 4, 2, 64, 64, 64, 0, QF_F8E4M3FN, QF_F8E4M3FN, true},
                                   {2, 8, 2, 64, 1, 512, 16, QF_F8E4M3FN, QF_F8E4M3FN, true}};

static bool by_options(const qf_tool *tool) {
    const tool_options *given = &tool->options;
    return given->batch || given->heads || given->kv_heads || given->head_dim || given->queries || given->keys ||
           given->page || given->type || given->out_type || given->causal;
}

static bool type_of(const qf_tool *tool, const char *name, const char *option, qf_dtype otherwise, qf_dtype *out) {
    *out = name ? qf_dtype_from_name(name) : otherwise;
    if (qf_dtype_is_float(*out) && *out != QF_F64 && *out != QF_F4E2M1FN) return true;
    (void)qf_fail(tool->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                  "--%s: expected f32, f16, bf16 or an FP8 type, found '%s'", option, name);
    return false;
}

static bool row_of_options(const qf_tool *tool, shape_row *out) {
    const tool_options *given = &tool->options;
#define OR(field, value) (given->field ? given->field : (value))
    *out = (shape_row){.batch = OR(batch, 1),
                       .heads = OR(heads, 32),
                       .head_dim = OR(head_dim, 128),
                       .rows = OR(queries, 1),
                       .page = given->page,
                       .causal = given->causal};
    out->kv_heads = OR(kv_heads, out->heads % 4 == 0 ? out->heads / 4 : out->heads);
    out->keys = OR(keys, out->rows > 4096 ? out->rows : 4096);
#undef OR
    if (!type_of(tool, given->type, "type", QF_F8E4M3FN, &out->type)) return false;
    if (!type_of(tool, given->out_type, "out-type", out->type, &out->out)) return false;
    if (out->heads % out->kv_heads == 0) return true;
    (void)qf_fail(tool->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                  "--heads=%" PRIu64 " is no multiple of --kv-heads=%" PRIu64, out->heads, out->kv_heads);
    return false;
}

static bool attention_rows(bench *at) {
    shape_row row;
    if (by_options(at->tool)) return row_of_options(at->tool, &row) && attention_row(at, &row);
    const shape_row *rows = at->device.host ? on_cpu : on_gpu;
    size_t count = at->device.host ? QF_COUNT_OF(on_cpu) : QF_COUNT_OF(on_gpu);
    for (size_t i = 0; i < count; i++)
        if (!attention_row(at, &rows[i])) return false;
    return true;
}

/* --- a file --- */

static bool fill_file(void *user, uint32_t index, uint32_t set, const qf_plan_tensor_info *info, qf_tensor *tensor) {
    bench *at = user;
    qf_tensor host = {0};
    for (uint32_t i = 0; i < info->rank && info->rank <= QF_TENSOR_MAX_RANK; i++) {
        if (at->graph || info->dims[i] >= 0) continue;
        (void)qf_fail(at->tool->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                      "input \"%s\" of the plan has a symbolic size: bench its graph with --dims", info->name);
        return false;
    }
    if (!at->graph) return bench_fill_random(user, index, set, info, tensor);
    bool done = random_input(at->tool, at->graph, index, &host);
    *tensor = host;
    done = done && bench_upload(&at->device, tensor, host.data);
    tensor_free(&host);
    return done;
}

static bool file_row(bench *at, const char *path) {
    qf_graph *graph = NULL;
    qf_plan *plan = NULL;
    bench_times times;
    if (!tool_load_graph_or_plan(at->tool, path, &graph, &plan)) return false;
    const char *passes = at->tool->options.passes ? at->tool->options.passes : "";
    bool done = true;
    if (graph) {
        at->tool->options.target = at->device.info.target;
        qf_compile_options options = {
            .struct_size = sizeof options, .target = at->device.info.target, .pipeline = passes};
        done = tool_run_pipeline(at->tool, graph, passes, at->tool->options.numerics, NULL) == QF_OK &&
               qf_compile(graph, &options, &plan) == QF_OK;
    }
    at->graph = graph;
    uint32_t steps = done ? qf_plan_step_count(plan) : 0;
    bench_plan *timed = done ? bench_plan_open(&at->device, plan, 0, fill_file, at) : NULL;
    done = timed && bench_plan_time(timed, at->seconds, &times);
    if (done) {
        char name[80];
        (void)snprintf(name, sizeof name, "%.50s, %u steps", path, steps);
        bench_print(at, name, &times, bench_plan_bytes(timed), 0, BENCH_COPY, 0);
    }
    bench_plan_close(timed);
    qf_graph_destroy(graph);
    return done;
}

int tool_bench(qf_tool *tool) {
    bench at = {.tool = tool,
                .seconds = (tool->options.milliseconds ? (double)tool->options.milliseconds : 100) * 1e-3};
    if (tool->options.file_count && by_options(tool)) {
        (void)fprintf(stderr,
                      "error: expected files, or the sizes of an attention, not both; see `qfuse bench --help`\n");
        return TOOL_USAGE;
    }
    shape_row row;
    bool done =
        (!by_options(tool) || row_of_options(tool, &row)) && tool_device_open(tool, tool->options.device, &at.device);
    if (done) print_head(&at);
    done = done && copy_ceiling(&at) && product_ceiling(&at, "bf16", "bf16", &at.wide_rate) &&
           product_ceiling(&at, "f8E4M3FN", "FP8", &at.narrow_rate);
    for (uint32_t i = 0; done && i < tool->options.file_count; i++) done = file_row(&at, tool->options.files[i]);
    if (!tool->options.file_count && !by_options(tool)) done = done && bench_streams(&at);
    if (!tool->options.file_count) done = done && attention_rows(&at);
    tool_device_close(&at.device);
    return done ? TOOL_OK : TOOL_FAILED;
}
