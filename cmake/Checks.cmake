# Checks of the whole tree, as tests. They are declared before all others: clang-tidy runs beside
# tests, many of which wait more than they compute, the others once no other test is running.
include(ProcessorCount)
ProcessorCount(cores)
math(EXPR half "(${cores} + 1) / 2")
math(EXPR all "${cores} + 1")  # as run-tests

function(thinwire_check name label processors)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
  set_tests_properties(${name} PROPERTIES LABELS ${label} PROCESSORS ${processors} TIMEOUT 3600)
endfunction()

thinwire_check(format unit 1 "${CMAKE_SOURCE_DIR}/tools/check_format.py")
thinwire_check(layers unit 1 "${CMAKE_SOURCE_DIR}/tools/check_layers.py")
thinwire_check(clang_tidy tidy ${half} "${CMAKE_SOURCE_DIR}/tools/run_tidy.py" --jobs ${half})
# Each builds its preset and runs the tests that concern it.
thinwire_check(libtorch torch ${all} ${CMAKE_COMMAND} --workflow --preset torch)
# Making the systems in which it builds takes too long for every clone, so it is skipped without them.
thinwire_check(packages package ${all} bash -c
               "nice tools/package.sh --cached && nice tools/check_package.sh build/package-tried")
set_tests_properties(packages PROPERTIES SKIP_RETURN_CODE 77)
thinwire_check(asan_ubsan sanitizer ${all} ${CMAKE_COMMAND} --workflow --preset asan-ubsan)
thinwire_check(tsan sanitizer ${all} ${CMAKE_COMMAND} --workflow --preset tsan)
