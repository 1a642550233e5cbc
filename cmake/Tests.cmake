# thinwire_tests(<folder> [LINK <library>...])
#
# Declares the tests of tests/<folder>:
#   *_multi_test.cpp -> <folder>_multi_test, ctest label multi
#   *_slow_test.cpp  -> <folder>_slow_test,  ctest label slow
#   *_test.cpp       -> <folder>_test,       ctest label unit
# Other .cpp files there are helpers and go into each of these programs. *_torch_test.cpp are left
# out when LibTorch is off. All of it links thinwire_<folder> where that layer exists.

if(THINWIRE_TESTS)
  include(GoogleTest)
endif()

function(thinwire_tests folder)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  file(GLOB helpers CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp")
  if(TARGET thinwire_${folder})
    list(APPEND arg_LINK thinwire_${folder})
  endif()

  # The specific names first, for each list takes its files out of what remains.
  set(remaining ${helpers})
  list(FILTER helpers EXCLUDE REGEX "_test\\.cpp$")
  if(NOT THINWIRE_TORCH)
    list(FILTER remaining EXCLUDE REGEX "_torch_test\\.cpp$")
  endif()
  foreach(kind multi slow unit)
    set(suffix "_${kind}_test")
    if(kind STREQUAL "unit")
      set(suffix "_test")
    endif()
    set(sources ${remaining})
    list(FILTER sources INCLUDE REGEX "${suffix}\\.cpp$")
    list(FILTER remaining EXCLUDE REGEX "${suffix}\\.cpp$")
    if(sources)
      thinwire_test_program(${folder}${suffix} ${kind} "${sources};${helpers}" "${arg_LINK}")
    endif()
  endforeach()
endfunction()

function(thinwire_test_program name label sources libraries)
  add_executable(${name} ${sources})
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${libraries} GTest::gmock GTest::gtest_main rapidcheck)
  target_compile_definitions(
    ${name} PRIVATE THINWIRE_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                    THINWIRE_SHARED_DATA="${CMAKE_SOURCE_DIR}/../shared/data")

  set(directory "${CMAKE_BINARY_DIR}/test_tmp")
  file(MAKE_DIRECTORY "${directory}")
  set(timeout 60)
  if(NOT label STREQUAL "unit")
    set(timeout 600)
  endif()
  thinwire_loads_torch(loads_torch "${libraries}")
  if(loads_torch)
    # Loading LibTorch costs more than most tests do, so once for the whole program.
    add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY "${directory}")
    set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 600)
  else()
    gtest_discover_tests(
      ${name} TEST_PREFIX ${name}. WORKING_DIRECTORY "${directory}"
      DISCOVERY_MODE PRE_TEST PROPERTIES LABELS ${label} TIMEOUT ${timeout})
  endif()
endfunction()

# Sets `result` to whether a program linking these libraries loads LibTorch.
function(thinwire_loads_torch result libraries)
  set(${result} FALSE PARENT_SCOPE)
  if(NOT THINWIRE_TORCH)
    return()
  endif()
  foreach(library IN LISTS libraries)
    if(library MATCHES "^thinwire_(tensor|model|train|cli)$|^thinwire::torch$")
      set(${result} TRUE PARENT_SCOPE)
    endif()
  endforeach()
endfunction()
