// Owns: one instantiation, bf16 cache, head dim 128, up to 8 query rows a unit. Nothing else. Read next: kernel.cuh.
#include "instantiate.cuh"
QF_DECODE_INSTANTIATE(BF16, bf16, 128, 1)
