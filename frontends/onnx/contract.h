/* Owns: the matrix product that several mappings share.
 * Does not own: its mapping (map_contract.c).
 * Next: map_contract.c. */
#ifndef QF_FRONTENDS_ONNX_CONTRACT_H
#define QF_FRONTENDS_ONNX_CONTRACT_H

#include "frontends/onnx/build.h"

/* NumPy's matmul as an einsum; the last two axes of either side may be swapped first. Ranks are known and at least 1.
 */
qf_value qf_onnx_matmul(qf_onnx_call *call, qf_value a, qf_value b, bool swap_a, bool swap_b);

#endif
