/* Owns: the node-by-node interpreter.
 * Does not own: what an op computes (qf_op_run), how attributes are read (passes/evaluate.h).
 * Next: interpret.h. */
#include "codegen/interpret.h"

#include <string.h>

#include "passes/evaluate.h"

#define MAX_OPERANDS 64
#define MAX_LIST     256 /* items of one DIMS attribute */
#define MAX_BYTES    ((uint64_t)1 << 40)

typedef struct slot {
    qf_tensor tensor;
    uint64_t owned_bytes; /* > 0: tensor.data is ours */
    bool present;
} slot;

struct qf_interpreter {
    const qf_graph *graph;
    qf_context *context;
    uint32_t thread_count;
    slot *slots; /* by value id */
    uint32_t slot_count;
    struct symbol_value {
        int64_t value;
        bool bound;
    } * symbols; /* by symbol id */
    uint32_t symbol_count, symbol_capacity;
    const qf_weight **weights; /* by string id of the name */
    uint32_t weight_capacity;
};

static bool index_weights(qf_interpreter *interpreter) {
    const qf_graph *graph = interpreter->graph;
    interpreter->weight_capacity = interpreter->context->string_count;
    interpreter->weights =
        qf_allocate(interpreter->context, interpreter->weight_capacity * sizeof *interpreter->weights);
    if (!interpreter->weights) return false;
    for (uint32_t i = 0; i < graph->weight_count; i++)
        interpreter->weights[graph->weights[i].name.id] = &graph->weights[i];
    return true;
}

qf_interpreter *qf_interpreter_create(const qf_graph *graph, uint32_t thread_count) {
    qf_interpreter *interpreter = qf_allocate(graph->context, sizeof *interpreter);
    if (!interpreter) return NULL;
    *interpreter =
        (qf_interpreter){.graph = graph, .context = graph->context, .thread_count = thread_count ? thread_count : 1};
    interpreter->slots = qf_allocate(graph->context, graph->value_count * sizeof *interpreter->slots);
    if (interpreter->slots) interpreter->slot_count = graph->value_count;
    if (!interpreter->slots || !index_weights(interpreter)) {
        qf_interpreter_destroy(interpreter);
        return NULL;
    }
    return interpreter;
}

void qf_interpreter_destroy(qf_interpreter *interpreter) {
    if (!interpreter) return;
    qf_context *context = interpreter->context;
    for (uint32_t i = 0; i < interpreter->slot_count; i++)
        if (interpreter->slots[i].owned_bytes)
            qf_release(context, interpreter->slots[i].tensor.data, (size_t)interpreter->slots[i].owned_bytes);
    qf_release(context, interpreter->slots, interpreter->slot_count * sizeof *interpreter->slots);
    QF_FREE_ITEMS(context, interpreter->symbols, interpreter->symbol_capacity);
    qf_release(context, interpreter->weights, interpreter->weight_capacity * sizeof *interpreter->weights);
    qf_release(context, interpreter, sizeof *interpreter);
}

/* --- symbols --- */

static bool set_symbol(qf_interpreter *interpreter, uint32_t id, int64_t value) {
    if (!QF_GROW(interpreter->context, interpreter->symbols, interpreter->symbol_capacity, (uint64_t)id + 1))
        return false;
    for (; interpreter->symbol_count <= id; interpreter->symbol_count++)
        interpreter->symbols[interpreter->symbol_count] = (struct symbol_value){0};
    interpreter->symbols[id] = (struct symbol_value){value, true};
    return true;
}

static bool look_up(void *user, qf_dim_symbol symbol, int64_t *out_value) {
    const qf_interpreter *interpreter = user;
    if (symbol.id >= interpreter->symbol_count || !interpreter->symbols[symbol.id].bound) return false;
    *out_value = interpreter->symbols[symbol.id].value;
    return true;
}

bool qf_interpreter_dim(qf_interpreter *interpreter, qf_dim dim, int64_t *out_size) {
    return qf_dim_evaluate(interpreter->context, dim, look_up, interpreter, out_size);
}

qf_status qf_interpreter_bind_symbol(qf_interpreter *interpreter, qf_dim_symbol symbol, int64_t value) {
    return set_symbol(interpreter, symbol.id, value) ? QF_OK : QF_ERROR_OUT_OF_MEMORY;
}

