/* Owns: running a case: the graph on the CPU, the plan with one kernel on the device, poison and guards around results.
 * Does not own: the comparison (bounds.c), whole plans (plan_cases.c), the watchdog (main.c).
 * Next: cases.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <qfuse/codegen.h>

#include "ir/capability.h"
#include "ir/text.h"
#include "plan/plan.h"
#include "tests/gpu/conformance/cases.h"

#define GUARD 256

struct prepared {
    suite *of;
    const test_case *test;
    char messages[MESSAGE_SIZE];
    qf_context *context;
    qf_graph *graph;
    qf_target target;
    qf_tensor inputs[MOST_INPUTS], results[MOST_OUTPUTS]; /* host memory */
};

/* --- contexts --- */

static void keep_message(void *user, const qf_diagnostic *diagnostic) {
    char *messages = user;
    size_t used = strlen(messages);
    if (used + 2 < MESSAGE_SIZE)
        (void)snprintf(messages + used, MESSAGE_SIZE - used, "%s%s", used ? "; " : "", diagnostic->message);
}

qf_context *open_context(char *messages) {
    messages[0] = '\0';
    qf_context_options options = {.struct_size = sizeof options, .handler = keep_message, .handler_user = messages};
    qf_context *context = NULL;
    return qf_context_create(&options, &context) == QF_OK ? context : NULL;
}

/* --- graphs and plans --- */

static qf_graph *parse(prepared *at, const char *body) {
    const test_case *test = at->test;
    qf_buffer text = {.context = at->context};
    qf_buffer_print(&text, "graph @case(");
    for (uint32_t i = 0; i < test->input_count; i++) {
        const case_input *input = &test->inputs[i];
        qf_buffer_print(&text, "%s%%%s: %s%s", i ? ", " : "", input->name, qf_dtype_name(input->dtype),
                        shape_text(input->dims));
    }
    qf_buffer_print(&text, ") {\n%s  return ", body);
    for (uint32_t i = 0; i < test->output_count; i++)
        qf_buffer_print(&text, "%s%%%s as \"%s\"", i ? ", " : "", test->outputs[i], test->outputs[i]);
    qf_buffer_print(&text, "\n}\n");
    qf_graph *graph = text.failed ? NULL : qf_graph_parse(at->context, (qf_text){text.data, text.size}, "case");
    if (!graph && text.data) keep_message(at->messages, &(qf_diagnostic){.message = text.data});
    qf_buffer_destroy(&text);
    return graph;
}

static qf_status compile(const qf_graph *graph, const char *target, qf_plan **out_plan) {
    qf_compile_options options = {.struct_size = sizeof options, .target = target};
    return qf_compile(graph, &options, out_plan);
}

/* --- the CPU's results --- */

static bool host_tensor(qf_dtype dtype, uint32_t rank, const int64_t *dims, qf_tensor *out) {
    *out = (qf_tensor){.dtype = dtype, .rank = rank};
    memcpy(out->dims, dims, rank * sizeof *dims);
    uint64_t bytes = qf_tensor_bytes(out);
    if (bytes > ((uint64_t)1 << 36)) return false;
    out->data = aligned_alloc(64, (size_t)(bytes / 64 + 1) * 64);
    if (out->data) memset(out->data, 0, (size_t)bytes);
    return out->data != NULL;
}

static uint64_t hash_name(const char *name) {
    uint64_t hash = 1469598103934665603u;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 1099511628211u;
    return hash;
}

static bool make_inputs(prepared *at) {
    const test_case *test = at->test;
    random_state random = {hash_name(test->name) ^ at->of->options.seed * 0x9E3779B97F4A7C15u};
    for (uint32_t i = 0; i < test->input_count; i++) {
        const case_input *input = &test->inputs[i];
        if (!host_tensor(input->dtype, input->dims.rank, input->dims.dims, &at->inputs[i])) return false;
        fill_tensor(input, &at->inputs[i], &random);
    }
    if (test->adjust) test->adjust(test, at->inputs);
    return true;
}

/* An odd number of 4-bit elements leaves half a byte that means nothing. */
static void clear_padding(const qf_tensor *tensor) {
    int64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) count *= tensor->dims[i];
    if (qf_dtype_bits(tensor->dtype) == 4 && count % 2) ((unsigned char *)tensor->data)[count / 2] &= 15;
}

