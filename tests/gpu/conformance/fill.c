/* Owns: values of a case's inputs.
 * Does not own: which values a case asks for (families).
 * Next: cases.h. */
#include <math.h>
#include <string.h>

#include "base/convert.h"
#include "tests/gpu/conformance/cases.h"

static bool is_whole(qf_dtype dtype) {
    return qf_dtype_kind_of(dtype) == QF_DTYPE_KIND_INTEGER || qf_dtype_kind_of(dtype) == QF_DTYPE_KIND_BOOL;
}

static void fill_odd_float(qf_dtype dtype, qf_tensor *tensor, int64_t index, random_state *random) {
    static const double odd[] = {0.0,   -0.0,  INFINITY, -INFINITY, NAN,   1.0,    -1.0,    0.5,         1.5,
                                 2.5,   -2.5,  448,      464,       464.5, 57344,  -61440,  65504,       65520,
                                 1e-45, 1e-40, -1e-40,   1e-8,      6e-8,  3.4e38, -3.4e38, 0.0009765625};
    uint32_t bits = qf_dtype_bits(dtype);
    if (bits <= 16 && random_between(random, 0, 1)) {
        unsigned char *bytes = tensor->data;
        uint64_t code = random_bits(random);
        if (bits == 16)
            memcpy(bytes + 2 * index, &code, 2);
        else if (bits == 8)
            bytes[index] = (unsigned char)code;
        else
            qf_store_f64(dtype, tensor->data, index, random_normal(random) * 4, true);
        /* Functions of C give other results for signalling NaNs. */
        if (bits == 16 && isnan(qf_load_f64(dtype, tensor->data, index)))
            qf_store_f64(dtype, tensor->data, index, NAN, true);
        return;
    }
    double number = random_between(random, 0, 3)
                        ? random_normal(random) * pow(2, (double)random_between(random, -20, 20))
                        : odd[random_between(random, 0, QF_COUNT_OF(odd) - 1)];
    qf_store_f64(dtype, tensor->data, index, number, false);
}

static void fill_odd(qf_dtype dtype, qf_tensor *tensor, int64_t index, random_state *random) {
    static const int64_t odd[] = {0, 1, -1, 2, -2, 127, 128, 255, 256, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
    if (!is_whole(dtype)) {
        fill_odd_float(dtype, tensor, index, random);
        return;
    }
    int64_t number = random_between(random, 0, 3) ? random_between(random, -300, 300)
                                                  : odd[random_between(random, 0, QF_COUNT_OF(odd) - 1)];
    qf_store_i64(dtype, tensor->data, index, dtype == QF_I1 ? number & 1 : number);
}

static double outlier(qf_dtype dtype, int64_t index, random_state *random) {
    double number = random_normal(random);
    if (index % 1000 == 7) number *= 10;
    if (index % 4001 == 13 && qf_dtype_is_float8(dtype)) number = copysign(qf_dtype_largest(dtype), number);
    return number;
}

static void fill_number(const case_input *input, qf_tensor *tensor, int64_t index, random_state *random) {
    const fill *how = &input->fill;
    double number = 0;
    switch (how->kind) {
    case FILL_NORMAL: number = random_normal(random) * how->a + how->b; break;
    case FILL_UNIFORM: number = how->a + random_uniform(random) * (how->b - how->a); break;
    case FILL_TRUE: number = random_uniform(random) < how->a; break;
    case FILL_OUTLIERS: number = outlier(input->dtype, index, random); break;
    case FILL_LIST: number = how->numbers[(size_t)index % how->count]; break;
    case FILL_INTEGERS: number = (double)random_between(random, (int64_t)how->a, (int64_t)how->b); break;
    case FILL_ODD: fill_odd(input->dtype, tensor, index, random); return;
    }
    if (is_whole(input->dtype))
        qf_store_i64(input->dtype, tensor->data, index, (int64_t)number);
    else if (input->dtype == QF_F64)
        qf_store_f64(input->dtype, tensor->data, index, number, true);
    else
        qf_store_f32(input->dtype, tensor->data, index, (float)number, true);
}

void fill_tensor(const case_input *input, qf_tensor *tensor, random_state *random) {
    int64_t count = shape_count(input->dims);
    for (int64_t i = 0; i < count; i++) fill_number(input, tensor, i, random);
}
