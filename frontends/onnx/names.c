/* Owns: which value a name means in which scope, and the types that a model declares.
 * Does not own: the walk over nodes (import.c).
 * Next: import.c. */
#include <string.h>

#include "frontends/onnx/import.h"

/* --- names --- */
typedef struct binding_key {
    uint32_t scope;
    qf_string name;
} binding_key;

static bool binding_equal(const void *owner, uint32_t id, const void *key) {
    const qf_onnx_binding *binding = &((const qf_onnx_import *)owner)->bindings[id];
    const binding_key *wanted = key;
    return binding->scope == wanted->scope && binding->name.id == wanted->name.id;
}

static uint64_t binding_hash(const binding_key *key) {
    return qf_hash_mix(key->scope, key->name.id);
}

qf_value qf_onnx_lookup(qf_onnx_import *import, const qf_onnx_scope *scope, const char *name, bool *out_known) {
    binding_key key = {scope->id, qf_intern_c(import->context, name)};
    uint32_t id = 0;
    while (key.name.id) {
        key.scope = scope->id;
        id = qf_index_find(&import->binding_index, binding_hash(&key), binding_equal, import, &key);
        if (id || !scope->sees_parent) break;
        scope = scope->parent;
    }
    *out_known = id != 0;
    return id ? import->bindings[id].value : (qf_value){0};
}

bool qf_onnx_bind(qf_onnx_import *import, const qf_onnx_scope *scope, const char *name, qf_value value) {
    binding_key key = {scope->id, qf_intern_c(import->context, name)};
    if (!key.name.id) return false;
    if (qf_index_find(&import->binding_index, binding_hash(&key), binding_equal, import, &key)) {
        qf_position position = {.location = import->name};
        (void)qf_fail(import->context, QF_ERROR_VERIFY, &position, "value '%s%s' is defined twice", scope->path, name);
        return false;
    }
    if (!import->binding_count) import->binding_count = 1;
    if (!QF_GROW(import->context, import->bindings, import->binding_capacity, (uint64_t)import->binding_count + 1) ||
        !qf_index_add(import->context, &import->binding_index, binding_hash(&key), import->binding_count))
        return false;
    import->bindings[import->binding_count++] = (qf_onnx_binding){key.scope, key.name, value};
    return true;
}

/* --- types --- */
/* dim_param is a name or, from some exporters, an expression over names. */
static qf_dim symbolic_dim(qf_context *context, const char *text) {
    bool plain = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.") == strlen(text);
    if (!plain && (!strchr(text, '-') || strstr(text, " - "))) {
        qf_text rest = qf_text_of(text);
        qf_dim dim = qf_dim_parse(context, &rest);
        if (dim.id && rest.size == 0) return dim;
    }
    return qf_dim_named(context, qf_text_of(text));
}

static qf_dim dim_of(qf_context *context, const Onnx__TensorShapeProto__Dimension *dimension) {
    switch (dimension->value_case) {
    case ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE:
        if (dimension->dim_value >= 0) return qf_dim_constant(context, dimension->dim_value);
        break;
    case ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM:
        if (*qf_onnx_text(dimension->dim_param)) return symbolic_dim(context, dimension->dim_param);
        break;
    default: break;
    }
    return qf_dim_fresh(context, "unknown");
}

qf_type qf_onnx_type(qf_onnx_import *import, const Onnx__TypeProto *proto, const char *name) {
    qf_context *context = import->context;
    if (!proto || proto->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE || !proto->tensor_type)
        return qf_type_tensor(context, QF_DTYPE_NONE, NULL, QF_UNRANKED);
    qf_dtype dtype = qf_onnx_dtype(proto->tensor_type->elem_type);
    const Onnx__TensorShapeProto *shape = proto->tensor_type->shape;
    if (!shape) return qf_type_tensor(context, dtype, NULL, QF_UNRANKED);
    qf_dim dims[QF_MAX_RANK];
    if (shape->n_dim > QF_MAX_RANK) {
        qf_position position = {.location = import->name};
        (void)qf_fail(context, QF_ERROR_LIMIT, &position, "value '%s' has rank %zu; at most %d is supported", name,
                      shape->n_dim, QF_MAX_RANK);
        return (qf_type){0};
    }
    for (size_t i = 0; i < shape->n_dim; i++) {
        dims[i] = dim_of(context, shape->dim[i]);
        if (!dims[i].id) return (qf_type){0};
    }
    return qf_type_tensor(context, dtype, dims, (uint32_t)shape->n_dim);
}

static bool info_equal(const void *owner, uint32_t id, const void *key) {
    return strcmp(qf_onnx_text(((const qf_onnx_import *)owner)->infos[id]->name), key) == 0;
}

bool qf_onnx_add_infos(qf_onnx_import *import, Onnx__ValueInfoProto **infos, size_t count) {
    if (!import->info_count) import->info_count = 1;
    if (!QF_GROW(import->context, import->infos, import->info_capacity, import->info_count + (uint64_t)count))
        return false;
    for (size_t i = 0; i < count; i++) {
        const char *name = qf_onnx_text(infos[i]->name);
        uint64_t hash = qf_hash_bytes(name, strlen(name), 3);
        if (!infos[i]->type) continue;
        import->infos[import->info_count] = infos[i];
        if (qf_index_find(&import->info_index, hash, info_equal, import, name)) continue;
        if (!qf_index_add(import->context, &import->info_index, hash, import->info_count)) return false;
        import->info_count++;
    }
    return true;
}

qf_type qf_onnx_declared_type(qf_onnx_import *import, const char *name) {
    uint32_t id = qf_index_find(&import->info_index, qf_hash_bytes(name, strlen(name), 3), info_equal, import, name);
    return id && import->infos[id]->type ? qf_onnx_type(import, import->infos[id]->type, name) : (qf_type){0};
}
