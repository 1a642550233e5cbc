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
include(GNUInstallDirs)
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
                 LAYERS events data transport tensor model eval optim codec sync checkpoint convert
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
