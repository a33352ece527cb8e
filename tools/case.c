/* Owns: `qfuse case`: one folder of model, inputs, reference outputs and expectations, judged in one line.
 * Does not own: going through many folders (scripts/corpus.sh), the comparison of sites (judge.c).
 * Next: judge.h. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/judge.h"
#include "tools/on_device.h"

#define MAX_INPUTS         256
#define MAX_OUTPUTS        64
/* ONNX's own backend runner, for folders without expectations. */
#define RUNNER_RELATIVE    1e-3
#define RUNNER_ABSOLUTE    1e-7
#define RUNNER_RELATIVE_16 1e-2
#define RUNNER_ABSOLUTE_16 1e-2

typedef struct case_state {
    qf_tool *tool;
    const char *folder;
    char data_folder[4096];
    json_t *expect; /* NULL: no expectations */
    qf_graph *clean;
    qf_interpreter *interpreter;
    qf_tensor inputs[MAX_INPUTS];
    uint32_t input_count;
    bool compile_only, sixteen_bit;
    uint32_t unbound; /* weights without bytes */
    char counts[512]; /* found/expected, as printed */
    char reason[512]; /* first thing that is wrong */
    double rms;       /* worst output; -1: no reference */
    bool unlike;      /* an output lies outside of its reference's tolerance, as --unlike-reference expects */
} case_state;

static void complain(case_state *state, const char *format, ...) QF_PRINTF(2, 3);
static void complain(case_state *state, const char *format, ...) {
    if (*state->reason) return;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(state->reason, sizeof state->reason, format, arguments);
    va_end(arguments);
}

/* --- what is expected --- */

static int64_t expected(const case_state *state, const char *key) {
    const json_t *value = state->expect ? json_object_get(state->expect, key) : NULL;
    return json_is_integer(value) ? json_integer_value(value) : -1;
}

/* Relative RMS; 0: none is expected. */
static double tolerance(const case_state *state) {
    return state->expect ? json_number_value(json_object_get(state->expect, "tolerance")) : 0;
}

static void check_count(case_state *state, const char *what, const char *key, int64_t found) {
    int64_t wanted = expected(state, key);
    size_t used = strlen(state->counts);
    if (wanted < 0)
        (void)snprintf(state->counts + used, sizeof state->counts - used, " %s %lld", what, (long long)found);
    else
        (void)snprintf(state->counts + used, sizeof state->counts - used, " %s %lld/%lld", what, (long long)found,
                       (long long)wanted);
    if (wanted >= 0 && wanted != found)
        complain(state, "%s: expected %lld, found %lld", what, (long long)wanted, (long long)found);
}

/* NULL, or what is wrong with an entry. Entries that we do not know are for others. */
static const char *entry_fault(const char *key, const json_t *value) {
    static const char *const counts[] = {"attentions", "fused_default", "fused_relaxed", "fp8_q",
                                         "fp8_k",      "fp8_v",         "fp8_p"};
    for (size_t i = 0; i < QF_COUNT_OF(counts); i++)
        if (strcmp(key, counts[i]) == 0)
            return json_is_integer(value) && json_integer_value(value) >= 0 ? NULL : "a whole number of 0 or more";
    if (strcmp(key, "tolerance") == 0) return json_number_value(value) > 0 ? NULL : "a number above 0";
    if (strcmp(key, "compile_only") == 0) return json_is_boolean(value) ? NULL : "true or false";
    if (strcmp(key, "reference") == 0) return json_is_string(value) || json_is_null(value) ? NULL : "a text or null";
    return NULL;
}

static bool check_expectations(case_state *state, const char *path) {
    qf_position position = {.location = path};
    const char *key;
    json_t *value;
    if (!json_is_object(state->expect)) {
        (void)qf_fail(state->tool->context, QF_ERROR_PARSE, &position, "expected an object");
        return false;
    }
    json_object_foreach(state->expect, key, value) {
        const char *wanted = entry_fault(key, value);
        if (!wanted) continue;
        (void)qf_fail(state->tool->context, QF_ERROR_PARSE, &position, "\"%s\": expected %s", key, wanted);
        return false;
    }
    return true;
}

