# Owns: the two shared libraries, their exported symbols, installation.
# Does not own: the folders they are made of (CMakeLists.txt).
# Next: qfuse.pc.in, qfuseConfig.cmake.in.

# Exported: exactly what a public header marks QF_API. Headers of the run-time half go to libqfuse_rt, the others to libqfuse.
set(QF_RUNTIME_HEADERS export status dtype context ops dlpack tensor device plan runtime emit)

function(qf_export_map out)
  set(names "")
  foreach(header ${ARGN})
    file(STRINGS ${header} lines REGEX "^QF_API")
    foreach(line ${lines})
      string(REGEX MATCH "(qf_[a-z0-9_]+)\\(" match "${line}")
      if(CMAKE_MATCH_1)
        string(APPEND names "    ${CMAKE_MATCH_1};\n")
      endif()
    endforeach()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
  endforeach()
  file(CONFIGURE OUTPUT ${out} CONTENT "QFUSE_0 {\n  global:\n${names}  local:\n    *;\n};\n")
endfunction()

file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/qfuse/*.h)
set(runtime_headers "")
set(compiler_headers "")
foreach(header ${headers})
  get_filename_component(name ${header} NAME_WE)
  if(name IN_LIST QF_RUNTIME_HEADERS)
    list(APPEND runtime_headers ${header})
  elseif(NOT name STREQUAL mlir) # libqfuse-mlir's
    list(APPEND compiler_headers ${header})
  endif()
endforeach()
qf_export_map(${PROJECT_BINARY_DIR}/libqfuse_rt.map ${runtime_headers})
qf_export_map(${PROJECT_BINARY_DIR}/libqfuse.map ${compiler_headers})

# qf_shared(<name> FOLDERS folders... LINKS libraries...): one shared library of the folders' objects.
function(qf_shared name)
  cmake_parse_arguments(ARG "" "" "FOLDERS;LINKS" ${ARGN})
  set(objects "")
  foreach(folder ${ARG_FOLDERS})
    list(APPEND objects $<TARGET_OBJECTS:qf_${folder}_objects>)
  endforeach()
  add_library(${name} SHARED ${objects})
  set_target_properties(${name} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    LINK_DEPENDS ${PROJECT_BINARY_DIR}/lib${name}.map)
  target_link_libraries(${name} PRIVATE qf_options Threads::Threads m ${CMAKE_DL_LIBS} PUBLIC ${ARG_LINKS})
  target_link_options(${name} PRIVATE -Wl,--version-script=${PROJECT_BINARY_DIR}/lib${name}.map)
  if(NOT QF_SANITIZE)
    target_link_options(${name} PRIVATE -Wl,--no-undefined)
  endif()
  target_include_directories(${name} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
endfunction()

find_package(Threads REQUIRED)
target_link_libraries(qf_kernels PUBLIC Threads::Threads m ${CMAKE_DL_LIBS})
qf_shared(qfuse_rt FOLDERS base spec plan kernels runtime)

# The compiler half has base, spec and plan of its own (hidden); kernels and devices it reaches through libqfuse_rt alone.
set(frontends "")
if(TARGET qf_frontends_objects)
  set(frontends frontends)
endif()
qf_shared(qfuse FOLDERS base spec ir patterns passes plan codegen ${frontends} LINKS qfuse_rt)
if(frontends)
  find_package(PkgConfig)
  pkg_check_modules(QF_PROTOBUF_C IMPORTED_TARGET libprotobuf-c)
  if(TARGET PkgConfig::QF_PROTOBUF_C)
    target_link_libraries(qfuse PRIVATE PkgConfig::QF_PROTOBUF_C)
  endif()
  get_property(has_pt2 GLOBAL PROPERTY QF_HAS_PT2)
  if(has_pt2)
    pkg_check_modules(QF_PT2_LIBRARIES IMPORTED_TARGET libzip jansson)
    target_link_libraries(qfuse PRIVATE PkgConfig::QF_PT2_LIBRARIES)
  endif()
endif()

include(CMakePackageConfigHelpers)
foreach(library qfuse qfuse_rt)
  add_library(qfuse::${library} ALIAS ${library})
  set_target_properties(${library} PROPERTIES INSTALL_RPATH "$ORIGIN")
  file(RELATIVE_PATH QF_PKGCONFIG_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/${library}.pc.in ${PROJECT_BINARY_DIR}/${library}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${library}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT qfuse)
endforeach()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/qfuseConfig.cmake.in ${PROJECT_BINARY_DIR}/qfuseConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qfuse)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/qfuseConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(TARGETS qfuse qfuse_rt EXPORT qfuseTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT qfuse
  NAMELINK_COMPONENT qfuse)
install(FILES ${PROJECT_BINARY_DIR}/qfuseConfig.cmake ${PROJECT_BINARY_DIR}/qfuseConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qfuse COMPONENT qfuse)
if(NOT QF_MLIR_FOUND)
  list(FILTER headers EXCLUDE REGEX "/mlir\\.h$")
endif()
install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/qfuse COMPONENT qfuse)

# libqfuse-mlir for each version of LLVM that was found: base, spec and ir of its own (hidden), passes through libqfuse, and
# mlir* symbols from the host, so that no two copies of MLIR meet in one process.
if(QF_MLIR_FOUND AND frontends)
  file(STRINGS ${PROJECT_SOURCE_DIR}/include/qfuse/mlir.h lines REGEX "^QF_API")
  set(names "")
  foreach(line ${lines})
    string(REGEX MATCH "(qf(use)?_[a-z0-9_]+)\\(" match "${line}")
    string(APPEND names "    ${CMAKE_MATCH_1};\n")
  endforeach()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/libqfuse-mlir.map CONTENT "QFUSE_0 {\n  global:\n${names}  local:\n    *;\n};\n")
  list(GET QF_MLIR_FOUND 0 QF_MLIR_NEWEST)
  foreach(version ${QF_MLIR_FOUND})
    add_library(qfuse_mlir_${version} SHARED $<TARGET_OBJECTS:qf_mlir_${version}_objects> $<TARGET_OBJECTS:qf_mlir_emit_objects>
      $<TARGET_OBJECTS:qf_base_objects> $<TARGET_OBJECTS:qf_spec_objects> $<TARGET_OBJECTS:qf_ir_objects>)
    set_target_properties(qfuse_mlir_${version} PROPERTIES OUTPUT_NAME qfuse-mlir EXPORT_NAME qfuse_mlir VERSION ${PROJECT_VERSION}
      SOVERSION ${PROJECT_VERSION_MAJOR} LINK_DEPENDS ${PROJECT_BINARY_DIR}/libqfuse-mlir.map
      LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/mlir/${version} INSTALL_RPATH "$ORIGIN")
    target_link_libraries(qfuse_mlir_${version} PRIVATE qf_options m PUBLIC qfuse)
    target_link_options(qfuse_mlir_${version} PRIVATE -Wl,--version-script=${PROJECT_BINARY_DIR}/libqfuse-mlir.map)
    target_include_directories(qfuse_mlir_${version} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
      $<INSTALL_INTERFACE:include>)
  endforeach()
  install(TARGETS qfuse_mlir_${QF_MLIR_NEWEST} EXPORT qfuseTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT qfuse
    NAMELINK_COMPONENT qfuse)
  add_library(qfuse::qfuse_mlir ALIAS qfuse_mlir_${QF_MLIR_NEWEST})
endif()

install(EXPORT qfuseTargets NAMESPACE qfuse:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qfuse COMPONENT qfuse)