static qf_status bind_dim(qf_interpreter *interpreter, qf_dim dim, int64_t extent, uint32_t input, uint32_t axis) {
    int64_t known;
    if (qf_interpreter_dim(interpreter, dim, &known)) {
        if (known == extent) return QF_OK;
        return qf_fail(interpreter->context, QF_ERROR_GUARD, NULL, "input %u axis %u: expected extent %lld, found %lld",
                       input, axis, (long long)known, (long long)extent);
    }
    qf_dim_symbol symbol = qf_dim_as_symbol(interpreter->context, dim);
    if (!symbol.id) return QF_OK; /* a polynomial whose symbols other inputs bind */
    return set_symbol(interpreter, symbol.id, extent) ? QF_OK : QF_ERROR_OUT_OF_MEMORY;
}

qf_status qf_interpreter_bind_input(qf_interpreter *interpreter, uint32_t index, const qf_tensor *tensor) {
    const qf_graph *graph = interpreter->graph;
    if (index >= graph->input_count)
        return qf_fail(interpreter->context, QF_ERROR_INVALID_ARGUMENT, NULL, "there is no input %u, only %u", index,
                       graph->input_count);
    qf_value value = graph->inputs[index];
    qf_dtype dtype = qf_value_dtype(graph, value);
    uint32_t rank = qf_value_rank(graph, value);
    if (tensor->dtype != dtype || tensor->rank != rank)
        return qf_fail(interpreter->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                       "input %u: expected %s of rank %u, found %s of rank %u", index, qf_dtype_name(dtype), rank,
                       qf_dtype_name(tensor->dtype), tensor->rank);
    for (uint32_t axis = 0; axis < rank; axis++) {
        qf_dim dim = qf_value_dims(graph, value)[axis];
        qf_status status = bind_dim(interpreter, dim, tensor->dims[axis], index, axis);
        if (status != QF_OK) return status;
    }
    return qf_interpreter_override(interpreter, value, tensor);
}

qf_status qf_interpreter_override(qf_interpreter *interpreter, qf_value value, const qf_tensor *tensor) {
    if (value.id >= interpreter->slot_count) return QF_ERROR_INVALID_ARGUMENT;
    interpreter->slots[value.id] = (slot){.tensor = *tensor, .present = true};
    return QF_OK;
}

void qf_interpreter_copy_symbols(qf_interpreter *interpreter, const qf_interpreter *other) {
    for (uint32_t id = 0; id < other->symbol_count; id++)
        if (other->symbols[id].bound) (void)set_symbol(interpreter, id, other->symbols[id].value);
}

/* --- nodes --- */

static qf_status fail_at(qf_interpreter *interpreter, qf_node node, qf_status status, const char *what) {
    qf_position position = qf_node_position(interpreter->graph, node);
    return qf_fail(interpreter->context, status, &position, "%s: %s", qf_op_name(qf_node_op(interpreter->graph, node)),
                   what);
}

static qf_status allocate_result(qf_interpreter *interpreter, qf_node node, qf_value value) {
    qf_context *context = interpreter->context;
    qf_type type = qf_value_type(interpreter->graph, value);
    if (!qf_type_is_ranked(context, type))
        return fail_at(interpreter, node, QF_ERROR_UNSUPPORTED, "the shape of the result is not known");
    qf_tensor tensor = {.dtype = qf_type_dtype(context, type), .rank = qf_type_rank(context, type)};
    for (uint32_t i = 0; i < tensor.rank; i++)
        if (!qf_interpreter_dim(interpreter, qf_type_dims(context, type)[i], &tensor.dims[i]))
            return fail_at(interpreter, node, QF_ERROR_UNSUPPORTED, "a size of the result depends on data");
    uint64_t bytes = qf_tensor_bytes(&tensor);
    if (bytes > MAX_BYTES) return fail_at(interpreter, node, QF_ERROR_LIMIT, "the result is too large");
    if (!bytes) bytes = 1;
    tensor.data = qf_allocate(context, (size_t)bytes);
    if (!tensor.data) return QF_ERROR_OUT_OF_MEMORY;
    interpreter->slots[value.id] = (slot){.tensor = tensor, .owned_bytes = bytes, .present = true};
    return QF_OK;
}

