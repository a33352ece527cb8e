/* Owns: the plan's records out of placements and the memory plan: buffers, tensors, interface, steps, guards.
 * Does not own: decisions about memory (memory.c), expressions (expressions.c).
 * Next: lower.h, plan/records.def. */
#include <inttypes.h>
#include <string.h>

#include "codegen/lower.h"

static bool add_name(qf_lowering *lowering, qf_string name, uint32_t *out) {
    *out = qf_plan_add_string(lowering->plan, qf_string_text(lowering->context, name));
    return *out != UINT32_MAX;
}

/* A tensor of the value's type in `buffer`; 0 on failure. */
static uint32_t add_tensor(qf_lowering *lowering, qf_value value, uint32_t buffer, qf_dim offset) {
    const qf_graph *graph = lowering->graph;
    qf_plan *plan = lowering->plan;
    qf_plan_tensor_record tensor = {
        .dtype = (uint32_t)qf_value_dtype(graph, value), .rank = qf_value_rank(graph, value), .buffer = buffer};
    if (!add_name(lowering, qf_value_at(graph, value)->name, &tensor.name)) return 0;
    uint32_t rank = tensor.rank == QF_UNRANKED ? 0 : tensor.rank, expressions[QF_MAX_RANK];
    if (tensor.dtype == QF_DTYPE_NONE) tensor.rank = QF_UNRANKED;
    for (uint32_t i = 0; i < rank; i++)
        if (!(expressions[i] = qf_lower_dim(lowering, qf_value_dims(graph, value)[i]))) return 0;
    if (offset.id && !(tensor.offset = qf_lower_dim(lowering, offset))) return 0;
    tensor.first_dim = plan->dim_count;
    for (uint32_t i = 0; i < rank; i++) {
        qf_plan_dim_record dim = {expressions[i]};
        if (!qf_plan_add_dim(plan, &dim)) return 0;
    }
    return qf_plan_add_tensor(plan, &tensor);
}

/* A buffer and the tensor that spans it, of the value's type; gives the buffer's id, 0 on failure. */
static uint32_t add_buffer(qf_lowering *lowering, qf_value value, qf_plan_buffer_kind kind, uint32_t index,
                           uint32_t *out_tensor) {
    qf_plan *plan = lowering->plan;
    qf_plan_buffer_record buffer = {.kind = (uint32_t)kind, .index = index};
    buffer.tensor = add_tensor(lowering, value, plan->buffer_count + 1, (qf_dim){0});
    if (out_tensor) *out_tensor = buffer.tensor;
    return buffer.tensor ? qf_plan_add_buffer(plan, &buffer) : 0;
}

static bool add_constant(qf_lowering *lowering, qf_node node, qf_storage *storage) {
    const qf_literal *literal = qf_node_attribute(lowering->graph, node, QF_ATTR(constant, value))->literal;
    qf_plan_constant_record constant = {.size = literal->size};
    constant.offset = qf_plan_add_bytes(lowering->plan, literal->data, literal->size);
    storage->index = lowering->plan->constant_count;
    return constant.offset != UINT64_MAX && qf_plan_add_constant(lowering->plan, &constant);
}

static bool remember_weight(qf_lowering *lowering, uint32_t index, qf_string name) {
    qf_plan *plan = lowering->plan;
    for (uint32_t i = 0; i < lowering->graph->weight_count; i++) {
        const qf_weight *weight = &lowering->graph->weights[i];
        if (weight->name.id != name.id) continue;
        uint32_t before = plan->weight_capacity;
        if (!QF_GROW(lowering->context, plan->weights, plan->weight_capacity, (uint64_t)index + 1)) return false;
        memset(plan->weights + before, 0, (plan->weight_capacity - before) * sizeof *plan->weights);
        plan->weights[index] = (qf_plan_weight){weight->data, weight->size};
        break;
    }
    return true;
}