static bool load_expectations(case_state *state) {
    char path[4096];
    struct stat status;
    (void)snprintf(path, sizeof path, "%s/expect.json", state->folder);
    if (stat(path, &status) != 0) return true;
    size_t size;
    char *text = tool_read_file(state->tool, path, (size_t)1 << 20, &size);
    if (!text) return false;
    json_error_t error;
    state->expect = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    free(text);
    if (!state->expect && json_error_code(&error) == json_error_out_of_memory) {
        (void)qf_record(state->tool->context, QF_ERROR_OUT_OF_MEMORY);
        return false;
    }
    if (!state->expect) {
        (void)qf_fail(state->tool->context, QF_ERROR_PARSE, &(qf_position){.location = path}, "line %d: %s", error.line,
                      error.text);
        return false;
    }
    if (!check_expectations(state, path)) return false;
    state->compile_only = json_is_true(json_object_get(state->expect, "compile_only"));
    /* That program rounds 16-bit floats after every step of an op's definition; its results are judged by its own
     * reading. */
    const char *reference = json_string_value(json_object_get(state->expect, "reference"));
    if (reference && strcmp(reference, "onnx.reference") == 0) state->tool->options.onnx_stepwise = true;
    return true;
}

static bool find_file(const case_state *state, char *out, size_t size) {
    static const char *const names[] = {"model.onnx", "model.pt2", "model.generic.mlir", "model.mlir", "model.qf"};
    struct stat status;
    for (size_t i = 0; i < QF_COUNT_OF(names); i++) {
        (void)snprintf(out, size, "%s/%s", state->folder, names[i]);
        if (stat(out, &status) == 0) return true;
    }
    (void)qf_fail(state->tool->context, QF_ERROR_NOT_FOUND, &(qf_position){.location = state->folder},
                  "expected model.onnx, model.pt2, model.generic.mlir, model.mlir or model.qf in this folder");
    return false;
}

/* --- the unfused graph --- */

/* A buffer that the program writes begins with what the model holds for it. */
static bool read_initial(case_state *state, uint32_t index, qf_tensor *tensor) {
    qf_context *context = state->tool->context;
    qf_value value = state->clean->inputs[index];
    const qf_weight *weight = qf_graph_find_weight(state->clean, qf_value_at(state->clean, value)->name);
    if (!weight) return false;
    *tensor = (qf_tensor){.dtype = qf_value_dtype(state->clean, value), .rank = qf_value_rank(state->clean, value)};
    if (tensor->rank > QF_TENSOR_MAX_RANK) return false;
    for (uint32_t i = 0; i < tensor->rank; i++)
        if (!qf_dim_is_constant(context, qf_value_dims(state->clean, value)[i], &tensor->dims[i])) return false;
    if (qf_tensor_bytes(tensor) != weight->size || !tensor_allocate(state->tool, tensor)) return false;
    memcpy(tensor->data, weight->data, weight->size);
    return true;
}

static bool load_inputs(case_state *state) {
    char path[4096];
    for (uint32_t i = 0; i < state->clean->input_count; i++) {
        qf_tensor *tensor = &state->inputs[state->input_count];
        bool given = i < MAX_INPUTS && tensor_path(state->data_folder, "input", i, path, sizeof path);
        if (!given && (i >= MAX_INPUTS || !read_initial(state, i, tensor))) {
            (void)qf_fail(state->tool->context, QF_ERROR_NOT_FOUND, &(qf_position){.location = state->data_folder},
                          "expected input_%u.pb or input_%u.npy", i, i);
            return false;
        }
        if (given && !tensor_read(state->tool, path, tensor)) return false;
        state->input_count++;
        if (!tensor_convert(state->tool, tensor, qf_value_dtype(state->clean, state->clean->inputs[i]))) return false;
        if (qf_interpreter_bind_input(state->interpreter, i, tensor) != QF_OK) return false;
    }
    return true;
}

static void compare_output(case_state *state, uint32_t index, const qf_tensor *found) {
    char path[4096];
    qf_tensor reference;
    if (!tensor_path(state->data_folder, "output", index, path, sizeof path)) return;
    if (!tensor_read(state->tool, path, &reference)) {
        complain(state, "%s cannot be read", path);
        return;
    }
    bool sixteen = reference.dtype == QF_F16 || reference.dtype == QF_BF16 || found->dtype == QF_F16;
    tensor_difference difference = tensor_compare(found, &reference, sixteen ? RUNNER_RELATIVE_16 : RUNNER_RELATIVE,
                                                  sixteen ? RUNNER_ABSOLUTE_16 : RUNNER_ABSOLUTE);
    tensor_free(&reference);
    if (!difference.comparable) {
        complain(state, "output %u has another shape than the reference", index);
        return;
    }
    if (difference.relative_rms > state->rms || isnan(difference.relative_rms)) state->rms = difference.relative_rms;
    double allowed = tolerance(state);
    bool outside = allowed > 0 ? !(difference.relative_rms <= allowed) : difference.outside != 0;
    state->unlike |= outside;
    if (!outside || state->tool->options.unlike_reference) return;
    if (allowed > 0)
        complain(state, "output %u: relative RMS %.3g, allowed %.3g", index, difference.relative_rms, allowed);
    else
        complain(state, "output %u: %llu elements out of tolerance, largest difference %.3g", index,
                 (unsigned long long)difference.outside, difference.largest);
}

