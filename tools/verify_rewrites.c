/* Owns: proving the rewrites of one run on random inputs.
 * Does not own: judging sites (judge.c), random inputs (inputs.c).
 * Next: judge.h. */
#include "tools/verify_rewrites.h"

#include <stdlib.h>

#include "tools/inputs.h"
#include "tools/judge.h"

static bool bind_random_inputs(qf_tool *tool, const qf_graph *graph, qf_interpreter *interpreter, qf_tensor *tensors) {
    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (!random_input(tool, graph, i, &tensors[i])) return false;
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