static qf_status keep_results(prepared *at, qf_executor *executor) {
    for (uint32_t i = 0; i < at->test->output_count; i++) {
        qf_tensor result;
        qf_status status = qf_executor_output(executor, i, &result);
        if (status != QF_OK) return status;
        if (!host_tensor(result.dtype, result.rank, result.dims, &at->results[i])) return QF_ERROR_OUT_OF_MEMORY;
        if (qf_tensor_bytes(&result)) memcpy(at->results[i].data, result.data, (size_t)qf_tensor_bytes(&result));
        clear_padding(&at->results[i]);
    }
    return QF_OK;
}

static qf_status run_on_cpu(prepared *at) {
    const test_case *test = at->test;
    qf_graph *graph = test->other[0] ? parse(at, test->other) : at->graph;
    qf_plan *plan = NULL;
    qf_executor *executor = NULL;
    qf_executor_options options = {
        .struct_size = sizeof options, .device = "cpu", .thread_count = at->of->options.threads};
    qf_status status = graph ? compile(graph, "cpu", &plan) : QF_ERROR_PARSE;
    if (status == QF_OK) status = qf_executor_create(at->context, plan, &options, &executor);
    for (uint32_t i = 0; status == QF_OK && i < test->input_count; i++)
        status = qf_executor_bind_input(executor, i, &at->inputs[i]);
    if (status == QF_OK) status = qf_executor_run(executor);
    if (status == QF_OK) status = keep_results(at, executor);
    qf_executor_destroy(executor);
    qf_plan_destroy(plan);
    if (graph != at->graph) qf_graph_destroy(graph);
    return status;
}

prepared *run_prepare(suite *of, const test_case *test, char *message, size_t size) {
    prepared *at = calloc(1, sizeof *at);
    if (!at) return NULL;
    at->of = of;
    at->test = test;
    at->target = qf_target_from_name(qf_text_of(of->target))->target;
    at->context = open_context(at->messages);
    at->graph = at->context && !test->failed_to_build ? parse(at, test->body) : NULL;
    if (at->graph) return at;
    (void)snprintf(message, size, "the case itself is faulty: %s",
                   test->failed_to_build ? "its text or lists are too long" : at->messages);
    run_finish(at);
    return NULL;
}

bool run_reference(prepared *at, char *message, size_t size) {
    if (make_inputs(at) && run_on_cpu(at) == QF_OK) return true;
    (void)snprintf(message, size, "the case itself is faulty: %s", at->messages);
    return false;
}

void run_finish(prepared *at) {
    for (uint32_t i = 0; i < MOST_INPUTS; i++) free(at->inputs[i].data);
    for (uint32_t i = 0; i < MOST_OUTPUTS; i++) free(at->results[i].data);
    qf_graph_destroy(at->graph);
    if (at->context) qf_context_destroy(at->context);
    free(at);
}

/* --- which kernels --- */

static qf_node tested_node(const prepared *at) {
    QF_FOR_EACH_NODE(at->graph, node)
    if (qf_node_op(at->graph, node) == at->test->op) return node;
    return (qf_node){0};
}

uint32_t run_rows(const prepared *at, uint32_t *rows, uint32_t room) {
    uint32_t count = 0, row_count;
    const qf_kernel_row *table = qf_kernel_table(&row_count);
    qf_node node = tested_node(at);
    char reason[256];
    if (at->test->op == QF_OP_return) {
        rows[0] = 0;
        return 1;
    }
    for (uint32_t i = 0; node.id && i < row_count && count < room; i++)
        if (table[i].op == at->test->op && (table[i].targets >> at->target & 1) &&
            qf_node_kernel_from(at->graph, node, &table[i], 1, at->target, reason, sizeof reason))
            rows[count++] = table[i].number;
    return count;
}

/* --- on the device --- */

typedef struct guarded {
    char *memory; /* device */
    size_t size, shift;
    uint64_t bytes;
    qf_tensor tensor; /* device */
} guarded;

typedef struct device_run {
    prepared *at;
    uint32_t row;
    qf_plan *plan;
    qf_executor *executor;
    guarded inputs[MOST_INPUTS], outputs[MOST_OUTPUTS];
    qf_tensor found[MOST_OUTPUTS]; /* host */
    char *image;                   /* host, for uploads */
    size_t image_size;
} device_run;

static bool make_room(device_run *run, size_t size) {
    if (size <= run->image_size) return true;
    free(run->image);
    run->image = malloc(size);
    run->image_size = run->image ? size : 0;
    return run->image != NULL;
}

