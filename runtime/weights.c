/* Owns: mapping of weight files, and the check that they lie under the allowed folder.
 * Does not own: what the bytes mean.
 * Next: weights.h. */
#define _XOPEN_SOURCE 700 /* realpath */

#include "runtime/weights.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#ifndef PATH_MAX
#define PATH_MAX 4096
#endif

qf_status qf_weights_open(qf_context *context, const char *root, qf_weights *out_weights) {
    *out_weights = (qf_weights){.context = context};
    if (!root) return QF_OK;
    char resolved[PATH_MAX];
    qf_position position = {.location = root};
    if (!realpath(root, resolved))
        return qf_fail(context, QF_ERROR_NOT_FOUND, &position, "the folder of weights cannot be used: %s",
                       strerror(errno));
    size_t size = strlen(resolved) + 1;
    out_weights->root = qf_allocate(context, size);
    if (!out_weights->root) return QF_ERROR_OUT_OF_MEMORY;
    memcpy(out_weights->root, resolved, size);
    out_weights->root_size = size;
    return QF_OK;
}

void qf_weights_close(qf_weights *weights) {
    for (uint32_t i = 0; i < weights->file_count; i++) {
        qf_mapped_file *file = &weights->files[i];
        qf_unmap_file(&file->mapping);
        qf_release(weights->context, file->name, strlen(file->name) + 1);
    }
    if (weights->context) QF_FREE_ITEMS(weights->context, weights->files, weights->file_capacity);
    if (weights->root) qf_release(weights->context, weights->root, weights->root_size);
    *weights = (qf_weights){0};
}

uint64_t qf_weights_mapped_bytes(const qf_weights *weights) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < weights->file_count; i++) sum += weights->files[i].mapping.size;
    return sum;
}

/* A relative name without ".." as a component. */
static bool stays_below(const char *name) {
    if (name[0] == '/' || !name[0]) return false;
    for (const char *part = name; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
        if (part[0] == '.' && part[1] == '.' && (part[2] == '/' || !part[2])) return false;
    return true;
}

/* The file's real path, if it lies under the root. */
static qf_status resolve(const qf_weights *weights, const qf_position *position, const char *name, char *out_path) {
    char path[PATH_MAX];
    size_t root = strlen(weights->root), length = strlen(name);
    if (!stays_below(name) || root + 1 + length >= sizeof path)
        return qf_fail(weights->context, QF_ERROR_INVALID_ARGUMENT, position,
                       "weights in \"%s\": expected a relative name below the folder of weights", name);
    memcpy(path, weights->root, root);
    path[root] = '/';
    memcpy(path + root + 1, name, length + 1);
    if (!realpath(path, out_path))
        return qf_fail(weights->context, QF_ERROR_NOT_FOUND, position, "weights in \"%s\" under %s: %s", name,
                       weights->root, strerror(errno));
    bool slash = root > 0 && weights->root[root - 1] == '/';
    if (strncmp(out_path, weights->root, root) == 0 && (slash || out_path[root] == '/')) return QF_OK;
    return qf_fail(weights->context, QF_ERROR_INVALID_ARGUMENT, position,
                   "weights in \"%s\" lead out of %s; allow a folder that holds the file itself", name, weights->root);
}

static qf_status add_file(qf_weights *weights, const qf_position *position, const char *name,
                          qf_mapped_file **out_file) {
    char path[PATH_MAX];
    qf_status status = resolve(weights, position, name, path);
    if (status != QF_OK) return status;
    if (!QF_GROW(weights->context, weights->files, weights->file_capacity, (uint64_t)weights->file_count + 1))
        return QF_ERROR_OUT_OF_MEMORY;
    qf_mapped_file file = {.name = qf_allocate(weights->context, strlen(name) + 1)};
    if (!file.name) return QF_ERROR_OUT_OF_MEMORY;
    memcpy(file.name, name, strlen(name) + 1);
    status = qf_map_file(weights->context, path, UINT64_MAX, position->location, &file.mapping);
    if (status != QF_OK) {
        qf_release(weights->context, file.name, strlen(name) + 1);
        return status;
    }
    weights->files[weights->file_count++] = file;
    *out_file = &weights->files[weights->file_count - 1];
    return QF_OK;
}

qf_status qf_weights_find(qf_weights *weights, const char *parameter, const char *file, uint64_t offset, uint64_t size,
                          const void **out_data) {
    qf_position position = {.location = parameter};
    if (!file[0])
        return qf_fail(weights->context, QF_ERROR_NOT_FOUND, &position,
                       "parameter \"%s\" has no bytes: bind it by name", parameter);
    if (!weights->root)
        return qf_fail(weights->context, QF_ERROR_NOT_FOUND, &position,
                       "parameter \"%s\" lies in file \"%s\": bind it by name, or set weights_root to allow files",
                       parameter, file);
    qf_mapped_file *found = NULL;
    for (uint32_t i = weights->file_count; i-- > 0 && !found;)
        if (strcmp(weights->files[i].name, file) == 0) found = &weights->files[i];
    qf_status status = found ? QF_OK : add_file(weights, &position, file, &found);
    if (status != QF_OK) return status;
    if (offset > found->mapping.size || size > found->mapping.size - offset)
        return qf_fail(weights->context, QF_ERROR_IO, &position,
                       "parameter \"%s\" takes %" PRIu64 " bytes at %" PRIu64 " of \"%s\", which has %" PRIu64,
                       parameter, size, offset, file, found->mapping.size);
    *out_data = found->mapping.data ? found->mapping.data + offset : (const uint8_t *)"";
    return QF_OK;
}
