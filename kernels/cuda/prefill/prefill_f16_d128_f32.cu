// Owns: one instantiation, f16, head dim 128, scores in f32. Nothing else. Read next: kernel.cuh.
#include "instantiate.cuh"
QF_PREFILL_INSTANTIATE(F16, f16, 128, F32, f32, NONE, )
