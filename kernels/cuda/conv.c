/* Owns: the builder of conv.
 * Does not own: the kernel (conv.cu), products of matrices.
 * Next: conv.h. */
#include "kernels/cuda/conv.h"

#include <string.h>

#include "kernels/cuda/packed.h"

_Static_assert(QF_CONV_MOST_SPATIAL == QF_MAX_RANK - 2, "every spatial axis has a place");

static qf_status check(const qf_kernel_step *step) {
    const qf_view *x = &step->call.operands[0], *weight = &step->call.operands[1], *y = &step->call.results[0];
    const qf_view *bias = qf_call_operand(&step->call, QF_IN(conv, bias));
    const qf_kernel_attribute *attributes = step->call.attributes;
    int64_t groups = attributes[QF_ATTR(conv, groups)].integer;
    QF_CUDA_EXPECT(step, x->rank >= 3 && weight->rank == x->rank && y->rank == x->rank,
                   "x and weight of one rank, 3 or more");
    uint64_t spatial = x->rank - 2;
    QF_CUDA_EXPECT(step,
                   attributes[QF_ATTR(conv, strides)].count == spatial &&
                       attributes[QF_ATTR(conv, pads_before)].count == spatial &&
                       attributes[QF_ATTR(conv, dilations)].count == spatial,
                   "one stride, pad and dilation a spatial axis");
    QF_CUDA_EXPECT(step,
                   groups > 0 && x->dims[1] == groups * weight->dims[1] && weight->dims[0] % groups == 0 &&
                       y->dims[0] == x->dims[0] && y->dims[1] == weight->dims[0],
                   "channels that divide into groups");
    QF_CUDA_EXPECT(step, !bias || qf_view_count(bias) == weight->dims[0], "one bias a result channel");
    if (qf_domain_of(x->dtype) != QF_DOMAIN_F32 || qf_domain_of(weight->dtype) != QF_DOMAIN_F32)
        return qf_cuda_refuse(step, "conv of f64 or integers");
    return QF_OK;
}

/* Loops over [outer, spatial axes of view...], and what stands beside them, innermost first. */
static void describe(const qf_kernel_step *step, qf_conv_params *params) {
    const qf_view *x = &step->call.operands[0], *weight = &step->call.operands[1], *y = &step->call.results[0];
    const qf_kernel_attribute *attributes = step->call.attributes;
    int64_t positions[QF_MAX_RANK], depth[QF_MAX_RANK], none[QF_MAX_RANK] = {0};
    params->spatial = x->rank - 2;
    positions[0] = y->dims[0];
    depth[0] = weight->dims[1];
    for (uint32_t i = 0; i < params->spatial; i++) {
        uint32_t inner = params->spatial - 1 - i;
        positions[1 + i] = y->dims[2 + i];
        depth[1 + i] = weight->dims[2 + i];
        params->x_dims[inner] = x->dims[2 + i];
        params->strides[inner] = attributes[QF_ATTR(conv, strides)].ints[i];
        params->pads[inner] = attributes[QF_ATTR(conv, pads_before)].ints[i];
        params->dilations[inner] = attributes[QF_ATTR(conv, dilations)].ints[i];
    }
    qf_cuda_loops_keep(&params->positions, params->spatial + 1, positions, none, none);
    qf_cuda_loops_keep(&params->depth, params->spatial + 1, depth, none, none);
    params->groups = attributes[QF_ATTR(conv, groups)].integer;
    params->rows = weight->dims[0] / params->groups;
    params->channels = x->dims[1];
    params->area = qf_view_extent(x, 2, x->rank);
    params->area_of_y = qf_view_extent(y, 2, y->rank);
}

qf_status qf_cuda_build_conv(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    qf_status status = check(step);
    if (status || qf_view_count(&step->call.results[0]) == 0) return status;
    const qf_view *x = &step->call.operands[0], *weight = &step->call.operands[1];
    const qf_view *bias = qf_call_operand(&step->call, QF_IN(conv, bias));
    qf_view y;
    qf_cuda_start_rounded(recorder, &step->call.results[0], &y);
    qf_conv_params made = {.x = qf_cuda_address(x),
                           .weight = qf_cuda_address(weight),
                           .bias = bias ? qf_cuda_address(bias) : 0,
                           .y = qf_cuda_address(&y),
                           .x_dtype = x->dtype,
                           .weight_dtype = weight->dtype,
                           .bias_dtype = bias ? bias->dtype : QF_DTYPE_NONE,
                           .y_dtype = y.dtype};
    describe(step, &made);
    int64_t tiles = made.groups * ((made.rows + QF_CONV_TILE - 1) / QF_CONV_TILE) *
                    ((made.positions.count + QF_CONV_TILE - 1) / QF_CONV_TILE);
    qf_cuda_launch *launch = qf_cuda_add_grid(recorder, "conv", "qf_conv", sizeof made, (uint64_t)tiles * 256, 256);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    memcpy(launch->params, &made, sizeof made);
    return qf_cuda_finish_rounded(recorder, &y, &step->call.results[0]);
}
