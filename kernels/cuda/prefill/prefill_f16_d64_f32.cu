// Owns: one instantiation, f16, head dim 64, scores in f32. Nothing else. Read next: kernel.cuh.
#include "instantiate.cuh"
QF_PREFILL_INSTANTIATE(F16, f16, 64, F32, f32, NONE, )