static bool add_parameter(qf_lowering *lowering, qf_node node, qf_storage *storage) {
    const qf_graph *graph = lowering->graph;
    qf_value value = qf_node_result(graph, node, 0);
    const qf_attribute *attributes = qf_node_at(graph, node)->attributes;
    qf_plan_parameter_record parameter = {.offset = (uint64_t)attributes[QF_ATTR(parameter, offset)].integer,
                                          .size = (uint64_t)attributes[QF_ATTR(parameter, size)].integer,
                                          .hash = attributes[QF_ATTR(parameter, hash)].integer};
    uint64_t count;
    qf_position position = qf_node_position(graph, node);
    if (!qf_type_static_count(lowering->context, qf_value_type(graph, value), &count)) {
        (void)qf_fail(lowering->context, QF_ERROR_UNSUPPORTED, &position, "a parameter needs constant dims");
        return false;
    }
    uint64_t bytes = qf_dtype_bytes(qf_value_dtype(graph, value), count);
    if (parameter.size && parameter.size != bytes) {
        (void)qf_fail(lowering->context, QF_ERROR_VERIFY, &position,
                      "the parameter's type takes %" PRIu64 " bytes, its size says %" PRIu64, bytes, parameter.size);
        return false;
    }
    parameter.size = bytes;
    storage->index = lowering->plan->parameter_count;
    /* The buffer, made next, spans the tensor made next. */
    parameter.tensor = lowering->plan->tensor_count + 1;
    return add_name(lowering, attributes[QF_ATTR(parameter, name)].string, &parameter.name) &&
           add_name(lowering, attributes[QF_ATTR(parameter, file)].string, &parameter.file) &&
           remember_weight(lowering, storage->index, attributes[QF_ATTR(parameter, name)].string) &&
           qf_plan_add_parameter(lowering->plan, &parameter);
}

/* The buffer of a storage, made when first asked for. */
static uint32_t buffer_of(qf_lowering *lowering, qf_storage *storage) {
    if (storage->buffer) return storage->buffer;
    qf_value root = {(uint32_t)(storage - lowering->storages)};
    qf_node producer = qf_value_producer(lowering->graph, root);
    if (storage->kind == QF_PLAN_CONSTANT && !add_constant(lowering, producer, storage)) return 0;
    if (storage->kind == QF_PLAN_PARAMETER && !add_parameter(lowering, producer, storage)) return 0;
    return storage->buffer = add_buffer(lowering, root, storage->kind, storage->index, NULL);
}

/* Plan id of a value's tensor; 0 on failure. */
static uint32_t tensor_of(qf_lowering *lowering, qf_value value) {
    uint32_t *tensor = &lowering->tensors[value.id];
    if (*tensor) return *tensor;
    const qf_placement *placement = &lowering->placements[value.id];
    if (!placement->root.id) {
        (void)add_buffer(lowering, value, QF_PLAN_NOWHERE, 0, tensor);
        return *tensor;
    }
    qf_storage *storage = qf_lower_storage(lowering, value);
    bool fresh = !storage->buffer;
    uint32_t buffer = buffer_of(lowering, storage);
    if (!buffer) return 0;
    if (fresh && (uint32_t)(storage - lowering->storages) == value.id)
        return *tensor = qf_plan_buffer_at(lowering->plan, buffer)->tensor;
    return *tensor = add_tensor(lowering, value, buffer, placement->offset);
}

static bool add_inputs(qf_lowering *lowering) {
    const qf_graph *graph = lowering->graph;
    for (uint32_t i = 0; i < graph->input_count; i++) {
        qf_plan_input_record input = {.tensor = tensor_of(lowering, graph->inputs[i])};
        if (!input.tensor || !add_name(lowering, qf_value_at(graph, graph->inputs[i])->name, &input.name) ||
            !qf_plan_add_input(lowering->plan, &input))
            return false;
    }
    return true;
}

/* True where the output's value itself lies in the output's memory. */
static bool holds_output(const qf_lowering *lowering, qf_value value, uint32_t index) {
    if (!lowering->placements[value.id].root.id) return false;
    const qf_storage *storage = qf_lower_storage(lowering, value);
    return storage->kind == QF_PLAN_OUTPUT && storage->index == index;
}

static bool add_outputs(qf_lowering *lowering) {
    const qf_graph *graph = lowering->graph;
    const qf_node_data *end = qf_node_at(graph, graph->last);
    for (uint32_t i = 0; i < end->operand_count; i++) {
        qf_value value = end->operands[i].value;
        bool placed = lowering->placements[value.id].root.id != 0;
        qf_plan_output_record output = {0};
        uint32_t buffer =
            add_buffer(lowering, value, placed ? QF_PLAN_OUTPUT : QF_PLAN_NOWHERE, placed ? i : 0, &output.tensor);
        if (!buffer) return false;
        if (holds_output(lowering, value, i)) {
            qf_storage *storage = qf_lower_storage(lowering, value);
            storage->buffer = buffer;
            output.in_place = storage->claim;
            output.reason = storage->reason;
            lowering->tensors[value.id] = output.tensor;
        }
        qf_string name = i < graph->output_name_count ? graph->output_names[i] : (qf_string){0};
        if (!name.id) name = qf_value_at(graph, value)->name;
        if (!add_name(lowering, name, &output.name) || !qf_plan_add_output(lowering->plan, &output)) return false;
    }
    return true;
}

