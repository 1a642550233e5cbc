# Folders whose subfolders each hold all of one thing, and the ends of the names of the files in them
# that belong to another layer than the others.
set(THINWIRE_ROOMS methods optimizers architectures)
set(THINWIRE_ENDINGS spec plan hf)

# thinwire_layer(<folder> [COMPUTES] [FREQUENT] [HOT <source>...] [ROOM <folder>] [ENDING <word>]
#                [DEPENDS <folder>...] [LINK <library>...] [LINK_PRIVATE <library>...]
#                [PRECOMPILE <header>...])
#
# Declares the static library thinwire_<folder> from the .cpp files of thinwire/<folder> and of its
# subfolders, from those called *_<word>.cpp of all rooms, and from those of its own room that have
# none of the endings. With LibTorch on, *_torch.cpp are used and *_stub.cpp left out; with LibTorch off, the
# other way round. A folder without sources gives a header-only target; one that does not exist is
# skipped, and so is a dependency on it. main.cpp belongs to no library. With CUDA on, *.cu are used
# and *_nocuda.cpp left out; *_mpi.cpp and *_nompi.cpp are chosen by whether MPI is available,
# *_nats.cpp and *_nonats.cpp by whether libnats is, *_http.cpp and *_nohttp.cpp by whether cpp-httplib is.
#
# COMPUTES: optimized more, because its loops run over tensors. HOT: only these sources are, because
# theirs run over tensors or texts. FREQUENT: all of the layer is under the sanitizers, because
# nearly every test runs through it. PRECOMPILE: headers compiled once for
# this layer; those of the first layer are for all that list none.
function(thinwire_layer folder)
  cmake_parse_arguments(arg "COMPUTES;FREQUENT" "ROOM;ENDING"
                        "HOT;DEPENDS;LINK;LINK_PRIVATE;PRECOMPILE" ${ARGN})
  # Before the check, so that a folder's first source is noticed by the next build.
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp"
       "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*/*.cpp")
  if(NOT IS_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/${folder}")
    return()
  endif()
  if(arg_ROOM)
    file(GLOB own CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${arg_ROOM}/*/*.cpp")
    foreach(ending IN LISTS THINWIRE_ENDINGS)
      list(FILTER own EXCLUDE REGEX "_${ending}\\.cpp$")
    endforeach()
    list(APPEND sources ${own})
  endif()
  if(arg_ENDING)
    foreach(room IN LISTS THINWIRE_ROOMS)
      file(GLOB own CONFIGURE_DEPENDS
           "${CMAKE_CURRENT_SOURCE_DIR}/${room}/*/*_${arg_ENDING}.cpp")
      list(APPEND sources ${own})
    endforeach()
  endif()

  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  if(THINWIRE_TORCH)
    list(FILTER sources EXCLUDE REGEX "_stub\\.cpp$")
    set(torch_sources ${sources})
    list(FILTER torch_sources INCLUDE REGEX "_torch\\.cpp$")
    list(FILTER sources EXCLUDE REGEX "_torch\\.cpp$")
    thinwire_group(torch_sources ${folder}_torch)
    set_source_files_properties(
      ${torch_sources} PROPERTIES COMPILE_OPTIONS "${THINWIRE_TORCH_OPTIONS}"
                                  SKIP_PRECOMPILE_HEADERS ON)
  else()
    list(FILTER sources EXCLUDE REGEX "_torch\\.cpp$")
    set(torch_sources)
  endif()

  if(MPI_CXX_FOUND)
    list(FILTER sources EXCLUDE REGEX "_nompi\\.cpp$")
  else()
    list(FILTER sources EXCLUDE REGEX "_mpi\\.cpp$")
  endif()

  if(nats_FOUND)
    list(FILTER sources EXCLUDE REGEX "_nonats\\.cpp$")
  else()
    list(FILTER sources EXCLUDE REGEX "_nats\\.cpp$")
  endif()

  if(httplib_FOUND)
    list(FILTER sources EXCLUDE REGEX "_nohttp\\.cpp$")
  else()
    list(FILTER sources EXCLUDE REGEX "_http\\.cpp$")
  endif()

  if(THINWIRE_CUDA)
    list(FILTER sources EXCLUDE REGEX "_nocuda\\.cpp$")
  endif()
  set(hot_sources)
  foreach(source IN LISTS arg_HOT)
    list(APPEND hot_sources "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/${source}")
  endforeach()
  if(hot_sources)
    list(REMOVE_ITEM sources ${hot_sources})
    thinwire_group(hot_sources ${folder}_hot)
    if(NOT THINWIRE_SANITIZE)
      set_source_files_properties(${hot_sources} PROPERTIES COMPILE_OPTIONS "${THINWIRE_COMPUTE_OPTIONS}")
    endif()
  endif()
  thinwire_group(sources ${folder})
  list(APPEND sources ${hot_sources} ${torch_sources})
  if(THINWIRE_CUDA)
    file(GLOB cuda_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cu"
         "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*/*.cu")
    list(APPEND sources ${cuda_sources})
  endif()

  set(target thinwire_${folder})
  if(sources)
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE ${arg_LINK_PRIVATE})
    if(arg_FREQUENT AND THINWIRE_SANITIZE)
      set(arg_COMPUTES TRUE)
    endif()
    if(arg_COMPUTES)
      target_compile_options(${target} PRIVATE
                             "$<$<COMPILE_LANGUAGE:CXX>:${THINWIRE_COMPUTE_OPTIONS}>")
    endif()
    thinwire_layer_headers(${target} ${arg_COMPUTES} ${arg_PRECOMPILE})
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} "${CMAKE_SOURCE_DIR}" "${CMAKE_SOURCE_DIR}/include")
  target_link_libraries(${target} ${scope} ${arg_LINK})
  foreach(dependency IN LISTS arg_DEPENDS)
    if(TARGET thinwire_${dependency})
      target_link_libraries(${target} ${scope} thinwire_${dependency})
    endif()
  endforeach()
  set_property(GLOBAL APPEND PROPERTY THINWIRE_LAYERS ${folder})
endfunction()

# Precompiles the headers that are listed, or else those of the first layer. Layers share them, but
# under the sanitizers only those that are optimized alike: clang lets no others.
function(thinwire_layer_headers target optimized)
  set(alike all)
  if(THINWIRE_SANITIZE)
    set(alike ${optimized})
  endif()
  get_property(owner GLOBAL PROPERTY THINWIRE_HEADERS_OF_${alike})
  get_property(headers GLOBAL PROPERTY THINWIRE_HEADERS)
  if(ARGN)
    set(headers ${ARGN})
  elseif(owner)
    thinwire_precompile(${target} REUSE_FROM ${owner})
    return()
  endif()
  thinwire_precompile(${target} PRIVATE ${headers})
  if(NOT owner)
    set_property(GLOBAL PROPERTY THINWIRE_HEADERS_OF_${alike} ${target})
    set_property(GLOBAL PROPERTY THINWIRE_HEADERS ${headers})
  endif()
endfunction()
