/* Owns: everything that depends on sizes: symbols, guards, shapes, views, attributes, scratch.
 * Does not own: addresses (memory.c), shapes against ops (each kernel checks its own).
 * Next: executor.h. */
#include <inttypes.h>
#include <string.h>

#include "runtime/executor.h"

/* Text of an expression for a message; cut where it is long. */
typedef struct short_text {
    char text[160];
} short_text;

static short_text expression_text(const qf_executor *executor, uint32_t id) {
    short_text out = {""};
    qf_buffer buffer = {.context = executor->context};
    qf_plan_print_expression(&buffer, executor->plan, id);
    size_t size = buffer.size < sizeof out.text - 1 ? buffer.size : sizeof out.text - 1;
    if (buffer.data) memcpy(out.text, buffer.data, size);
    out.text[size] = '\0';
    qf_buffer_destroy(&buffer);
    return out;
}

static const char *name_of(const qf_executor *executor, uint32_t string) {
    return qf_plan_string(executor->plan, string);
}

static qf_status broken(const qf_executor *executor, uint32_t symbol, const char *expected, int64_t bound) {
    const qf_plan_symbol_record *record = &executor->plan->symbols[symbol];
    if (record->kind != QF_PLAN_BOUND)
        return qf_fail(executor->context, QF_ERROR_GUARD, NULL, "%s is %" PRId64 ", expected %s %" PRId64,
                       name_of(executor, record->name), executor->symbols[symbol], expected, bound);
    return qf_fail(executor->context, QF_ERROR_GUARD, NULL,
                   "%s is %" PRId64 " (input \"%s\", axis %u), expected %s %" PRId64, name_of(executor, record->name),
                   executor->symbols[symbol], name_of(executor, executor->plan->inputs[record->input].name),
                   record->axis, expected, bound);
}

static qf_status check_facts(const qf_executor *executor, uint32_t symbol) {
    const qf_plan_symbol_record *record = &executor->plan->symbols[symbol];
    int64_t value = executor->symbols[symbol];
    if (value < record->minimum) return broken(executor, symbol, "at least", record->minimum);
    if (value > record->maximum) return broken(executor, symbol, "at most", record->maximum);
    if (record->divisor > 1 && value % record->divisor)
        return broken(executor, symbol, "a multiple of", record->divisor);
    return QF_OK;
}

/* size == a * symbol + b */
static bool solve(const qf_executor *executor, const qf_plan_symbol_record *record, int64_t *out_value) {
    int64_t factor = 1, rest = 0, size = executor->inputs[record->input].tensor.dims[record->axis];
    if (record->a && !qf_plan_evaluate(executor->plan, record->a, executor->symbols, &factor)) return false;
    if (record->b && !qf_plan_evaluate(executor->plan, record->b, executor->symbols, &rest)) return false;
    if (__builtin_sub_overflow(size, rest, &size) || factor == 0 || (factor == -1 && size == INT64_MIN) ||
        size % factor)
        return false;
    *out_value = size / factor;
    return true;
}

bool qf_executor_derive(const qf_executor *executor, const qf_plan_symbol_record *record, int64_t *out_value) {
    int64_t a, b;
    if (!qf_plan_evaluate(executor->plan, record->a, executor->symbols, &a) ||
        !qf_plan_evaluate(executor->plan, record->b, executor->symbols, &b))
        return false;
    bool divides = record->kind == QF_PLAN_FLOOR_DIVIDE || record->kind == QF_PLAN_MODULO;
    if (divides && (b == 0 || (b == -1 && a == INT64_MIN))) return false;
    int64_t quotient = divides ? a / b - (a % b != 0 && (a < 0) != (b < 0)) : 0;
    switch ((qf_plan_symbol_kind)record->kind) {
    case QF_PLAN_FLOOR_DIVIDE: *out_value = quotient; return true;
    case QF_PLAN_MODULO: *out_value = a - b * quotient; return true;
    case QF_PLAN_MINIMUM: *out_value = a < b ? a : b; return true;
    case QF_PLAN_MAXIMUM: *out_value = a > b ? a : b; return true;
    default: return false;
    }
}

