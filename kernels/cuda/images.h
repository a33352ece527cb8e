/* Owns: the compiled GPU kernels, embedded at build time: one fat binary a .cu file.
 * Does not own: compiling (cmake/QFuseCuda.cmake), loading (runtime/devices/cuda.c).
 * Next: launch.h. */
#ifndef QF_KERNELS_CUDA_IMAGES_H
#define QF_KERNELS_CUDA_IMAGES_H

#include <stddef.h>
#include <stdint.h>

typedef struct qf_cuda_image {
    const char *name; /* the .cu file's, without folder and ending */
    const unsigned char *start, *end;
} qf_cuda_image;

/* Empty where the build had no nvcc (QF_CUDA=OFF). Sorted by name. */
extern const qf_cuda_image qf_cuda_images[];
extern const uint32_t qf_cuda_image_count;

#endif
