/* Owns: `qfuse compare`: one graph before and after a pipeline: an attention shown, both run, what was saved.
 * Does not own: running (run.c has the general form), judging sites (judge.c).
 * Next: scripts/demo.sh. */
#include <stdlib.h>
#include <string.h>

#include <qfuse/codegen.h>

#include "ir/text.h"
#include "tools/explain.h"
#include "tools/inputs.h"

#define MAX_INPUTS 256

/* What one run of a plan does to memory: every step reads its operands and writes its results once. */
typedef struct traffic {
    qf_plan *plan;
    qf_executor *executor;
    uint64_t launches, bytes;
} traffic;

static qf_status count_step(void *user, uint32_t step, const qf_tensor *operands, uint32_t operand_count,
                            const qf_tensor *results, uint32_t result_count) {
    traffic *state = user;
    (void)step;
    state->launches++;
    for (uint32_t i = 0; i < operand_count; i++)
        if (operands[i].data) state->bytes += qf_tensor_bytes(&operands[i]);
    for (uint32_t i = 0; i < result_count; i++)
        if (results[i].data) state->bytes += qf_tensor_bytes(&results[i]);
    return QF_OK;
}

static bool run_plan(qf_tool *tool, const qf_graph *graph, const qf_tensor *inputs, traffic *state) {
    qf_executor_options options = {
        .struct_size = sizeof options, .thread_count = (uint32_t)tool->options.threads, .weights_root = "."};
    if (qf_compile(graph, NULL, &state->plan) != QF_OK ||
        qf_executor_create(tool->context, state->plan, &options, &state->executor) != QF_OK)
        return false;
    for (uint32_t i = 0; i < graph->input_count; i++)
        if (qf_executor_bind_input(state->executor, i, &inputs[i]) != QF_OK) return false;
    qf_executor_observe(state->executor, count_step, state);
    return qf_executor_run(state->executor) == QF_OK;
}

/* --- the attention that is shown --- */

static void mark_parts(const qf_graph *graph, qf_location location, bool *marked, uint32_t depth) {
    if (!location.id || depth > 16) return;
    marked[location.id] = true;
    const qf_location_data *data = &graph->locations[location.id];
    for (uint32_t i = 0; i < data->part_count; i++) mark_parts(graph, data->parts[i], marked, depth + 1);
}

/* Node by node into `out`, without locations. */
static void print_node(const qf_graph *graph, qf_node node, qf_buffer *out) {
    qf_buffer text = {.context = graph->context};
    qf_node_print(&text, graph, node);
    const char *location = text.data ? strstr(text.data, " loc(") : NULL;
    size_t size = location ? (size_t)(location - text.data) : text.size;
    qf_buffer_print(out, "  %.*s\n", (int)size, text.data ? text.data : "");
    qf_buffer_destroy(&text);
}

/* Exporters put the module's path before every name; what all quoted names in `text` share, up to a '/', is left out.
 */
static void print_without_common_path(const char *text) {
    char common[512] = "";
    size_t size = 0;
    for (const char *at = strstr(text, "%\""); at; at = strstr(at + 1, "%\"")) {
        const char *name = at + 2;
        if (!size) {
            size = strcspn(name, "\"");
            if (size >= sizeof common) return;
            memcpy(common, name, size);
        }
        size_t same = 0;
        while (same < size && name[same] == common[same]) same++;
        size = same;
        if (!size) break;
    }
    while (size && common[size - 1] != '/') size--;
    common[size] = '\0';
    while (*text) {
        bool named = text[0] == '%' && text[1] == '"' && size && strncmp(text + 2, common, size) == 0;
        (void)fputc(*text++, stdout);
        if (!named) continue;
        (void)fputc(*text++, stdout);
        text += size;
    }
}

static qf_node first_fused(const qf_graph *graph) {
    QF_FOR_EACH_NODE(graph, node) {
        qf_op op = qf_node_op(graph, node);
        if ((op == QF_OP_attention || op == QF_OP_paged_attention) &&
            qf_dtype_is_float8(qf_value_dtype(graph, qf_node_result(graph, node, 0))))
            return node;
    }
    return (qf_node){0};
}

/* Before: the nodes whose places the fused one has. After: the fused one and the new nodes right in front of its
 * operands. */
