/* Owns: a host that keeps its own compiler and calls QFuse for the fused attentions alone: import, rewrite, compile
 * each fused site, call. Does not own: embedding without calls (embed.c). Next: qfuse/codegen.h. Run: host_custom_call
 * model.onnx. Build: cc host_custom_call.c $(pkg-config --cflags --libs qfuse) */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qfuse/codegen.h>
#include <qfuse/onnx.h>
#include <qfuse/pass.h>
#include <qfuse/pt2.h>
#include <qfuse/runtime.h>

enum { MAX_CALLS = 64, MAX_OPERANDS = 16, MAX_INPUTS = 64, UNKNOWN_SIZE = 16 };

/* What a host keeps for each custom call of its own program. */
typedef struct call {
    qf_node node;
    uint64_t tag; /* leads from the host's call to the site */
    qf_plan *plan;
    qf_executor *executor;
    uint32_t operand_of_input[MAX_OPERANDS];
    bool called, equal;
} call;

typedef struct host {
    qf_context *context;
    qf_graph *graph;
    qf_plan *rest; /* stands for the host's own compiler: the whole graph */
    call calls[MAX_CALLS];
    uint32_t call_count;
} host;

static void print_message(void *user, const qf_diagnostic *message) {
    (void)user;
    (void)fprintf(stderr, "%s: %s\n", message->location, message->message);
}

static bool ends_with(const char *text, const char *end) {
    size_t size = strlen(text), tail = strlen(end);
    return size >= tail && strcmp(text + size - tail, end) == 0;
}

static bool import(host *h, const char *path) {
    qf_status status = ends_with(path, ".pt2") ? qf_pt2_import_file(h->context, path, NULL, &h->graph)
                                               : qf_onnx_import_file(h->context, path, NULL, &h->graph);
    return status == QF_OK;
}

static bool rewrite(host *h) {
    qf_pipeline_options options = {.struct_size = sizeof options, .passes = "serving"};
    return qf_run_pipeline(h->graph, &options, NULL) == QF_OK;
}

/* --- compile each fused site --- */

/* A plan's inputs carry the declared names of the node's operands. */
static bool match_inputs(const host *h, call *c) {
    for (uint32_t i = 0; i < qf_plan_input_count(c->plan); i++) {
        qf_plan_tensor_info input;
        if (!qf_plan_input(c->plan, i, &input) || i >= MAX_OPERANDS) return false;
        qf_value value = qf_node_named_operand(h->graph, c->node, input.name);
        uint32_t index = 0;
        while (qf_node_get_operand(h->graph, c->node, index).id != value.id) index++;
        c->operand_of_input[i] = index;
    }
    return true;
}

static bool compile_site(host *h, qf_node node) {
    call *c = &h->calls[h->call_count++];
    *c = (call){.node = node, .tag = qf_node_tag(h->graph, node)};
    /* A host on a GPU compiles for its target, and gives its stream and "cuda" as the device. */
    qf_compile_options target = {.struct_size = sizeof target, .target = "cpu"};
    qf_executor_options device = {.struct_size = sizeof device};
    if (qf_compile_site(h->graph, node, &target, &c->plan) != QF_OK ||
        qf_executor_create(h->context, c->plan, &device, &c->executor) != QF_OK)
        return false;
    printf("call %" PRIu64 " %s:", c->tag, qf_node_location(h->graph, node));
    qf_plan_tensor_info tensor;
    for (uint32_t i = 0; qf_plan_input(c->plan, i, &tensor); i++)
        printf(" %s %s,", tensor.name, qf_dtype_name(tensor.dtype));
    for (uint32_t i = 0; qf_plan_output(c->plan, i, &tensor); i++)
        printf(" -> %s %s", tensor.name, qf_dtype_name(tensor.dtype));
    printf("\n");
    return match_inputs(h, c);
}

static bool compile_sites(host *h) {
    for (qf_node node = qf_graph_first_node(h->graph); node.id; node = qf_graph_next_node(h->graph, node)) {
        qf_op op = qf_node_get_op(h->graph, node);
        bool attention = op == QF_OP_attention || op == QF_OP_paged_attention;
        if (!attention || !qf_node_named_operand(h->graph, node, "out_scale").id) continue;
        if (h->call_count == MAX_CALLS || !compile_site(h, node)) return false;
    }
    return h->call_count > 0;
}

/* --- call --- */

/* The custom call: pointers in, pointers out. */
static qf_status call_site(call *c, const qf_tensor *operands, const qf_tensor *results) {
    qf_status status = QF_OK;
    for (uint32_t i = 0; status == QF_OK && i < qf_plan_input_count(c->plan); i++)
        status = qf_executor_bind_input(c->executor, i, &operands[c->operand_of_input[i]]);
    for (uint32_t i = 0; status == QF_OK && i < qf_plan_output_count(c->plan); i++)
        status = qf_executor_bind_output(c->executor, i, &results[i]);
    return status == QF_OK ? qf_executor_run(c->executor) : status;
}

