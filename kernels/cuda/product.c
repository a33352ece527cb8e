/* Owns: simplifying the axes of a product and mapping them to a strided batch.
 * Does not own: launches (contract.c).
 * Next: product.h. */
#include "kernels/cuda/product.h"

int64_t qf_product_extent(const qf_gemm_axes *axes) {
    int64_t count = 1;
    for (uint32_t i = 0; i < axes->rank; i++) count *= axes->axis[i].size;
    return count;
}

/* --- simplifying --- */

static void drop_ones(qf_gemm_axes *axes) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < axes->rank; i++)
        if (axes->axis[i].size != 1) axes->axis[kept++] = axes->axis[i];
    axes->rank = kept;
}

/* Outermost in the result first; a handful of axes. */
static void order(qf_gemm_axes *axes) {
    for (uint32_t i = 1; i < axes->rank; i++) {
        qf_gemm_axis axis = axes->axis[i];
        uint32_t at = i;
        for (; at > 0 && axes->axis[at - 1].stride[QF_GEMM_Y] < axis.stride[QF_GEMM_Y]; at--)
            axes->axis[at] = axes->axis[at - 1];
        axes->axis[at] = axis;
    }
}

static bool steps_as_one(const qf_gemm_axis *outer, const qf_gemm_axis *inner) {
    for (int slot = 0; slot < QF_GEMM_SLOTS; slot++)
        if (outer->stride[slot] != inner->stride[slot] * inner->size) return false;
    return true;
}

static void merge(qf_gemm_axes *axes) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < axes->rank; i++) {
        qf_gemm_axis axis = axes->axis[i];
        if (kept && steps_as_one(&axes->axis[kept - 1], &axis)) {
            axis.size *= axes->axis[kept - 1].size;
            kept--;
        }
        axes->axis[kept++] = axis;
    }
    axes->rank = kept;
}

void qf_product_simplify(qf_gemm *gemm) {
    qf_gemm_axes *const groups[] = {&gemm->batch, &gemm->m, &gemm->n, &gemm->k};
    for (uint32_t i = 0; i < QF_COUNT_OF(groups); i++) {
        drop_ones(groups[i]);
        if (groups[i] != &gemm->k) order(groups[i]);
        merge(groups[i]);
    }
}

/* --- mapping --- */

static qf_gemm_axis exchanged(qf_gemm_axis axis) {
    int64_t a = axis.stride[QF_GEMM_A];
    axis.stride[QF_GEMM_A] = axis.stride[QF_GEMM_B];
    axis.stride[QF_GEMM_B] = a;
    return axis;
}

/* The largest axis of a group; the others are put to `rest`. */
static qf_gemm_axis take_largest(const qf_gemm_axes *axes, qf_gemm_axes *rest) {
    qf_gemm_axis none = {.size = 1};
    uint32_t largest = 0;
    for (uint32_t i = 1; i < axes->rank; i++)
        if (axes->axis[i].size > axes->axis[largest].size) largest = i;
    for (uint32_t i = 0; i < axes->rank; i++)
        if (i != largest) qf_gemm_add_axis(rest, axes->axis[i]);
    return axes->rank ? axes->axis[largest] : none;
}

/* A matrix of rows x columns with these strides, row-major or as its transpose. */
static bool lay(int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride, bool *out_transposed,
                int64_t *out_leading) {
    *out_transposed = false;
    if (columns == 1 || column_stride == 1) {
        *out_leading = rows == 1 ? columns : row_stride;
        if (*out_leading >= columns) return true;
    }
    *out_transposed = true;
    if (rows == 1 || row_stride == 1) {
        *out_leading = columns == 1 ? rows : column_stride;
        if (*out_leading >= rows) return true;
    }
    return false;
}

bool qf_product_map(const qf_gemm *gemm, qf_product *out) {
    qf_gemm_axes rest = gemm->batch, inner = {0};
    bool transposed;
    *out = (qf_product){.repeats = 1};
    if (gemm->k.rank > 1) return false;
    qf_gemm_axis m = take_largest(&gemm->m, &rest), n = take_largest(&gemm->n, &rest);
    qf_gemm_axis k = take_largest(&gemm->k, &inner);
    const qf_view *a = gemm->a, *b = gemm->b;
    order(&rest);
    merge(&rest);
    out->is_exchanged = n.size != 1 && n.stride[QF_GEMM_Y] != 1;
    if (out->is_exchanged) {
        qf_gemm_axis columns = exchanged(m);
        m = exchanged(n);
        n = columns;
        k = exchanged(k);
        a = gemm->b;
        b = gemm->a;
        for (uint32_t i = 0; i < rest.rank; i++) rest.axis[i] = exchanged(rest.axis[i]);
    }
    qf_gemm_axes repeat = {0};
    qf_gemm_axis batch = take_largest(&rest, &repeat);
    qf_cuda_matmul *matmul = &out->matmul;
    *matmul = (qf_cuda_matmul){.m = m.size,
                               .n = n.size,
                               .k = k.size,
                               .batch = batch.size,
                               .a = a->data,
                               .b = b->data,
                               .d = gemm->y->data,
                               .a_batch_stride = batch.stride[QF_GEMM_A],
                               .b_batch_stride = batch.stride[QF_GEMM_B],
                               .d_batch_stride = batch.stride[QF_GEMM_Y]};
    out->repeat_rank = repeat.rank;
    for (uint32_t i = 0; i < repeat.rank; i++) out->repeat[i] = repeat.axis[i];
    out->repeats = qf_product_extent(&repeat);
    return lay(m.size, m.stride[QF_GEMM_Y], n.size, n.stride[QF_GEMM_Y], &transposed, &matmul->d_leading) &&
           !transposed &&
           lay(m.size, m.stride[QF_GEMM_A], k.size, k.stride[QF_GEMM_A], &matmul->transpose_a, &matmul->a_leading) &&
           lay(k.size, k.stride[QF_GEMM_B], n.size, n.stride[QF_GEMM_B], &matmul->transpose_b, &matmul->b_leading);
}

int64_t qf_product_repeat(const qf_product *product, int64_t index, int slot) {
    int64_t offset = 0;
    for (uint32_t i = product->repeat_rank; i-- > 0; index /= product->repeat[i].size)
        offset += index % product->repeat[i].size * product->repeat[i].stride[slot];
    return offset;
}
