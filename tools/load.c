/* Owns: reading and writing files for the program; telling graph formats apart.
 * Does not own: the formats (ir/text.h, qfuse/onnx.h, qfuse/pt2.h).
 * Next: tool.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "ir/text.h"
#include "plan/format.h"
#include "tools/tool.h"

static qf_status io_fault(qf_tool *tool, const char *path, const char *doing) {
    qf_position position = {.location = *path ? path : "''"};
    return qf_fail(tool->context, QF_ERROR_IO, &position, "%s: %s", doing, strerror(errno));
}

bool tool_has_extension(const char *path, const char *extension) {
    size_t size = strlen(path), tail = strlen(extension);
    return size > tail + 1 && path[size - tail - 1] == '.' && strcmp(path + size - tail, extension) == 0;
}

char *tool_read_stream(qf_tool *tool, FILE *file, const char *path, size_t limit, size_t *out_size) {
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
    if (strcmp(path, "-") == 0) return tool_read_stream(tool, stdin, "<stdin>", limit, out_size);
    int descriptor;
    uint64_t size;
    if (qf_open_file(tool->context, path, limit, *path ? path : "''", &descriptor, &size) != QF_OK) return NULL;
    FILE *file = fdopen(descriptor, "rb");
    if (!file) {
        (void)io_fault(tool, path, "cannot open");
        (void)close(descriptor);
        return NULL;
    }
    char *data = tool_read_stream(tool, file, path, limit, out_size);
    (void)fclose(file);
    return data;
}

bool tool_write_file(qf_tool *tool, const char *path, const void *data, size_t size) {
    if (strcmp(path, "-") == 0) return fwrite(data, 1, size, stdout) == size;
    return qf_write_file(tool->context, path, data, size) == QF_OK;
}

typedef enum file_kind { FILE_TEXT, FILE_ONNX, FILE_PT2, FILE_MLIR, FILE_PLAN } file_kind;

static bool begins_with(const char *data, size_t size, const char *start) {
    return size >= strlen(start) && memcmp(data, start, strlen(start)) == 0;
}

/* QFuse text begins with a comment or the word graph, after blanks; archives and plans with their magic; an ONNX model
 * with a protobuf tag, of which the usual first one (ir_version) is a control character. What is none of them is text
 * on standard input, where people type, and a model in a file. */
static file_kind kind_of(const char *data, size_t size, file_kind otherwise) {
    size_t at = 0;
    if (begins_with(data, size, "PK\3\4")) return FILE_PT2;
    if (begins_with(data, size, QF_PLAN_MAGIC)) return FILE_PLAN;
    if (begins_with(data, size, "ML\xefR")) return FILE_MLIR; /* bytecode */
    while (at < size && data[at] && strchr(" \t\r\n", data[at])) at++;
    if (begins_with(data + at, size - at, "//") || begins_with(data + at, size - at, "#") ||
        begins_with(data + at, size - at, "graph"))
        return FILE_TEXT;
    if (begins_with(data + at, size - at, "\"builtin.module\"") || begins_with(data + at, size - at, "module"))
        return FILE_MLIR;
    return size && data[0] == '\b' ? FILE_ONNX : otherwise;
}

/* `data` NULL: from the file. */
static qf_graph *import_onnx(qf_tool *tool, const char *path, const char *data, size_t size) {
    qf_onnx_import_options options = {.struct_size = sizeof options, .name = path};
    if (tool->options.revision && strcmp(tool->options.revision, "first") == 0)
        options.revision = QF_ONNX_REVISION_FIRST;
    options.stepwise_16bit = tool->options.onnx_stepwise;
    qf_graph *graph = NULL;
    qf_status status = data ? qf_onnx_import_memory(tool->context, data, size, &options, &graph)
                            : qf_onnx_import_file(tool->context, path, &options, &graph);
    return status == QF_OK ? graph : NULL;
}

static qf_graph *import_pt2(qf_tool *tool, const char *path, const char *data, size_t size) {
    qf_pt2_import_options options = {.struct_size = sizeof options, .name = path};
    qf_graph *graph = NULL;
    char *customs = NULL;
    if (tool->options.pt2_customs) {
        size_t customs_size;
        customs = tool_read_file(tool, tool->options.pt2_customs, (size_t)1 << 20, &customs_size);
        if (!customs) return NULL;
    }
    options.customs = customs;
    options.kv_cache = tool->options.pt2_kv_cache;
    options.page_size = tool->options.pt2_page_size > UINT32_MAX ? UINT32_MAX : (uint32_t)tool->options.pt2_page_size;
    qf_status status = data ? qf_pt2_import_memory(tool->context, data, size, &options, &graph)
                            : qf_pt2_import_file(tool->context, path, &options, &graph);
    free(customs);
    return status == QF_OK ? graph : NULL;
}

