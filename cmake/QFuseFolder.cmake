# Owns: qf_folder(), which makes one static target per folder whose include path holds only what the folder may use.
# Does not own: which folders there are (CMakeLists.txt).
# Next: QFuseLibraries.cmake.

# Sources are written as #include "folder/file.h". Each folder compiles with a directory of links to itself and to the folders
# that it may use, so that any other include does not resolve.
add_library(qf_options INTERFACE)
target_compile_options(qf_options INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall;-Wextra;-Wshadow;-Wstrict-prototypes;-Wmissing-prototypes;-Wpointer-arith;-Wcast-qual;-Wundef;-Wvla;-ffp-contract=off>
  $<$<AND:$<COMPILE_LANGUAGE:C>,$<BOOL:${QF_WERROR}>>:-Werror>)
target_include_directories(qf_options INTERFACE ${PROJECT_SOURCE_DIR}/include)
set(QF_SANITIZERS "")
if(QF_SANITIZE STREQUAL thread)
  set(QF_SANITIZERS -fsanitize=thread)
elseif(QF_SANITIZE)
  set(QF_SANITIZERS -fsanitize=address,undefined -fno-sanitize-recover=all)
endif()
if(QF_SANITIZERS)
  target_compile_options(qf_options INTERFACE ${QF_SANITIZERS} -fno-omit-frame-pointer)
  target_link_options(qf_options INTERFACE ${QF_SANITIZERS})
endif()
if(QF_FUZZ)
  target_compile_options(qf_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(CMAKE_SYSTEM_NAME STREQUAL Linux)
  target_compile_definitions(qf_options INTERFACE _POSIX_C_SOURCE=200809L _FILE_OFFSET_BITS=64)
endif()

# qf_include_path(<target> <name> folders...): gives the target an include path that reaches these top folders only.
function(qf_include_path target name)
  set(path ${PROJECT_BINARY_DIR}/paths/${name})
  file(MAKE_DIRECTORY ${path})
  foreach(folder ${ARGN})
    if(NOT EXISTS ${path}/${folder})
      file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${path}/${folder} SYMBOLIC)
    endif()
  endforeach()
  target_include_directories(${target} PRIVATE ${path})
endfunction()

# qf_folder(<folder> USES folders...): target qf_<folder> from <folder>/*.c and one level of subfolders.
function(qf_folder folder)
  cmake_parse_arguments(ARG "" "" "USES" ${ARGN})
  set(reach ${folder})
  foreach(used ${ARG_USES})
    get_property(more GLOBAL PROPERTY QF_REACH_${used})
    list(APPEND reach ${used} ${more})
  endforeach()
  list(REMOVE_DUPLICATES reach)
  set_property(GLOBAL PROPERTY QF_REACH_${folder} ${reach})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.c ${PROJECT_SOURCE_DIR}/${folder}/cpu/*.c
       ${PROJECT_SOURCE_DIR}/${folder}/cuda/*.c ${PROJECT_SOURCE_DIR}/${folder}/devices/*.c)
  if(NOT sources)
    set_property(GLOBAL APPEND PROPERTY QF_EMPTY_FOLDERS ${folder})
    file(WRITE ${PROJECT_BINARY_DIR}/empty/${folder}.c "typedef int qf_${folder}_is_empty;\n")
    set(sources ${PROJECT_BINARY_DIR}/empty/${folder}.c)
  endif()
  add_library(qf_${folder}_objects OBJECT ${sources})
  target_link_libraries(qf_${folder}_objects PUBLIC qf_options)
  qf_include_path(qf_${folder}_objects ${folder} ${reach})
  add_library(qf_${folder} STATIC $<TARGET_OBJECTS:qf_${folder}_objects>)
  target_link_libraries(qf_${folder} PUBLIC qf_options)
  foreach(used ${ARG_USES})
    target_link_libraries(qf_${folder} PUBLIC qf_${used})
  endforeach()
endfunction()
