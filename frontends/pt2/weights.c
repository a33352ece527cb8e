/* Owns: what an input of the signature becomes: a constant, a parameter, or an input of the graph; its bytes.
 * Does not own: the archive (archive.c), names (tensors.c).
 * Next: archive.c. */
#include <stdio.h>
#include <string.h>

#include "frontends/pt2/import.h"

static bool weight_equal(const void *owner, uint32_t id, const void *key) {
    return strcmp(((const qf_pt2_import *)owner)->weights[id].name, key) == 0;
}

static uint64_t hash_name(const char *name) {
    return qf_hash_bytes(name, strlen(name), 21);
}

static const qf_pt2_weight *find_weight(const qf_pt2_import *import, const char *name) {
    uint32_t id = qf_index_find(&import->weight_index, hash_name(name), weight_equal, import, name);
    return id ? &import->weights[id] : NULL;
}

static qf_status add_config(qf_pt2_import *import, uint32_t which, const char *folder, const char *file) {
    qf_context *context = import->context;
    char path[1024];
    (void)snprintf(path, sizeof path, "%.700s%.200s%.50s", folder, import->model, file);
    const qf_pt2_entry *entry = qf_pt2_archive_find(&import->archive, path);
    if (!entry) return QF_OK; /* a program without any */
    const uint8_t *data;
    qf_status status = qf_pt2_archive_read(&import->archive, entry, import->options.max_json, &import->scratch, &data);
    if (status != QF_OK) return status;
    import->configs[which] = qf_pt2_json_parse(context, entry->name, data, entry->size);
    if (!import->configs[which]) return qf_context_status(context);
    const char *name;
    json_t *config;
    json_object_foreach(qf_pt2_get(import->configs[which], "config"), name, config) {
        if (!import->weight_count) import->weight_count = 1;
        if (!QF_GROW(context, import->weights, import->weight_capacity, (uint64_t)import->weight_count + 1))
            return QF_ERROR_OUT_OF_MEMORY;
        import->weights[import->weight_count] = (qf_pt2_weight){name, config, folder};
        if (!qf_index_add(context, &import->weight_index, hash_name(name), import->weight_count++))
            return QF_ERROR_OUT_OF_MEMORY;
    }
    return QF_OK;
}

qf_status qf_pt2_index_weights(qf_pt2_import *import) {
    static const char *const folders[] = {"data/weights/", "data/constants/"};
    static const char *const files[] = {"_weights_config.json", "_constants_config.json"};
    qf_status status = QF_OK;
    for (uint32_t i = 0; status == QF_OK && i < 2; i++) {
        size_t size = strlen(import->folder) + strlen(folders[i]) + 1;
        char *folder = qf_arena_allocate(&import->scratch, size);
        if (!folder) return QF_ERROR_OUT_OF_MEMORY;
        (void)snprintf(folder, size, "%s%s", import->folder, folders[i]);
        status = add_config(import, i, folder, files[i]);
    }
    return status;
}

/* --- bytes --- */
typedef struct weight_bytes {
    const uint8_t *data;
    uint64_t size;
    uint64_t file_offset;
    bool in_file;
} weight_bytes;

typedef struct strided {
    uint64_t dims[QF_MAX_RANK], strides[QF_MAX_RANK];
    uint32_t rank;
    uint64_t offset, count;
    bool contiguous;
} strided;

static bool read_size(const json_t *value, uint64_t *out) {
    const json_t *number = json_is_integer(value) ? value : qf_pt2_get(value, "as_int");
    if (!json_is_integer(number) || json_integer_value(number) < 0) return false;
    *out = (uint64_t)json_integer_value(number);
    return true;
}

/* Sizes are within 2^46 elements in all, so that no product below overflows. */
static bool read_strided(const json_t *meta, strided *out) {
    const json_t *sizes = qf_pt2_get(meta, "sizes"), *strides = qf_pt2_get(meta, "strides");
    *out = (strided){.count = 1, .contiguous = true, .rank = (uint32_t)json_array_size(sizes)};
    if (json_array_size(strides) != json_array_size(sizes) || json_array_size(sizes) > QF_MAX_RANK) return false;
    if (!read_size(qf_pt2_get(meta, "storage_offset"), &out->offset) || out->offset >> 46) return false;
    for (uint32_t i = out->rank; i-- > 0;) {
        if (!read_size(json_array_get(sizes, i), &out->dims[i]) || out->dims[i] >> 46) return false;
        if (!read_size(json_array_get(strides, i), &out->strides[i]) || out->strides[i] >> 46) return false;
        if (out->dims[i] != 1 && out->strides[i] != out->count) out->contiguous = false;
        if (out->dims[i] && out->count > ((uint64_t)1 << 46) / out->dims[i]) return false;
        out->count *= out->dims[i];
    }
    return true;
}

