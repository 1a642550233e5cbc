# thinwire_tests(<folder> [LINK <library>...])
#
# Declares the tests of tests/<folder>:
#   *_multi_test.cpp -> <folder>_multi_test, ctest label multi
#   *_slow_test.cpp  -> <folder>_slow_test,  ctest label slow
#   *_gpu_test.cpp   -> <folder>_gpu_test,   ctest label gpu; each test skips itself without a GPU
#   *_torch_test.cpp -> <folder>_torch_test, ctest label torch; left out when LibTorch is off
#   *_test.cpp       -> <folder>_test,       ctest label unit
#   *_test.py        -> one test each, left out under the sanitizers; labels by the same suffixes
# Other .cpp files there are helpers and go into each of these programs. All of them link
# thinwire_<folder> if that layer exists.
#
# A program is a few ctest tests, shards of it: a process for each of its tests would take longer.
#
# *_nats_*test.cpp are left out where there is no libnats.
#
# C++ tests find files of the repository and of a folder of shared data, which may be absent, through
# tests/paths.h. Python tests find both folders, and THINWIRE_BINARY, in their environment.

if(THINWIRE_TESTS)
  set(test_directory "${CMAKE_BINARY_DIR}/test_tmp")
  file(MAKE_DIRECTORY "${test_directory}")
  set(shared_data "${CMAKE_SOURCE_DIR}/../shared/data")
  set(THINWIRE_TEST_SHARDS 4)
endif()

function(thinwire_tests folder)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  file(GLOB helpers CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp")
  if(TARGET thinwire_${folder})
    list(APPEND arg_LINK thinwire_${folder})
  endif()

  # The specific names first, because each list takes its files out of the rest.
  set(remaining ${helpers})
  list(FILTER helpers EXCLUDE REGEX "_test\\.cpp$")
  thinwire_group(helpers ${folder}_helpers)
  if(NOT THINWIRE_TORCH)
    list(FILTER remaining EXCLUDE REGEX "_torch_test\\.cpp$")
  endif()
  if(NOT nats_FOUND)
    list(FILTER remaining EXCLUDE REGEX "_nats_(multi_)?test\\.cpp$")
  endif()
  foreach(kind multi slow gpu torch unit)
    set(suffix "_${kind}_test")
    if(kind STREQUAL "unit")
      set(suffix "_test")
    endif()
    set(sources ${remaining})
    list(FILTER sources INCLUDE REGEX "${suffix}\\.cpp$")
    list(FILTER remaining EXCLUDE REGEX "${suffix}\\.cpp$")
    if(sources)
      thinwire_group(sources ${folder}${suffix})
      thinwire_test_program(${folder}${suffix} ${kind} "${sources};${helpers}" "${arg_LINK}")
    endif()
  endforeach()

  if(NOT THINWIRE_SANITIZE)
    thinwire_python_tests(${folder})
  endif()
endfunction()

function(thinwire_test_program name label sources libraries)
  add_executable(${name} ${sources})
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}" "${CMAKE_SOURCE_DIR}/include")
  target_link_libraries(${name} PRIVATE ${libraries} thinwire_test_paths GTest::gmock
                                        GTest::gtest_main rapidcheck)
  # The sanitizers' presets run unit tests; other programs are built there only by name.
  if(THINWIRE_SANITIZE AND NOT label STREQUAL "unit")
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  # Compiling tests takes longer than running them, but for those that are slow.
  if(NOT label STREQUAL "slow")
    target_compile_options(${name} PRIVATE -O0)
    thinwire_precompile(${name} REUSE_FROM thinwire_test_paths)
  endif()

  if(label STREQUAL "gpu")
    add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY "${test_directory}")
    set_tests_properties(${name} PROPERTIES LABELS gpu TIMEOUT 600
                                            SKIP_REGULAR_EXPRESSION "no GPU: ")
    return()
  endif()
  # Shards run side by side, and suites keep what their tests share in the temporary folder: each
  # shard has its own.
  math(EXPR last "${THINWIRE_TEST_SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(temporary "${test_directory}/${name}.${shard}")
    file(MAKE_DIRECTORY "${temporary}")
    add_test(NAME ${name}.${shard} COMMAND ${name} WORKING_DIRECTORY "${test_directory}")
    set_tests_properties(
      ${name}.${shard}
      PROPERTIES LABELS ${label} TIMEOUT 1800
                 ENVIRONMENT "GTEST_TOTAL_SHARDS=${THINWIRE_TEST_SHARDS};\
GTEST_SHARD_INDEX=${shard};TMPDIR=${temporary}")
  endforeach()
endfunction()

function(thinwire_python_tests folder)
  file(GLOB scripts CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*_test.py")
  foreach(script IN LISTS scripts)
    get_filename_component(name "${script}" NAME_WE)
    set(label unit)
    if(name MATCHES "_(multi|slow)_test$")
      set(label ${CMAKE_MATCH_1})
    endif()
    add_test(NAME ${folder}.${name} COMMAND "${THINWIRE_PYTHON}" "${script}"
             WORKING_DIRECTORY "${test_directory}")
    set_tests_properties(
      ${folder}.${name}
      PROPERTIES LABELS ${label} TIMEOUT 600
                 ENVIRONMENT "THINWIRE_BINARY=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/thinwire;\
THINWIRE_SOURCE_DIR=${CMAKE_SOURCE_DIR};THINWIRE_SHARED_DATA=${shared_data}")
  endforeach()
endfunction()