/* The host's program reached a step. Where it is one of the calls, the site computes it again, into memory of the host,
 * and the bytes are compared. */
static qf_status reached(void *user, uint32_t step, const qf_tensor *operands, uint32_t operand_count,
                         const qf_tensor *results, uint32_t result_count) {
    host *h = user;
    qf_plan_step_info info;
    (void)operand_count;
    if (!qf_plan_step(h->rest, step, &info) || result_count != 1) return QF_OK;
    for (uint32_t i = 0; i < h->call_count; i++) {
        call *c = &h->calls[i];
        if (c->tag != info.tag || info.op != qf_node_get_op(h->graph, c->node)) continue;
        size_t size = (size_t)qf_tensor_bytes(&results[0]);
        qf_tensor own = results[0];
        own.data = malloc(size);
        if (!own.data) return QF_ERROR_OUT_OF_MEMORY;
        qf_status status = call_site(c, operands, &own);
        c->called = status == QF_OK;
        c->equal = c->called && memcmp(own.data, results[0].data, size) == 0;
        free(own.data);
        return status;
    }
    return QF_OK;
}

/* An input of the model: floats in -1..1, integers 0; sizes that depend on symbols are UNKNOWN_SIZE. */
static bool make_input(const qf_plan_tensor_info *info, qf_tensor *tensor) {
    *tensor = (qf_tensor){.dtype = info->dtype, .rank = info->rank};
    if (info->rank > QF_TENSOR_MAX_RANK) return false;
    for (uint32_t i = 0; i < info->rank; i++) tensor->dims[i] = info->dims[i] < 0 ? UNKNOWN_SIZE : info->dims[i];
    size_t size = (size_t)qf_tensor_bytes(tensor);
    tensor->data = calloc(size + 1, 1);
    for (size_t i = 0; tensor->data && info->dtype == QF_F32 && i < size / sizeof(float); i++)
        ((float *)tensor->data)[i] = (float)((i * 37) % 101) / 50.0F - 1.0F;
    return tensor->data != NULL;
}

static bool run_program(host *h, const char *folder) {
    qf_executor_options options = {.struct_size = sizeof options, .weights_root = folder};
    qf_tensor inputs[MAX_INPUTS] = {{0}};
    qf_executor *executor = NULL;
    uint32_t count = 0;
    bool done = qf_compile(h->graph, NULL, &h->rest) == QF_OK &&
                qf_executor_create(h->context, h->rest, &options, &executor) == QF_OK &&
                qf_plan_input_count(h->rest) <= MAX_INPUTS;
    for (; done && count < qf_plan_input_count(h->rest); count++) {
        qf_plan_tensor_info info;
        done = qf_plan_input(h->rest, count, &info) && make_input(&info, &inputs[count]) &&
               qf_executor_bind_input(executor, count, &inputs[count]) == QF_OK;
    }
    if (done) {
        qf_executor_observe(executor, reached, h);
        done = qf_executor_run(executor) == QF_OK;
    }
    qf_executor_destroy(executor);
    for (uint32_t i = 0; i < MAX_INPUTS; i++) free(inputs[i].data);
    return done;
}

static bool report(const host *h) {
    bool good = true;
    for (uint32_t i = 0; i < h->call_count; i++) {
        const char *said = !h->calls[i].called ? "was not reached" : h->calls[i].equal ? "same bytes" : "other bytes";
        printf("call %" PRIu64 ": %s\n", h->calls[i].tag, said);
        good = good && h->calls[i].equal;
    }
    return good;
}

int main(int count, char **arguments) {
    if (count < 2) {
        (void)fprintf(stderr, "usage: %s model.onnx|model.pt2 [folder of its weights]\n", arguments[0]);
        return 2;
    }
    host h = {0};
    qf_context_options options = {.struct_size = sizeof options, .handler = print_message};
    if (qf_context_create(&options, &h.context) != QF_OK) return 1;
    bool good = import(&h, arguments[1]) && rewrite(&h) && compile_sites(&h) &&
                run_program(&h, count > 2 ? arguments[2] : ".") && report(&h);
    for (uint32_t i = 0; i < h.call_count; i++) {
        qf_executor_destroy(h.calls[i].executor);
        qf_plan_destroy(h.calls[i].plan);
    }
    qf_plan_destroy(h.rest);
    qf_graph_destroy(h.graph);
    qf_context_destroy(h.context);
    return !good;
}
