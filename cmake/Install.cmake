# Installed by `cmake --install`: the program (--component program), and what other programs link
# (--component embedding).
include(GNUInstallDirs)

# thinwire_install_output(<file> <command>...): what a command prints, as a file below the prefix.
function(thinwire_install_output file)
  string(MAKE_C_IDENTIFIER "${file}" written)
  set(written "${CMAKE_CURRENT_BINARY_DIR}/${written}")
  cmake_path(GET file PARENT_PATH folder)
  cmake_path(GET file FILENAME name)
  string(JOIN "\" \"" command ${ARGN})
  install(CODE "execute_process(COMMAND \"${command}\" OUTPUT_FILE \"${written}\"
                COMMAND_ERROR_IS_FATAL ANY)"
          COMPONENT program)
  install(FILES "${written}" DESTINATION "${folder}" RENAME "${name}" COMPONENT program)
endfunction()

# The program, with its recipes, its completion and its manual page.
function(thinwire_install_program target)
  set(program "$<TARGET_FILE:${target}>")
  set(share "${CMAKE_INSTALL_DATADIR}")
  install(TARGETS ${target} RUNTIME COMPONENT program)
  install(DIRECTORY "${CMAKE_SOURCE_DIR}/recipes" DESTINATION "${share}/thinwire"
          COMPONENT program)
  thinwire_install_output("${share}/bash-completion/completions/thinwire"
                          "${program}" completion bash)
  thinwire_install_output("${share}/zsh/vendor-completions/_thinwire" "${program}" completion zsh)
  thinwire_install_output("${share}/fish/vendor_completions.d/thinwire.fish"
                          "${program}" completion fish)
  thinwire_install_output("${CMAKE_INSTALL_MANDIR}/man1/thinwire.1"
                          python3 "${CMAKE_SOURCE_DIR}/tools/package/make_man.py" "${program}")
endfunction()

# What other programs link: three archives of layers, public headers (include/thinwire) and a CMake
# package, whose components are the targets thinwire::spec, thinwire::core and thinwire::run. Each
# contains the ones before it. docs/embedding.md describes them.
#
# thinwire_archive(<name> [DEPENDS <name>] LAYERS <folder>... LINK <library>...)
#
# Declares thinwire_<name> from the objects of these layers. LINK: what they call in other libraries;
# libraries of headers alone are not needed, because no public header includes them.
if(THINWIRE_TORCH)
  return()  # programs would have to find the LibTorch that this build uses
endif()
include(CMakePackageConfigHelpers)

set(THINWIRE_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/thinwire")

function(thinwire_archive name)
  cmake_parse_arguments(arg "" "DEPENDS" "LAYERS;LINK" ${ARGN})
  set(target thinwire_${name})
  list(TRANSFORM arg_LAYERS REPLACE "(.+)" "$<TARGET_OBJECTS:thinwire_\\1>" OUTPUT_VARIABLE objects)
  add_library(${target} STATIC ${objects})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} LINKER_LANGUAGE CXX)
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_include_directories(${target} INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_link_libraries(${target} PRIVATE ${arg_LINK})
  if(arg_DEPENDS)
    target_link_libraries(${target} PUBLIC thinwire_${arg_DEPENDS})
  endif()
  install(TARGETS ${target} EXPORT thinwire-${name} ARCHIVE COMPONENT embedding)
  install(EXPORT thinwire-${name} NAMESPACE thinwire:: DESTINATION "${THINWIRE_PACKAGE_DIR}"
          COMPONENT embedding)
  set_property(GLOBAL APPEND PROPERTY THINWIRE_ARCHIVED ${arg_LAYERS})
endfunction()

thinwire_archive(spec
                 LAYERS base config schedule links method membership plan face_spec
                 LINK Threads::Threads fmt::fmt tomlplusplus::tomlplusplus PkgConfig::xxhash
                      OpenSSL::Crypto)
thinwire_archive(core DEPENDS spec
                 LAYERS events data transport tensor model eval optim codec sync checkpoint convert face_core
                 LINK PkgConfig::sentencepiece PkgConfig::zstd PkgConfig::icu BZip2::BZip2
                      ZLIB::ZLIB hwy::hwy OpenSSL::SSL ${mpi} ${nats})
thinwire_archive(run DEPENDS core
                 LAYERS page report train launch serve member bench hosts face_run
                 LINK ${httplib})

get_property(layers GLOBAL PROPERTY THINWIRE_LAYERS)
get_property(archived GLOBAL PROPERTY THINWIRE_ARCHIVED)
list(REMOVE_ITEM layers ${archived} cli)
if(layers)
  message(FATAL_ERROR "layers in no archive of cmake/Install.cmake: ${layers}")
endif()

configure_package_config_file(
  "${CMAKE_SOURCE_DIR}/cmake/thinwire-config.cmake.in" "${CMAKE_BINARY_DIR}/thinwire-config.cmake"
  INSTALL_DESTINATION "${THINWIRE_PACKAGE_DIR}")
write_basic_package_version_file("${CMAKE_BINARY_DIR}/thinwire-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/thinwire-config.cmake"
              "${CMAKE_BINARY_DIR}/thinwire-config-version.cmake"
        DESTINATION "${THINWIRE_PACKAGE_DIR}" COMPONENT embedding)
install(DIRECTORY "${CMAKE_SOURCE_DIR}/include/thinwire" TYPE INCLUDE COMPONENT embedding)