static qf_status find_symbol(qf_executor *executor, uint32_t index) {
    const qf_plan_symbol_record *record = &executor->plan->symbols[index];
    const char *name = name_of(executor, record->name);
    if (record->kind == QF_PLAN_HOST) {
        if (!executor->host_bound[index])
            return qf_fail(executor->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                           "no input's shape determines the size %s: bind it by name", name);
        return check_facts(executor, index);
    }
    if (record->kind == QF_PLAN_BOUND ? solve(executor, record, &executor->symbols[index])
                                      : qf_executor_derive(executor, record, &executor->symbols[index]))
        return check_facts(executor, index);
    if (record->kind != QF_PLAN_BOUND)
        return qf_fail(executor->context, QF_ERROR_GUARD, NULL, "%s has no value for these sizes", name);
    return qf_fail(executor->context, QF_ERROR_GUARD, NULL,
                   "input \"%s\" axis %u is %" PRId64 ", which gives no whole %s",
                   name_of(executor, executor->plan->inputs[record->input].name), record->axis,
                   executor->inputs[record->input].tensor.dims[record->axis], name);
}

static qf_status find_values(qf_executor *executor) {
    const qf_plan *plan = executor->plan;
    for (uint32_t i = 0; i < plan->symbol_count; i++) {
        qf_status status = find_symbol(executor, i);
        if (status != QF_OK) return status;
    }
    for (uint32_t i = 0; i < plan->expression_count; i++)
        if (!qf_plan_evaluate(plan, i + 1, executor->symbols, &executor->values[i])) {
            short_text text = expression_text(executor, i + 1);
            return qf_fail(executor->context, QF_ERROR_LIMIT, NULL, "%s overflows for these sizes", text.text);
        }
    return QF_OK;
}

/* "T = 16 (input "ids", axis 1)" for dims that are one symbol, else "2*T = 32". */
static qf_status wrong_size(const qf_executor *executor, const char *what, uint32_t name, uint32_t axis, int64_t found,
                            uint32_t expression) {
    const qf_plan *plan = executor->plan;
    short_text text = expression_text(executor, expression);
    int64_t expected = executor->values[expression - 1];
    const qf_plan_expression_record *record = &plan->expressions[expression - 1];
    const qf_plan_term_record *term = record->term_count ? &plan->terms[record->first_term] : NULL;
    const qf_plan_symbol_record *symbol =
        term && term->factor_count ? &plan->symbols[plan->factors[term->first_factor].symbol - 1] : NULL;
    if (!symbol || symbol->kind != QF_PLAN_BOUND)
        return qf_fail(executor->context, QF_ERROR_GUARD, NULL,
                       "%s \"%s\" axis %u is %" PRId64 ", expected %s%s%" PRId64, what, name_of(executor, name), axis,
                       found, symbol ? text.text : "", symbol ? " = " : "", expected);
    return qf_fail(executor->context, QF_ERROR_GUARD, NULL,
                   "%s \"%s\" axis %u is %" PRId64 ", expected %s = %" PRId64 " (%s from input \"%s\", axis %u)", what,
                   name_of(executor, name), axis, found, text.text, expected, name_of(executor, symbol->name),
                   name_of(executor, plan->inputs[symbol->input].name), symbol->axis);
}

static qf_status check_dims(const qf_executor *executor, const char *what, uint32_t name, uint32_t tensor,
                            const qf_tensor *given) {
    const qf_plan_tensor_record *record = qf_plan_tensor_at(executor->plan, tensor);
    for (uint32_t i = 0; i < record->rank; i++) {
        uint32_t expression = executor->plan->dims[record->first_dim + i].expression;
        if (given->dims[i] != executor->values[expression - 1])
            return wrong_size(executor, what, name, i, given->dims[i], expression);
    }
    return QF_OK;
}

static qf_status check_guards(const qf_executor *executor) {
    const qf_plan *plan = executor->plan;
    for (uint32_t i = 0; i < plan->guard_count; i++) {
        const qf_plan_guard_record *guard = &plan->guards[i];
        int64_t left = executor->values[guard->left - 1], right = executor->values[guard->right - 1];
        if (left == right) continue;
        short_text a = expression_text(executor, guard->left), b = expression_text(executor, guard->right);
        qf_position position = {.location = name_of(executor, guard->location)};
        return qf_fail(executor->context, QF_ERROR_GUARD, &position,
                       "the plan was compiled for %s == %s, but %s is %" PRId64 " and %s is %" PRId64
                       "; use the size of the export, or export it with that size free",
                       a.text, b.text, a.text, left, b.text, right);
    }
    return QF_OK;
}