static qf_status read_parameter(qf_interpreter *interpreter, qf_node node) {
    const qf_graph *graph = interpreter->graph;
    qf_string name = qf_node_attribute(graph, node, QF_ATTR(parameter, name))->string;
    const qf_weight *weight = name.id < interpreter->weight_capacity ? interpreter->weights[name.id] : NULL;
    if (!weight) return fail_at(interpreter, node, QF_ERROR_NOT_FOUND, "no bytes are bound to this weight");
    qf_value value = qf_node_result(graph, node, 0);
    qf_status status = allocate_result(interpreter, node, value);
    if (status != QF_OK) return status;
    qf_tensor *tensor = &interpreter->slots[value.id].tensor;
    if (qf_tensor_bytes(tensor) != weight->size)
        return fail_at(interpreter, node, QF_ERROR_INVALID_ARGUMENT, "the weight has another size");
    if (weight->size) memcpy(tensor->data, weight->data, (size_t)weight->size);
    return QF_OK;
}

static bool results_present(const qf_interpreter *interpreter, const qf_node_data *data) {
    for (uint32_t i = 0; i < data->result_count; i++)
        if (!interpreter->slots[qf_result_at(data, i).id].present) return false;
    return true;
}

/* `lists` has MAX_LIST entries for the evaluated DIMS of each attribute. */
static qf_status compute(qf_interpreter *interpreter, qf_node node, int64_t *lists) {
    const qf_graph *graph = interpreter->graph;
    const qf_node_data *data = qf_node_at(graph, node);
    const qf_op_info *info = qf_op_info_of(data->op);
    if (data->operand_count > MAX_OPERANDS || data->result_count > MAX_OPERANDS)
        return fail_at(interpreter, node, QF_ERROR_LIMIT, "too many operands");
    qf_tensor operands[MAX_OPERANDS], results[MAX_OPERANDS];
    qf_op_attribute attributes[QF_MAX_ATTRIBUTES];
    memset(operands, 0, sizeof operands);
    for (uint32_t i = 0; i < data->operand_count; i++) {
        qf_value value = data->operands[i].value;
        if (value.id && !qf_interpreter_value(interpreter, value, &operands[i]))
            return fail_at(interpreter, node, QF_ERROR_INVALID_ARGUMENT, "an operand has no value");
    }
    for (uint32_t i = 0; i < info->attribute_count; i++)
        if (!qf_evaluate_attribute(interpreter->context, info->attributes[i].kind, &data->attributes[i], look_up,
                                   interpreter, &lists[i * MAX_LIST], MAX_LIST, &attributes[i]))
            return fail_at(interpreter, node, QF_ERROR_UNSUPPORTED, "an attribute depends on data");
    qf_status status = QF_OK;
    for (uint32_t i = 0; i < data->result_count && status == QF_OK; i++) {
        status = allocate_result(interpreter, node, qf_result_at(data, i));
        results[i] = interpreter->slots[qf_result_at(data, i).id].tensor;
    }
    if (status != QF_OK) return status;
    status = qf_op_run(interpreter->context, data->op, operands, data->operand_count, attributes, info->attribute_count,
                       results, data->result_count, interpreter->thread_count);
    return status == QF_OK ? QF_OK : fail_at(interpreter, node, status, "the kernel refused its operands");
}

static qf_status run_node(qf_interpreter *interpreter, qf_node node, int64_t *lists) {
    const qf_graph *graph = interpreter->graph;
    const qf_node_data *data = qf_node_at(graph, node);
    if (data->op == QF_OP_return || results_present(interpreter, data)) return QF_OK;
    if (data->op == QF_OP_parameter) return read_parameter(interpreter, node);
    if (data->op == QF_OP_opaque) {
        qf_string name = qf_node_attribute(graph, node, QF_ATTR(opaque, name))->string;
        return fail_at(interpreter, node, QF_ERROR_UNSUPPORTED, qf_string_c(interpreter->context, name));
    }
    return compute(interpreter, node, lists);
}

qf_status qf_interpreter_run(qf_interpreter *interpreter, const bool *needed) {
    const qf_graph *graph = interpreter->graph;
    size_t size = QF_MAX_ATTRIBUTES * MAX_LIST * sizeof(int64_t);
    int64_t *lists = qf_allocate(interpreter->context, size);
    if (!lists) return QF_ERROR_OUT_OF_MEMORY;
    qf_status status = QF_OK;
    for (qf_node node = graph->first; node.id && status == QF_OK; node = qf_node_at(graph, node)->next)
        if (!needed || needed[node.id]) status = run_node(interpreter, node, lists);
    qf_release(interpreter->context, lists, size);
    return status;
}

bool qf_interpreter_value(const qf_interpreter *interpreter, qf_value value, qf_tensor *out_tensor) {
    if (value.id >= interpreter->slot_count || !interpreter->slots[value.id].present) return false;
    *out_tensor = interpreter->slots[value.id].tensor;
    return true;
}
