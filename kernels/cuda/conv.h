/* Owns: the parameter block of conv.
 * Does not own: the builder (conv.c), the kernel (conv.cu).
 * Next: conv.cu. */
#ifndef QF_KERNELS_CUDA_CONV_H
#define QF_KERNELS_CUDA_CONV_H

#include "kernels/cuda/loops.h"

#define QF_CONV_MOST_SPATIAL 6
#define QF_CONV_TILE         64 /* result channels and result positions of a block */

typedef struct qf_conv_params {
    uint64_t x, weight, bias, y; /* bias: or 0 */
    uint32_t x_dtype, weight_dtype, bias_dtype, y_dtype;
    uint32_t spatial, unused;
    int64_t groups, rows; /* result channels of a group */
    int64_t channels;     /* of x */
    int64_t area;         /* elements of a channel of x */
    int64_t area_of_y;
    qf_cuda_loops positions;              /* result positions, innermost first, then images */
    qf_cuda_loops depth;                  /* kernel positions, then channels of a group */
    int64_t x_dims[QF_CONV_MOST_SPATIAL]; /* innermost first, as everything below */
    int64_t strides[QF_CONV_MOST_SPATIAL], pads[QF_CONV_MOST_SPATIAL], dilations[QF_CONV_MOST_SPATIAL];
} qf_conv_params;

#endif
