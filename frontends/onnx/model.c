/* Owns: mapping files, scanning and unpacking protobuf messages with the context's memory.
 * Does not own: the scan (scan.c), what the messages mean (import.c).
 * Next: scan.c, import.c. */
#include "frontends/onnx/model.h"

#include <string.h>

qf_onnx_storage *qf_onnx_storage_create(qf_context *context) {
    qf_onnx_storage *storage = qf_allocate(context, sizeof *storage);
    if (!storage) return NULL;
    storage->context = context;
    storage->arena.context = context;
    return storage;
}

void qf_onnx_storage_destroy(qf_context *context, void *object) {
    qf_onnx_storage *storage = object;
    if (!storage) return;
    for (uint32_t i = 0; i < storage->mapping_count; i++) {
        qf_onnx_mapping *mapping = &storage->mappings[i];
        qf_unmap_file(&mapping->file);
        qf_release(context, mapping->path, mapping->path_size);
    }
    QF_FREE_ITEMS(context, storage->mappings, storage->mapping_capacity);
    qf_arena_destroy(&storage->arena);
    qf_release(context, storage, sizeof *storage);
}

qf_status qf_onnx_storage_map(qf_onnx_storage *storage, const char *path, uint64_t max_bytes, const char *location,
                              const qf_onnx_mapping **out_mapping) {
    qf_context *context = storage->context;
    for (uint32_t i = 0; i < storage->mapping_count; i++) {
        *out_mapping = &storage->mappings[i];
        if (strcmp(storage->mappings[i].path, path) == 0) return QF_OK;
    }
    if (!QF_GROW(context, storage->mappings, storage->mapping_capacity, (uint64_t)storage->mapping_count + 1))
        return QF_ERROR_OUT_OF_MEMORY;
    qf_onnx_mapping *mapping = &storage->mappings[storage->mapping_count];
    memset(mapping, 0, sizeof *mapping);
    mapping->path_size = strlen(path) + 1;
    mapping->path = qf_allocate(context, mapping->path_size);
    if (!mapping->path) return QF_ERROR_OUT_OF_MEMORY;
    memcpy(mapping->path, path, mapping->path_size);
    storage->mapping_count++;
    *out_mapping = mapping;
    return qf_map_file(context, path, max_bytes, location, &mapping->file);
}

/* protobuf-c frees piecemeal only what it gives up itself; everything else goes with the arena. */
static void *arena_allocate(void *user, size_t size) {
    return qf_arena_allocate(user, size);
}

static void arena_free(void *user, void *pointer) {
    (void)user;
    (void)pointer;
}

static ProtobufCMessage *unpack(qf_context *context, qf_arena *arena, const ProtobufCMessageDescriptor *descriptor,
                                const char *name, const void *data, size_t size) {
    ProtobufCAllocator allocator = {.alloc = arena_allocate, .free = arena_free, .allocator_data = arena};
    static const uint8_t nothing = 0;
    size_t before = arena->total;
    ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, &allocator, size, data ? data : &nothing);
    if (message) return message;
    qf_position position = {.location = name};
    /* protobuf-c does not say why. Memory that ran out was recorded by the arena. */
    if (qf_context_status(context) != QF_ERROR_OUT_OF_MEMORY)
        (void)qf_fail(context, QF_ERROR_PARSE, &position,
                      "expected the message %s, found bytes that do not fit its schema (after %zu bytes of messages)",
                      descriptor->name, arena->total - before);
    return NULL;
}

qf_status qf_onnx_model_unpack(qf_onnx_model *model, qf_context *context, const char *name, const void *data,
                               uint64_t size, uint64_t max_nodes) {
    model->context = context;
    model->arena.context = context;
    model->scan = (qf_onnx_scan){.context = context, .name = name, .data = data, .size = size, .max_nodes = max_nodes};
    qf_status status = qf_onnx_scan_bytes(&model->scan, &onnx__model_proto__descriptor);
    if (status != QF_OK) return status;
    ProtobufCMessage *message = NULL;
    if (model->scan.cut_count) {
        qf_buffer skeleton = {.context = context};
        qf_onnx_scan_skeleton(&model->scan, &skeleton);
        if (!skeleton.failed)
            message =
                unpack(context, &model->arena, &onnx__model_proto__descriptor, name, skeleton.data, skeleton.size);
        qf_buffer_destroy(&skeleton);
    } else {
        message = unpack(context, &model->arena, &onnx__model_proto__descriptor, name, data, (size_t)size);
    }
    model->proto = (Onnx__ModelProto *)message;
    return message ? QF_OK : qf_context_status(context);
}

void qf_onnx_model_destroy(qf_onnx_model *model) {
    if (!model->context) return;
    qf_onnx_scan_destroy(&model->scan);
    qf_arena_destroy(&model->arena);
}

ProtobufCMessage *qf_onnx_unpack(qf_context *context, qf_arena *arena, const ProtobufCMessageDescriptor *descriptor,
                                 const char *name, const void *data, uint64_t size) {
    qf_onnx_scan scan = {.context = context, .name = name, .data = data, .size = size, .max_nodes = UINT64_MAX};
    qf_status status = qf_onnx_scan_bytes(&scan, descriptor);
    qf_onnx_scan_destroy(&scan);
    return status == QF_OK ? unpack(context, arena, descriptor, name, data, (size_t)size) : NULL;
}
