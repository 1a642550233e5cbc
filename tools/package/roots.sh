# shellcheck shell=bash disable=SC2016
# Debian systems in folders, made by debootstrap and kept; sourced by those who build and try packages,
# with the folder for all of it in $cache. Needs root.

readonly debian_host="deb.debian.org" # where apt's configuration names no mirror

die() {
  printf '%s: %s\n' "${0##*/}" "$1" >&2
  exit 1
}

shopt -s inherit_errexit
only_cached=false # no system is made

skip() {
  echo "skipped: the packages are built only where tools/package.sh has been run before (.cache/package)" >&2
  exit 77
}

say() {
  printf '%s %s\n' "$(date +%T)" "$*"
}

require_tools() {
  [[ $(uname -m) == x86_64 ]] || die "packages are made on x86-64 only, and this is $(uname -m)"
  ((EUID == 0)) || die "run it as root: it makes Debian systems with debootstrap and enters them"
  for tool in debootstrap unshare zstd; do
    command -v "$tool" >/dev/null ||
      die "there is no $tool; install it with: apt-get install --no-install-recommends debootstrap util-linux zstd"
  done
}

# Until this process ends, it is the only one that builds.
enter_cache() {
  mkdir -p "$cache"/{roots,build,ccache}
  exec 9>"$cache/lock"
  flock 9
}

# Prints the folder of a clone of this one with the commit that is checked out here.
clone() {
  local source="$cache/source"
  [[ -d $source ]] || git clone --quiet . "$source"
  git -C "$source" fetch --quiet "$PWD" HEAD
  git -C "$source" checkout --quiet --detach FETCH_HEAD
  echo "$source"
}

# The mirror that apt of this system uses for the archive with this label.
mirror_of() {
  local uri
  uri=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    awk -v label="$1" '$1 == label { print $2; exit }') || true
  echo "${uri:-http://$debian_host/$2}"
}

# in_root ROOT [SOURCE:PLACE[:ro]]... -- COMMAND...: runs a command in a root, where the folders
# SOURCE are seen as PLACE. What it mounts and starts ends with it.
in_root() {
  unshare --mount --pid --ipc --fork --kill-child --propagation private bash -euc '
    root=$1
    shift
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    while [[ $1 != -- ]]; do
      IFS=: read -r source place mode <<<"$1"
      mkdir -p "$root$place"
      mount --bind "$source" "$root$place"
      [[ -z $mode ]] || mount -o remount,bind,"$mode" "$root$place"
      shift
    done
    shift
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
      ${http_proxy:+http_proxy="$http_proxy"} ${SOURCE_DATE_EPOCH:+SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH} \
      chroot "$root" "$@"' in_root "$@"
}

# base_root NAME SUITE: prints the folder of a minimal system, which is made if it is not there yet.
base_root() {
  local root="$cache/roots/$1" new="$cache/roots/$1.new" log="$cache/$1.log"
  if [[ ! -d $root ]]; then
    ! $only_cached || skip
    say "making a root with Debian $2 in $root" >&2
    rm -rf --one-file-system "$new"
    mkdir -p "$new"
    debootstrap --variant=minbase "$2" "$new" "$(mirror_of Debian debian)" >"$log" 2>&1 ||
      die "debootstrap failed; see $log"
    echo force-unsafe-io >"$new/etc/dpkg/dpkg.cfg.d/unsafe-io"
    rm -f "$new"/var/cache/apt/archives/*.deb
    mv "$new" "$root"
  fi
  echo "$root"
}

# build_root NAME SUITE ARCH SCRIPT [FILE]...: prints the folder of a system in which SCRIPT has run for
# ARCH, as root and with network, with the files beside it. It is made again whenever one of them
# changes.
build_root() {
  local name=$1 suite=$2 arch=$3 key root
  shift 3
  key=$(cat "$@" | sha256sum | cut -c1-12)
  root="$cache/roots/$name-$key"
  if [[ ! -d $root ]]; then
    ! $only_cached || skip
    local base new="$root.new" log="$cache/$name.log"
    base=$(base_root "$suite" "$suite")
    say "making what the build needs in $root (log: $log)" >&2
    rm -rf --one-file-system "$cache"/{roots,build}/"$name"-*
    cp -a --reflink=auto "$base" "$new"
    cp -L /etc/resolv.conf /etc/hosts "$new/etc/"
    mkdir "$new/root/package"
    cp "$@" "$new/root/package/"
    in_root "$new" -- bash "/root/package/${1##*/}" "$(mirror_of Debian debian)" \
      "$(mirror_of Debian-Security debian-security)" "$arch" >"$log" 2>&1 || die "it failed; see $log"
    mv "$new" "$root"
  fi
  echo "$root"
}
