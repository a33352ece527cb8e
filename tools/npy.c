/* Owns: NumPy's .npy format, versions 1 to 3, C order.
 * Does not own: other tensor files (tensors.c).
 * Next: tensors.h. */
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

/* The text after `key` in the header's Python dictionary, or NULL. */
static const char *value_of(const char *header, const char *key) {
    const char *at = strstr(header, key);
    at = at ? strchr(at, ':') : NULL;
    if (!at) return NULL;
    at++;
    while (*at == ' ') at++;
    return at;
}

static bool read_shape(const char *at, qf_tensor *out) {
    if (*at != '(') return false;
    for (at++; *at && *at != ')';) {
        char *end;
        long long extent = strtoll(at, &end, 10);
        if (end == at || extent < 0 || out->rank == QF_TENSOR_MAX_RANK) return false;
        out->dims[out->rank++] = extent;
        at = end;
        while (*at == ' ' || *at == ',') at++;
    }
    return *at == ')';
}

bool npy_parse(qf_tool *tool, const char *path, const char *data, size_t size, qf_tensor *out) {
    if (size < 12 || memcmp(data, "\x93NUMPY", 6) != 0) return fault(tool, path, "the magic \\x93NUMPY");
    const unsigned char *bytes = (const unsigned char *)data;
    size_t prefix = bytes[6] == 1 ? 10 : 12;
    size_t length = bytes[8] | (size_t)bytes[9] << 8;
    if (bytes[6] != 1) length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (length > size - prefix || length > 65536) return fault(tool, path, "a header within the file");
    char *header = calloc(1, length + 1);
    if (!header) return qf_record(tool->context, QF_ERROR_OUT_OF_MEMORY) == QF_OK;
    memcpy(header, data + prefix, length);
    const char *descr = value_of(header, "'descr'"), *order = value_of(header, "'fortran_order'"),
               *shape = value_of(header, "'shape'");
    memset(out, 0, sizeof *out);
    for (size_t i = 0; descr && i < QF_COUNT_OF(codes); i++)
        if (strncmp(descr + 1, codes[i].descr, 3) == 0) out->dtype = codes[i].dtype;
    bool c_order = order && strncmp(order, "False", 5) == 0, shaped = shape && read_shape(shape, out);
    free(header);
    if (!out->dtype) return fault(tool, path, "little-endian f2, f4, f8, i1, u1, i4, i8 or b1 elements");
    if (!c_order) return fault(tool, path, "C order");
    if (!shaped) return fault(tool, path, "a shape of at most 8 axes");
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
