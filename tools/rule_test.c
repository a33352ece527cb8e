/* Owns: testing one rule on random left sides.
 * Does not own: building and comparing them (patterns/instance.h), running graphs (codegen/interpret.h).
 * Next: docs/rules.md, Tests. */
#include "tools/rule_test.h"

#include <stdlib.h>
#include <string.h>

#include "codegen/interpret.h"
#include "patterns/instance.h"
#include "tools/tensors.h"

#define TRIALS 24u

/* One graph with its inputs and its run. */
typedef struct side {
    const qf_graph *graph;
    qf_interpreter *interpreter;
    qf_tensor *inputs;
} side;

static uint64_t count_of(const qf_tensor *tensor) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) count *= (uint64_t)tensor->dims[i];
    return count;
}

static bool open_side(qf_tool *tool, side *to, const qf_graph *graph) {
    *to = (side){.graph = graph, .interpreter = qf_interpreter_create(graph, 1)};
    to->inputs = calloc(graph->input_count + 1, sizeof *to->inputs);
    if (!to->interpreter || !to->inputs) return false;
    for (uint32_t i = 0; i < graph->input_count; i++) {
        qf_tensor *tensor = &to->inputs[i];
        *tensor = (qf_tensor){.dtype = qf_value_dtype(graph, graph->inputs[i]),
                              .rank = qf_value_rank(graph, graph->inputs[i])};
        for (uint32_t axis = 0; axis < tensor->rank; axis++)
            if (!qf_dim_is_constant(graph->context, qf_value_dims(graph, graph->inputs[i])[axis], &tensor->dims[axis]))
                return false;
        if (!tensor_allocate(tool, tensor)) return false;
    }
    return true;
}

static void close_side(side *to) {
    for (uint32_t i = 0; to->inputs && i < to->graph->input_count; i++) tensor_free(&to->inputs[i]);
    free(to->inputs);
    qf_interpreter_destroy(to->interpreter);
}

static bool run_side(side *to) {
    for (uint32_t i = 0; i < to->graph->input_count; i++)
        if (qf_interpreter_bind_input(to->interpreter, i, &to->inputs[i]) != QF_OK) return false;
    return qf_interpreter_run(to->interpreter, NULL) == QF_OK;
}

static bool output_of(const side *from, uint32_t index, qf_tensor *out) {
    return qf_interpreter_value(from->interpreter, qf_node_operand(from->graph, from->graph->last, index), out);
}

static int compare_sides(qf_tool *tool, qf_rule_instance *instance, side *before, side *after) {
    for (uint32_t i = 0; i < before->graph->input_count; i++) {
        uint64_t count = count_of(&before->inputs[i]);
        qf_rule_instance_fill(instance, i, before->inputs[i].data, count);
        size_t bytes = (size_t)qf_dtype_bytes(before->inputs[i].dtype, count);
        if (bytes) memcpy(after->inputs[i].data, before->inputs[i].data, bytes);
    }
    if (!run_side(before) || !run_side(after)) return TOOL_FAILED;
    const qf_node_data *end = qf_node_at(before->graph, before->graph->last);
    for (uint32_t i = 0; i < end->operand_count; i++) {
        qf_tensor a, b;
        char message[256] = "";
        if (!output_of(before, i, &a) || !output_of(after, i, &b)) return TOOL_FAILED;
        if (qf_rule_results_agree(instance, a.dtype, a.data, b.data, count_of(&a), message, sizeof message)) continue;
        (void)printf("%s: test clause %u: DIFFERENT: %s\n", qf_string_c(tool->context, instance->rule->name),
                     instance->test + 1, message);
        return TOOL_DIFFERENT;
    }
    return TOOL_OK;
}

static int rewrite(qf_tool *tool, qf_rule_instance *instance, qf_graph *after) {
    qf_report report;
    qf_rule *rule = instance->rule;
    qf_report_init(&report, tool->context);
    qf_rules_options options = {.numerics = QF_NUMERICS_RELAXED, .only = &rule->name};
    bool changed = false;
    qf_status status = qf_rules_run(after, qf_string_c(tool->context, rule->phase), &options, &report, &changed);
    qf_report_destroy(&report);
    if (status != QF_OK) return TOOL_FAILED;
    if (!changed)
        (void)printf("%s: test clause %u does not match the rule's own left side\n",
                     qf_string_c(tool->context, rule->name), instance->test + 1);
    return changed ? TOOL_OK : TOOL_DIFFERENT;
}

static int test_once(qf_tool *tool, qf_rule *rule, uint32_t test, uint64_t seed) {
    qf_rule_instance instance;
    qf_graph *after = NULL;
    int code = TOOL_FAILED;
    if (qf_rule_instance_make(tool->context, rule, test, seed, &instance) == QF_OK &&
        (after = qf_graph_clone(instance.graph)) != NULL)
        code = rewrite(tool, &instance, after);
    if (code == TOOL_OK) {
        side first, second = {0};
        code = TOOL_FAILED;
        if (open_side(tool, &first, instance.graph) && open_side(tool, &second, after))
            code = compare_sides(tool, &instance, &first, &second);
        close_side(&first);
        if (second.graph) close_side(&second);
    }
    qf_graph_destroy(after);
    qf_rule_instance_destroy(&instance);
    return code;
}

int tool_test_rule(qf_tool *tool, qf_rule *rule) {
    const char *name = qf_string_c(tool->context, rule->name);
    for (uint32_t test = 0; test < rule->test_count; test++)
        for (uint32_t trial = 0; trial < TRIALS; trial++) {
            int code = test_once(tool, rule, test, tool->options.seed + 1 + trial + 1000 * (uint64_t)test);
            if (code != TOOL_OK) return code;
        }
    if (!rule->test_count) (void)printf("%s: no test clause\n", name);
    if (!rule->test_count) return TOOL_DIFFERENT;
    (void)printf("%s: %u test clauses, %u trials each: %s\n", name, rule->test_count, TRIALS,
                 rule->numerics == QF_NUMERICS_EXACT ? "equal bits" : "within its numerics class");
    return TOOL_OK;
}
