// Owns: one instantiation, e4m3, head dim 128, scores in f32. Nothing else. Read next: kernel.cuh.
#include "instantiate.cuh"
QF_PREFILL_INSTANTIATE(E4M3, e4m3, 128, F32, f32, INSIDE, )
