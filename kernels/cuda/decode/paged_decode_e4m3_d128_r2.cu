// Owns: one instantiation, e4m3 cache, head dim 128, up to 16 query rows a unit. Nothing else. Read next: kernel.cuh.
#include "instantiate.cuh"
QF_DECODE_INSTANTIATE(E4M3, e4m3, 128, 2)
