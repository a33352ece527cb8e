/* Owns: reading a node's arguments by name.
 * Does not own: emitting nodes (build.c).
 * Next: map_elementwise.c. */
#include <math.h>
#include <string.h>

#include "frontends/pt2/build.h"

/* The argument's union, {"as_int": 1}; NULL where it is absent or None. *out_kind is "as_int" then. */
static json_t *argument_of(const qf_pt2_call *call, const char *name, const char **out_kind) {
    size_t count = json_array_size(call->arguments);
    for (size_t i = 0; i < count; i++) {
        const json_t *argument = json_array_get(call->arguments, i);
        if (strcmp(qf_pt2_text(qf_pt2_get(argument, "name")), name) != 0) continue;
        json_t *value = qf_pt2_union(qf_pt2_get(argument, "arg"), out_kind);
        return value && strcmp(*out_kind, "as_none") != 0 ? value : NULL;
    }
    return NULL;
}

static const qf_pt2_override *override_of(const qf_pt2_call *call, const char *name) {
    for (uint32_t i = 0; i < call->override_count; i++)
        if (strcmp(call->overrides[i].name, name) == 0) return &call->overrides[i];
    return NULL;
}

bool qf_pt2_has(const qf_pt2_call *call, const char *name) {
    const char *kind;
    const qf_pt2_override *override = override_of(call, name);
    return override ? override->tensor != 0 : argument_of(call, name, &kind) != NULL;
}

static uint32_t tensor_named(qf_pt2_call *call, const char *name) {
    const qf_pt2_binding *binding = qf_pt2_lookup(call->import, call->scope, name);
    if (binding && binding->tensor) return binding->tensor;
    (void)qf_pt2_fault(call, QF_ERROR_VERIFY, "%s reads the tensor '%s', which no node before it defines", call->target,
                       name);
    return 0;
}

/* {"name": ...}, or an optional one {"as_tensor": {"name": ...}}, {"as_none": true}. */
static bool tensor_item(qf_pt2_call *call, const json_t *item, uint32_t *out) {
    const char *name = qf_pt2_name_of(item);
    *out = *name ? tensor_named(call, name) : 0;
    return *out || !*name;
}

uint32_t qf_pt2_tensor_argument(qf_pt2_call *call, const char *name) {
    const char *kind;
    const qf_pt2_override *override = override_of(call, name);
    if (override) return override->tensor;
    const json_t *value = argument_of(call, name, &kind);
    if (!value || (strcmp(kind, "as_tensor") != 0 && strcmp(kind, "as_optional_tensor") != 0)) return 0;
    uint32_t tensor;
    return tensor_item(call, value, &tensor) ? tensor : 0;
}

qf_value qf_pt2_in(qf_pt2_call *call, const char *name) {
    uint32_t tensor = qf_pt2_tensor_argument(call, name);
    return tensor ? qf_pt2_read(call, tensor) : (qf_value){0};
}

static bool read_list(qf_pt2_call *call, const json_t *list, uint32_t **out, uint32_t *out_count) {
    size_t count = json_array_size(list);
    if (count > QF_PT2_MAX_ITEMS) {
        (void)qf_pt2_fault(call, QF_ERROR_LIMIT, "%s: a list of %zu tensors; the limit is %d", call->target, count,
                           QF_PT2_MAX_ITEMS);
        return false;
    }
    *out = QF_ARENA_NEW(&call->import->scratch, uint32_t, count + 1);
    *out_count = (uint32_t)count;
    bool good = *out != NULL;
    for (size_t i = 0; good && i < count; i++) good = tensor_item(call, json_array_get(list, i), &(*out)[i]);
    if (!good) call->import->failed = true;
    return good;
}

bool qf_pt2_tensors(qf_pt2_call *call, const char *name, uint32_t **out, uint32_t *out_count) {
    const char *kind;
    const json_t *list = argument_of(call, name, &kind);
    return json_is_array(list) && read_list(call, list, out, out_count);
}

