#!/usr/bin/env bash
# make_build_root.sh MIRROR SECURITY_MIRROR ARCH: turns a minimal Debian 12 on x86-64 into the system
# in which tools/package.sh builds for amd64 or arm64, with newer_glibc.c beside this script. Into
# /opt/sysroot go the glibc of Debian 11, which is the oldest that the program shall run with, and
# static libraries: those of Debian 12, built from its sources where it has none, and Debian 13's
# libnats. They were built against newer glibcs, which is harmless as long as they ask for nothing
# that the old one lacks but what newer_glibc.c has; the linker would say so.
set -euo pipefail
mirror=$1 security=$2 arch=$3
case $arch in
  amd64) triplet=x86_64-linux-gnu compilers=(g++) glibc=(libc6-dev linux-libc-dev) ;;
  arm64) # from here on, with an emulator for what is built
    triplet=aarch64-linux-gnu compilers=(g++-aarch64-linux-gnu qemu-user)
    glibc=(libc6-arm64-cross libc6-dev-arm64-cross linux-libc-dev-arm64-cross)
    ;;
esac
readonly sysroot=/opt/sysroot

export DEBIAN_FRONTEND=noninteractive
cat >/etc/apt/sources.list <<LIST
deb $mirror bookworm main
deb $security bookworm-security main
deb $mirror bullseye main
deb-src $mirror bookworm main
deb $mirror trixie main
LIST
cat >/etc/apt/apt.conf.d/90package <<CONF
APT::Default-Release "/^bookworm/";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
CONF
dpkg --add-architecture $arch
apt-get -q update
apt-get -q install -y "${compilers[@]}" ccache cmake dpkg-dev git icu-devtools lld-16 ninja-build pkgconf python3 zstd
# So that nothing can be taken from this system's own glibc instead.
dpkg-query -L "${glibc[@]}" | while read -r file; do [[ -d $file ]] || rm -f "$file"; done
git config --system safe.directory "*"

mkdir -p /opt/debs /opt/sources "$sysroot"
cd /opt/debs
apt-get -q download {libc6,libc6-dev,linux-libc-dev,libgcc-10-dev}:$arch/bullseye \
  libnats-dev:$arch/trixie libcli11-dev libexpected-dev nlohmann-json3-dev \
  {libbz2-1.0,libbz2-dev,libicu-dev,libprotobuf-c-dev,libsodium-dev}:$arch \
  {libssl-dev,libtomlplusplus-dev,libxxhash-dev,libzstd-dev,zlib1g-dev}:$arch
for package in *.deb; do dpkg-deb --extract "$package" "$sysroot"; done
cd "$sysroot"
# Of GCC 10 only its unwinder, which needs no newer glibc; GCC 12's does.
mkdir -p opt/unwinder
mv usr/lib/gcc/$triplet/10/libgcc_eh.a opt/unwinder/
rm -rf usr/lib/gcc
# Links to absolute places, as those of glibc's libraries, point into this folder.
find . -type l -lname '/*' -printf '%p %l\n' | while read -r link target; do
  ln -sfnr "$sysroot$target" "$link"
done
# All but glibc is static.
cd usr/lib/$triplet
rm -f lib{BrokenLocale,anl,c,dl,g,m,m-2.31,mcheck,mvec,pthread,resolv,rt,util}.a
mv libnats_static.a libnats.a
for library in lib*.a; do rm -f "${library%.a}.so"; done
cat >pkgconfig/libnats.pc <<'PC'
Name: libnats
Description: NATS client
Version: 3.10.1
Requires: libssl libcrypto libsodium libprotobuf-c
Libs: -lnats
PC
# toml++ and cpp-httplib, which Debian compiles to shared libraries, are headers as well.
cat >cmake/tomlplusplus/tomlplusplusConfig.cmake <<'CMAKE'
add_library(tomlplusplus::tomlplusplus INTERFACE IMPORTED)
CMAKE

# Of ICU's data what tokenizers need: properties of characters, normal forms, and where words break.
mkdir /tmp/icu
cd /tmp/icu
ar x "$sysroot/usr/lib/$triplet/libicudata.a"
$triplet-objcopy --output-target=binary --only-section=.rodata icudt72l_dat.o icudt72l.dat
icupkg --list icudt72l.dat | grep -vE '\.(icu|nrm)$|^brkitr/' >dropped.txt
icupkg --remove dropped.txt icudt72l.dat
printf '%s\n' '.section .rodata' '.balign 16' '.globl icudt72_dat' \
  'icudt72_dat: .incbin "icudt72l.dat"' '.section .note.GNU-stack,""' |
  $triplet-gcc -xassembler -c -o icudt72l_dat.o -