static qf_status check_interface(const qf_executor *executor) {
    const qf_plan *plan = executor->plan;
    qf_status status = QF_OK;
    for (uint32_t i = 0; status == QF_OK && i < plan->input_count; i++)
        status =
            check_dims(executor, "input", plan->inputs[i].name, plan->inputs[i].tensor, &executor->inputs[i].tensor);
    if (status == QF_OK) status = check_guards(executor);
    for (uint32_t i = 0; status == QF_OK && i < plan->output_count; i++)
        if (executor->outputs[i].bound)
            status = check_dims(executor, "output", plan->outputs[i].name, plan->outputs[i].tensor,
                                &executor->outputs[i].tensor);
    return status;
}

static qf_status wrong_extent(const qf_executor *executor, uint32_t tensor, const char *why) {
    return qf_fail(executor->context, QF_ERROR_GUARD, NULL, "value \"%s\" %s for these sizes",
                   name_of(executor, qf_plan_tensor_at(executor->plan, tensor)->name), why);
}

/* Bytes of every tensor; each lies within its buffer, aligned to its elements. */
static qf_status find_extents(qf_executor *executor) {
    const qf_plan *plan = executor->plan;
    for (uint32_t i = 0; i < plan->tensor_count; i++) {
        const qf_plan_tensor_record *tensor = &plan->tensors[i];
        uint64_t count = 1;
        for (uint32_t j = 0; tensor->rank != QF_UNRANKED && j < tensor->rank; j++) {
            int64_t dim = executor->values[plan->dims[tensor->first_dim + j].expression - 1];
            if (dim < 0) return wrong_extent(executor, i + 1, "has a negative size");
            if (__builtin_mul_overflow(count, (uint64_t)dim, &count) || count > INT64_MAX)
                return wrong_extent(executor, i + 1, "is too large");
        }
        executor->tensor_bytes[i] = qf_dtype_bytes((qf_dtype)tensor->dtype, count);
        if (executor->tensor_bytes[i] > INT64_MAX) return wrong_extent(executor, i + 1, "is too large");
    }
    for (uint32_t i = 0; i < plan->tensor_count; i++) {
        const qf_plan_tensor_record *tensor = &plan->tensors[i];
        int64_t offset = tensor->offset ? executor->values[tensor->offset - 1] : 0;
        uint64_t room = executor->tensor_bytes[qf_plan_buffer_at(plan, tensor->buffer)->tensor - 1];
        uint32_t width = qf_dtype_bits((qf_dtype)tensor->dtype) / 8;
        if (offset < 0 || (uint64_t)offset > room || executor->tensor_bytes[i] > room - (uint64_t)offset ||
            (width > 1 && offset % width))
            return wrong_extent(executor, i + 1, "lies outside of its buffer");
    }
    return QF_OK;
}

static void fill_view(qf_executor *executor, uint32_t reference) {
    const qf_plan *plan = executor->plan;
    uint32_t id = plan->references[reference].tensor;
    qf_view *view = &executor->views[reference];
    *view = (qf_view){0};
    if (!id) return;
    const qf_plan_tensor_record *tensor = qf_plan_tensor_at(plan, id);
    int64_t offset = tensor->offset ? executor->values[tensor->offset - 1] : 0;
    char *address = executor->addresses[tensor->buffer - 1];
    view->dtype = (qf_dtype)tensor->dtype;
    view->rank = tensor->rank == QF_UNRANKED ? 0 : tensor->rank;
    for (uint32_t i = 0; i < view->rank; i++)
        view->dims[i] = executor->values[plan->dims[tensor->first_dim + i].expression - 1];
    /* An empty tensor is present: kernels tell absent operands by a NULL address. */
    view->data = address ? address + offset : (void *)QF_EMPTY_ADDRESS;
}

static void fill_attributes(qf_executor *executor) {
    const qf_plan *plan = executor->plan;
    for (uint32_t i = 0; i < plan->dim_count; i++)
        executor->dim_values[i] = executor->values[plan->dims[i].expression - 1];
    for (uint32_t i = 0; i < plan->attribute_count; i++) {
        const qf_plan_attribute_record *record = &plan->attributes[i];
        qf_kernel_attribute *attribute = &executor->attributes[i];
        attribute->count = record->count;
        switch ((qf_attribute_kind)record->kind) {
        case QF_ATTRIBUTE_FLOAT: memcpy(&attribute->number, &record->value, sizeof attribute->number); break;
        case QF_ATTRIBUTE_DIM: attribute->integer = executor->values[record->value - 1]; break;
        case QF_ATTRIBUTE_DIMS: attribute->ints = executor->dim_values + record->value; break;
        case QF_ATTRIBUTE_INTS:
            attribute->ints = (const int64_t *)(const void *)(plan->integers + record->value);
            break;
        case QF_ATTRIBUTE_STRING: attribute->string = qf_plan_string(plan, (uint32_t)record->value); break;
        default: attribute->integer = record->value; break;
        }
    }
}
_Static_assert(sizeof(qf_plan_integer_record) == sizeof(int64_t),
               "lists of integers are handed to kernels as they lie");

