/* Owns: a host that keeps its own compiler and calls QFuse for the fused attentions alone: import, rewrite, compile
 * each fused site, call. Does not own: embedding without calls (embed.c). Next: qfuse/codegen.h. Run: host_custom_call
 * model.onnx [cuda]. Build: cc host_custom_call.c $(pkg-config --cflags --libs qfuse) */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qfuse/codegen.h>
#include <qfuse/device.h>
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
    bool called;
    size_t codes, differ; /* of the result, from what the host's own program computed */
} call;

typedef struct host {
    qf_context *context;
    qf_graph *graph;
    qf_plan *rest;     /* stands for the host's own compiler: the whole graph, on the CPU */
    qf_device *device; /* where the calls run, and the host has its tensors for them */
    qf_device_info info;
    const char *device_name;
    call calls[MAX_CALLS];
    uint32_t call_count;
} host;

static void print_message(void *user, const qf_diagnostic *message) {
    (void)user;
    if (message->severity != QF_SEVERITY_ERROR) return;
    (void)fprintf(stderr, "%s%s%s\n", message->location, *message->location ? ": " : "", message->message);
}

static bool ends_with(const char *text, const char *end) {
    size_t size = strlen(text), tail = strlen(end);
    return size >= tail && strcmp(text + size - tail, end) == 0;
}

static bool open_device(host *h, const char *name) {
    h->device_name = name;
    h->info.struct_size = sizeof h->info;
    if (qf_device_open(h->context, name, NULL, &h->device) != QF_OK) return false;
    qf_device_describe(h->device, &h->info);
    printf("device %s, target %s\n", h->info.name, h->info.target);
    return true;
}

static bool import(host *h, const char *path) {
    qf_status status = ends_with(path, ".pt2") ? qf_pt2_import_file(h->context, path, NULL, &h->graph)
                                               : qf_onnx_import_file(h->context, path, NULL, &h->graph);
    return status == QF_OK;
}

static bool rewrite(host *h) {
    qf_pipeline_options options = {.struct_size = sizeof options, .passes = "serving", .target = h->info.target};
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
    qf_compile_options target = {.struct_size = sizeof target, .target = h->info.target};
    qf_executor_options settings = {.struct_size = sizeof settings,
                                    .device = h->device_name}; /* and the host's stream */
    if (qf_compile_site(h->graph, node, &target, &c->plan) != QF_OK ||
        qf_executor_create(h->context, c->plan, &settings, &c->executor) != QF_OK)
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

/* The custom call: device pointers in, device pointers out. */
static qf_status call_site(call *c, const qf_tensor *inputs, const qf_tensor *results) {
    qf_status status = QF_OK;
    for (uint32_t i = 0; status == QF_OK && i < qf_plan_input_count(c->plan); i++)
        status = qf_executor_bind_input(c->executor, i, &inputs[i]);
    for (uint32_t i = 0; status == QF_OK && i < qf_plan_output_count(c->plan); i++)
        status = qf_executor_bind_output(c->executor, i, &results[i]);
    return status == QF_OK ? qf_executor_run(c->executor) : status;
}

/* A tensor of the host on the device; `fill` from a tensor in host memory, NULL: for a result. */
static bool place(const host *h, const qf_tensor *like, const void *fill, qf_tensor *out) {
    size_t size = (size_t)qf_tensor_bytes(like);
    *out = *like;
    out->device_type = h->info.device_type;
    out->device_id = h->info.device_id;
    out->data = qf_device_allocate(h->device, size ? size : 1);
    return out->data && (!fill || qf_device_upload(h->device, out->data, fill, size) == QF_OK);
}

static void drop(const host *h, qf_tensor *tensor) {
    size_t size = (size_t)qf_tensor_bytes(tensor);
    if (tensor->data) qf_device_release(h->device, tensor->data, size ? size : 1);
}

static qf_status call_and_compare(const host *h, call *c, const qf_tensor *operands, const qf_tensor *expected) {
    qf_tensor inputs[MAX_OPERANDS] = {{0}}, result = {0};
    size_t size = (size_t)qf_tensor_bytes(expected);
    uint8_t *found = malloc(size);
    bool placed = found && place(h, expected, NULL, &result);
    for (uint32_t i = 0; placed && i < qf_plan_input_count(c->plan); i++) {
        const qf_tensor *operand = &operands[c->operand_of_input[i]];
        placed = place(h, operand, operand->data, &inputs[i]);
    }
    qf_status status = placed ? call_site(c, inputs, &result) : QF_ERROR_OUT_OF_MEMORY;
    if (status == QF_OK) status = qf_executor_wait(c->executor);
    if (status == QF_OK) status = qf_device_download(h->device, found, result.data, size);
    c->called = status == QF_OK;
    c->codes = size;
    for (size_t i = 0; c->called && i < size; i++) c->differ += found[i] != ((const uint8_t *)expected->data)[i];
    for (uint32_t i = 0; i < MAX_OPERANDS; i++) drop(h, &inputs[i]);
    drop(h, &result);
    free(found);
    return status;
}

/* The host's program reached a step. Where it is one of the calls, the site computes it again, on tensors of the host.
 */
static qf_status reached(void *user, uint32_t step, const qf_tensor *operands, uint32_t operand_count,
                         const qf_tensor *results, uint32_t result_count) {
    host *h = user;
    qf_plan_step_info info;
    (void)operand_count;
    if (!qf_plan_step(h->rest, step, &info) || result_count != 1) return QF_OK;
    for (uint32_t i = 0; i < h->call_count; i++)
        if (h->calls[i].tag == info.tag && info.op == qf_node_get_op(h->graph, h->calls[i].node))
            return call_and_compare(h, &h->calls[i], operands, &results[0]);
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

static bool run_program(host *h) {
    qf_executor_options options = {.struct_size = sizeof options, .weights_root = "."};
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

/* The CPU's calls give the bytes of the CPU's program; a GPU's kernels round otherwise, and some codes flip. */
static bool report(const host *h) {
    bool good = true;
    for (uint32_t i = 0; i < h->call_count; i++) {
        const call *c = &h->calls[i];
        printf("call %" PRIu64 ": ", c->tag);
        if (c->called)
            printf("%zu of %zu codes differ\n", c->differ, c->codes);
        else
            printf("was not reached\n");
        good = good && c->called && (c->differ == 0 || h->info.device_type != QF_DL_CPU);
    }
    return good;
}

int main(int count, char **arguments) {
    if (count < 2) {
        (void)fprintf(stderr, "usage: %s model.onnx|model.pt2 [cpu|cuda]\n", arguments[0]);
        return 2;
    }
    host h = {0};
    qf_context_options options = {.struct_size = sizeof options, .handler = print_message};
    if (qf_context_create(&options, &h.context) != QF_OK) return 1;
    bool good = open_device(&h, count > 2 ? arguments[2] : "cpu") && import(&h, arguments[1]) && rewrite(&h) &&
                compile_sites(&h) && run_program(&h) && report(&h);
    for (uint32_t i = 0; i < h.call_count; i++) {
        qf_executor_destroy(h.calls[i].executor);
        qf_plan_destroy(h.calls[i].plan);
    }
    qf_plan_destroy(h.rest);
    qf_device_close(h.device);
    qf_graph_destroy(h.graph);
    qf_context_destroy(h.context);
    return !good;
}