/* --- steps --- */

static bool add_dims(qf_lowering *lowering, const qf_attribute *attribute, int64_t *out_first) {
    for (uint32_t i = 0; i < attribute->count; i++)
        if (!qf_lower_dim(lowering, attribute->dims[i])) return false;
    *out_first = lowering->plan->dim_count;
    for (uint32_t i = 0; i < attribute->count; i++) {
        qf_plan_dim_record dim = {qf_lower_dim(lowering, attribute->dims[i])};
        if (!qf_plan_add_dim(lowering->plan, &dim)) return false;
    }
    return true;
}

static bool add_attribute(qf_lowering *lowering, qf_attribute_kind kind, const qf_attribute *attribute) {
    qf_plan *plan = lowering->plan;
    qf_plan_attribute_record record = {.kind = (uint32_t)kind, .value = attribute->integer};
    uint32_t string;
    switch (kind) {
    case QF_ATTRIBUTE_FLOAT: memcpy(&record.value, &attribute->number, sizeof record.value); break;
    case QF_ATTRIBUTE_DIM:
        record.value = qf_lower_dim(lowering, attribute->dim);
        if (!record.value) return false;
        break;
    case QF_ATTRIBUTE_DIMS:
        record.count = attribute->count;
        if (!add_dims(lowering, attribute, &record.value)) return false;
        break;
    case QF_ATTRIBUTE_INTS:
        record.count = attribute->count;
        record.value = plan->integer_count;
        for (uint32_t i = 0; i < attribute->count; i++) {
            qf_plan_integer_record integer = {attribute->ints[i]};
            if (!qf_plan_add_integer(plan, &integer)) return false;
        }
        break;
    case QF_ATTRIBUTE_STRING:
        if (!add_name(lowering, attribute->string, &string)) return false;
        record.value = string;
        break;
    default: break;
    }
    return qf_plan_add_attribute(plan, &record) != 0;
}

static bool add_reference(qf_lowering *lowering, uint32_t tensor) {
    qf_plan_reference_record reference = {tensor};
    return qf_plan_add_reference(lowering->plan, &reference) != 0;
}

/* All tensors of the node exist before its references, which stand together. */
static bool add_references(qf_lowering *lowering, const qf_node_data *data, qf_plan_step_record *step) {
    for (uint32_t i = 0; i < data->operand_count; i++)
        if (data->operands[i].value.id && !tensor_of(lowering, data->operands[i].value)) return false;
    for (uint32_t i = 0; i < data->result_count; i++)
        if (!tensor_of(lowering, qf_result_at(data, i))) return false;
    step->first_operand = lowering->plan->reference_count;
    step->operand_count = data->operand_count;
    for (uint32_t i = 0; i < data->operand_count; i++)
        if (!add_reference(lowering, data->operands[i].value.id ? lowering->tensors[data->operands[i].value.id] : 0))
            return false;
    step->first_result = lowering->plan->reference_count;
    step->result_count = data->result_count;
    for (uint32_t i = 0; i < data->result_count; i++)
        if (!add_reference(lowering, lowering->tensors[qf_result_at(data, i).id])) return false;
    return true;
}

static bool all_placed(const qf_lowering *lowering, const qf_node_data *data) {
    for (uint32_t i = 0; i < data->operand_count; i++)
        if (data->operands[i].value.id && !lowering->placements[data->operands[i].value.id].root.id) return false;
    for (uint32_t i = 0; i < data->result_count; i++)
        if (!lowering->placements[qf_result_at(data, i).id].root.id) return false;
    return true;
}

/* The kernel's number; 0 with a note where the step cannot run but the graph still compiles. False: the graph does not
 * compile. */
static bool choose_kernel(qf_lowering *lowering, qf_node node, uint32_t *out_kernel) {
    const qf_node_data *data = qf_node_at(lowering->graph, node);
    char reason[256] = "";
    *out_kernel = 0;
    const char *why = NULL;
    if (data->op == QF_OP_opaque)
        why = "cannot run: the op is opaque";
    else if (!all_placed(lowering, data))
        why = "cannot run: the shape or element type of an operand or result is not known";
    if (why) {
        lowering->note_of_node[node.id] = qf_plan_add_string(lowering->plan, qf_text_of(why));
        return lowering->note_of_node[node.id] != UINT32_MAX;
    }
    const qf_kernel_row *row = qf_node_kernel(lowering->graph, node, lowering->target, reason, sizeof reason);
    if (row) {
        *out_kernel = row->number;
        return true;
    }
    qf_position position = qf_node_position(lowering->graph, node);
    (void)qf_fail(lowering->context, QF_ERROR_UNSUPPORTED, &position, "%s cannot be lowered: %s", qf_op_name(data->op),
                  reason);
    return false;
}