bool qf_pt2_tensors_of(qf_pt2_call *call, const json_t *argument, uint32_t **out, uint32_t *out_count) {
    const char *kind;
    const json_t *value = qf_pt2_union(qf_pt2_get(argument, "arg"), &kind);
    *out_count = 0;
    if (!value) return true;
    if (strcmp(kind, "as_tensors") == 0 || strcmp(kind, "as_optional_tensors") == 0)
        return read_list(call, value, out, out_count);
    if (strcmp(kind, "as_tensor") != 0 && strcmp(kind, "as_optional_tensor") != 0) return true;
    *out = QF_ARENA_NEW(&call->import->scratch, uint32_t, 1);
    *out_count = 1;
    return *out && tensor_item(call, value, *out);
}

/* --- numbers --- */
bool qf_pt2_is_number(const qf_pt2_call *call, const char *name) {
    const char *kind;
    return argument_of(call, name, &kind) && (strcmp(kind, "as_int") == 0 || strcmp(kind, "as_float") == 0 ||
                                              strcmp(kind, "as_bool") == 0 || strcmp(kind, "as_sym_int") == 0);
}

/* {"as_name": ...} */
static bool is_named(const char *kind, const json_t *value) {
    return (strcmp(kind, "as_sym_int") == 0 || strcmp(kind, "as_sym_float") == 0) && qf_pt2_get(value, "as_name");
}

bool qf_pt2_is_symbolic(const qf_pt2_call *call, const char *name) {
    const char *kind;
    const json_t *value = argument_of(call, name, &kind);
    return value && is_named(kind, value);
}

/* The number in {"as_int": n} or {"as_float": n} of a symbolic argument, or the argument itself. */
static const json_t *plain_number(const qf_pt2_call *call, const char *kind, const json_t *value) {
    if (!value) return NULL;
    if (is_named(kind, value)) call->import->unread_number = true;
    const json_t *number = qf_pt2_get(value, "as_int");
    if (!number) number = qf_pt2_get(value, "as_float");
    return number ? number : value;
}

double qf_pt2_number(const qf_pt2_call *call, const char *name, double otherwise) {
    const char *kind;
    const json_t *value = argument_of(call, name, &kind);
    value = plain_number(call, kind, value);
    if (json_is_number(value)) return json_number_value(value);
    if (json_is_boolean(value)) return json_is_true(value);
    const char *text = qf_pt2_text(value);
    if (strcmp(text, "Infinity") == 0) return INFINITY;
    if (strcmp(text, "-Infinity") == 0) return -INFINITY;
    if (strcmp(text, "NaN") == 0) return NAN;
    return otherwise;
}

