#!/usr/bin/env bash
# Makes the packages for x86-64 Linux; see usage below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'EOT'
Usage: tools/package.sh [--arm64] [--sign KEY | --cached]

Builds thinwire and nats-server so that they run on any x86-64 Linux with glibc 2.31 or newer, and
packs them, with recipes, completion, manual and licences, into build/package: those of the commit
that is checked out, whatever has been changed since. Needs root, debootstrap and a Debian mirror;
see docs/packages.md. What it downloads and compiles is kept in .cache/package.

  --arm64     builds the same for aarch64 as well, with a cross-compiler and an emulator
  --sign KEY  signs SHA256SUMS with this SSH key (ssh-keygen -Y)
  --cached    packs into build/package-tried, which is what run-tests tries; does nothing, with status
              77, unless the systems in which it builds are there already
EOT
}

cache="$PWD/.cache/package"
out="$PWD/build/package"
source tools/package/roots.sh
declare -rA machines=([amd64]=x86_64 [arm64]=aarch64)

# Prints a line "name version" for each Debian package that the programs are linked from.
linked() {
  local build=$1 nats=$2
  in_root "$build" -- bash -euc '
    for package in /opt/debs/*.deb; do dpkg-deb --show "$package"; done
    for source in /opt/sources/*/debian/changelog; do
      printf "%s %s\n" "$(dpkg-parsechangelog -l "$source" -S Source)" "$(dpkg-parsechangelog -l "$source" -S Version)"
    done
    dpkg-query --show "libstdc++-12-dev*"'
  in_root "$nats" -- bash -euc '
    dpkg-query --show $(ls /opt/nats-server/licenses | grep -- -dev$) "golang-1.*-go"
    printf "nats-server %s\n" "$(dpkg-parsechangelog -l /opt/go/src/github.com/nats-io/nats-server/v2/debian/changelog -S Version)"'
}

# Fills the folder $1 with what a package holds.
fill() {
  local folder=$1 source=$2 build=$3 objects=$4 nats=$5 arch=$6
  mkdir -p "$folder"/{bin,licenses}
  install -m 755 "$objects/out/thinwire" "$nats/opt/nats-server/$arch/nats-server" "$folder/bin/"
  cp -r "$source"/{recipes,LICENSE} "$objects"/out/{completion,man} "$folder/"
  sed "s/MACHINE/${machines[$arch]}/" "$source/tools/package/README.md" >"$folder/README.md"
  cp -rL "$build/opt/licenses/." "$nats/opt/nats-server/licenses/." "$folder/licenses/"
  chmod -R u=rwX,go=rX "$folder"
}

# Compiles and packs what is for one processor.
make_packages() {
  local arch=$1 source=$2 version=$3 machine=${machines[$1]} build nats objects name emulator=()
  name="thinwire-$version-$machine-linux"
  build=$(build_root "build-$arch" bookworm "$arch" tools/package/{make_build_root.sh,newer_glibc.c})
  nats=$(build_root nats-server trixie all tools/package/make_nats_server.sh)
  say "compiling for $machine"
  objects="$cache/build/${build##*/}"
  mkdir -p "$objects"
  [[ $arch == amd64 ]] || emulator=(qemu-aarch64 -L /opt/sysroot)
  in_root "$build" "$source:/src:ro" "$objects:/build" "$cache/ccache:/ccache" -- \
    bash /src/tools/package/compile.sh "${emulator[@]}"
  say "packing for $machine"
  fill "$cache/stage/$name" "$source" "$build" "$objects" "$nats" "$arch"
  linked "$build" "$nats" | sed "s/\t/ /; s/:$arch / /" | grep -v '^libc6\|^linux-libc-dev' | sort >"$cache/stage/linked"
  in_root "$build" "$source:/src:ro" "$cache/stage:/stage:ro" "$out:/out" -- \
    bash /src/tools/package/pack.sh "$name" "$version" "$arch" "$machine"
}

main() {
  local key="" arches=(amd64)
  while (($#)); do
    case $1 in
      --arm64) arches+=(arm64) ;;
      --sign)
        key=${2:?"--sign needs a key"}
        shift
        ;;
      --cached) only_cached=true out="$PWD/build/package-tried" ;;
      -h | --help) usage && return ;;
      *) usage >&2 && exit 2 ;;
    esac
    shift
  done
  ! $only_cached || [[ -d $cache/roots ]] || skip
  require_tools
  [[ -z $key ]] || { [[ -r $key ]] && command -v ssh-keygen >/dev/null; } ||
    die "--sign: there is no key '$key', or no ssh-keygen (Debian package openssh-client)"
  enter_cache

  local source version arch
  source=$(clone)
  version=$(sed -n 's/^project(thinwire VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
  SOURCE_DATE_EPOCH=$(git -C "$source" log -1 --format=%ct)
  export SOURCE_DATE_EPOCH
  rm -rf "$cache/stage" "$out"
  mkdir -p "$out"
  for arch in "${arches[@]}"; do make_packages "$arch" "$source" "$version"; done
  (cd "$out" && sha256sum -- * >SHA256SUMS)
  [[ -z $key ]] || ssh-keygen -Y sign -f "$key" -n file "$out/SHA256SUMS"
  say "done:"
  ls -l "$out"
}

main "$@"
