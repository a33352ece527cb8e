/* Owns: tests of tensors and of DLPack in and out.
 * Does not own: executors (executor_test.c).
 * Next: runtime/tensor.c. */
#include "tests/check.h"

#include <qfuse/tensor.h>

/* The published layout of DLPack 1.x on 64-bit machines. */
_Static_assert(sizeof(qf_dl_tensor) == 48 && offsetof(qf_dl_tensor, ndim) == 16 &&
                   offsetof(qf_dl_tensor, dtype) == 20 && offsetof(qf_dl_tensor, shape) == 24 &&
                   offsetof(qf_dl_tensor, byte_offset) == 40,
               "DLTensor");
_Static_assert(sizeof(qf_dl_managed_tensor) == 64 && offsetof(qf_dl_managed_tensor, deleter) == 56, "DLManagedTensor");
_Static_assert(sizeof(qf_dl_managed_tensor_versioned) == 80 &&
                   offsetof(qf_dl_managed_tensor_versioned, manager_ctx) == 8 &&
                   offsetof(qf_dl_managed_tensor_versioned, flags) == 24 &&
                   offsetof(qf_dl_managed_tensor_versioned, dl_tensor) == 32,
               "DLManagedTensorVersioned");

#if __has_include(<dlpack/dlpack.h>)
/* Debian's header is of an older minor version; what it has is the same. */
#include <dlpack/dlpack.h>
_Static_assert(sizeof(DLTensor) == sizeof(qf_dl_tensor) && offsetof(DLTensor, shape) == offsetof(qf_dl_tensor, shape) &&
                   offsetof(DLTensor, byte_offset) == offsetof(qf_dl_tensor, byte_offset) &&
                   kDLBfloat == QF_DL_BFLOAT && (int)kDLCUDA == QF_DL_CUDA,
               "differs from dlpack.h");
#endif

static qf_dl_tensor source(void *data, uint8_t code, uint8_t bits, int64_t *shape, int32_t rank) {
    return (qf_dl_tensor){
        .data = data, .device = {QF_DL_CPU, 0}, .ndim = rank, .dtype = {code, bits, 1}, .shape = shape};
}

static void every_dtype_goes_there_and_back(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    static unsigned char data[64];
    for (int dtype = 1; dtype < QF_DTYPE_COUNT; dtype++) {
        qf_tensor tensor = {.dtype = (qf_dtype)dtype, .rank = 2, .dims = {2, 4}, .data = data}, back;
        qf_dl_managed_tensor_versioned *managed = NULL;
        qf_status status = qf_tensor_to_versioned(context, &tensor, NULL, NULL, &managed);
        if (dtype == QF_TOKEN) {
            assert_int_equal(status, QF_ERROR_UNSUPPORTED);
            continue;
        }
        assert_int_equal(status, QF_OK);
        bool read_only = true;
        assert_int_equal(qf_tensor_from_versioned(context, managed, &back, &read_only), QF_OK);
        assert_int_equal(back.dtype, dtype);
        assert_int_equal(back.dims[1], 4);
        assert_ptr_equal(back.data, data);
        assert_false(read_only);
        managed->deleter(managed);
    }
    check_destroy(context, &check);
}

static void codes_are_the_published_ones(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    static unsigned char data[64];
    int64_t shape[1] = {8};
    qf_tensor tensor;
    const struct {
        uint8_t code, bits;
        qf_dtype dtype;
    } rows[] = {{10, 8, QF_F8E4M3FN},  {11, 8, QF_F8E4M3FNUZ}, {12, 8, QF_F8E5M2}, {13, 8, QF_F8E5M2FNUZ},
                {14, 8, QF_F8E8M0FNU}, {6, 8, QF_I1},          {4, 16, QF_BF16},   {2, 16, QF_F16},
                {1, 8, QF_U8},         {0, 64, QF_I64}};
    for (uint32_t i = 0; i < QF_COUNT_OF(rows); i++) {
        qf_dl_tensor dl = source(data, rows[i].code, rows[i].bits, shape, 1);
        assert_int_equal(qf_tensor_from_dlpack(context, &dl, &tensor), QF_OK);
        assert_int_equal(tensor.dtype, rows[i].dtype);
    }
    /* e4m3 without "fn", e3m4, complex and 4-lane vectors have no counterpart: nothing is inferred from the width. */
    const uint8_t refused[][2] = {{8, 8}, {7, 8}, {9, 8}, {5, 64}, {1, 64}, {3, 64}};
    for (uint32_t i = 0; i < QF_COUNT_OF(refused); i++) {
        qf_dl_tensor dl = source(data, refused[i][0], refused[i][1], shape, 1);
        assert_int_equal(qf_tensor_from_dlpack(context, &dl, &tensor), QF_ERROR_UNSUPPORTED);
    }
    qf_dl_tensor lanes = source(data, QF_DL_FLOAT, 32, shape, 1);
    lanes.dtype.lanes = 4;
    assert_int_equal(qf_tensor_from_dlpack(context, &lanes, &tensor), QF_ERROR_UNSUPPORTED);
    qf_dl_tensor pairs = source(data, QF_DL_FLOAT4_E2M1FN, 4, shape, 1);
    pairs.dtype.lanes = 2;
    assert_int_equal(qf_tensor_from_dlpack(context, &pairs, &tensor), QF_OK);
    assert_int_equal(tensor.dims[0], 16);
    check_destroy(context, &check);
}

