#!/usr/bin/env bash
# Owns: checking that every #include goes in a direction that the rows of CMakeLists.txt allow, and that the run-time half
#       includes no public header of the compiler half.
# Does not own: the rows (qf_folder in CMakeLists.txt), the list of run-time headers (cmake/QFuseLibraries.cmake).
# Next: tests/install. Usage: scripts/check_includes.sh
. "$(dirname "$0")/lib.sh"
files=$(tracked '*.c' '*.h' '*.cu' '*.cuh')
awk '
function fault(text) { print FILENAME ":" FNR ": " text; faults++ }
FILENAME == "CMakeLists.txt" && match($0, /^qf_folder\([a-z ]*/) {
    line = $0; gsub(/^qf_folder\(|\).*$/, "", line); count = split(line, words, " "); name = words[1]; reach[name] = " " name " "
    for (i = 2; i <= count; i++) if (words[i] != "USES") reach[name] = reach[name] reach[words[i]]
    rows++; next
}
FILENAME == "cmake/QFuseLibraries.cmake" && /^set\(QF_RUNTIME_HEADERS / {
    line = $0; gsub(/^set\(QF_RUNTIME_HEADERS |\).*$/, "", line); runtime_headers = " " line " "; next
}
FILENAME ~ /^(base|spec|ir|patterns|passes|plan|codegen|kernels|runtime|frontends)\// && /^[ \t]*#[ \t]*include/ {
    folder = FILENAME; sub(/\/.*/, "", folder); files[FILENAME] = 1; includes++
    if (folder == "frontends") reach[folder] = " frontends " reach["ir"]
    if (match($0, /"[^"]+"/)) {
        path = substr($0, RSTART + 1, RLENGTH - 2)
        if (path !~ /\//) next
        top = path; sub(/\/.*/, "", top)
        if (path ~ /^\.\./) fault("\"" path "\" climbs; write it from the repository root")
        else if (index(reach[folder], " " top " ") == 0) fault(folder " may not include \"" path "\"")
    } else if (match($0, /<qfuse\/[a-z_0-9]+\.h>/)) {
        header = substr($0, RSTART + 7, RLENGTH - 10)
        if ((folder == "plan" || folder == "kernels" || folder == "runtime") && index(runtime_headers, " " header " ") == 0)
            fault(folder " is run-time half and may not include <qfuse/" header ".h>")
    }
}
END {
    if (rows < 9 || includes < 50 || runtime_headers == "") { print "check_includes: too little was found; the check means nothing"; exit 2 }
    for (file in files) checked++
    if (faults) exit 1
    print "includes: " includes " in " checked " files go the allowed way"
}' CMakeLists.txt cmake/QFuseLibraries.cmake $(grep -E '^(base|spec|ir|patterns|passes|plan|codegen|kernels|runtime|frontends)/' <<<"$files")
