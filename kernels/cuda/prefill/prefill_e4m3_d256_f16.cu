// Owns: one instantiation, e4m3, head dim 256, scores in f16. Nothing else. Read next: kernel.cuh.
#include "instantiate.cuh"
QF_PREFILL_INSTANTIATE(E4M3, e4m3, 256, F16, f16, INSIDE, )
