/* Owns: top_k: the k first of a line in order, by a merge sort of its positions.
 * Does not own: arg_max (reduce.c).
 * Next: cpu.h. */
#include "kernels/cpu/cpu.h"

#include <math.h>

/* Values of the line in the domain of its dtype. */
typedef union key {
    double number;
    int64_t integer;
} key;

typedef struct sorter {
    const key *keys;
    bool is_integer, largest;
} sorter;

/* Whether position a comes before position b, a < b or not: better value first, NaN as the largest, ties by position.
 */
static bool precedes(const sorter *by, int64_t a, int64_t b) {
    key x = by->keys[by->largest ? a : b], y = by->keys[by->largest ? b : a];
    if (by->is_integer) return x.integer != y.integer ? x.integer > y.integer : a < b;
    if (isnan(x.number) || isnan(y.number)) return isnan(x.number) && isnan(y.number) ? a < b : isnan(x.number) != 0;
    return x.number != y.number ? x.number > y.number : a < b;
}

/* Bottom-up; returns whichever of the two arrays holds the sorted positions. */
static int64_t *sort_positions(const sorter *by, int64_t count, int64_t *from, int64_t *to) {
    for (int64_t i = 0; i < count; i++) from[i] = i;
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t start = 0; start < count; start += 2 * width) {
            int64_t middle = start + width < count ? start + width : count;
            int64_t end = middle + width < count ? middle + width : count, left = start, right = middle;
            for (int64_t i = start; i < end; i++) {
                bool takes_left = left < middle && (right >= end || precedes(by, from[left], from[right]));
                to[i] = takes_left ? from[left++] : from[right++];
            }
        }
        int64_t *swapped = from;
        from = to;
        to = swapped;
    }
    return from;
}

size_t qf_cpu_scratch_top_k(const qf_kernel_call *call) {
    int64_t axis = call->attributes[QF_ATTR(top_k, axis)].integer;
    if (axis < 0 || axis >= call->operands[0].rank) return 0;
    size_t total = 0;
    for (int i = 0; i < 3; i++)
        total = qf_cpu_scratch_add(total, (uint64_t)call->operands[0].dims[axis], sizeof(int64_t));
    return total;
}

qf_status qf_cpu_top_k(const qf_kernel_call *call) {
    const qf_view *x = &call->operands[0];
    qf_view *values = qf_call_result(call, 0), *indices = qf_call_result(call, 1);
    int64_t axis = call->attributes[QF_ATTR(top_k, axis)].integer, k = call->attributes[QF_ATTR(top_k, k)].integer;
    QF_CPU_EXPECT(call, axis >= 0 && axis < x->rank, "an axis of x");
    int64_t size = x->dims[axis], inner = qf_view_extent(x, (uint32_t)axis + 1, x->rank);
    int64_t count = qf_view_extent(x, 0, (uint32_t)axis) * inner;
    if (k < 0 || k > size)
        return qf_cpu_fail(call, QF_ERROR_INVALID_ARGUMENT, "top_k: k is %lld, axis %lld has %lld elements",
                           (long long)k, (long long)axis, (long long)size);
    QF_CPU_EXPECT(call,
                  (!values || qf_view_count(values) == count * k) && (!indices || qf_view_count(indices) == count * k),
                  "results with k elements along the axis");
    char *scratch = call->scratch;
    size_t piece = qf_cpu_scratch_add(0, (uint64_t)size, sizeof(int64_t));
    key *keys = (key *)(void *)scratch;
    int64_t *first = (int64_t *)(void *)(scratch + piece), *second = (int64_t *)(void *)(scratch + 2 * piece);
    sorter by = {keys, qf_domain_of(x->dtype) == QF_DOMAIN_I64, call->attributes[QF_ATTR(top_k, largest)].integer != 0};
    for (int64_t line = 0; line < count; line++) {
        int64_t start = line / inner * size * inner + line % inner, out = line / inner * k * inner + line % inner;
        for (int64_t i = 0; i < size; i++) {
            if (by.is_integer)
                keys[i].integer = qf_load_i64(x->dtype, x->data, start + i * inner);
            else
                keys[i].number = qf_load_f64(x->dtype, x->data, start + i * inner);
        }
        const int64_t *order = sort_positions(&by, size, first, second);
        for (int64_t i = 0; i < k; i++, out += inner) {
            if (values)
                qf_cpu_copy_run(qf_dtype_bits(x->dtype), values->data, out, x->data, start + order[i] * inner, 1);
            if (indices) qf_store_i64(indices->dtype, indices->data, out, order[i]);
        }
    }
    return QF_OK;
}
