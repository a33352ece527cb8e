/* Owns: conv, as a product of the weights with patches of x.
 * Does not own: the product (gemm.c).
 * Next: gemm.h. */
#include "kernels/cpu/gemm.h"

#define MAX_SPATIAL (QF_MAX_RANK - 2)

typedef struct convolution {
    const qf_view *x;
    uint32_t spatial;
    int64_t channels, group_channels, taps; /* channels of x; of a group; kernel positions */
    int64_t x_dims[MAX_SPATIAL], y_dims[MAX_SPATIAL], kernel[MAX_SPATIAL];
    int64_t strides[MAX_SPATIAL], pads[MAX_SPATIAL], dilations[MAX_SPATIAL];
} convolution;

/* Position in a channel of x that tap `tap` reads for result position `position`, or -1 in the padding. */
static int64_t tap_position(const convolution *job, int64_t position, int64_t tap) {
    int64_t offset = 0, stride = 1;
    for (uint32_t i = job->spatial; i-- > 0;) {
        int64_t at =
            position % job->y_dims[i] * job->strides[i] - job->pads[i] + tap % job->kernel[i] * job->dilations[i];
        if (at < 0 || at >= job->x_dims[i]) return -1;
        position /= job->y_dims[i];
        tap /= job->kernel[i];
        offset += at * stride;
        stride *= job->x_dims[i];
    }
    return offset;
}

/* Column = image and result position; k = channel of the group and tap. */
static void pack_patches(const void *user, int64_t group, int64_t first, int64_t count, float *panel) {
    const convolution *job = user;
    int64_t positions = 1, area = 1;
    for (uint32_t i = 0; i < job->spatial; i++) positions *= job->y_dims[i], area *= job->x_dims[i];
    for (int64_t j = 0; j < QF_GEMM_COLUMNS; j++) {
        int64_t image = (first + j) / positions, position = (first + j) % positions;
        int64_t channel = image * job->channels + group * job->group_channels;
        for (int64_t tap = 0; tap < job->taps; tap++) {
            int64_t at = j < count ? tap_position(job, position, tap) : -1;
            for (int64_t c = 0; c < job->group_channels; c++)
                panel[(c * job->taps + tap) * QF_GEMM_COLUMNS + j] =
                    at < 0 ? 0.0f : qf_load_f32(job->x->dtype, job->x->data, (channel + c) * area + at);
        }
    }
}

static qf_status describe_shape(const qf_kernel_call *call, convolution *job) {
    const qf_view *x = &call->operands[0], *weight = &call->operands[1], *y = &call->results[0];
    const qf_kernel_attribute *strides = &call->attributes[QF_ATTR(conv, strides)];
    const qf_kernel_attribute *pads = &call->attributes[QF_ATTR(conv, pads_before)];
    const qf_kernel_attribute *dilations = &call->attributes[QF_ATTR(conv, dilations)];
    int64_t groups = call->attributes[QF_ATTR(conv, groups)].integer;
    QF_CPU_EXPECT(call, x->rank >= 3 && weight->rank == x->rank && y->rank == x->rank,
                  "x and weight of one rank, 3 or more");
    *job = (convolution){
        .x = x, .spatial = x->rank - 2, .channels = x->dims[1], .group_channels = weight->dims[1], .taps = 1};
    QF_CPU_EXPECT(call,
                  strides->count == job->spatial && pads->count == job->spatial && dilations->count == job->spatial,
                  "one stride, pad and dilation a spatial axis");
    QF_CPU_EXPECT(call,
                  groups > 0 && job->channels == groups * job->group_channels && weight->dims[0] % groups == 0 &&
                      y->dims[0] == x->dims[0] && y->dims[1] == weight->dims[0],
                  "channels that divide into groups");
    for (uint32_t i = 0; i < job->spatial; i++) {
        job->x_dims[i] = x->dims[i + 2];
        job->y_dims[i] = y->dims[i + 2];
        job->kernel[i] = weight->dims[i + 2];
        job->taps *= job->kernel[i];
        job->strides[i] = strides->ints[i];
        job->pads[i] = pads->ints[i];
        job->dilations[i] = dilations->ints[i];
    }
    return QF_OK;
}

static qf_status describe(const qf_kernel_call *call, convolution *job, qf_gemm *gemm) {
    qf_status status = describe_shape(call, job);
    if (status) return status;
    const qf_view *bias = qf_call_operand(call, QF_IN(conv, bias)), *weight = &call->operands[1];
    qf_view *y = &call->results[0];
    int64_t groups = call->attributes[QF_ATTR(conv, groups)].integer, rows = weight->dims[0] / groups;
    int64_t depth = job->group_channels * job->taps, positions = qf_view_extent(y, 2, y->rank);
    QF_CPU_EXPECT(call, !bias || qf_view_count(bias) == weight->dims[0], "one bias a result channel");
    *gemm = (qf_gemm){.a = weight, .b = job->x, .bias = bias, .y = y, .pack_columns = pack_patches, .pack_user = job};
    qf_gemm_add_axis(
        &gemm->batch,
        (qf_gemm_axis){groups, {[QF_GEMM_A] = rows * depth, [QF_GEMM_Y] = rows * positions, [QF_GEMM_BIAS] = rows}});
    qf_gemm_add_axis(&gemm->m,
                     (qf_gemm_axis){rows, {[QF_GEMM_A] = depth, [QF_GEMM_Y] = positions, [QF_GEMM_BIAS] = 1}});
    qf_gemm_add_axis(&gemm->n, (qf_gemm_axis){y->dims[0], {[QF_GEMM_Y] = y->dims[1] * positions}});
    qf_gemm_add_axis(&gemm->n, (qf_gemm_axis){positions, {[QF_GEMM_Y] = 1}});
    qf_gemm_add_axis(&gemm->k, (qf_gemm_axis){depth, {[QF_GEMM_A] = 1}});
    return QF_OK;
}

size_t qf_cpu_scratch_conv(const qf_kernel_call *call) {
    convolution job;
    qf_gemm gemm;
    qf_kernel_call quiet = *call;
    quiet.message = NULL;
    return describe(&quiet, &job, &gemm) ? 0 : qf_gemm_scratch(&gemm, qf_cpu_thread_count(call));
}

qf_status qf_cpu_conv(const qf_kernel_call *call) {
    convolution job;
    qf_gemm gemm;
    qf_status status = describe(call, &job, &gemm);
    if (!status) status = qf_output_start(call, &gemm.output, gemm.y, NULL, UINT32_MAX, UINT32_MAX, UINT32_MAX);
    return status ? status : qf_gemm_run(call, &gemm);
}
