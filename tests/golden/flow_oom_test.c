/* Owns: allocation failures in whole flows: every golden file, and models, through reading, passes, plans, running,
 * writing. Label: oom Next: tests/oom.h. */
#include "tests/oom.h"

#include <dirent.h>
#include <qfuse/codegen.h>
#include <qfuse/onnx.h>
#include <qfuse/pass.h>
#include <qfuse/runtime.h>

#include "ir/text.h"
#include "patterns/rules.h"

#define MAX_INPUTS   64
#define EXTENT       2 /* of every symbol */
#define MAX_ELEMENTS ((uint64_t)1 << 16)

/* One flow. Exactly one of `text`, `rules`, `path` is given. */
typedef struct flow {
    char *text, *rules;
    const char *path;
    char passes[256], numerics[32];
} flow;

/* --- what a flow does --- */
static bool extent_of(void *user, qf_dim_symbol symbol, int64_t *out_value) {
    (void)user;
    (void)symbol;
    *out_value = EXTENT;
    return true;
}

static bool bind_inputs(qf_context *context, const qf_graph *graph, qf_executor *executor, void **memory) {
    for (uint32_t i = 0; i < graph->input_count; i++) {
        qf_value value = graph->inputs[i];
        if (i == MAX_INPUTS || qf_value_rank(graph, value) > QF_TENSOR_MAX_RANK) return false;
        qf_tensor tensor = {.dtype = qf_value_dtype(graph, value), .rank = qf_value_rank(graph, value)};
        for (uint32_t axis = 0; axis < tensor.rank; axis++)
            if (!qf_dim_evaluate(context, qf_value_dims(graph, value)[axis], extent_of, NULL, &tensor.dims[axis]))
                return false;
        uint64_t bytes = qf_tensor_bytes(&tensor);
        if (bytes > MAX_ELEMENTS) return false;
        tensor.data = memory[i] = calloc(1, bytes ? (size_t)bytes : 1); /* the host's memory, not the library's */
        if (qf_executor_bind_input(executor, i, &tensor) != QF_OK) return false;
    }
    return true;
}

static void run_plan(qf_context *context, const qf_graph *graph, const qf_plan *plan) {
    qf_executor *executor = NULL;
    void *memory[MAX_INPUTS] = {NULL};
    qf_tensor output;
    if (qf_executor_create(context, plan, NULL, &executor) != QF_OK) {
        assert_null(executor);
        return;
    }
    /* Twice: the second run finds the memory of the first. */
    if (bind_inputs(context, graph, executor, memory) && qf_executor_run(executor) == QF_OK &&
        qf_executor_run(executor) == QF_OK && qf_plan_output_count(plan))
        assert_int_equal(qf_executor_output(executor, 0, &output), QF_OK);
    qf_executor_destroy(executor);
    for (uint32_t i = 0; i < MAX_INPUTS; i++) free(memory[i]);
}

static void write_bytes(void *user, const char *data, size_t size) {
    qf_buffer_append(user, data, size);
}

static void compile_and_run(qf_context *context, const qf_graph *graph) {
    qf_plan *plan = NULL, *loaded = NULL;
    qf_buffer bytes = {.context = context}, text = {.context = context};
    if (qf_compile(graph, NULL, &plan) != QF_OK)
        assert_null(plan);
    else if (qf_plan_print(context, plan, write_bytes, &text) == QF_OK &&
             qf_plan_to_bytes(context, plan, write_bytes, &bytes) == QF_OK && !bytes.failed && !text.failed &&
             qf_plan_from_bytes(context, bytes.data, bytes.size, &loaded) == QF_OK)
        run_plan(context, graph, loaded);
    qf_plan_destroy(loaded);
    qf_plan_destroy(plan);
    qf_buffer_destroy(&bytes);
    qf_buffer_destroy(&text);
}

static void print_all(qf_context *context, const qf_graph *graph) {
    qf_buffer text = {.context = context}, dot = {.context = context};
    qf_graph_print(&text, graph);
    qf_graph_print_dot(&dot, graph);
    qf_buffer_destroy(&text);
    qf_buffer_destroy(&dot);
    void *data = NULL;
    size_t size = 0;
    if (qf_onnx_export_memory(graph, &data, &size) == QF_OK) qf_onnx_free(context, data, size);
}

/* Like the program: a step runs where those before it worked. */
static void run_flow(qf_context *context, const flow *work) {
    qf_graph *graph = NULL;
    qf_run *run = NULL;
    if (work->rules) {
        (void)!qf_rules_load(context, qf_text_of(work->rules), "flow.rules");
        return;
    }
    if (work->path)
        (void)!qf_onnx_import_file(context, work->path, NULL, &graph);
    else
        graph = qf_graph_parse(context, qf_text_of(work->text), "flow.qf");
    if (!graph) return;
    qf_pipeline_options options = {
        .struct_size = sizeof options, .passes = work->passes, .numerics = *work->numerics ? work->numerics : NULL};
    if (qf_run_pipeline(graph, &options, &run) == QF_OK) {
        print_all(context, graph);
        if (qf_context_status(context) == QF_OK) compile_and_run(context, graph);
    } else {
        assert_null(run);
    }
    qf_run_destroy(run);
    qf_graph_destroy(graph);
}