static bool run_unfused(case_state *state) {
    state->interpreter = qf_interpreter_create(state->clean, (uint32_t)state->tool->options.threads);
    if (!state->interpreter || !load_inputs(state) || qf_interpreter_run(state->interpreter, NULL) != QF_OK)
        return false;
    const qf_node_data *outputs = qf_node_at(state->clean, state->clean->last);
    for (uint32_t i = 0; i < outputs->operand_count; i++) {
        qf_tensor found;
        if (qf_interpreter_value(state->interpreter, outputs->operands[i].value, &found))
            compare_output(state, i, &found);
    }
    return true;
}

/* --- the fused graph --- */

/* The attention came from the source op that `node` came from: its location is that op's, or fused from it. */
static bool same_source(const qf_graph *graph, qf_node attention, qf_node node) {
    qf_buffer whole = {.context = graph->context}, part = {.context = graph->context};
    qf_location_print(&whole, graph, qf_node_at(graph, attention)->location);
    qf_location_print(&part, graph, qf_node_at(graph, node)->location);
    bool same = whole.size && part.size && strstr(whole.data, part.data);
    qf_buffer_destroy(&whole);
    qf_buffer_destroy(&part);
    return same;
}

/* The operand is FP8, or the source op read a dequantised tensor and rotated it inside (packed QKV). */
static bool passes_fp8(const qf_graph *graph, qf_node attention, uint32_t operand) {
    qf_value value = qf_node_operand(graph, attention, operand);
    if (qf_dtype_is_float8(qf_value_dtype(graph, value))) return true;
    bool rotated = false;
    for (;;) {
        qf_node producer = qf_value_producer(graph, value);
        qf_op op = qf_node_op(graph, producer);
        if (op == QF_OP_dequantize)
            return rotated && qf_dtype_is_float8(qf_value_dtype(graph, qf_node_operand(graph, producer, 0)));
        bool inside = op == QF_OP_rope && same_source(graph, attention, producer);
        if (!producer.id || (!inside && !qf_op_has_trait(op, QF_TRAIT_LAYOUT))) return false;
        rotated |= inside;
        value = qf_node_operand(graph, producer, 0);
    }
}

static void count_inner(case_state *state, const qf_graph *graph) {
    static const char *const keys[] = {"fp8_q", "fp8_k", "fp8_v", "fp8_p"};
    int64_t counts[4] = {0};
    QF_FOR_EACH_NODE(graph, node) {
        if (qf_node_op(graph, node) != QF_OP_attention) continue;
        for (uint32_t i = 0; i < 3; i++) counts[i] += passes_fp8(graph, node, i);
        counts[3] += qf_node_attribute(graph, node, QF_ATTR(attention, p))->integer != QF_VALUE_none;
    }
    for (uint32_t i = 0; i < QF_COUNT_OF(keys); i++) check_count(state, keys[i] + 4, keys[i], counts[i]);
}

/* Sites that only `relaxed` fuses must say under `rounding` that their scores are quantised. */
static void check_reasons(case_state *state, const qf_run *run) {
    if (expected(state, "fused_relaxed") <= expected(state, "fused_default")) return;
    for (uint32_t i = 0; i < qf_run_site_count(run); i++) {
        qf_site site = {.struct_size = sizeof site};
        if (qf_run_get_site(run, i, &site) != QF_OK || site.fused) continue;
        if (strcmp(site.miss_code, "scores_quantised") != 0)
            complain(state, "expected the reason scores_quantised, found %s", site.miss_code);
    }
}