static void strides_and_offsets(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    static float data[24];
    int64_t shape[3] = {2, 1, 3}, strides[3] = {3, 77, 1};
    qf_tensor tensor;
    qf_dl_tensor dl = source(data, QF_DL_FLOAT, 32, shape, 3);
    dl.strides = strides;
    dl.byte_offset = 8;
    assert_int_equal(qf_tensor_from_dlpack(context, &dl, &tensor),
                     QF_OK); /* the stride of a dim of size 1 means nothing */
    assert_ptr_equal(tensor.data, data + 2);
    strides[0] = 6;
    assert_int_equal(qf_tensor_from_dlpack(context, &dl, &tensor), QF_ERROR_UNSUPPORTED);
    assert_non_null(strstr(check.messages, "make it contiguous"));
    shape[0] = 0;
    assert_int_equal(qf_tensor_from_dlpack(context, &dl, &tensor), QF_OK);
    shape[0] = -2;
    assert_int_equal(qf_tensor_from_dlpack(context, &dl, &tensor), QF_ERROR_INVALID_ARGUMENT);
    shape[0] = INT64_MAX;
    assert_int_equal(qf_tensor_from_dlpack(context, &dl, &tensor), QF_ERROR_INVALID_ARGUMENT);
    dl.ndim = 9;
    assert_int_equal(qf_tensor_from_dlpack(context, &dl, &tensor), QF_ERROR_UNSUPPORTED);
    dl.ndim = -1;
    assert_int_equal(qf_tensor_from_dlpack(context, &dl, &tensor), QF_ERROR_INVALID_ARGUMENT);
    check_destroy(context, &check);
}

static void another_major_version_is_refused(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    float data[1] = {0};
    qf_dl_managed_tensor_versioned managed = {
        .version = {2, 0}, .flags = QF_DL_FLAG_READ_ONLY, .dl_tensor = source(data, QF_DL_FLOAT, 32, NULL, 0)};
    qf_tensor tensor;
    bool read_only = false;
    assert_int_equal(qf_tensor_from_versioned(context, &managed, &tensor, &read_only), QF_ERROR_VERSION);
    assert_non_null(strstr(check.messages, "DLPack version 2.0; this library reads 1.x"));
    managed.version = (qf_dl_version){1, 9};
    assert_int_equal(qf_tensor_from_versioned(context, &managed, &tensor, &read_only), QF_OK);
    assert_true(read_only);
    assert_int_equal(tensor.rank, 0);
    check_destroy(context, &check);
}

static void count_release(void *owner) {
    ++*(int *)owner;
}

static void exports_release_their_owner_once(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    float data[6];
    int released = 0;
    qf_tensor tensor = {.dtype = QF_F32, .rank = 2, .dims = {2, 3}, .data = data};
    qf_dl_managed_tensor *managed = NULL;
    assert_int_equal(qf_tensor_to_managed(context, &tensor, count_release, &released, &managed), QF_OK);
    assert_int_equal(managed->dl_tensor.strides[0], 3);
    assert_int_equal(managed->dl_tensor.device.device_type, QF_DL_CPU);
    qf_tensor back;
    assert_int_equal(qf_tensor_from_managed(context, managed, &back), QF_OK);
    assert_int_equal(released, 0);
    managed->deleter(managed);
    assert_int_equal(released, 1);
    check.fail_at = check.allocations + 1;
    assert_int_equal(qf_tensor_to_managed(context, &tensor, count_release, &released, &managed),
                     QF_ERROR_OUT_OF_MEMORY);
    assert_null(managed);
    assert_int_equal(released, 1);
    check_destroy(context, &check);
}

static void sizes_are_checked(void **state) {
    (void)state;
    qf_tensor tensor = {.dtype = QF_F4E2M1FN, .rank = 1, .dims = {5}};
    assert_int_equal(qf_tensor_bytes(&tensor), 3);
    tensor = (qf_tensor){.dtype = QF_F64, .rank = 2, .dims = {INT64_MAX / 4, 4}};
    assert_true(qf_tensor_bytes(&tensor) == UINT64_MAX);
    tensor = (qf_tensor){.dtype = QF_F64, .rank = 9};
    assert_true(qf_tensor_bytes(&tensor) == UINT64_MAX);
    tensor = (qf_tensor){.dtype = QF_TOKEN};
    assert_true(qf_tensor_bytes(&tensor) == UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_dtype_goes_there_and_back),
                                       cmocka_unit_test(codes_are_the_published_ones),
                                       cmocka_unit_test(strides_and_offsets),
                                       cmocka_unit_test(another_major_version_is_refused),
                                       cmocka_unit_test(exports_release_their_owner_once),
                                       cmocka_unit_test(sizes_are_checked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
