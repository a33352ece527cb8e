/* Owns: finding external data: which files a model may make us read.
 * Does not own: mapping them (model.c).
 * Next: model.c. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "frontends/onnx/external.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct reference {
    const char *location;
    uint64_t offset, length;
    bool has_length;
} reference;

static bool parse_number(const char *text, uint64_t *out) {
    if (!*text || strspn(text, "0123456789") != strlen(text) || strlen(text) > 19) return false;
    *out = strtoull(text, NULL, 10);
    return true;
}

static qf_status read_reference(qf_context *context, const Onnx__TensorProto *tensor, const qf_position *position,
                                reference *out) {
    for (size_t i = 0; i < tensor->n_external_data; i++) {
        const char *key = qf_onnx_text(tensor->external_data[i]->key);
        const char *value = qf_onnx_text(tensor->external_data[i]->value);
        bool good = true;
        if (strcmp(key, "location") == 0) out->location = value;
        if (strcmp(key, "offset") == 0) good = parse_number(value, &out->offset);
        if (strcmp(key, "length") == 0) good = out->has_length = parse_number(value, &out->length);
        if (!good)
            return qf_fail(context, QF_ERROR_PARSE, position,
                           "external data of tensor '%s': expected a number of bytes as %s, found '%s'",
                           qf_onnx_text(tensor->name), key, value);
    }
    if (!out->location || !*out->location)
        return qf_fail(context, QF_ERROR_PARSE, position, "external data of tensor '%s' names no file",
                       qf_onnx_text(tensor->name));
    return QF_OK;
}

static bool has_parent_step(const char *path) {
    for (const char *step = path; *step;) {
        size_t length = strcspn(step, "/\\");
        if (length == 2 && step[0] == '.' && step[1] == '.') return true;
        step += length + (step[length] != '\0');
    }
    return false;
}

/* realpath of folder/name if that lies below realpath(folder) and exists; false otherwise. PATH_MAX bytes in `out`. */
static bool resolve_below(const char *folder, const char *name, char *out) {
    char base[PATH_MAX], joined[2 * PATH_MAX];
    if (!realpath(*folder ? folder : ".", base)) return false;
    int length = snprintf(joined, sizeof joined, "%s/%s", base, name);
    if (length < 0 || (size_t)length >= sizeof joined || !realpath(joined, out)) return false;
    size_t size = strlen(base);
    return strncmp(out, base, size) == 0 && (out[size] == '/' || (size == 1 && base[0] == '/'));
}

qf_status qf_onnx_external_bytes(qf_onnx_storage *storage, const qf_onnx_folders *folders,
                                 const Onnx__TensorProto *tensor, uint64_t size, const char *location,
                                 qf_onnx_bytes *out) {
    qf_context *context = storage->context;
    qf_position position = {.location = location};
    const char *name = qf_onnx_text(tensor->name);
    reference found = {0};
    qf_status status = read_reference(context, tensor, &position, &found);
    if (status != QF_OK) return status;
    if (found.location[0] == '/' || has_parent_step(found.location))
        return qf_fail(context, QF_ERROR_INVALID_ARGUMENT, &position,
                       "external data of tensor '%s': expected a path below the model's folder, found '%s'", name,
                       found.location);
    char path[PATH_MAX];
    bool resolved = (folders->directory && resolve_below(folders->directory, found.location, path)) ||
                    (folders->root && resolve_below(folders->root, found.location, path));
    if (!resolved)
        return qf_fail(context, QF_ERROR_NOT_FOUND, &position,
                       "external data of tensor '%s': no file '%s' in the model's folder or the allowed root%s", name,
                       found.location,
                       folders->directory || folders->root ? "" : " (none is given; pass the model's folder)");
    const qf_onnx_mapping *mapping;
    status = qf_onnx_storage_map(storage, path, UINT64_MAX, location, &mapping);
    if (status != QF_OK) return status;
    if (found.has_length && found.length != size)
        return qf_fail(context, QF_ERROR_PARSE, &position,
                       "external data of tensor '%s': its type needs %llu bytes, its length is %llu", name,
                       (unsigned long long)size, (unsigned long long)found.length);
    if (found.offset > mapping->file.size || size > mapping->file.size - found.offset)
        return qf_fail(context, QF_ERROR_PARSE, &position,
                       "external data of tensor '%s': expected %llu bytes at offset %llu, but '%s' has %llu", name,
                       (unsigned long long)size, (unsigned long long)found.offset, found.location,
                       (unsigned long long)mapping->file.size);
    *out = (qf_onnx_bytes){
        .data = mapping->file.data + found.offset, .size = size, .file = mapping->path, .offset = found.offset};
    return QF_OK;
}