static qf_device *device_of(const device_run *run) {
    return run->at->of->device;
}

/* Device memory for a tensor between two guards; `shift` moves it off its alignment. */
static bool guard_allocate(device_run *run, const qf_tensor *like, size_t shift, guarded *out) {
    qf_device_info info = {.struct_size = sizeof info};
    qf_device_describe(device_of(run), &info);
    *out = (guarded){.shift = shift, .bytes = qf_tensor_bytes(like), .tensor = *like};
    out->size = 2 * GUARD + shift + (size_t)out->bytes;
    out->memory = qf_device_allocate(device_of(run), out->size);
    if (!out->memory) return false;
    out->tensor.data = out->memory + GUARD + shift;
    out->tensor.device_type = info.device_type;
    out->tensor.device_id = info.device_id;
    return true;
}

/* Everything around the elements becomes 0xA5; the elements `data`, or `poison` where it is NULL. */
static bool guard_upload(device_run *run, const guarded *to, const void *data, int poison) {
    if (!make_room(run, to->size)) return false;
    memset(run->image, 0xA5, to->size);
    char *elements = run->image + GUARD + to->shift;
    if (data)
        memcpy(elements, data, (size_t)to->bytes);
    else
        memset(elements, poison, (size_t)to->bytes);
    return qf_device_upload(device_of(run), to->memory, run->image, to->size) == QF_OK;
}

/* False where a guard changed, or `data` (if given) differs from the elements. */
static bool guard_intact(device_run *run, const guarded *from, const void *data, void *out) {
    if (!make_room(run, from->size) ||
        qf_device_download(device_of(run), run->image, from->memory, from->size) != QF_OK)
        return false;
    for (size_t i = 0; i < from->size; i++) {
        bool inside = i >= GUARD + from->shift && i < GUARD + from->shift + from->bytes;
        if (!inside && (unsigned char)run->image[i] != 0xA5) return false;
    }
    if (out) memcpy(out, run->image + GUARD + from->shift, (size_t)from->bytes);
    return !data || memcmp(run->image + GUARD + from->shift, data, (size_t)from->bytes) == 0;
}

static size_t shift_of(const qf_tensor *tensor, bool shifted) {
    uint32_t width = qf_dtype_bits(tensor->dtype) / 8;
    return !shifted ? 0 : width ? width : 1;
}

static bool allocate_all(device_run *run, bool shifted) {
    const prepared *at = run->at;
    for (uint32_t i = 0; i < at->test->input_count; i++)
        if (!guard_allocate(run, &at->inputs[i], shift_of(&at->inputs[i], shifted), &run->inputs[i])) return false;
    for (uint32_t i = 0; i < at->test->output_count; i++) {
        const qf_tensor *result = &at->results[i];
        if (!host_tensor(result->dtype, result->rank, result->dims, &run->found[i])) return false;
        int32_t in_place = at->test->in_place[i];
        if (in_place >= 0)
            run->outputs[i] = run->inputs[in_place];
        else if (!guard_allocate(run, result, shift_of(result, shifted), &run->outputs[i]))
            return false;
    }
    return true;
}

static bool upload_inputs(device_run *run) {
    for (uint32_t i = 0; i < run->at->test->input_count; i++)
        if (!guard_upload(run, &run->inputs[i], run->at->inputs[i].data, 0)) return false;
    return true;
}

static bool poison_outputs(device_run *run, int poison) {
    for (uint32_t i = 0; i < run->at->test->output_count; i++)
        if (run->at->test->in_place[i] < 0 && !guard_upload(run, &run->outputs[i], NULL, poison)) return false;
    return true;
}

static bool is_updated(const test_case *test, uint32_t input) {
    for (uint32_t i = 0; i < test->output_count; i++)
        if (test->in_place[i] == (int32_t)input) return true;
    return false;
}

static void release_all(device_run *run) {
    const test_case *test = run->at->test;
    qf_executor_destroy(run->executor);
    run->executor = NULL;
    for (uint32_t i = 0; i < test->output_count; i++) {
        free(run->found[i].data);
        run->found[i].data = NULL;
        if (test->in_place[i] < 0) qf_device_release(device_of(run), run->outputs[i].memory, run->outputs[i].size);
        run->outputs[i].memory = NULL;
    }
    for (uint32_t i = 0; i < test->input_count; i++) {
        qf_device_release(device_of(run), run->inputs[i].memory, run->inputs[i].size);
        run->inputs[i].memory = NULL;
    }
}

