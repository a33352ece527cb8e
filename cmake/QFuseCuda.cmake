# Owns: compiling kernels/cuda/**/*.cu into fat binaries, their checks, and embedding them.
# Does not own: the kernels; fetching nvcc where it is missing (scripts/deps.sh cuda).
# Next: kernels/README.md. Run at build time for each file: cmake -DNVCC=... -DSOURCE=... -P QFuseCuda.cmake
if(CMAKE_SCRIPT_MODE_FILE)
  set(architectures "")
  foreach(target ${TARGETS})
    list(APPEND architectures -gencode arch=compute_${target},code=sm_${target})
  endforeach()
  get_filename_component(folder ${OUTPUT} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  execute_process(COMMAND ${NVCC} -fatbin -O3 -std=c++17 ${architectures} -I${ROOT}/kernels/cuda -I${ROOT} -I${ROOT}/include -Xptxas -v
                          -Xfatbin -compress-all -MD -MF ${OUTPUT}.d -MT ${OUTPUT} ${SOURCE} -o ${OUTPUT}.new
    OUTPUT_VARIABLE log ERROR_VARIABLE log RESULT_VARIABLE result)
  file(WRITE ${OUTPUT}.log "${log}")
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${SOURCE}: nvcc failed\n${log}")
  endif()
  if(log MATCHES "Potential Performance Loss[^\n]*")
    message(FATAL_ERROR "${SOURCE}: wgmma is serialised: ${CMAKE_MATCH_0}")
  endif()
  if(NOT HOT STREQUAL "OFF")
    string(REGEX MATCHALL "[0-9]+ bytes spill stores" spills "${log}")
    foreach(spill ${spills})
      string(REGEX MATCH "^[0-9]+" bytes "${spill}")
      if(bytes GREATER HOT)
        message(FATAL_ERROR "${SOURCE}: a hot kernel spills registers: ${spill}, at most ${HOT} are taken")
      endif()
    endforeach()
  endif()
  file(RENAME ${OUTPUT}.new ${OUTPUT})
  return()
endif()

# Folders of kernels/cuda whose kernels are written for one target, and how many bytes of registers a kernel of theirs
# may spill.
set(QF_CUDA_TARGETS 80 89 90a 100a)
set(QF_CUDA_TARGETS_decode 90a)
set(QF_CUDA_TARGETS_prefill 90a)
set(QF_CUDA_SPILLS_decode 0)
set(QF_CUDA_SPILLS_prefill 0)

set(QF_NVCC "")
if(QF_CUDA)
  file(GLOB private_nvcc ${PROJECT_SOURCE_DIR}/.deps/cuda/nvidia/*/bin/nvcc)
  find_program(QF_NVCC_PROGRAM nvcc PATHS /usr/local/cuda/bin)
  if(NOT QF_NVCC_PROGRAM AND private_nvcc)
    list(GET private_nvcc 0 QF_NVCC)
  elseif(QF_NVCC_PROGRAM)
    set(QF_NVCC ${QF_NVCC_PROGRAM})
  endif()
endif()
if(QF_NVCC)
  message(STATUS "GPU kernels: compiled by ${QF_NVCC} for ${QF_CUDA_TARGETS}")
elseif(QF_CUDA)
  message(STATUS "GPU kernels: none, the library is CPU-only: nvcc was not found (scripts/deps.sh cuda fetches it)")
else()
  message(STATUS "GPU kernels: none, the library is CPU-only (QF_CUDA=OFF)")
endif()

file(GLOB cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cu ${PROJECT_SOURCE_DIR}/kernels/cuda/*/*.cu)
set(images "")
foreach(source ${cuda_sources})
  get_filename_component(name ${source} NAME_WE)
  list(APPEND image_names ${name})
  set(QF_CUDA_SOURCE_${name} ${source})
endforeach()
list(SORT image_names)
set(definitions "")
set(rows "")
if(QF_NVCC)
  foreach(name ${image_names})
    set(source ${QF_CUDA_SOURCE_${name}})
    get_filename_component(folder ${source} DIRECTORY)
    get_filename_component(folder ${folder} NAME)
    set(targets ${QF_CUDA_TARGETS})
    if(DEFINED QF_CUDA_TARGETS_${folder})
      set(targets ${QF_CUDA_TARGETS_${folder}})
    endif()
    set(hot OFF)
    if(DEFINED QF_CUDA_SPILLS_${folder})
      set(hot ${QF_CUDA_SPILLS_${folder}})
    endif()
    set(image ${PROJECT_BINARY_DIR}/cuda/${name}.fatbin)
    add_custom_command(OUTPUT ${image}
      COMMAND ${CMAKE_COMMAND} -DNVCC=${QF_NVCC} -DSOURCE=${source} -DOUTPUT=${image} -DROOT=${PROJECT_SOURCE_DIR}
              "-DTARGETS=${targets}" -DHOT=${hot} -P ${PROJECT_SOURCE_DIR}/cmake/QFuseCuda.cmake
      DEPENDS ${source} ${PROJECT_SOURCE_DIR}/cmake/QFuseCuda.cmake DEPFILE ${image}.d
      COMMENT "Compiling ${name}.cu" VERBATIM)
    list(APPEND images ${image})
    string(APPEND definitions "__asm__(\".section .rodata\\n.balign 64\\n.hidden qf_image_${name}\\n.globl qf_image_${name}\\n\"
        \"qf_image_${name}:\\n.incbin \\\"${image}\\\"\\n.hidden qf_image_end_${name}\\n.globl qf_image_end_${name}\\n\"
        \"qf_image_end_${name}:\\n.byte 0\\n.previous\");
extern const unsigned char qf_image_${name}[], qf_image_end_${name}[];
")
    string(APPEND rows "    {\"${name}\", qf_image_${name}, qf_image_end_${name}},\n")
  endforeach()
endif()
list(LENGTH images image_count)
set(embedded_images ${PROJECT_BINARY_DIR}/cuda_images.c)
file(CONFIGURE OUTPUT ${embedded_images} @ONLY CONTENT "#include \"kernels/cuda/images.h\"
${definitions}
const qf_cuda_image qf_cuda_images[] = {
${rows}    {0, 0, 0}};
const uint32_t qf_cuda_image_count = ${image_count};
")
set_source_files_properties(${embedded_images} PROPERTIES OBJECT_DEPENDS "${images}")
target_sources(qf_kernels_objects PRIVATE ${embedded_images})