/* --- the sweep --- */
/* Returns the number of allocations. What fails is out of memory, or was wrong before memory ran out. */
static uint64_t run_once(const flow *work, uint64_t fail_at, bool fail_after, qf_status *in_out_status) {
    oom_state state = {.fail_at = fail_at, .fail_after = fail_after};
    qf_context_options options = {.struct_size = sizeof options, .allocator = {oom_reallocate, &state}};
    qf_context *context = NULL;
    qf_status created = qf_context_create(&options, &context);
    if (created == QF_OK) {
        run_flow(context, work);
        qf_status status = qf_context_status(context);
        if (state.failed && status != *in_out_status) assert_int_equal(status, QF_ERROR_OUT_OF_MEMORY);
        if (state.failed && *in_out_status == QF_OK) assert_int_equal(status, QF_ERROR_OUT_OF_MEMORY);
        if (!state.failed) *in_out_status = status;
        qf_context_destroy(context);
    } else {
        assert_int_equal(created, QF_ERROR_OUT_OF_MEMORY);
        assert_null(context);
    }
    assert_int_equal(state.live_bytes, 0);
    return state.allocations;
}

/* Every allocation where there are at most `limit` of them, else about `limit` of them. */
static void sweep(const flow *work, uint64_t limit) {
    qf_status status = QF_OK;
    uint64_t count = run_once(work, 0, false, &status), stride = (count + limit - 1) / limit;
    assert_true(count > 0);
    for (uint64_t n = 1; n <= count; n += stride) (void)run_once(work, n, false, &status);
    for (uint64_t n = 1 + stride / 2; n <= count; n += 2 * stride) (void)run_once(work, n, true, &status);
}

/* --- golden files --- */
static char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size_t size = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, size, file), size);
    text[size] = '\0';
    (void)fclose(file);
    return text;
}

/* The value of an option up to the next blank; false where it is not given. */
static bool option_of(const char *arguments, size_t size, const char *name, char *out, size_t room) {
    const char *at = strstr(arguments, name);
    if (!at || at >= arguments + size) return false;
    at += strlen(name);
    size_t length = strcspn(at, " \n");
    assert_true(length < room);
    memcpy(out, at, length);
    out[length] = '\0';
    return true;
}

/* The case that begins with "--- args" at `at`; false where it reads no graph and no rules. */
static bool read_flow(const char *at, flow *out) {
    const char *arguments = strchr(at, '\n') + 1, *end = strstr(arguments, "--- "), *input = end;
    memset(out, 0, sizeof *out);
    if (!input || strncmp(input, "--- input\n", 10) != 0) return false;
    input += 10;
    const char *stop = strstr(input, "\n--- ");
    size_t size = stop ? (size_t)(stop + 1 - input) : strlen(input);
    char *copy = calloc(1, size + 1);
    assert_non_null(copy);
    memcpy(copy, input, size);
    if (strncmp(arguments, "rules", 5) == 0)
        out->rules = copy;
    else
        out->text = copy;
    size_t length = (size_t)(end - arguments);
    if (!option_of(arguments, length, "--passes=", out->passes, sizeof out->passes)) strcpy(out->passes, "default");
    (void)option_of(arguments, length, "--numerics=", out->numerics, sizeof out->numerics);
    return true;
}

static uint32_t sweep_file(const char *path) {
    char *text = read_file(path);
    uint32_t cases = 0;
    for (const char *at = text; (at = strstr(at, "--- args\n")); at++) {
        flow work;
        if (!read_flow(at, &work)) continue;
        sweep(&work, 120);
        free(work.text);
        free(work.rules);
        cases++;
    }
    free(text);
    return cases;
}

static void every_golden_file(void **unused) {
    (void)unused;
    const char *root = QF_SOURCE_DIR "/tests/golden";
    uint32_t files = 0, cases = 0;
    DIR *folders = opendir(root);
    assert_non_null(folders);
    for (struct dirent *folder; (folder = readdir(folders));) {
        char path[2048], file_path[4096];
        (void)snprintf(path, sizeof path, "%s/%s", root, folder->d_name);
        DIR *directory = folder->d_name[0] == '.' ? NULL : opendir(path);
        for (struct dirent *entry; directory && (entry = readdir(directory));) {
            if (!strstr(entry->d_name, ".golden")) continue;
            (void)snprintf(file_path, sizeof file_path, "%s/%s", path, entry->d_name);
            uint32_t found = sweep_file(file_path);
            cases += found;
            files += found > 0;
        }
        if (directory) (void)closedir(directory);
    }
    (void)closedir(folders);
    assert_true(files >= 12 && cases >= files);
    print_message("%u cases of %u files\n", cases, files);
}

/* Import, default pipeline, plan, run, export. */
static void two_models(void **unused) {
    (void)unused;
    static const char *const models[] = {
        QF_SOURCE_DIR "/tests/corpus/onnx/modeloptonnx_bert_eager_op20/model.onnx",
        QF_SOURCE_DIR "/tests/corpus/onnx-node/test_attention_4d_gqa_causal_nonpad_decode/model.onnx"};
    for (size_t i = 0; i < QF_COUNT_OF(models); i++) {
        flow work = {.path = models[i], .passes = "default"};
        sweep(&work, 150);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_golden_file), cmocka_unit_test(two_models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
