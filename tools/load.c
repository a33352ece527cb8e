/* Owns: reading and writing files for the program; telling graph formats apart.
 * Does not own: the formats (ir/text.h, qfuse/onnx.h, qfuse/pt2.h).
 * Next: tool.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "ir/text.h"
#include "tools/tool.h"

static qf_status io_fault(qf_tool *tool, const char *path, const char *doing) {
    qf_position position = {.location = *path ? path : "''"};
    return qf_fail(tool->context, QF_ERROR_IO, &position, "%s: %s", doing, strerror(errno));
}

bool tool_has_extension(const char *path, const char *extension) {
    size_t size = strlen(path), tail = strlen(extension);
    return size > tail + 1 && path[size - tail - 1] == '.' && strcmp(path + size - tail, extension) == 0;
}

static char *read_stream(qf_tool *tool, FILE *file, const char *path, size_t limit, size_t *out_size) {
    size_t size = 0, capacity = (size_t)64 << 10;
    char *data = malloc(capacity);
    while (data) {
        size_t got = fread(data + size, 1, capacity - size - 1, file);
        size += got;
        if (got == 0 && ferror(file)) {
            (void)io_fault(tool, path, "cannot read");
            free(data);
            return NULL;
        }
        if (got == 0) break;
        if (size > limit) {
            qf_position position = {.location = path};
            (void)qf_fail(tool->context, QF_ERROR_LIMIT, &position, "more than %zu bytes", limit);
            free(data);
            return NULL;
        }
        if (capacity - size > 1) continue;
        char *grown = realloc(data, capacity *= 2);
        if (!grown) free(data);
        data = grown;
    }
    if (!data) {
        (void)qf_record(tool->context, QF_ERROR_OUT_OF_MEMORY);
        return NULL;
    }
    data[size] = '\0';
    *out_size = size;
    return data;
}

char *tool_read_file(qf_tool *tool, const char *path, size_t limit, size_t *out_size) {
    if (strcmp(path, "-") == 0) return read_stream(tool, stdin, "<stdin>", limit, out_size);
    struct stat status;
    if (stat(path, &status) != 0) {
        (void)io_fault(tool, path, "cannot open");
        return NULL;
    }
    if (!S_ISREG(status.st_mode)) {
        qf_position position = {.location = path};
        (void)qf_fail(tool->context, QF_ERROR_IO, &position, "not a regular file");
        return NULL;
    }
    FILE *file = fopen(path, "rb");
    if (!file) {
        (void)io_fault(tool, path, "cannot open");
        return NULL;
    }
    char *data = read_stream(tool, file, path, limit, out_size);
    (void)fclose(file);
    return data;
}

bool tool_write_file(qf_tool *tool, const char *path, const void *data, size_t size) {
    if (strcmp(path, "-") == 0) return fwrite(data, 1, size, stdout) == size;
    return qf_write_file(tool->context, path, data, size) == QF_OK;
}

/* QFuse text begins with a comment or the word graph; an ONNX model with a protobuf tag. */
static bool looks_like_text(const char *data, size_t size) {
    size_t at = 0;
    while (at < size && strchr(" \t\r\n", data[at])) at++;
    return size - at >= 2 &&
           (strncmp(data + at, "//", 2) == 0 || data[at] == '#' || strncmp(data + at, "graph", 5) == 0);
}

static qf_graph *import_onnx(qf_tool *tool, const char *path) {
    qf_onnx_import_options options = {.struct_size = sizeof options};
    if (tool->options.revision && strcmp(tool->options.revision, "first") == 0)
        options.revision = QF_ONNX_REVISION_FIRST;
    options.stepwise_16bit = tool->options.onnx_stepwise;
    qf_graph *graph = NULL;
    return qf_onnx_import_file(tool->context, path, &options, &graph) == QF_OK ? graph : NULL;
}

static qf_graph *import_pt2(qf_tool *tool, const char *path) {
    qf_pt2_import_options options = {.struct_size = sizeof options};
    qf_graph *graph = NULL;
    char *customs = NULL;
    if (tool->options.pt2_customs) {
        size_t size;
        customs = tool_read_file(tool, tool->options.pt2_customs, (size_t)1 << 20, &size);
        if (!customs) return NULL;
    }
    options.customs = customs;
    qf_status status = qf_pt2_import_file(tool->context, path, &options, &graph);
    free(customs);
    return status == QF_OK ? graph : NULL;
}

static qf_graph *load_graph(qf_tool *tool, const char *path) {
    if (tool_has_extension(path, "onnx")) return import_onnx(tool, path);
    if (tool_has_extension(path, "pt2")) return import_pt2(tool, path);
    size_t size;
    char *data = tool_read_file(tool, path, QF_TEXT_MAX_BYTES, &size);
    if (!data) return NULL;
    qf_graph *graph = NULL;
    if (strcmp(path, "-") == 0 || tool_has_extension(path, "qf") || looks_like_text(data, size))
        graph = qf_graph_parse(tool->context, (qf_text){data, size}, strcmp(path, "-") == 0 ? "<stdin>" : path);
    else
        graph = import_onnx(tool, path);
    free(data);
    return graph;
}

/* A size for a symbol that no type has is a slip of the pen. */
static bool knows_dims(qf_tool *tool) {
    for (const char *at = tool->options.dims; at && *at; at += strcspn(at, ",") + 1) {
        qf_text name = {at, strcspn(at, "=")};
        if (!qf_dim_symbol_find(tool->context, name).id) {
            (void)qf_fail(tool->context, QF_ERROR_INVALID_ARGUMENT, NULL, "--dims: the graph has no symbol '%.*s'",
                          (int)name.size, name.data);
            return false;
        }
        if (!at[strcspn(at, ",")]) break;
    }
    return true;
}

qf_graph *tool_load_graph(qf_tool *tool, const char *path) {
    qf_graph *graph = load_graph(tool, path);
    if (!graph || knows_dims(tool)) return graph;
    qf_graph_destroy(graph);
    return NULL;
}
