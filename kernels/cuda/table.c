/* Owns: the table from a GPU row of kernels.def to its builder.
 * Does not own: the rows (spec/kernels.def), the builders.
 * Next: launch.h. */
#include "kernels/cuda/launch.h"

/* clang-format off */
static const struct {
    uint32_t number;
    qf_cuda_builder build;
} builders[] = {
#define CPU(op)
#define KERNEL(...)
#define IN_PLACE(op, operand, result)
#define CUDA(number, op, builder) {number, qf_cuda_build_##builder},
#define CUDA_KERNEL(number, name, op, builder, ...) {number, qf_cuda_build_##builder},
#include "spec/kernels.def"
};
/* clang-format on */

qf_cuda_builder qf_cuda_builder_of(const qf_kernel_row *row) {
    for (uint32_t i = 0; row && i < QF_COUNT_OF(builders); i++)
        if (builders[i].number == row->number) return builders[i].build;
    return NULL;
}
