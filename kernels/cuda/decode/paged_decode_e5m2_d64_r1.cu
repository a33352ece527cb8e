// Owns: one instantiation, e5m2 cache, head dim 64, up to 8 query rows a unit. Nothing else. Read next: kernel.cuh.
#include "instantiate.cuh"
QF_DECODE_INSTANTIATE(E5M2, e5m2, 64, 1)