/* One past the last element, counted from the storage's first; UINT64_MAX where that overflows. */
static uint64_t reach(const strided *layout) {
    uint64_t last = layout->offset;
    if (!layout->count) return last;
    for (uint32_t i = 0; i < layout->rank; i++) {
        uint64_t steps = layout->dims[i] - 1;
        if (steps && layout->strides[i] > (UINT64_MAX >> 8) / steps) return UINT64_MAX;
        last += steps * layout->strides[i];
        if (last >> 56) return UINT64_MAX;
    }
    return last + 1;
}

static void gather_elements(const strided *layout, const uint8_t *data, uint64_t width, uint8_t *out) {
    uint64_t index[QF_MAX_RANK] = {0};
    for (uint64_t i = 0; i < layout->count; i++) {
        uint64_t at = layout->offset;
        for (uint32_t axis = 0; axis < layout->rank; axis++) at += index[axis] * layout->strides[axis];
        memcpy(out + i * width, data + at * width, width);
        for (uint32_t axis = layout->rank; axis-- > 0;) {
            if (++index[axis] < layout->dims[axis]) break;
            index[axis] = 0;
        }
    }
}

static qf_status damaged(qf_pt2_import *import, const char *name, const char *what) {
    qf_position position = {.location = import->name};
    return qf_fail(import->context, QF_ERROR_PARSE, &position, "weight '%s': %s", name, what);
}

/* Booleans must be 0 or 1, and elements (of 2 parts where complex) aligned and in order: otherwise a copy is made. */
static qf_status lay_out(qf_pt2_import *import, const char *name, const strided *layout, qf_dtype dtype, uint64_t parts,
                         const qf_pt2_entry *entry, const uint8_t *data, weight_bytes *out) {
    uint64_t width = qf_dtype_bytes(dtype, parts), end = reach(layout);
    if (end == UINT64_MAX || end * width > entry->size)
        return damaged(import, name, "its sizes and strides reach past the bytes that the archive holds for it");
    *out =
        (weight_bytes){.data = data + layout->offset * width, .size = layout->count * width, .in_file = entry->stored};
    out->file_offset = entry->offset + layout->offset * width;
    bool usable = layout->contiguous && (uintptr_t)out->data % width == 0;
    if (dtype == QF_I1 && layout->contiguous)
        for (uint64_t i = 0; usable && i < out->size; i++) usable = out->data[i] <= 1;
    if (usable) return QF_OK;
    uint64_t bytes = layout->count * width;
    if (layout->count > entry->size && layout->count > ((uint64_t)1 << 28))
        return damaged(import, name, "it repeats its elements by strides of 0 into more bytes than 256 MiB");
    uint8_t *copy = qf_arena_allocate(&import->storage->arena, (size_t)bytes);
    if (!copy) return QF_ERROR_OUT_OF_MEMORY;
    gather_elements(layout, data, width, copy);
    if (dtype == QF_I1)
        for (uint64_t i = 0; i < bytes; i++) copy[i] = copy[i] != 0;
    out->data = copy; /* the file still holds the same bytes where only their alignment was wrong */
    out->in_file = entry->stored && layout->contiguous && dtype != QF_I1;
    return QF_OK;
}

static qf_status read_weight(qf_pt2_import *import, const qf_pt2_weight *weight, qf_dtype dtype, bool complex,
                             weight_bytes *out) {
    const char *file = qf_pt2_text(qf_pt2_get(weight->config, "path_name"));
    char path[1200];
    strided layout;
    (void)snprintf(path, sizeof path, "%.900s%.200s", weight->folder, file);
    const qf_pt2_entry *entry = qf_pt2_archive_find(&import->archive, path);
    if (!entry) return damaged(import, weight->name, "the archive has no entry of the name that its config gives");
    if (!read_strided(qf_pt2_get(weight->config, "tensor_meta"), &layout))
        return damaged(import, weight->name, "its sizes, strides or offset are missing, negative or too large");
    const uint8_t *data;
    qf_status status = qf_pt2_archive_read(&import->archive, entry, UINT64_MAX, &import->storage->arena, &data);
    if (status != QF_OK) return status;
    return lay_out(import, weight->name, &layout, dtype, complex ? 2 : 1, entry, data, out);
}

