// Owns: one instantiation, e4m3, head dim 64, scores in f32. Nothing else. Read next: kernel.cuh.
#include "instantiate.cuh"
QF_PREFILL_INSTANTIATE(E4M3, e4m3, 64, F32, f32, INSIDE, )
