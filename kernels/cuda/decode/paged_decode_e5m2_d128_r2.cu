// Owns: one instantiation, e5m2 cache, head dim 128, up to 16 query rows a unit. Nothing else. Read next: kernel.cuh.
#include "instantiate.cuh"
QF_DECODE_INSTANTIATE(E5M2, e5m2, 128, 2)
