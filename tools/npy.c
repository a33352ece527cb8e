/* Owns: NumPy's .npy format, versions 1 to 3, C order.
 * Does not own: other tensor files (tensors.c).
 * Next: tensors.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tensors.h"

static const struct {
    const char *descr;
    qf_dtype dtype;
} codes[] = {{"<f4", QF_F32}, {"<f2", QF_F16}, {"<f8", QF_F64}, {"|b1", QF_I1},       {"|i1", QF_I8},
             {"|u1", QF_U8},  {"<i4", QF_I32}, {"<i8", QF_I64}, {"|V1", QF_F8E4M3FN}, {"<V2", QF_BF16}};

static bool fault(qf_tool *tool, const char *path, const char *expected) {
    qf_position position = {.location = path};
    (void)qf_fail(tool->context, QF_ERROR_PARSE, &position, "not a .npy file that can be read: expected %s", expected);
    return false;
}

/* The header is a Python dictionary of three entries in any order; blanks may stand between tokens. */
typedef struct npy_header {
    const char *at;
    qf_dtype dtype;
    bool has_descr, has_order, has_shape;
} npy_header;

static bool take(npy_header *in, const char *token) {
    while (*in->at == ' ' || *in->at == '\n') in->at++;
    size_t size = strlen(token);
    if (strncmp(in->at, token, size) != 0) return false;
    in->at += size;
    return true;
}

static bool read_descr(npy_header *in) {
    for (size_t i = 0; i < QF_COUNT_OF(codes); i++) {
        char quoted[8];
        (void)snprintf(quoted, sizeof quoted, "'%s'", codes[i].descr);
        if (!take(in, quoted)) continue;
        in->dtype = codes[i].dtype;
        return true;
    }
    return false;
}

static bool read_shape(npy_header *in, qf_tensor *out) {
    if (!take(in, "(")) return false;
    while (!take(in, ")")) {
        if (*in->at < '0' || *in->at > '9' || out->rank == QF_TENSOR_MAX_RANK) return false;
        char *end;
        errno = 0;
        out->dims[out->rank++] = strtoll(in->at, &end, 10);
        in->at = end;
        if (errno) return false;
        if (!take(in, ",")) return take(in, ")");
    }
    return true;
}

/* NULL, or what was expected. */
static const char *read_header(npy_header *in, qf_tensor *out) {
    static const char dictionary[] = "a header like {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    if (!take(in, "{")) return dictionary;
    while (!take(in, "}")) {
        if (!in->has_descr && take(in, "'descr'")) {
            if (!take(in, ":") || !read_descr(in)) return "little-endian f2, f4, f8, i1, u1, i4, i8 or b1 elements";
            in->has_descr = true;
        } else if (!in->has_order && take(in, "'fortran_order'")) {
            if (!take(in, ":")) return dictionary;
            in->has_order = take(in, "False");
            if (!in->has_order) return "C order";
        } else if (!in->has_shape && take(in, "'shape'")) {
            if (!take(in, ":") || !read_shape(in, out)) return "a shape of at most 8 axes";
            in->has_shape = true;
        } else {
            return dictionary;
        }
        if (!take(in, ",") && *in->at != '}') return dictionary;
    }
    while (*in->at == ' ' || *in->at == '\n') in->at++;
    return in->has_descr && in->has_order && in->has_shape && !*in->at ? NULL : dictionary;
}

bool npy_parse(qf_tool *tool, const char *path, const char *data, size_t size, qf_tensor *out) {
    if (size < 12 || memcmp(data, "\x93NUMPY", 6) != 0) return fault(tool, path, "the magic \\x93NUMPY");
    const unsigned char *bytes = (const unsigned char *)data;
    if (bytes[6] < 1 || bytes[6] > 3) return fault(tool, path, "version 1, 2 or 3");
    size_t prefix = bytes[6] == 1 ? 10 : 12;
    size_t length = bytes[8] | (size_t)bytes[9] << 8;
    if (bytes[6] != 1) length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (length > size - prefix || length > 65536) return fault(tool, path, "a header within the file");
    char *text = calloc(1, length + 1);
    if (!text) return qf_record(tool->context, QF_ERROR_OUT_OF_MEMORY) == QF_OK;
    memcpy(text, data + prefix, length);
    memset(out, 0, sizeof *out);
    npy_header in = {.at = text};
    const char *expected = strlen(text) == length ? read_header(&in, out) : "a header without NUL";
    free(text);
    if (expected) return fault(tool, path, expected);
    out->dtype = in.dtype;
    if (qf_tensor_bytes(out) != size - prefix - length)
        return fault(tool, path, "as many bytes as dtype and shape ask for");
    if (!tensor_allocate(tool, out)) return false;
    memcpy(out->data, data + prefix + length, size - prefix - length);
    return true;
}

bool tensor_write_npy(qf_tool *tool, const char *path, const qf_tensor *tensor) {
    const char *descr = NULL;
    for (size_t i = 0; i < QF_COUNT_OF(codes); i++)
        if (codes[i].dtype == tensor->dtype) descr = codes[i].descr;
    if (!descr) descr = "|V1";
    char header[512];
    int used = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (uint32_t i = 0; i < tensor->rank; i++)
        used += snprintf(header + used, sizeof header - (size_t)used, "%lld,%s", (long long)tensor->dims[i],
                         i + 1 < tensor->rank ? " " : "");
    used += snprintf(header + used, sizeof header - (size_t)used, "), }");
    size_t length = ((size_t)used + 1 + 10 + 63) / 64 * 64 - 10, bytes = (size_t)qf_tensor_bytes(tensor);
    char *file = malloc(10 + length + bytes);
    if (!file) return qf_record(tool->context, QF_ERROR_OUT_OF_MEMORY) == QF_OK;
    memset(file, ' ', 10 + length);
    static const unsigned char magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
    memcpy(file, magic, sizeof magic);
    file[8] = (char)(length & 255);
    file[9] = (char)(length >> 8);
    memcpy(file + 10, header, (size_t)used);
    file[10 + length - 1] = '\n';
    if (bytes) memcpy(file + 10 + length, tensor->data, bytes);
    bool written = tool_write_file(tool, path, file, 10 + length + bytes);
    free(file);
    return written;
}
