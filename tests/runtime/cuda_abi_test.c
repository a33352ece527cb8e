/* Owns: comparing our declarations of the driver's and cuBLASLt's ABI with NVIDIA's headers, where a toolkit is
 * installed. Does not own: kernels on a GPU (tests/gpu). Next: runtime/cuda/driver.h. */
#include "tests/check.h"

#ifdef QF_CUDA_HEADERS
#include <cublasLt.h>
#include <cuda.h>

#include "runtime/cuda/blas.h"

#define SAME(ours, theirs) assert_int_equal((long long)(ours), (long long)(theirs))

static void driver_declarations_agree(void **state) {
    (void)state;
    SAME(sizeof(qf_cu_launch_config), sizeof(CUlaunchConfig));
    SAME(offsetof(qf_cu_launch_config, stream), offsetof(CUlaunchConfig, hStream));
    SAME(offsetof(qf_cu_launch_config, attribute_count), offsetof(CUlaunchConfig, numAttrs));
    SAME(sizeof(qf_cu_launch_attribute), sizeof(CUlaunchAttribute));
    SAME(offsetof(qf_cu_launch_attribute, cluster), offsetof(CUlaunchAttribute, value));
    SAME(sizeof(qf_cu_address), sizeof(CUdeviceptr));
    SAME(sizeof(CUtensorMap), 128);
    SAME(QF_CU_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
    SAME(QF_CU_ERROR_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
    SAME(QF_CU_ATTRIBUTE_PROCESSOR_COUNT, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    SAME(QF_CU_ATTRIBUTE_L2_SIZE, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    SAME(QF_CU_ATTRIBUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    SAME(QF_CU_ATTRIBUTE_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    SAME(QF_CU_FUNCTION_SHARED_BYTES, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    SAME(QF_CU_FUNCTION_NON_PORTABLE_CLUSTER, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
    SAME(QF_CU_LAUNCH_CLUSTER_DIMENSION, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
    SAME(QF_CU_LAUNCH_CLUSTER_POLICY, CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
    SAME(QF_CU_LAUNCH_DEPENDENT, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
    SAME(QF_CU_CLUSTER_POLICY_LOAD_BALANCING, CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING);
    SAME(QF_CU_CAPTURE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    SAME(QF_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
    SAME(QF_CU_MAP_UINT8, CU_TENSOR_MAP_DATA_TYPE_UINT8);
    SAME(QF_CU_MAP_UINT16, CU_TENSOR_MAP_DATA_TYPE_UINT16);
}

static void cublaslt_declarations_agree(void **state) {
    (void)state;
    SAME(sizeof(qf_cublas_choice), sizeof(cublasLtMatmulHeuristicResult_t));
    SAME(offsetof(qf_cublas_choice, workspace_size), offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
    SAME(offsetof(qf_cublas_choice, state), offsetof(cublasLtMatmulHeuristicResult_t, state));
    SAME(sizeof(((qf_cublas_choice *)0)->algorithm), sizeof(cublasLtMatmulAlgo_t));
}
#else
static void driver_declarations_agree(void **state) {
    (void)state;
    print_message("cuda.h is not installed here\n");
    skip();
}
static void cublaslt_declarations_agree(void **state) {
    driver_declarations_agree(state);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(driver_declarations_agree),
                                       cmocka_unit_test(cublaslt_declarations_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