static void release_data(qf_context *context, void *data) {
    (void)context;
    free(data);
}

/* A graph of bytes that it may keep: they are freed with it, or at once where it keeps none. */
static qf_graph *graph_of_bytes(qf_tool *tool, const char *path, file_kind kind, char *data, size_t size) {
    qf_graph *graph = NULL;
    qf_position position = {.location = path};
    if (kind == FILE_TEXT)
        graph = qf_graph_parse(tool->context, (qf_text){data, size}, path);
    else if (kind == FILE_PLAN)
        (void)qf_fail(tool->context, QF_ERROR_UNSUPPORTED, &position,
                      "expected a graph, found a launch plan: `qfuse run` runs plans");
    else if (kind == FILE_MLIR)
        (void)qf_fail(tool->context, QF_ERROR_UNSUPPORTED, &position,
                      "MLIR is read from files; or `qfuse-mlir - | qfuse opt -`");
    else
        graph = kind == FILE_ONNX ? import_onnx(tool, path, data, size) : import_pt2(tool, path, data, size);
    if (!graph || kind == FILE_TEXT) {
        free(data);
        return graph;
    }
    if (qf_graph_adopt(graph, data, release_data)) return graph;
    qf_graph_destroy(graph);
    free(data);
    return NULL;
}

static qf_graph *load_graph(qf_tool *tool, const char *path) {
    if (tool_has_extension(path, "onnx")) return import_onnx(tool, path, NULL, 0);
    if (tool_has_extension(path, "pt2")) return import_pt2(tool, path, NULL, 0);
    if (tool_is_mlir(path)) return tool_load_mlir(tool, path);
    bool standard_input = strcmp(path, "-") == 0;
    size_t size;
    char *data = tool_read_file(tool, path, QF_TEXT_MAX_BYTES, &size);
    if (!data) return NULL;
    file_kind kind =
        tool_has_extension(path, "qf") ? FILE_TEXT : kind_of(data, size, standard_input ? FILE_TEXT : FILE_ONNX);
    if (standard_input || kind == FILE_TEXT || kind == FILE_PLAN)
        return graph_of_bytes(tool, standard_input ? "<stdin>" : path, kind, data, size);
    free(data); /* models are mapped, and their weights lie beside them */
    if (kind == FILE_MLIR) return tool_load_mlir(tool, path);
    return kind == FILE_PT2 ? import_pt2(tool, path, NULL, 0) : import_onnx(tool, path, NULL, 0);
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

static qf_graph *checked(qf_tool *tool, qf_graph *graph) {
    tool->sized = graph;
    if (!graph || knows_dims(tool)) return graph;
    qf_graph_destroy(graph);
    tool->sized = NULL;
    return NULL;
}

qf_graph *tool_load_graph(qf_tool *tool, const char *path) {
    return checked(tool, load_graph(tool, path));
}

/* By its name, or by its first bytes. Only regular files are opened: a pipe would wait for a writer. */
static bool is_plan_file(const char *path) {
    char start[sizeof QF_PLAN_MAGIC - 1];
    struct stat status;
    if (tool_has_extension(path, "qfplan")) return true;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode)) return false;
    FILE *file = fopen(path, "rb");
    bool is =
        file && fread(start, 1, sizeof start, file) == sizeof start && memcmp(start, QF_PLAN_MAGIC, sizeof start) == 0;
    if (file) (void)fclose(file);
    return is;
}

bool tool_load_graph_or_plan(qf_tool *tool, const char *path, qf_graph **out_graph, qf_plan **out_plan) {
    *out_graph = NULL;
    *out_plan = NULL;
    if (strcmp(path, "-") != 0) {
        if (is_plan_file(path)) return qf_plan_load(tool->context, path, out_plan) == QF_OK;
        return (*out_graph = tool_load_graph(tool, path)) != NULL;
    }
    size_t size;
    char *data = tool_read_file(tool, path, QF_TEXT_MAX_BYTES, &size);
    if (!data) return false;
    file_kind kind = kind_of(data, size, FILE_TEXT);
    if (kind != FILE_PLAN)
        return (*out_graph = checked(tool, graph_of_bytes(tool, "<stdin>", kind, data, size))) != NULL;
    qf_status status = qf_plan_from_bytes(tool->context, data, size, out_plan);
    free(data);
    return status == QF_OK;
}
