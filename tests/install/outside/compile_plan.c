/* Owns: an example of the compiler half: text to graph to a saved plan.
 * Does not own: running it (run_plan.c).
 * Next: run_plan.c. Usage: compile_plan FILE */
#include <stdio.h>
#include <string.h>

#include <qfuse/codegen.h>
#include <qfuse/graph.h>

static void print_message(void *user, const qf_diagnostic *diagnostic) {
    (void)user;
    (void)fprintf(stderr, "%s: %s\n", diagnostic->location, diagnostic->message);
}

int main(int argument_count, char **arguments) {
    static const char text[] =
        "graph @attention(%q: f32[1, 2, T, 4], %k: f32[1, 1, S, 4], %v: f32[1, 1, S, 4], %s: f32[]) {\n"
        "  %a = attention %q, %k, %v, out_scale=%s {scale=0.5, causal=true, out=f8E4M3FN}\n"
        "  return %a\n}\n";
    qf_context_options options = {.struct_size = sizeof options, .handler = print_message};
    qf_context *context = NULL;
    qf_graph *graph = NULL;
    qf_plan *plan = NULL;
    qf_status status = argument_count == 2 ? qf_context_create(&options, &context) : QF_ERROR_INVALID_ARGUMENT;
    if (status == QF_OK) status = qf_graph_from_text(context, text, strlen(text), "example.qf", &graph);
    if (status == QF_OK) status = qf_compile(graph, NULL, &plan);
    if (status == QF_OK) status = qf_plan_save(context, plan, arguments[1]);
    qf_plan_destroy(plan);
    qf_graph_destroy(graph);
    qf_context_destroy(context);
    return status == QF_OK ? 0 : 1;
}
