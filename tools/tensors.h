/* Owns: tensors of the program: files in and out, random ones, comparison.
 * Does not own: the formats' details (npy.c; frontends/onnx for .pb).
 * Next: tensors.c. */
#ifndef QF_TOOLS_TENSORS_H
#define QF_TOOLS_TENSORS_H

#include "tools/tool.h"

int64_t tensor_count(const qf_tensor *tensor); /* elements */

/* Zeroed row-major memory for the tensor's dtype and dims, by malloc; false after a message. Freed by tensor_free. */
bool tensor_allocate(qf_tool *tool, qf_tensor *tensor);
void tensor_free(qf_tensor *tensor);

/* By extension: .npy, or .pb (ONNX TensorProto). False after a message. */
bool tensor_read(qf_tool *tool, const char *path, qf_tensor *out);
bool tensor_write_npy(qf_tool *tool, const char *path, const qf_tensor *tensor);
/* npy.c */
bool npy_parse(qf_tool *tool, const char *path, const char *data, size_t size, qf_tensor *out);

/* `folder`/`stem`_<index>.pb or .npy, whichever exists; false when neither does (nothing is said). */
bool tensor_path(const char *folder, const char *stem, uint32_t index, char *out, size_t size);
/* Converts floats to floats, and integers and booleans to one another, in place to `dtype` (f32 files hold bf16, for
 * one). False after a message. */
bool tensor_convert(qf_tool *tool, qf_tensor *tensor, qf_dtype dtype);

/* Reproducible by seed: floats about normal with deviation 0.5, integers 0 or 1, booleans. */
void tensor_randomise(qf_tensor *tensor, uint64_t seed);

/* Integers from `first` up to, not including, `end`; `first` everywhere where there is none between. */
void tensor_randomise_integers(qf_tensor *tensor, uint64_t seed, int64_t first, int64_t end);
void tensor_set_integer(qf_tensor *tensor, int64_t index, int64_t number);

typedef struct tensor_difference {
    double relative_rms; /* |a - b| / |b|, in f64; infinite where one is NaN and the other is not */
    double largest;      /* absolute */
    uint64_t outside;    /* elements with |a - b| > absolute + relative * |b| */
    bool comparable;     /* same dims */
} tensor_difference;
tensor_difference tensor_compare(const qf_tensor *a, const qf_tensor *b, double relative, double absolute);

#endif