static qf_status open_executor(device_run *run) {
    prepared *at = run->at;
    qf_executor_options options = {
        .struct_size = sizeof options, .device = at->of->options.device, .thread_count = at->of->options.threads};
    qf_status status = qf_executor_create(at->context, run->plan, &options, &run->executor);
    for (uint32_t i = 0; status == QF_OK && i < at->test->input_count; i++)
        status = qf_executor_bind_input(run->executor, i, &run->inputs[i].tensor);
    for (uint32_t i = 0; status == QF_OK && i < at->test->output_count; i++)
        status = qf_executor_bind_output(run->executor, i, &run->outputs[i].tensor);
    return status;
}

static bool fetch(device_run *run, char *message, size_t size) {
    const test_case *test = run->at->test;
    for (uint32_t i = 0; i < test->output_count; i++) {
        if (guard_intact(run, &run->outputs[i], NULL, run->found[i].data)) {
            clear_padding(&run->found[i]);
            continue;
        }
        (void)snprintf(message, size, "memory around output %s was written (or could not be read): %s",
                       test->outputs[i], run->at->messages);
        return false;
    }
    for (uint32_t i = 0; i < test->input_count; i++) {
        if (is_updated(test, i) || guard_intact(run, &run->inputs[i], run->at->inputs[i].data, NULL)) continue;
        (void)snprintf(message, size, "input %s was written", test->inputs[i].name);
        return false;
    }
    return true;
}

/* Kernels for one case in particular count from 2000. */
static bool is_special(uint32_t row) {
    return row >= 2000;
}

static bound bound_for(const device_run *run, uint32_t output) {
    const test_case *test = run->at->test;
    bound within = test->bounds[output];
    if (is_special(run->row) && strcmp(test->outputs[output], "lse") == 0) {
        within.absolute = lse_room(run->row, test->kernel_p, test->keys);
    } else if (test->rounds_p && is_special(run->row)) {
        within.relative = 0.08;
        within.share = 0.3;
        within.most_off = 2;
    } else if (test->kernel_p && is_special(run->row)) {
        within.relative = 0.05;
        within.share = 0.6;
    } else if (is_special(run->row)) {
        within.share = fmin(within.share, share_of_codes(run->row, &run->at->results[output]));
    }
    return within;
}

static bool compare(const device_run *run, char *message, size_t size) {
    const test_case *test = run->at->test;
    for (uint32_t i = 0; i < test->output_count; i++) {
        char what[600];
        bound within = bound_for(run, i);
        if (bound_holds(&within, &run->found[i], &run->at->results[i], what, sizeof what)) continue;
        (void)snprintf(message, size, "output %s: %s", test->outputs[i], what);
        return false;
    }
    return true;
}

/* After a fault in a kernel nothing works any more; after a refused launch everything does. */
static bool still_works(const device_run *run) {
    unsigned char byte = 1;
    void *memory = qf_device_allocate(device_of(run), 1);
    bool works = memory && qf_device_upload(device_of(run), memory, &byte, 1) == QF_OK &&
                 qf_device_wait(device_of(run)) == QF_OK;
    qf_device_release(device_of(run), memory, 1);
    return works;
}

static verdict lost(const device_run *run, qf_status status, const char *doing, char *message, size_t size) {
    (void)snprintf(message, size, "%s: %s: %s", doing, qf_status_name(status), run->at->messages);
    return status == QF_ERROR_DEVICE && !still_works(run) ? VERDICT_BROKEN : VERDICT_FAILED;
}

/* One more run into poisoned outputs. */
static verdict run_once(device_run *run, int poison, char *message, size_t size) {
    bool restore = false;
    for (uint32_t i = 0; i < run->at->test->input_count; i++) restore = restore || is_updated(run->at->test, i);
    if (!poison_outputs(run, poison) || (restore && !upload_inputs(run)))
        return lost(run, QF_ERROR_DEVICE, "copying", message, size);
    qf_status status = qf_executor_run(run->executor);
    if (status == QF_OK) status = qf_executor_wait(run->executor);
    if (status != QF_OK) return lost(run, status, "running", message, size);
    return fetch(run, message, size) ? VERDICT_PASSED : VERDICT_FAILED;
}