/* --- nodes --- */
static qf_value insert_one(qf_pt2_import *import, const qf_node_spec *spec) {
    qf_node node = qf_graph_insert(import->graph, (qf_node){0}, spec);
    return node.id ? qf_node_result(import->graph, node, 0) : (qf_value){0};
}

static qf_value constant(qf_pt2_import *import, qf_type type, const weight_bytes *bytes, qf_location location) {
    qf_literal literal = {.type = type, .size = bytes->size, .data = bytes->data};
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(import->graph, QF_OP_constant, attributes);
    attributes[QF_ATTR(constant, value)].literal = &literal;
    qf_node_spec spec = {.op = QF_OP_constant, .attributes = attributes, .location = location};
    return insert_one(import, &spec);
}

/* `bytes` NULL: none are known, the host binds them. */
static qf_value parameter(qf_pt2_import *import, qf_type type, const weight_bytes *bytes, const char *name,
                          qf_location location) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(import->graph, QF_OP_parameter, attributes);
    qf_string key = qf_intern_c(import->context, name);
    attributes[QF_ATTR(parameter, name)].string = key;
    if (bytes) {
        attributes[QF_ATTR(parameter, size)].integer = (int64_t)bytes->size;
        if (bytes->in_file && import->storage->path) {
            attributes[QF_ATTR(parameter, file)].string = qf_intern_c(import->context, import->storage->path);
            attributes[QF_ATTR(parameter, offset)].integer = (int64_t)bytes->file_offset;
        }
        if (!qf_graph_set_weight(import->graph, key, bytes->data, bytes->size)) return (qf_value){0};
    }
    qf_node_spec spec = {.op = QF_OP_parameter, .attributes = attributes, .result_types = &type, .location = location};
    return insert_one(import, &spec);
}

/* A buffer that is written, or an input of the program. */
static qf_value input(qf_pt2_import *import, qf_type type, const weight_bytes *bytes, const char *name) {
    qf_string key = qf_intern_c(import->context, name);
    if (bytes && !qf_graph_set_weight(import->graph, key, bytes->data, bytes->size)) return (qf_value){0};
    return qf_graph_add_input_value(import->graph, key, type);
}

qf_value qf_pt2_source_value(qf_pt2_import *import, const qf_pt2_source *source, const json_t *meta) {
    qf_type type = qf_pt2_meta_type(import, meta, source->name);
    if (!type.id) return (qf_value){0};
    if (!*source->foreign) return input(import, type, NULL, source->name);
    qf_dtype dtype = qf_type_dtype(import->context, type);
    const qf_pt2_weight *weight = find_weight(import, source->foreign);
    bool pickled = weight && json_is_true(qf_pt2_get(weight->config, "use_pickle"));
    qf_location location = qf_location_make(import->graph, qf_text_of(source->foreign), 0, 0);
    if (pickled)
        qf_pt2_warn(
            import, source->foreign,
            "the archive stores this weight as a pickle, which is not read: the host binds the bytes of it or of its "
            "parts by name before a run");
    if (!weight || pickled || dtype == QF_DTYPE_NONE)
        return source->written ? input(import, type, NULL, source->foreign)
                               : parameter(import, type, NULL, source->foreign, location);
    weight_bytes bytes;
    bool complex = qf_pt2_meta_is_complex(meta);
    if (read_weight(import, weight, dtype, complex, &bytes) != QF_OK) return (qf_value){0};
    uint64_t count, wanted = qf_type_static_count(import->context, type, &count) ? qf_dtype_bytes(dtype, count) : 0;
    const json_t *stored = qf_pt2_get(weight->config, "tensor_meta");
    if (wanted != bytes.size || qf_pt2_meta_dtype(stored) != dtype || qf_pt2_meta_is_complex(stored) != complex) {
        (void)damaged(import, source->foreign, "the graph and the weights' config give it different types");
        return (qf_value){0};
    }
    if (source->written) return input(import, type, &bytes, source->foreign);
    bool small = bytes.size <= (qf_dtype_is_float(dtype) ? QF_PT2_SMALL_BYTES : QF_PT2_SMALL_INTEGER_BYTES);
    return small ? constant(import, type, &bytes, location)
                 : parameter(import, type, &bytes, source->foreign, location);
}