static bool check_class(case_state *state, const char *numerics, const char *key, bool judge) {
    qf_graph *fused = qf_graph_clone(state->clean);
    qf_run *run = NULL;
    const char *passes = state->tool->options.passes ? state->tool->options.passes : "default";
    bool done = fused && tool_run_pipeline(state->tool, fused, passes, numerics, &run) == QF_OK;
    if (done) {
        qf_run_counts counts = {.struct_size = sizeof counts};
        qf_run_get_counts(run, &counts);
        if (judge) check_count(state, "attentions", "attentions", counts.attentions);
        check_count(state, numerics, expected(state, key) >= 0 ? key : "quantised_outputs", counts.fused_fp8_out);
        if (judge) check_reasons(state, run);
        if (!judge && state->expect) count_inner(state, fused);
    }
    if (done && judge && state->interpreter) {
        judge_result result;
        done = judge_sites(state->tool, state->clean, state->interpreter, fused, state->sixteen_bit, &result) == QF_OK;
        size_t used = strlen(state->counts);
        if (result.sites)
            (void)snprintf(state->counts + used, sizeof state->counts - used, " codes %.4f", result.worst_share);
        if (done && !result.ok) complain(state, "%s", result.reason);
    }
    qf_run_destroy(run);
    qf_graph_destroy(fused);
    return done;
}

/* --- another device --- */

/* Of a graph against the CPU's run of it, relative RMS. docs/numerics.md, "Another device". */
#define DEVICE_BOUND       1e-3
#define DEVICE_BOUND_FLIPS 3e-2

/* Something is rounded to FP8 on the way, so that a difference in the last bit of an f32 can move a whole code. */
static bool rounds_to_float8(const qf_graph *graph) {
    QF_FOR_EACH_NODE(graph, node) {
        const qf_node_data *data = qf_node_at(graph, node);
        bool moves = qf_op_has_trait(data->op, QF_TRAIT_LAYOUT) || data->op == QF_OP_parameter;
        for (uint32_t i = 0; i < data->result_count && !moves && data->op != QF_OP_constant; i++)
            if (qf_dtype_is_float8(qf_value_dtype(graph, qf_result_at(data, i)))) return true;
    }
    return false;
}

/* Where the CPU's run and the reference lie further apart than flipped codes usually take one, a third run as far from
 * both is no worse, nor by half as much again, within what the case allows. */
static double device_bound(const case_state *state, const qf_graph *graph) {
    if (!state->sixteen_bit && !rounds_to_float8(graph)) return DEVICE_BOUND;
    double apart = state->tool->options.unlike_reference ? 0 : 1.5 * state->rms;
    return fmax(DEVICE_BOUND_FLIPS, fmin(apart, tolerance(state)));
}

static void free_outputs(qf_tensor *outputs, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) tensor_free(&outputs[i]);
}

static void say_device(case_state *state, const char *what, double rms) {
    size_t used = strlen(state->counts);
    (void)snprintf(state->counts + used, sizeof state->counts - used, " %s %.1e", what, rms);
}

/* The graph there and on the CPU. */
static bool like_cpu(case_state *state, tool_device *device, tool_device *cpu, const qf_graph *graph,
                     const char *what) {
    qf_tensor there[MAX_OUTPUTS], here[MAX_OUTPUTS];
    uint32_t count = 0, count_here = 0;
    double worst = 0, bound = device_bound(state, graph);
    bool done = tool_device_run(device, graph, state->inputs, there, MAX_OUTPUTS, &count) &&
                tool_device_run(cpu, graph, state->inputs, here, MAX_OUTPUTS, &count_here);
    for (uint32_t i = 0; done && i < count; i++) {
        double rms = tensor_compare(&there[i], &here[i], 0, 0).relative_rms;
        if (rms > worst || isnan(rms)) worst = rms;
        if (!(rms <= bound))
            complain(state, "output %u on %s, %s: relative RMS %.3g to the CPU, allowed %.3g", i, device->name, what,
                     rms, bound);
    }
    if (done) say_device(state, what, worst);
    free_outputs(there, count);
    free_outputs(here, count_here);
    return done;
}

/* The unfused graph there, against the reference where there is one. A reference that the graph does not mean is no
 * judge: the CPU is. */
static bool unfused_on(case_state *state, tool_device *device, tool_device *cpu) {
    if (state->tool->options.unlike_reference) return like_cpu(state, device, cpu, state->clean, "unfused");
    qf_tensor outputs[MAX_OUTPUTS];
    uint32_t count;
    double before = state->rms;
    state->rms = -1;
    bool done = tool_device_run(device, state->clean, state->inputs, outputs, MAX_OUTPUTS, &count);
    for (uint32_t i = 0; done && i < count; i++) compare_output(state, i, &outputs[i]);
    if (done && state->rms >= 0) say_device(state, device->name, state->rms);
    state->rms = before;
    free_outputs(outputs, count);
    return done;
}

