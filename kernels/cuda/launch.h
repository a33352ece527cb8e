/* Owns: what steps become on a GPU, as plain data: kernel launches, matrix products, copies; and the recorder that
 * builders fill. Does not own: the builders (kernels/cuda/<family>.c), performing actions (runtime/devices/cuda.c),
 * printing them as C (runtime/emit.c). Next: table.c, docs/cuda.md. */
#ifndef QF_KERNELS_CUDA_LAUNCH_H
#define QF_KERNELS_CUDA_LAUNCH_H

#include "base/context.h"
#include "kernels/kernel.h"

/* A TMA descriptor to be encoded into a launch's parameter block. Extents and box in elements, innermost first. */
typedef struct qf_cuda_tensor_map {
    struct qf_cuda_tensor_map *next;
    uint32_t params_offset; /* of the 128 bytes of the descriptor, a multiple of 64 */
    uint32_t element_bytes; /* 1 or 2 */
    uint32_t rank;
    void *address; /* aligned to 16 bytes */
    uint64_t extents[5];
    uint64_t strides[4]; /* bytes, multiples of 16, of axes 1 .. rank - 1 */
    uint32_t box[5];
    uint32_t swizzle_bytes;   /* 0, 32, 64, 128 */
    uint32_t promotion_bytes; /* of L2 fills: 0, 64, 128, 256 */
} qf_cuda_tensor_map;

/* The driver's numbers for them (CUtensorMapSwizzle, CUtensorMapL2promotion). */
static inline int qf_cuda_swizzle_code(const qf_cuda_tensor_map *map) {
    return map->swizzle_bytes == 32 ? 1 : map->swizzle_bytes == 64 ? 2 : map->swizzle_bytes == 128 ? 3 : 0;
}

static inline int qf_cuda_promotion_code(const qf_cuda_tensor_map *map) {
    return map->promotion_bytes == 64 ? 1 : map->promotion_bytes == 128 ? 2 : map->promotion_bytes == 256 ? 3 : 0;
}

/* One kernel launch. The kernel takes exactly one argument, `const __grid_constant__ T params`, at most 4 KiB. */
typedef struct qf_cuda_launch {
    const char *image;  /* name of the .cu file without its ending */
    const char *kernel; /* extern "C" name of the __global__ function */
    uint32_t grid[3], block[3];
    uint32_t cluster;      /* CTAs of a cluster along x; 0: launched without clusters */
    uint32_t shared_bytes; /* dynamic */
    bool dependent; /* may start while its predecessor runs: every path of the kernel executes griddepcontrol.wait */
    size_t params_size;
    void *params;
    qf_cuda_tensor_map *maps;
} qf_cuda_launch;

/* d = alpha * a_scale * b_scale * (a @ b) + bias, row-major, for cuBLASLt. Addresses are the device's. */
typedef struct qf_cuda_matmul {
    int64_t m, n, k, batch;
    const void *a, *b;
    void *d;
    qf_dtype a_dtype, b_dtype, d_dtype;
    bool transpose_a, transpose_b;                          /* a lies as [k, m], b as [n, k] */
    int64_t a_leading, b_leading, d_leading;                /* elements between rows as they lie */
    int64_t a_batch_stride, b_batch_stride, d_batch_stride; /* elements */
    const float *a_scale, *b_scale;                         /* device scalars of FP8 operands, or NULL */
    const void *bias;                                       /* [n] of d_dtype, or NULL */
    void *workspace;                                        /* from qf_cuda_scratch */
    size_t workspace_size;
} qf_cuda_matmul;

typedef enum qf_cuda_action_kind { QF_CUDA_LAUNCH, QF_CUDA_MATMUL, QF_CUDA_COPY } qf_cuda_action_kind;

typedef struct qf_cuda_action {
    struct qf_cuda_action *next;
    qf_cuda_action_kind kind;
    union {
        qf_cuda_launch launch;
        qf_cuda_matmul matmul;
        struct {
            void *to;
            const void *from;
            size_t size;
        } copy; /* device to device */
    };
} qf_cuda_action;

/* Filled step by step. Recording runs twice, first to learn sizes (scratch and zeroed are then NULL-based), so builders
 * are pure functions of their step and keep nothing. */
typedef struct qf_cuda_recorder {
    /* Given. */
    qf_arena *arena;
    qf_target target;
    uint32_t processor_count; /* multiprocessors */
    bool has_matmul;          /* cuBLASLt was found; without it matrix products use kernels of our own */
    char *scratch;            /* shared by all steps: contents do not survive a step */
    char *zeroed;             /* zero before the first step; every kernel that uses it leaves it zero */
    /* Of the step being recorded. */
    uint32_t index;     /* its number in the plan, to compare with last_uses */
    uint32_t remaining; /* steps that may be looked at from this one on, itself included */
    uint32_t taken;     /* steps that the builder covers; 1 unless it says more */
    qf_cuda_action *first, *last;
    size_t scratch_used;
    /* Found. */
    size_t scratch_size, zeroed_size;
} qf_cuda_recorder;

/* Records what step[0] does. May cover the next steps as well (step[1] .. step[remaining - 1]) by raising `taken`; a
 * result need not be stored where its last_uses lies within the covered steps. QF_OK, or a status with
 * step->call.message filled; reads no device memory. Shapes were inferred by ir/infer. */
typedef qf_status (*qf_cuda_builder)(qf_cuda_recorder *recorder, const qf_kernel_step *step);

/* Prototypes of every builder that kernels.def names. */
/* clang-format off */
#define CPU(op)
#define KERNEL(...)
#define IN_PLACE(op, operand, result)
#define CUDA(number, op, builder) qf_status qf_cuda_build_##builder(qf_cuda_recorder *recorder, const qf_kernel_step *step);
#define CUDA_KERNEL(number, name, op, builder, ...) qf_status qf_cuda_build_##builder(qf_cuda_recorder *recorder, const qf_kernel_step *step);
#include "spec/kernels.def"
/* clang-format on */

/* The builder of a GPU row of kernels.def; NULL for other rows. */
qf_cuda_builder qf_cuda_builder_of(const qf_kernel_row *row);

/* A launch with `params_size` zeroed bytes at ->params and grid, block of 1; NULL: out of memory (recorded). */
qf_cuda_launch *qf_cuda_add_launch(qf_cuda_recorder *recorder, const char *image, const char *kernel,
                                   size_t params_size);
qf_cuda_tensor_map *qf_cuda_add_tensor_map(qf_cuda_recorder *recorder, qf_cuda_launch *launch, size_t params_offset);
qf_cuda_matmul *qf_cuda_add_matmul(qf_cuda_recorder *recorder);
/* A copy by the driver, or by a kernel where that is faster. Nothing for 0 bytes, or in place. */
qf_status qf_cuda_add_copy(qf_cuda_recorder *recorder, void *to, const void *from, size_t size);
/* For qf_cuda_add_copy: its fields are to be filled. */
qf_cuda_action *qf_cuda_add_driver_copy(qf_cuda_recorder *recorder);
/* Device memory for this step, aligned to 256 bytes; pieces of one step do not overlap. Not to be dereferenced. */
void *qf_cuda_scratch(qf_cuda_recorder *recorder, size_t size);
/* The start of memory that is zero, `size` bytes at least; every step gets the same. */
void *qf_cuda_zeroed(qf_cuda_recorder *recorder, size_t size);

qf_status qf_cuda_refuse(const qf_kernel_step *step, const char *format, ...) QF_PRINTF(2, 3);

#endif