/* The bits of the first run, kept while others follow. */
static bool keep_bits(const device_run *run, void **out_bits) {
    for (uint32_t i = 0; i < run->at->test->output_count; i++) {
        out_bits[i] = malloc((size_t)run->outputs[i].bytes + 1);
        if (!out_bits[i]) return false;
        memcpy(out_bits[i], run->found[i].data, (size_t)run->outputs[i].bytes);
    }
    return true;
}

static verdict same_bits(const device_run *run, void *const *bits, const char *when, char *message, size_t size) {
    for (uint32_t i = 0; i < run->at->test->output_count; i++)
        if (memcmp(bits[i], run->found[i].data, (size_t)run->outputs[i].bytes) != 0) {
            (void)snprintf(message, size, "output %s has other bits %s", run->at->test->outputs[i], when);
            return VERDICT_FAILED;
        }
    return VERDICT_PASSED;
}

static verdict run_replays(device_run *run, void *const *bits, char *message, size_t size) {
    qf_status status = qf_executor_capture(run->executor);
    if (status == QF_ERROR_UNSUPPORTED) return VERDICT_PASSED; /* the CPU has no graphs */
    if (status != QF_OK) return lost(run, status, "capturing", message, size);
    verdict so_far = VERDICT_PASSED;
    for (int i = 0; so_far == VERDICT_PASSED && i < 20; i++) {
        so_far = run_once(run, i % 2 ? 0x7F : 0xFF, message, size);
        if (so_far == VERDICT_PASSED) so_far = same_bits(run, bits, "when replayed from a graph", message, size);
    }
    qf_executor_drop_capture(run->executor);
    return so_far;
}

static verdict run_aligned(device_run *run, char *message, size_t size) {
    void *bits[MOST_OUTPUTS] = {NULL};
    verdict so_far = run_once(run, 0xFF, message, size);
    if (so_far == VERDICT_PASSED && !compare(run, message, size)) so_far = VERDICT_FAILED;
    if (so_far == VERDICT_PASSED && !keep_bits(run, bits)) so_far = VERDICT_FAILED;
    if (so_far == VERDICT_PASSED) so_far = run_once(run, 0x7F, message, size);
    if (so_far == VERDICT_PASSED) so_far = same_bits(run, bits, "when run again over other poison", message, size);
    if (so_far == VERDICT_PASSED && run->at->test->replays) so_far = run_replays(run, bits, message, size);
    for (uint32_t i = 0; i < MOST_OUTPUTS; i++) free(bits[i]);
    return so_far;
}

static verdict run_memory(device_run *run, bool shifted, char *message, size_t size) {
    verdict so_far = VERDICT_PASSED;
    if (!allocate_all(run, shifted) || !upload_inputs(run))
        so_far = lost(run, QF_ERROR_DEVICE, "allocating", message, size);
    if (so_far == VERDICT_PASSED) {
        qf_status status = open_executor(run);
        if (status != QF_OK) so_far = lost(run, status, "preparing", message, size);
    }
    if (so_far == VERDICT_PASSED && !shifted) so_far = run_aligned(run, message, size);
    if (so_far == VERDICT_PASSED && shifted) {
        so_far = run_once(run, 0xFF, message, size);
        if (so_far == VERDICT_PASSED && !compare(run, message, size)) so_far = VERDICT_FAILED;
        if (so_far == VERDICT_FAILED) {
            size_t used = strlen(message);
            (void)snprintf(message + used, size - used, " (memory aligned to one element)");
        }
    }
    release_all(run);
    return so_far;
}

/* The plan's step of the tested op takes the kernel that is to be tested. */
static void force_row(qf_plan *plan, qf_op op, uint32_t row) {
    for (uint32_t i = 0; row && i < plan->step_count; i++)
        if (plan->steps[i].op == (uint32_t)op) plan->steps[i].kernel = row;
}

verdict run_row(prepared *at, uint32_t row, char *message, size_t size) {
    device_run run = {.at = at, .row = row};
    at->messages[0] = '\0';
    qf_status status = compile(at->graph, at->of->target, &run.plan);
    if (status != QF_OK) return lost(&run, status, "compiling", message, size);
    force_row(run.plan, at->test->op, row);
    verdict so_far = run_memory(&run, false, message, size);
    if (so_far == VERDICT_PASSED && !at->test->aligned && !is_special(row))
        so_far = run_memory(&run, true, message, size);
    qf_plan_destroy(run.plan);
    free(run.image);
    return so_far;
}
