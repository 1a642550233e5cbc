#!/usr/bin/env bash
# Makes the packages for x86-64 Linux; see usage below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'EOT'
Usage: tools/package.sh [--sign KEY | --cached]

Builds thinwire and nats-server so that they run on any x86-64 Linux with glibc 2.31 or newer, and
packs them, with recipes, completion, manual and licences, into build/package: those of the commit
that is checked out, whatever has been changed since. Needs root, debootstrap and a Debian mirror;
see docs/packages.md. What it downloads and compiles is kept in .cache/package.

  --sign KEY  signs SHA256SUMS with this SSH key (ssh-keygen -Y)
  --cached    does nothing, with status 77, unless the systems in which it builds are there already
EOT
}

cache="$PWD/.cache/package"
out="$PWD/build/package"
source tools/package/roots.sh

# Prints the folder of a clone of this one with the commit that is checked out here.
clone() {
  local source="$cache/source"
  [[ -d $source ]] || git clone --quiet . "$source"
  git -C "$source" fetch --quiet "$PWD" HEAD
  git -C "$source" checkout --quiet --detach FETCH_HEAD
  echo "$source"
}

# Prints a line "name version" for each Debian package that the programs are linked from.
linked() {
  local build=$1 nats=$2
  in_root "$build" -- bash -euc '
    for package in /opt/debs/*.deb; do dpkg-deb --show "$package"; done
    for source in /opt/sources/*/debian/changelog; do
      printf "%s %s\n" "$(dpkg-parsechangelog -l "$source" -S Source)" "$(dpkg-parsechangelog -l "$source" -S Version)"
    done
    dpkg-query --show libstdc++-12-dev'
  in_root "$nats" -- bash -euc '
    dpkg-query --show $(ls /opt/nats-server/licenses | grep -- -dev$) "golang-1.*-go"
    printf "nats-server %s\n" "$(dpkg-parsechangelog -l /opt/go/src/github.com/nats-io/nats-server/v2/debian/changelog -S Version)"'
}

# Fills the folder $1 with what a package holds.
fill() {
  local folder=$1 source=$2 build=$3 objects=$4 nats=$5
  mkdir -p "$folder"/{bin,licenses}
  install -m 755 "$objects/out/thinwire" "$nats/opt/nats-server/nats-server" "$folder/bin/"
  cp -r "$source"/{recipes,LICENSE,tools/package/README.md} "$objects"/out/{completion,man} "$folder/"
  cp -rL "$build/opt/licenses/." "$nats/opt/nats-server/licenses/." "$folder/licenses/"
  chmod -R u=rwX,go=rX "$folder"
}

main() {
  local key=""
  case "${1:-}" in
    "") ;;
    --sign) key=${2:?"--sign needs a key"} ;;
    --cached) only_cached=true ;;
    -h | --help) usage && return ;;
    *) usage >&2 && exit 2 ;;
  esac
  ! $only_cached || [[ -d $cache/roots ]] || skip
  require_tools
  [[ -z $key ]] || { [[ -r $key ]] && command -v ssh-keygen >/dev/null; } ||
    die "--sign: there is no key '$key', or no ssh-keygen (Debian package openssh-client)"
  mkdir -p "$cache"/{roots,build,ccache}
  exec 9>"$cache/lock"
  flock 9 # one at a time

  local source version build nats objects name
  source=$(clone)
  version=$(sed -n 's/^project(thinwire VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
  name="thinwire-$version-x86_64-linux"
  SOURCE_DATE_EPOCH=$(git -C "$source" log -1 --format=%ct)
  export SOURCE_DATE_EPOCH
  build=$(build_root build bookworm tools/package/{make_build_root.sh,newer_glibc.c})
  nats=$(build_root nats-server trixie tools/package/make_nats_server.sh)
  say "compiling"
  objects="$cache/build/${build##*/}"
  mkdir -p "$objects"
  in_root "$build" "$source:/src:ro" "$objects:/build" "$cache/ccache:/ccache" -- \
    bash /src/tools/package/compile.sh
  say "packing"
  rm -rf "$cache/stage" "$out"
  mkdir -p "$out"
  fill "$cache/stage/$name" "$source" "$build" "$objects" "$nats"
  linked "$build" "$nats" | sed 's/\t/ /; s/:amd64 / /' | grep -v '^libc6\|^linux-libc-dev' | sort >"$cache/stage/linked"
  in_root "$build" "$source:/src:ro" "$cache/stage:/stage:ro" "$out:/out" -- \
    bash /src/tools/package/pack.sh "$name" "$version"
  (cd "$out" && sha256sum -- * >SHA256SUMS)
  [[ -z $key ]] || ssh-keygen -Y sign -f "$key" -n file "$out/SHA256SUMS"
  say "done:"
  ls -l "$out"
}

main "$@"
