/* Owns: what the CPU kernels share: operands, faults, threads, strided copies, broadcast readers, quantised stores.
 * Does not own: how a kernel is called (kernels/kernel.h), conversions of elements (base/convert.h).
 * Next: support.c, broadcast.c. */
#ifndef QF_KERNELS_CPU_CPU_H
#define QF_KERNELS_CPU_CPU_H

#include "base/convert.h"
#include "kernels/view.h"

/* Prototypes of every kernel that ops.def names. */
/* clang-format off */
#define OP(number, name, doc, operands, results, attributes, traits, infer, cpu) qf_status qf_cpu_##cpu(const qf_kernel_call *call);
#include "spec/ops.def"
#undef OP
/* clang-format on */

/* Sums of floats run in blocks of so many terms: the terms of a block from zero in ascending order, then the block's
 * sum onto the total, blocks ascending. Products are rounded before they are added. docs/numerics.md. */
#define QF_SUM_BLOCK 64

/* --- faults --- */
qf_status qf_cpu_fail(const qf_kernel_call *call, qf_status status, const char *format, ...) QF_PRINTF(3, 4);
/* INVALID_ARGUMENT when a shape is not what the op's shape rule gives. */
#define QF_CPU_EXPECT(call, condition, what)                                                                           \
    do {                                                                                                               \
        if (condition) break;                                                                                          \
        (void)qf_cpu_fail((call), QF_ERROR_INVALID_ARGUMENT, "%s: expected %s", qf_op_name((call)->op), (what));       \
        return QF_ERROR_INVALID_ARGUMENT;                                                                              \
    } while (0)

/* --- threads --- */
#define QF_CPU_MAX_THREADS 64
typedef void (*qf_cpu_body)(void *context, uint32_t thread, int64_t first, int64_t last);
/* Runs `body` on consecutive ranges that cover [0, count), on up to thread_count threads with at least `grain` items
 * each; `thread` counts from 0. Bodies write disjoint results and never depend on how the ranges are cut. */
void qf_cpu_parallel(uint32_t thread_count, int64_t count, int64_t grain, qf_cpu_body body, void *context);
/* Threads that a kernel with scratch per thread uses: thread_count, bounded. */
uint32_t qf_cpu_thread_count(const qf_kernel_call *call);

/* --- scratch: rounded up so that every piece stays aligned to 64 bytes; SIZE_MAX when the sum overflows --- */
size_t qf_cpu_scratch_add(size_t total, uint64_t count, size_t item_size);
/* For kernels whose scratch grows with their operands; others need none. */
size_t qf_cpu_scratch_contract(const qf_kernel_call *call);
size_t qf_cpu_scratch_conv(const qf_kernel_call *call);
size_t qf_cpu_scratch_attention(const qf_kernel_call *call);
size_t qf_cpu_scratch_top_k(const qf_kernel_call *call);

/* --- moving elements (support.c) --- */
/* Copies dims[0] x .. x dims[rank - 1] elements of `bits` bits; offsets and strides count elements. */
void qf_cpu_copy_strided(uint32_t bits, uint32_t rank, const int64_t *dims, void *to, int64_t to_offset,
                         const int64_t *to_strides, const void *from, int64_t from_offset, const int64_t *from_strides);
/* `count` copies of the scalar `value` (of `bits` bits) from element `first` of `to`. */
void qf_cpu_fill(uint32_t bits, void *to, int64_t first, int64_t count, const void *value);
/* One run of consecutive elements; 4-bit elements may start in the middle of a byte. */
void qf_cpu_copy_run(uint32_t bits, void *to, int64_t to_offset, const void *from, int64_t from_offset, int64_t count);

/* --- reading a broadcast operand in the order of the result (broadcast.c) --- */
typedef struct qf_reader {
    const qf_view *view;
    uint32_t rank; /* of the collapsed loops; innermost last */
    int64_t dims[QF_MAX_RANK], strides[QF_MAX_RANK];
} qf_reader;
/* False when the operand does not broadcast to `shape`. */
bool qf_reader_start(qf_reader *reader, const qf_view *operand, const qf_view *shape);
void qf_reader_f32(const qf_reader *reader, int64_t first, int64_t count, float *out);
void qf_reader_f64(const qf_reader *reader, int64_t first, int64_t count, double *out);
void qf_reader_i64(const qf_reader *reader, int64_t first, int64_t count, int64_t *out);

/* --- quantisation (quantise.c) --- */
/* How a scalar is quantised: the op `quantize`, and the same thing at the end of other kernels. */
typedef struct qf_quantiser {
    qf_dtype dtype, compute;
    int64_t mode; /* quantize_mode */
    bool saturate;
} qf_quantiser;
/* Stores x / scale (or x * scale, x * f32(1 / scale)) as element `index`, plus zero_point. */
void qf_quantise_store(const qf_quantiser *quantiser, double x, double scale, double zero_point, void *data,
                       int64_t index);

/* The end of a kernel with an optional out_scale: plain rounding, or rounding to `via` and quantisation. */
typedef struct qf_output {
    qf_quantiser quantiser;
    qf_dtype via; /* NONE: straight from f32 */
    qf_view *view;
    bool quantises;
    double scale;
} qf_output;
/* `mode`, `compute` and `via` are attribute indices, or UINT32_MAX for an op without the attribute. */
qf_status qf_output_start(const qf_kernel_call *call, qf_output *output, qf_view *view, const qf_view *out_scale,
                          uint32_t mode, uint32_t compute, uint32_t via);
void qf_output_store(const qf_output *output, int64_t index, int64_t count, const float *values);

#endif
