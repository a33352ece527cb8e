/* Owns: the smallest host: builds softmax attention and an FP8 quantise through the C API, fuses them, prints the
 * graph. Does not own: running the result (qfuse/runtime.h). Next: docs/ir.md. Build: cc embed.c $(pkg-config --cflags
 * --libs qfuse) */
#include <stdio.h>

#include <qfuse/graph.h>
#include <qfuse/pass.h>

static void print_message(void *user, const qf_diagnostic *message) {
    (void)user;
    (void)fprintf(stderr, "%s: %s\n", message->location, message->message);
}

/* q, k, v: [B, 8 heads, T or S, 64]; result: FP8 codes [B, T, 512] for the next matrix product. */
static qf_status build(qf_context *context, qf_graph *graph) {
    qf_type rows = qf_type_from_text(context, "f32[B, 8, T, 64]"),
            keys = qf_type_from_text(context, "f32[B, 8, S, 64]");
    qf_value q = qf_graph_add_input(graph, "q", rows);
    qf_value k = qf_graph_add_input(graph, "k", keys), v = qf_graph_add_input(graph, "v", keys);
    qf_value out_scale = qf_graph_add_input(graph, "out_scale", qf_type_from_text(context, "f32[]"));
    qf_value scores = qf_graph_add_contract(graph, q, k, "bhtd,bhsd->bhts");
    scores = qf_graph_add_binary(graph, QF_OP_mul, scores, qf_graph_add_scalar(graph, QF_F32, 0.125));
    qf_value out = qf_graph_add_contract(graph, qf_graph_add_softmax(graph, scores, -1), v, "bhts,bhsd->bhtd");
    const int64_t heads_inside[] = {0, 2, 1, 3};
    const qf_dim flat[] = {qf_dim_from_text(context, "B"), qf_dim_from_text(context, "T"),
                           qf_dim_constant(context, 512)};
    out = qf_graph_add_view(graph, qf_graph_add_permute(graph, out, heads_inside, 4), flat, 3);
    out = qf_graph_add_quantize(graph, out, out_scale, QF_F8E4M3FN);
    return qf_graph_finish(graph, &out, NULL, 1); /* a constructor that failed above makes this fail */
}

int main(void) {
    qf_context_options options = {.struct_size = sizeof options, .handler = print_message};
    qf_context *context = NULL;
    qf_graph *graph = NULL;
    char *text = NULL;
    size_t size = 0;
    int failed = qf_context_create(&options, &context) != QF_OK || qf_graph_create(context, "layer", &graph) != QF_OK ||
                 build(context, graph) != QF_OK || qf_run_pipeline(graph, NULL, NULL) != QF_OK ||
                 qf_graph_to_text(graph, &text, &size) != QF_OK;
    if (!failed) (void)fwrite(text, 1, size, stdout);
    if (text) qf_text_destroy(context, text);
    qf_graph_destroy(graph);
    qf_context_destroy(context);
    return failed;
}