static bool judge_on_device(case_state *state) {
    qf_tool *tool = state->tool;
    tool_device device = {0}, cpu = {0};
    qf_graph *fused = NULL;
    bool done = tool_device_open(tool, tool->options.device, &device) && tool_device_open(tool, NULL, &cpu) &&
                unfused_on(state, &device, &cpu);
    if (done) {
        const char *passes = tool->options.passes ? tool->options.passes : "default";
        tool->options.target = device.info.target;
        fused = qf_graph_clone(state->clean);
        done = fused && tool_run_pipeline(tool, fused, passes, "rounding", NULL) == QF_OK &&
               like_cpu(state, &device, &cpu, fused, "fused");
    }
    qf_graph_destroy(fused);
    tool_device_close(&cpu);
    tool_device_close(&device);
    return done;
}

/* Weights without bytes: such a graph is compiled and explained, not run. */
static uint32_t count_unbound(const case_state *state) {
    uint32_t count = 0;
    QF_FOR_EACH_NODE(state->clean, node) {
        if (qf_node_op(state->clean, node) != QF_OP_parameter) continue;
        qf_string name = qf_node_attribute(state->clean, node, QF_ATTR(parameter, name))->string;
        count += qf_graph_find_weight(state->clean, name) == NULL;
    }
    return count;
}

static bool judge_case(case_state *state) {
    char path[4096];
    struct stat status;
    if (!load_expectations(state) || !find_file(state, path, sizeof path)) return false;
    (void)snprintf(state->data_folder, sizeof state->data_folder, "%s/test_data_set_0", state->folder);
    if (stat(state->data_folder, &status) != 0)
        (void)snprintf(state->data_folder, sizeof state->data_folder, "%s", state->folder);
    state->clean = tool_load_graph(state->tool, path);
    if (!state->clean || tool_run_pipeline(state->tool, state->clean, "clean", NULL, NULL) != QF_OK) return false;
    state->sixteen_bit = judge_is_sixteen_bit(state->clean);
    state->unbound = count_unbound(state);
    if (state->unbound) state->compile_only = true; /* weights that the model stores as pickles */
    if (!state->compile_only && !run_unfused(state)) return false;
    if (state->tool->options.unlike_reference && !state->unlike)
        complain(state, "expected an output unlike its reference, found none");
    return check_class(state, "rounding", "fused_default", true) &&
           check_class(state, "relaxed", "fused_relaxed", false) &&
           (state->compile_only || !state->tool->options.device || judge_on_device(state));
}

static void destroy_case(case_state *state) {
    for (uint32_t i = 0; i < state->input_count; i++) tensor_free(&state->inputs[i]);
    qf_interpreter_destroy(state->interpreter);
    qf_graph_destroy(state->clean);
    json_decref(state->expect);
}

int tool_case(qf_tool *tool) {
    if (tool->options.file_count != 1) {
        (void)fprintf(stderr, "error: expected one folder; see `qfuse case --help`\n");
        return TOOL_USAGE;
    }
    case_state *state = calloc(1, sizeof *state);
    if (!state) return TOOL_FAILED;
    state->tool = tool;
    state->folder = tool->options.files[0];
    state->rms = -1;
    double start = tool_now();
    bool judged = judge_case(state);
    if (!judged) complain(state, "error: %s", qf_status_name(qf_context_status(tool->context)));
    const char *name = strrchr(state->folder, '/');
    (void)printf("%-44s", name && name[1] ? name + 1 : state->folder);
    (void)printf("%s", state->counts);
    if (state->unbound)
        (void)printf(" not run: %u weights without bytes", state->unbound);
    else if (state->compile_only)
        (void)printf(" not run: compile_only");
    if (state->rms >= 0) (void)printf(" rms %.2e", state->rms);
    const char *fine = state->unlike ? "ok, unlike its reference" : "ok";
    (void)printf(" %.2f s %s%s\n", tool_now() - start, *state->reason ? "FAIL " : fine, state->reason);
    int code = !judged ? TOOL_FAILED : *state->reason ? TOOL_DIFFERENT : TOOL_OK;
    destroy_case(state);
    free(state);
    return code;
}
