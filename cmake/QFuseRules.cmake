# Owns: turning patterns/rules/*.rules into one C file.
# Does not own: the rules.
# Next: patterns/engine.c. Run at build time: cmake -DRULES_DIR=... -DOUTPUT=... -P QFuseRules.cmake
if(CMAKE_SCRIPT_MODE_FILE)
  file(GLOB files ${RULES_DIR}/*.rules)
  list(SORT files)
  set(definitions "")
  set(rows "")
  set(count 0)
  foreach(file ${files})
    get_filename_component(name ${file} NAME)
    file(READ ${file} bytes HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
    string(APPEND definitions "static const char file_${count}[] = {${bytes}'\\0'};\n")
    string(APPEND rows "    {\"rules/${name}\", file_${count}, sizeof file_${count} - 1},\n")
    math(EXPR count "${count} + 1")
  endforeach()
  file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT "#include \"patterns/embedded.h\"
${definitions}
const qf_embedded_rule_file qf_embedded_rule_files[] = {
${rows}    {0, 0, 0}};
const size_t qf_embedded_rule_file_count = ${count};
")
  return()
endif()

file(GLOB rule_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/patterns/rules/*.rules)
set(embedded_rules ${PROJECT_BINARY_DIR}/embedded_rules.c)
add_custom_command(OUTPUT ${embedded_rules}
  COMMAND ${CMAKE_COMMAND} -DRULES_DIR=${PROJECT_SOURCE_DIR}/patterns/rules -DOUTPUT=${embedded_rules}
          -P ${PROJECT_SOURCE_DIR}/cmake/QFuseRules.cmake
  DEPENDS ${rule_files} ${PROJECT_SOURCE_DIR}/cmake/QFuseRules.cmake
  COMMENT "Embedding rules" VERBATIM)
target_sources(qf_patterns_objects PRIVATE ${embedded_rules})
