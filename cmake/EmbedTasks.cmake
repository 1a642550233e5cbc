# Puts the task files of tasks/ into the program: a source of thinwire_eval that defines what
# eval/task.h declares.

file(GLOB task_files CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tasks/*.toml")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${task_files})
set(shipped_tasks "")
foreach(file IN LISTS task_files)
  get_filename_component(name "${file}" NAME_WE)
  file(READ "${file}" text)
  string(APPEND shipped_tasks "    {\"${name}\", R\"toml(${text})toml\"},\n")
endforeach()
set(shipped_source "${CMAKE_CURRENT_BINARY_DIR}/shipped_tasks.cpp")
configure_file("${CMAKE_CURRENT_LIST_DIR}/shipped_tasks.cpp.in" "${shipped_source}" @ONLY)
target_sources(thinwire_eval PRIVATE "${shipped_source}")
