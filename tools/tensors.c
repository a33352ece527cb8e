/* Owns: tensor memory, files by extension, random contents, comparison.
 * Does not own: .npy (npy.c).
 * Next: tensors.h. */
#include "tools/tensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/convert.h"
#include "frontends/onnx/tensor_file.h"

int64_t tensor_count(const qf_tensor *tensor) {
    int64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) count *= tensor->dims[i];
    return count;
}

bool tensor_allocate(qf_tool *tool, qf_tensor *tensor) {
    uint64_t bytes = qf_tensor_bytes(tensor);
    if (bytes > (uint64_t)1 << 36) {
        qf_buffer type = {.context = tool->context};
        for (uint32_t i = 0; i < tensor->rank; i++)
            qf_buffer_print(&type, "%s%lld", i ? ", " : "", (long long)tensor->dims[i]);
        (void)qf_fail(tool->context, QF_ERROR_LIMIT, NULL,
                      "a tensor %s[%s] would take more than 64 GiB; give smaller sizes (--dims)",
                      qf_dtype_name(tensor->dtype), type.data ? type.data : "");
        qf_buffer_destroy(&type);
        return false;
    }
    tensor->data = calloc(1, bytes ? (size_t)bytes : 1);
    if (!tensor->data) (void)qf_record(tool->context, QF_ERROR_OUT_OF_MEMORY);
    return tensor->data != NULL;
}

void tensor_free(qf_tensor *tensor) {
    free(tensor->data);
    tensor->data = NULL;
}

static bool read_pb(qf_tool *tool, const char *path, qf_tensor *out) {
    qf_tensor read;
    if (qf_onnx_tensor_read(tool->context, path, &read) != QF_OK) return false;
    *out = read;
    bool allocated = tensor_allocate(tool, out);
    if (allocated) memcpy(out->data, read.data, (size_t)qf_tensor_bytes(&read));
    qf_onnx_tensor_free(tool->context, &read);
    return allocated;
}

bool tensor_read(qf_tool *tool, const char *path, qf_tensor *out) {
    memset(out, 0, sizeof *out);
    if (tool_has_extension(path, "pb")) return read_pb(tool, path, out);
    if (!tool_has_extension(path, "npy")) {
        qf_position position = {.location = path};
        (void)qf_fail(tool->context, QF_ERROR_UNSUPPORTED, &position, "expected a .npy or .pb file");
        return false;
    }
    size_t size;
    char *data = tool_read_file(tool, path, (size_t)1 << 36, &size);
    bool read = data && npy_parse(tool, path, data, size, out);
    free(data);
    return read;
}

bool tensor_path(const char *folder, const char *stem, uint32_t index, char *out, size_t size) {
    static const char *const extensions[] = {"pb", "npy"};
    struct stat status;
    for (size_t i = 0; i < QF_COUNT_OF(extensions); i++) {
        if (snprintf(out, size, "%s/%s_%u.%s", folder, stem, index, extensions[i]) >= (int)size) return false;
        if (stat(out, &status) == 0) return true;
    }
    return false;
}

bool tensor_convert(qf_tool *tool, qf_tensor *tensor, qf_dtype dtype) {
    if (tensor->dtype == dtype) return true;
    if (qf_dtype_is_float(tensor->dtype) != qf_dtype_is_float(dtype)) {
        (void)qf_fail(tool->context, QF_ERROR_INVALID_ARGUMENT, NULL, "expected a tensor of %s, found one of %s",
                      qf_dtype_name(dtype), qf_dtype_name(tensor->dtype));
        return false;
    }
    qf_tensor converted = *tensor;
    converted.dtype = dtype;
    if (!tensor_allocate(tool, &converted)) return false;
    qf_convert_array(dtype, converted.data, tensor->dtype, tensor->data, tensor_count(tensor), true);
    tensor_free(tensor);
    *tensor = converted;
    return true;
}

static uint64_t next_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static double uniform(uint64_t *state) {
    return (double)(next_random(state) >> 11) * 0x1p-53;
}

void tensor_randomise(qf_tensor *tensor, uint64_t seed) {
    uint64_t state = seed * 0x2545F4914F6CDD1Du + 1;
    int64_t count = tensor_count(tensor);
    bool is_float = qf_dtype_is_float(tensor->dtype);
    for (int64_t i = 0; i < count; i++) {
        if (!is_float) {
            qf_store_i64(tensor->dtype, tensor->data, i, (int64_t)(next_random(&state) & 1));
            continue;
        }
        double sum = 0; /* of 12 uniforms: nearly normal, without libm */
        for (int k = 0; k < 12; k++) sum += uniform(&state);
        qf_store_f64(tensor->dtype, tensor->data, i, (sum - 6.0) * 0.5, true);
    }
}

void tensor_set_integer(qf_tensor *tensor, int64_t index, int64_t number) {
    qf_store_i64(tensor->dtype, tensor->data, index, number);
}

void tensor_randomise_integers(qf_tensor *tensor, uint64_t seed, int64_t first, int64_t end) {
    uint64_t state = seed * 0x2545F4914F6CDD1Du + 1;
    int64_t count = tensor_count(tensor);
    for (int64_t i = 0; i < count; i++)
        tensor_set_integer(tensor, i,
                           first + (end > first ? (int64_t)(next_random(&state) % (uint64_t)(end - first)) : 0));
}

tensor_difference tensor_compare(const qf_tensor *a, const qf_tensor *b, double relative, double absolute) {
    tensor_difference result = {.comparable = a->rank == b->rank};
    for (uint32_t i = 0; i < a->rank && result.comparable; i++) result.comparable = a->dims[i] == b->dims[i];
    if (!result.comparable) return result;
    double error = 0, norm = 0;
    for (int64_t i = 0, count = tensor_count(a); i < count; i++) {
        double x = qf_load_f64(a->dtype, a->data, i), y = qf_load_f64(b->dtype, b->data, i);
        if (x == y || (isnan(x) && isnan(y))) {
            if (isfinite(y)) norm += y * y;
            continue;
        }
        double difference = isnan(x) || isnan(y) ? INFINITY : fabs(x - y);
        if (difference > result.largest) result.largest = difference;
        result.outside += !(difference <= absolute + relative * fabs(y));
        error += difference * difference;
        if (isfinite(y)) norm += y * y;
    }
    result.relative_rms = error == 0 ? 0 : sqrt(error / norm);
    return result;
}