static bool add_location(qf_lowering *lowering, qf_location location, uint32_t *out) {
    *out = 0;
    if (!location.id) return true;
    qf_buffer text = {.context = lowering->context};
    qf_location_print(&text, lowering->graph, location);
    *out = text.failed ? UINT32_MAX : qf_plan_add_string(lowering->plan, (qf_text){text.data, text.size});
    qf_buffer_destroy(&text);
    return *out != UINT32_MAX;
}

static bool add_step(qf_lowering *lowering, qf_node node) {
    const qf_node_data *data = qf_node_at(lowering->graph, node);
    const qf_op_info *info = qf_op_info_of(data->op);
    qf_plan_step_record step = {.op = (uint32_t)data->op, .tag = data->tag};
    if (!choose_kernel(lowering, node, &step.kernel) || !add_references(lowering, data, &step) ||
        !add_location(lowering, data->location, &step.location))
        return false;
    step.note = lowering->note_of_node[node.id];
    step.first_attribute = lowering->plan->attribute_count;
    step.attribute_count = info->attribute_count;
    for (uint32_t i = 0; i < info->attribute_count; i++)
        if (!add_attribute(lowering, info->attributes[i].kind, &data->attributes[i])) return false;
    return qf_plan_add_step(lowering->plan, &step) != 0;
}

/* Copies are alike for every dtype and shape. */
static const qf_kernel_row *copy_kernel(const qf_lowering *lowering) {
    char reason[128] = "";
    const qf_kernel_query query = {.op = QF_OP_copy};
    const qf_kernel_row *row = qf_kernel_select(lowering->target, &query, reason, sizeof reason);
    if (!row) (void)qf_fail(lowering->context, QF_ERROR_UNSUPPORTED, NULL, "an output cannot be copied: %s", reason);
    return row;
}

/* Outputs whose value lies elsewhere (an input, a weight, a part of something, another output) are copied at the end.
 */
static bool add_output_copies(qf_lowering *lowering) {
    const qf_node_data *end = qf_node_at(lowering->graph, lowering->graph->last);
    for (uint32_t i = 0; i < end->operand_count; i++) {
        qf_value value = end->operands[i].value;
        if (!lowering->placements[value.id].root.id || holds_output(lowering, value, i)) continue;
        uint32_t from = tensor_of(lowering, value);
        const qf_kernel_row *row = copy_kernel(lowering);
        if (!row) return false;
        qf_plan *plan = lowering->plan;
        qf_plan_step_record step = {.kernel = row->number,
                                    .op = QF_OP_copy,
                                    .first_operand = plan->reference_count,
                                    .operand_count = 1,
                                    .first_result = plan->reference_count + 1,
                                    .result_count = 1,
                                    .first_attribute = plan->attribute_count};
        step.note = qf_plan_add_string(plan, QF_TEXT("an output whose value lies elsewhere"));
        if (!from || step.note == UINT32_MAX || !add_reference(lowering, from) ||
            !add_reference(lowering, plan->outputs[i].tensor) || !qf_plan_add_step(plan, &step))
            return false;
    }
    return true;
}

static bool add_guards(qf_lowering *lowering) {
    for (uint32_t i = 0; i < lowering->graph->guard_count; i++) {
        const qf_guard *guard = &lowering->graph->guards[i];
        qf_plan_guard_record record = {.left = qf_lower_dim(lowering, guard->left),
                                       .right = qf_lower_dim(lowering, guard->right)};
        if (!record.left || !record.right || !add_location(lowering, guard->location, &record.location) ||
            !qf_plan_add_guard(lowering->plan, &record))
            return false;
    }
    return true;
}

bool qf_lower_plan(qf_lowering *lowering) {
    if (!add_inputs(lowering) || !add_outputs(lowering)) return false;
    QF_FOR_EACH_NODE(lowering->graph, node)
    if (lowering->step_of_node[node.id] != QF_NO_STEP && !add_step(lowering, node)) return false;
    return add_output_copies(lowering) && add_guards(lowering);
}