static void show_attention(qf_tool *tool, const qf_graph *before, const qf_graph *after) {
    qf_node fused = first_fused(after);
    bool *marked = calloc(after->location_count + 1, sizeof *marked);
    if (!fused.id || !marked) {
        (void)printf("no attention was fused\n");
        free(marked);
        return;
    }
    mark_parts(after, qf_node_at(after, fused)->location, marked, 0);
    qf_buffer out = {.context = tool->context};
    qf_buffer_print(&out, "one attention before:\n");
    QF_FOR_EACH_NODE(before, node) {
        qf_location location = qf_node_at(before, node)->location;
        if (location.id && marked[location.id] && qf_node_op(before, node) != QF_OP_constant)
            print_node(before, node, &out);
    }
    qf_buffer_print(&out, "the same place after:\n");
    const qf_node_data *data = qf_node_at(after, fused);
    for (uint32_t i = 0; i < data->operand_count; i++) {
        qf_node producer = qf_value_producer(after, data->operands[i].value);
        if (producer.id && (qf_op_has_trait(qf_node_op(after, producer), QF_TRAIT_QUANTISING) ||
                            qf_op_has_trait(qf_node_op(after, producer), QF_TRAIT_LAYOUT)))
            print_node(after, producer, &out);
    }
    print_node(after, fused, &out);
    if (out.data) print_without_common_path(out.data);
    qf_buffer_destroy(&out);
    free(marked);
}

/* --- both runs --- */

static bool make_inputs(qf_tool *tool, const qf_graph *graph, qf_tensor *inputs) {
    char path[4096];
    for (uint32_t i = 0; i < graph->input_count; i++) {
        qf_value value = graph->inputs[i];
        qf_tensor *tensor = &inputs[i];
        if (tool->options.expect) {
            if (!tensor_path(tool->options.expect, "input", i, path, sizeof path)) {
                (void)qf_fail(tool->context, QF_ERROR_NOT_FOUND, &(qf_position){.location = tool->options.expect},
                              "expected input_%u.pb or input_%u.npy", i, i);
                return false;
            }
            if (!tensor_read(tool, path, tensor) || !tensor_convert(tool, tensor, qf_value_dtype(graph, value)))
                return false;
            continue;
        }
        if (!random_input(tool, graph, i, tensor)) return false;
    }
    return true;
}

static bool compare_outputs(const traffic *before, const traffic *after) {
    for (uint32_t i = 0; i < qf_plan_output_count(before->plan); i++) {
        qf_tensor a, b;
        if (qf_executor_output(after->executor, i, &a) != QF_OK || qf_executor_output(before->executor, i, &b) != QF_OK)
            return false;
        tensor_difference difference = tensor_compare(&a, &b, 0, 0);
        (void)printf("output %u: largest difference %.4g, relative RMS %.4g\n", i, difference.largest,
                     difference.relative_rms);
    }
    return true;
}

static bool compare(qf_tool *tool, const qf_graph *before, const qf_graph *after, const qf_run *run) {
    qf_tensor *inputs = calloc(MAX_INPUTS, sizeof *inputs);
    traffic old = {0}, new = {0};
    show_attention(tool, before, after);
    (void)printf("explain:\n");
    explain_print(stdout, run);
    bool done = inputs && before->input_count <= MAX_INPUTS && make_inputs(tool, before, inputs) &&
                run_plan(tool, before, inputs, &old) && run_plan(tool, after, inputs, &new) &&
                compare_outputs(&old, &new);
    if (done)
        (void)printf("launches %llu -> %llu (%lld saved), bytes moved %llu -> %llu (%lld saved)\n",
                     (unsigned long long)old.launches, (unsigned long long)new.launches,
                     (long long)(old.launches - new.launches), (unsigned long long)old.bytes,
                     (unsigned long long)new.bytes, (long long)(old.bytes - new.bytes));
    qf_executor_destroy(old.executor);
    qf_executor_destroy(new.executor);
    qf_plan_destroy(old.plan);
    qf_plan_destroy(new.plan);
    for (uint32_t i = 0; inputs && i < MAX_INPUTS; i++) tensor_free(&inputs[i]);
    free(inputs);
    return done;
}

int tool_compare(qf_tool *tool) {
    if (tool->options.file_count != 1) {
        (void)fprintf(stderr, "error: expected one file; see `qfuse compare --help`\n");
        return TOOL_USAGE;
    }
    qf_graph *before = tool_load_graph(tool, tool->options.files[0]);
    qf_graph *after = before ? qf_graph_clone(before) : NULL;
    qf_run *run = NULL;
    const char *passes = tool->options.passes ? tool->options.passes : "serving";
    bool done = after && tool_run_pipeline(tool, after, passes, tool->options.numerics, &run) == QF_OK &&
                compare(tool, before, after, run);
    qf_run_destroy(run);
    qf_graph_destroy(after);
    qf_graph_destroy(before);
    return done ? TOOL_OK : TOOL_FAILED;
}