/* Outputs are read after the plan; with an observer everything is. */
static void fill_last_use(qf_executor *executor, uint32_t reference) {
    const qf_plan *plan = executor->plan;
    uint32_t id = plan->references[reference].tensor;
    executor->last_uses[reference] = UINT32_MAX;
    if (!id || executor->observer) return;
    uint32_t buffer = qf_plan_tensor_at(plan, id)->buffer;
    if (qf_plan_buffer_at(plan, buffer)->kind == QF_PLAN_WORKSPACE)
        executor->last_uses[reference] = executor->lives[buffer - 1].last_use;
}

static qf_status fill_steps(qf_executor *executor) {
    const qf_plan *plan = executor->plan;
    for (uint32_t i = 0; i < plan->reference_count; i++) {
        fill_view(executor, i);
        fill_last_use(executor, i);
    }
    fill_attributes(executor);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const qf_plan_step_record *record = &plan->steps[i];
        qf_kernel_step *step = &executor->steps[i];
        step->row = qf_kernel_row_of(record->kernel);
        step->last_uses = executor->last_uses + record->first_result;
        step->location = qf_step_position(executor, i).location;
        step->call = (qf_kernel_call){.op = (qf_op)record->op,
                                      .operand_count = record->operand_count,
                                      .result_count = record->result_count,
                                      .operands = executor->views + record->first_operand,
                                      .results = executor->views + record->first_result,
                                      .attributes = executor->attributes + record->first_attribute,
                                      .thread_count = executor->thread_count,
                                      .message = executor->message,
                                      .message_size = sizeof executor->message};
        qf_position position = qf_step_position(executor, i);
        if (!qf_dtypes_agree(&step->call))
            return qf_fail(executor->context, QF_ERROR_VERIFY, &position,
                           "step %u (%s): operands and results have different element types", i,
                           qf_op_name(step->call.op));
    }
    return QF_OK;
}

static qf_status prepare_device(qf_executor *executor) {
    size_t size = 0;
    qf_status status =
        executor->device->prepare(executor->device_state, executor->steps, executor->plan->step_count, &size);
    executor->scratch_bytes = size;
    return status;
}

static qf_status check_bound(const qf_executor *executor) {
    const qf_plan *plan = executor->plan;
    if (executor->cannot_run) {
        const qf_plan_step_record *step = &plan->steps[executor->cannot_run - 1];
        qf_position position = qf_step_position(executor, executor->cannot_run - 1);
        const char *note = name_of(executor, step->note);
        const char *name =
            step->op == QF_OP_opaque
                ? qf_plan_string(plan, (uint32_t)plan->attributes[step->first_attribute + QF_ATTR(opaque, name)].value)
                : qf_op_name((qf_op)step->op);
        return qf_fail(executor->context, QF_ERROR_UNSUPPORTED, &position, "step %u (%s) %s", executor->cannot_run - 1,
                       name, note[0] ? note : "has no kernel");
    }
    for (uint32_t i = 0; i < plan->input_count; i++)
        if (!executor->inputs[i].bound)
            return qf_fail(executor->context, QF_ERROR_INVALID_ARGUMENT, NULL, "input %u \"%s\" is not bound", i,
                           name_of(executor, plan->inputs[i].name));
    return QF_OK;
}

qf_status qf_executor_prepare_all(qf_executor *executor) {
    executor->prepared = false;
    qf_status status = check_bound(executor);
    if (status == QF_OK) status = find_values(executor);
    if (status == QF_OK) status = check_interface(executor);
    if (status == QF_OK) status = find_extents(executor);
    if (status == QF_OK) status = qf_executor_place(executor);
    if (status == QF_OK) status = fill_steps(executor);
    if (status == QF_OK) status = prepare_device(executor);
    executor->prepared = status == QF_OK;
    return status;
}
