# thinwire_group(<variable> <name>)
#
# With THINWIRE_GROUP on, replaces the list of C++ sources in <variable> by one that compiles the
# same in about half of the time: sources that include several of them (tools/source_groups.py),
# called after <name>. The preset tidy does without: it shows that each source includes what it uses.
#
# What collides is looked for when CMake runs. If an edit makes two sources of a group define the
# same name, the compiler says so; choose another name, or run CMake again, which keeps them apart.
option(THINWIRE_GROUP "Compile several sources as one" ON)
if(THINWIRE_GROUP)
  # A variable may have the name of something in another source of its group.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow>")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC takes a grouped source for a header, in which anonymous namespaces would be a mistake.
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage;-Wshadow=local>")
  endif()
endif()
find_program(THINWIRE_PYTHON python3 PATHS "${CMAKE_SOURCE_DIR}/.venv/bin" NO_DEFAULT_PATH)
find_program(THINWIRE_PYTHON python3)

function(thinwire_group variable name)
  if(NOT THINWIRE_GROUP OR NOT THINWIRE_PYTHON OR NOT ${variable})
    return()
  endif()
  execute_process(
    COMMAND "${THINWIRE_PYTHON}" "${CMAKE_SOURCE_DIR}/tools/source_groups.py"
            --out "${CMAKE_CURRENT_BINARY_DIR}/groups" --name ${name} ${${variable}}
    OUTPUT_VARIABLE sources OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" sources "${sources}")
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()