rm "$sysroot/usr/lib/$triplet/libicudata.a"
ar rcD "$sysroot/usr/lib/$triplet/libicudata.a" icudt72l_dat.o

$triplet-gcc --sysroot=$sysroot -O1 -fPIC -Wall -Werror -c -o /opt/newer_glibc.o /root/package/newer_glibc.c
cat >/opt/toolchain.cmake <<CMAKE
# Debian 12's GCC for a system with the libraries of /opt/sysroot.
set(CMAKE_SYSROOT /opt/sysroot)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_LIBRARY_ARCHITECTURE $triplet)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(BUILD_SHARED_LIBS OFF)
set(OPENSSL_USE_STATIC_LIBS ON)
set(ENV{PKG_CONFIG_SYSROOT_DIR} /opt/sysroot)
set(ENV{PKG_CONFIG_LIBDIR} /opt/sysroot/usr/lib/$triplet/pkgconfig:/opt/sysroot/usr/share/pkgconfig)
set(PKG_CONFIG_ARGN --static)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-static-libstdc++ -static-libgcc -L/opt/sysroot/opt/unwinder /opt/newer_glibc.o")
CMAKE
[[ $arch == amd64 ]] || cat >>/opt/toolchain.cmake <<'CMAKE'
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# As the compiler does by itself: tests use headers that libraries precompile.
unset(CMAKE_POSITION_INDEPENDENT_CODE)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /opt/sysroot)
CMAKE
# After the platform's own settings, which would overwrite these.
cat >/opt/static.cmake <<'CMAKE'
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
CMAKE

if [[ $arch != amd64 ]]; then # what its tests link, which are run here by an emulator
  mkdir /opt/test-debs
  cd /opt/test-debs
  apt-get -q download {libgmock-dev,libgtest-dev,librapidcheck-dev}:$arch
  for package in *.deb; do dpkg-deb --extract "$package" "$sysroot"; done
  rm -r "$sysroot"/usr/share/doc/{libgmock,libgtest,librapidcheck}-dev
fi

# Unpacks a source package of Debian 12, with Debian's patches, into /opt/sources/NAME.
source_of() {
  local name=$1
  cd /opt/sources
  apt-get -q source --only-source "$name/bookworm"
  mv "$name"-*/ "$name"
  install -D "$name/debian/copyright" "$sysroot/usr/share/doc/$name/copyright"
}
# Builds and installs /opt/sources/NAME with these options of its own.
build() {
  local name=$1
  shift
  cmake -S "/opt/sources/$name" -B "/tmp/$name" -G Ninja --toolchain /opt/toolchain.cmake \
    -DCMAKE_PROJECT_INCLUDE=/opt/static.cmake -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_LIBDIR=lib/$triplet "$@"
  nice -n 5 ninja -C "/tmp/$name"
  DESTDIR=$sysroot nice -n 5 ninja -C "/tmp/$name" install
  rm -rf "/tmp/$name"
}

source_of fmtlib
build fmtlib -DFMT_TEST=OFF -DFMT_DOC=OFF
source_of highway
build highway -DBUILD_TESTING=OFF -DHWY_ENABLE_EXAMPLES=OFF -DHWY_ENABLE_CONTRIB=OFF \
  -DHWY_ENABLE_TESTS=OFF -DHWY_FORCE_STATIC_LIBS=ON
source_of sentencepiece
# Debian compiles it to a shared library only.
sed -i 's/\(add_library(sentencepiece.*\) SHARED/\1 STATIC/' sentencepiece/src/CMakeLists.txt
build sentencepiece -DSPM_ENABLE_TCMALLOC=OFF
source_of cpp-httplib
install -m 644 /opt/sources/cpp-httplib/httplib.h "$sysroot/usr/include/"
cat >"$sysroot/usr/lib/$triplet/pkgconfig/cpp-httplib.pc" <<'PC'
Name: cpp-httplib
Description: HTTP server and client, all of it in a header
Version: 0.11.4
Requires: zlib
Cflags: -DCPPHTTPLIB_ZLIB_SUPPORT
Libs:
PC

# Who wrote what is linked.
mkdir /opt/licenses
for package in "$sysroot"/usr/share/doc/*/; do
  case "$(basename "$package")" in
    libc6* | linux-libc-dev | libgcc-10-dev | gcc-10-base) ;; # of the system, or as GCC 12's
    *) cp -L "$package/copyright" "/opt/licenses/$(basename "$package")" ;;
  esac
done
cp /usr/share/doc/gcc-12-base/copyright /opt/licenses/gcc