int64_t qf_pt2_int(const qf_pt2_call *call, const char *name, int64_t otherwise) {
    const char *kind;
    const json_t *value = argument_of(call, name, &kind);
    value = plain_number(call, kind, value);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

bool qf_pt2_bool(const qf_pt2_call *call, const char *name, bool otherwise) {
    const char *kind;
    const json_t *value = argument_of(call, name, &kind);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

const char *qf_pt2_string(const qf_pt2_call *call, const char *name, const char *otherwise) {
    const char *kind;
    const json_t *value = argument_of(call, name, &kind);
    return json_is_string(value) ? json_string_value(value) : otherwise;
}

/* An integer, {"as_int": n} or {"as_name": "s"}. */
static bool read_dim(qf_pt2_call *call, const json_t *value, qf_dim *out) {
    const json_t *number = json_is_integer(value) ? value : qf_pt2_get(value, "as_int");
    *out = (qf_dim){0};
    if (json_is_integer(number)) {
        *out = qf_pt2_constant(call, json_integer_value(number));
    } else {
        const char *name = qf_pt2_text(qf_pt2_get(value, "as_name"));
        const qf_pt2_binding *binding = *name ? qf_pt2_lookup(call->import, call->scope, name) : NULL;
        if (binding) *out = binding->dim;
        if (*name && !out->id)
            (void)qf_pt2_fault(call, QF_ERROR_VERIFY, "%s reads the number '%s', which no node before it defines",
                               call->target, name);
    }
    return out->id != 0;
}

bool qf_pt2_dim(qf_pt2_call *call, const char *name, qf_dim *out) {
    const char *kind;
    const json_t *value = argument_of(call, name, &kind);
    return value && (strcmp(kind, "as_int") == 0 || strcmp(kind, "as_sym_int") == 0) && read_dim(call, value, out);
}

bool qf_pt2_dims(qf_pt2_call *call, const char *name, qf_dim *out, uint32_t limit, uint32_t *out_count) {
    const char *kind;
    const json_t *value = argument_of(call, name, &kind);
    if (!value) return false;
    if (!json_is_array(value)) {
        *out_count = 1;
        return limit && qf_pt2_dim(call, name, out);
    }
    size_t count = json_array_size(value);
    if (count > limit) return false;
    for (size_t i = 0; i < count; i++)
        if (!read_dim(call, json_array_get(value, i), &out[i])) return false;
    *out_count = (uint32_t)count;
    return true;
}

bool qf_pt2_sizes(qf_pt2_call *call, const char *name, qf_dim *out, uint32_t limit, uint32_t *out_count) {
    if (limit < call->complex || !qf_pt2_dims(call, name, out, limit - call->complex, out_count)) return false;
    if (call->complex) out[(*out_count)++] = qf_pt2_constant(call, 2);
    return true;
}

bool qf_pt2_ints(qf_pt2_call *call, const char *name, int64_t *out, uint32_t limit, uint32_t *out_count) {
    qf_dim dims[QF_MAX_RANK * 2];
    if (limit > QF_COUNT_OF(dims)) limit = QF_COUNT_OF(dims);
    if (!qf_pt2_dims(call, name, dims, limit, out_count)) return false;
    for (uint32_t i = 0; i < *out_count; i++)
        if (!qf_dim_is_constant(call->import->context, dims[i], &out[i])) return false;
    return true;
}

bool qf_pt2_dtype_argument(const qf_pt2_call *call, const char *name, qf_dtype otherwise, qf_dtype *out) {
    const char *kind;
    const json_t *value = argument_of(call, name, &kind);
    *out = json_is_integer(value) ? qf_pt2_dtype(json_integer_value(value)) : otherwise;
    return *out != QF_DTYPE_NONE;
}

/* --- axes --- */
bool qf_pt2_axis(qf_pt2_call *call, int64_t axis, uint32_t rank, uint32_t *out) {
    if (call->complex && rank) rank--;
    int64_t axes = rank ? rank : 1, wrapped = axis < 0 ? axis + axes : axis;
    if (wrapped < 0 || wrapped >= axes) {
        (void)qf_pt2_fault(call, QF_ERROR_VERIFY, "%s: expected an axis from %lld to %lld, found %lld", call->target,
                           -(long long)axes, (long long)axes - 1, (long long)axis);
        return false;
    }
    *out = (uint32_t)wrapped;
    return true;
}

bool qf_pt2_names_no_axes(qf_pt2_call *call, const char *name) {
    qf_dim dims[1];
    uint32_t count;
    return qf_pt2_dims(call, name, dims, 1, &count) && count == 0;
}

bool qf_pt2_read_axes(qf_pt2_call *call, const char *name, uint32_t rank, qf_pt2_axes *out) {
    int64_t values[QF_MAX_RANK * 2];
    uint32_t count = 0;
    bool seen[QF_MAX_RANK] = {false}, all = !qf_pt2_has(call, name);
    *out = (qf_pt2_axes){.count = 0};
    uint32_t own = rank - (call->complex && rank);
    if (!all && !qf_pt2_ints(call, name, values, QF_MAX_RANK, &count)) {
        (void)qf_pt2_fault(call, QF_ERROR_VERIFY, "%s: expected at most %d axes as '%s'", call->target, QF_MAX_RANK,
                           name);
        return false;
    }
    if (count == 0) all = true; /* an empty list means every axis */
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis;
        if (!qf_pt2_axis(call, values[i], rank, &axis)) return false;
        seen[axis] = true;
    }
    for (uint32_t axis = 0; axis < own && axis < QF_MAX_RANK; axis++)
        if (all || seen[axis]) out->items[out->count++] = axis;
    return true;
}

/* --- outcomes --- */
bool qf_pt2_wants(const qf_pt2_call *call, uint32_t output) {
    return output < call->output_count && *call->output_names[output];
}

qf_pt2_outcome qf_pt2_done(qf_pt2_call *call, qf_value first) {
    if (!first.id || call->import->failed) {
        call->import->failed = true;
        return QF_PT2_FAILED;
    }
    if (call->output_count) call->outputs[0] = first;
    return QF_PT2_MAPPED;
}

qf_pt2_outcome qf_pt2_decline(qf_pt2_call *call, const char *reason) {
    call->reason = reason;
    return call->import->failed ? QF_PT2_FAILED : QF_PT2_DECLINED;
}
