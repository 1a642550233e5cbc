# Puts the live page's files (thinwire/page/*.html, *.css, *.js) into the program: a source of
# thinwire_page that defines what page/page_server.h declares.

file(GLOB embedded CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/page/*.html"
     "${CMAKE_CURRENT_SOURCE_DIR}/page/*.css" "${CMAKE_CURRENT_SOURCE_DIR}/page/*.js")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${embedded})
set(type_html "text/html")
set(type_css "text/css")
set(type_js "text/javascript")
set(page_files "")
foreach(file IN LISTS embedded)
  get_filename_component(name "${file}" NAME)
  string(REGEX REPLACE ".*\\." "" ending "${name}")
  string(REGEX REPLACE "^index\\.html$" "" name "${name}")
  file(READ "${file}" text)
  string(APPEND page_files
         "    {\"/${name}\", \"${type_${ending}}; charset=utf-8\", R\"page(${text})page\"},\n")
endforeach()
set(page_source "${CMAKE_CURRENT_BINARY_DIR}/page_files.cpp")
configure_file("${CMAKE_CURRENT_LIST_DIR}/page_files.cpp.in" "${page_source}" @ONLY)
target_sources(thinwire_page PRIVATE "${page_source}")
