/* Owns: proving the rewrites of one run on random inputs.
 * Does not own: judging sites (judge.c), random numbers (tensors.c).
 * Next: judge.h. */
#include "tools/verify_rewrites.h"

#include <stdlib.h>

#include "tools/judge.h"
#include "tools/tensors.h"

static bool bind_random_inputs(qf_tool *tool, const qf_graph *graph, qf_interpreter *interpreter, qf_tensor *tensors) {
    for (uint32_t i = 0; i < graph->input_count; i++) {
        qf_value value = graph->inputs[i];
        tensors[i] = (qf_tensor){.dtype = qf_value_dtype(graph, value), .rank = qf_value_rank(graph, value)};
        for (uint32_t axis = 0; axis < tensors[i].rank; axis++)
            if (!qf_dim_evaluate(tool->context, qf_value_dims(graph, value)[axis], tool_symbol_extent, tool,
                                 &tensors[i].dims[axis])) {
                (void)qf_fail(tool->context, QF_ERROR_INVALID_ARGUMENT, NULL, "input %u has no size; give --dims", i);
                return false;
            }
        if (!tensor_allocate(tool, &tensors[i])) return false;
        tensor_randomise(&tensors[i], tool->options.seed * 1000003u + i);
        if (qf_interpreter_bind_input(interpreter, i, &tensors[i]) != QF_OK) return false;
    }
    return true;
}

int verify_rewrites(qf_tool *tool, qf_graph *before, const qf_graph *after) {
    qf_interpreter *interpreter = qf_interpreter_create(before, (uint32_t)tool->options.threads);
    qf_tensor *tensors = calloc(before->input_count + 1, sizeof *tensors);
    judge_result result;
    int code = TOOL_FAILED;
    if (interpreter && tensors && bind_random_inputs(tool, before, interpreter, tensors) &&
        qf_interpreter_run(interpreter, NULL) == QF_OK &&
        judge_sites(tool, before, interpreter, after, judge_is_sixteen_bit(before), &result) == QF_OK) {
        (void)fprintf(stderr, "verify-rewrites: %u sites, %llu codes, share of equal codes %.6f, %s %s\n", result.sites,
                      (unsigned long long)result.codes,
                      result.codes ? (double)result.equal / (double)result.codes : 1.0, result.ok ? "ok" : "DIFFERENT",
                      result.reason);
        code = result.ok ? TOOL_OK : TOOL_DIFFERENT;
    }
    for (uint32_t i = 0; tensors && i < before->input_count; i++) tensor_free(&tensors[i]);
    free(tensors);
    qf_interpreter_destroy(interpreter);
    return code;
}
