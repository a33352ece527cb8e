/* Owns: exact conversions between element types: one element, and arrays.
 * Does not own: scales and quantisation (kernels/cpu/quantise.c), the table of types (qfuse/dtype.h).
 * Next: convert.c. */
#ifndef QF_BASE_CONVERT_H
#define QF_BASE_CONVERT_H

#include <stdbool.h>
#include <stdint.h>

#include <qfuse/dtype.h>

/* Rules, the same for every function here:
 *  - float to float: one rounding, to nearest, ties to even (f8E8M0FNU: to the even code), from the value given. NaN
 * stays NaN.
 *  - `saturate` concerns the 8- and 4-bit floats only: values past the largest finite one, infinities included, become
 * the largest finite one. Unsaturated they become infinity (f8E5M2), or NaN where the format has no infinity. A value
 * that rounds down to the largest finite one is not past it (464 is 448 in f8E4M3FN, 464.1 is not). f32, f16, bf16
 * always overflow to infinity.
 *  - f8E4M3FNUZ and f8E5M2FNUZ: NaN is 0x80, there is no negative zero (it becomes 0), no infinity.
 *  - f8E8M0FNU holds powers of two: negative values are NaN, zero and whatever is smaller than 2^-127 become 2^-127.
 *  - f4E2M1FN has neither infinity nor NaN: it saturates always, and NaN becomes +6.
 *  - float to integer truncates toward zero, clamps to the type's range, and NaN becomes 0. Float to i1: x != 0 (NaN is
 * true).
 *  - integer to integer keeps the low bits (two's complement). Integer to i1: x != 0.
 *  - integer to float: one rounding.
 * Arrays of f4E2M1FN hold two elements a byte, the even index in the low half. `index` and `first` count elements. Data
 * need not be aligned. dtype must have storage (not none, not token). */

/* The code (bit pattern) of a number in a floating-point dtype of up to 32 bits, and the number of a code. */
uint32_t qf_encode_f64(qf_dtype dtype, double number, bool saturate);
uint32_t qf_encode_f32(qf_dtype dtype, float number, bool saturate);
double qf_decode(qf_dtype dtype, uint32_t code);
/* `number` rounded to a floating-point dtype and widened again. QF_F64 and QF_F32 return it as it is. */
float qf_round_f32(qf_dtype dtype, float number, bool saturate);

/* --- one element of an array of any dtype --- */
float qf_load_f32(qf_dtype dtype, const void *data, int64_t index); /* f64 and i64 elements are rounded */
double qf_load_f64(qf_dtype dtype, const void *data, int64_t index);
int64_t qf_load_i64(qf_dtype dtype, const void *data, int64_t index);
void qf_store_f32(qf_dtype dtype, void *data, int64_t index, float number, bool saturate);
void qf_store_f64(qf_dtype dtype, void *data, int64_t index, double number, bool saturate);
void qf_store_i64(qf_dtype dtype, void *data, int64_t index, int64_t number);

/* --- arrays: `count` elements from `first` on --- */
void qf_load_array_f32(qf_dtype dtype, const void *data, int64_t first, int64_t count, float *out);
void qf_load_array_f64(qf_dtype dtype, const void *data, int64_t first, int64_t count, double *out);
void qf_load_array_i64(qf_dtype dtype, const void *data, int64_t first, int64_t count, int64_t *out);
void qf_store_array_f32(qf_dtype dtype, void *data, int64_t first, int64_t count, const float *in, bool saturate);
void qf_store_array_f64(qf_dtype dtype, void *data, int64_t first, int64_t count, const double *in, bool saturate);
void qf_store_array_i64(qf_dtype dtype, void *data, int64_t first, int64_t count, const int64_t *in);
/* `count` elements from the start of both. `out` and `data` do not overlap. */
void qf_convert_array(qf_dtype to, void *out, qf_dtype from, const void *data, int64_t count, bool saturate);

#endif
