#!/usr/bin/env bash
# Checks what tools/package.sh made; see usage below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'EOT'
Usage: tools/check_package.sh [FOLDER]

Checks the packages in the folder, build/package by default: their sums, the newest glibc that the programs ask for, what
they link to at run time, their size, that they start on the oldest processor that is supported
(under qemu-x86_64, where it is installed), and that they train and serve in fresh Debian 11, 12 and
13, as a user that the system does not know, without a home and with a /tmp that runs no programs; in
Debian 13 also with a read-only /usr, without /dev/shm, with 64 open files at most and a locale that
is not there. The Debian package is installed and removed in Debian 12, the image of the Containerfile
is made there without an engine, and the wheel is installed in a virtual environment of this machine,
where it has Python. Packages for aarch64, if there are any, are installed in a Debian 12 with an
emulator, where they train beside these.
EOT
}

cache="$PWD/.cache/package"
packages="" # the folder
source tools/package/roots.sh
readonly newest_glibc=2.31 most_start_ms=30
readonly own_libraries="libc.so.6|libm.so.6|libpthread.so.0|libdl.so.2|librt.so.1|ld-linux-(x86-64.so.2|aarch64.so.1)"

check_libraries() {
  local program=$1 newest others
  newest=$({ readelf -VW "$program" | grep -o 'GLIBC_[0-9.]*' || true; } | sort -uV | tail -1)
  [[ $(printf '%s\n' "${newest#GLIBC_}" $newest_glibc | sort -V | tail -1) == "$newest_glibc" ]] ||
    die "$program asks for $newest, newer than glibc $newest_glibc"
  others=$(readelf -dW "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p' | grep -vxE "$own_libraries" || true)
  [[ -z $others ]] || die "$program links to $others at run time"
  say "${program##*/}: asks for ${newest:-no glibc} at most, links to nothing but glibc"
}

check_size() {
  local bytes
  bytes=$(stat -c %s "$1")
  ((bytes <= $2)) || die "$1 has $bytes bytes, more than $2"
  say "${1##*/}: $bytes bytes"
}

# The shortest of ten: other work on the machine only adds.
report_start() {
  local program=$1 best=1000000 begin took
  for _ in {1..10}; do
    begin=${EPOCHREALTIME/./}
    "$program" --version >/dev/null
    took=$((${EPOCHREALTIME/./} - begin))
    ((took >= best)) || best=$took
  done
  say "thinwire --version takes $((best / 1000)).$((best / 100 % 10)) ms (aim: $most_start_ms)"
}

check_old_processor() {
  command -v qemu-x86_64 >/dev/null || { say "no qemu-x86_64 here: the oldest processor is not tried" && return; }
  local package=$1 folder="$cache/try-nehalem"
  rm -rf "$folder"
  mkdir -p "$folder"
  printf 'line %d of a small text about thin wires\n' {1..600} >"$folder/own.txt"
  local old=(qemu-x86_64 -cpu Nehalem "$package/bin/thinwire")
  "${old[@]}" --version | tail -1
  (
    cd "$folder"
    local fields=("$package/recipes/tiny.toml" data.text=own.txt data.vocabulary=byte model.hidden=16
      model.layers=1 model.heads=1 train.batch=2 train.sequence=16 train.steps=2 schedule.warmup=1 run.dir=run)
    "${old[@]}" prepare -q "${fields[@]}" && "${old[@]}" train -q "${fields[@]}"
  ) >"$folder/log" 2>&1 || { cat "$folder/log" && die "it does not train on a Nehalem"; }
  qemu-x86_64 -cpu Nehalem "$package/bin/nats-server" --version
  say "trains on a Nehalem, emulated"
}

# try_in SUITE PACKAGE [hard]: hard: in a system that lacks more.
try_in() {
  local suite=$1 package=$2 hard=${3:-} root folder="$cache/try-$1"
  root=$(base_root "$suite" "$suite")
  rm -rf "$folder"
  mkdir -p "$folder"
  chown 12345:12345 "$folder"
  in_root "$root" "$package:/package:ro" "$PWD/tools/package:/tools:ro" "$folder:/trial" -- bash -euc '
    mount -t tmpfs -o noexec,mode=1777 tmp /tmp
    cd /trial
    if [[ -n $1 ]]; then
      mount --bind /usr /usr
      mount -o remount,bind,ro /usr
      rm -rf /dev/shm
      ulimit -n 64
      export LC_ALL=de_DE.UTF-8
    fi
    exec env -u HOME setpriv --reuid 12345 --regid 12345 --clear-groups sh /tools/try.sh /package' \
    try "$hard" \
    >"$folder.log" 2>&1 || { tail -30 "$folder.log" && die "the package fails in $suite; see $folder.log"; }
  tail -1 "$folder.log"
  say "trains and serves in a minimal Debian $suite${hard:+ with a read-only /usr, no /dev/shm, 64 files, LC_ALL=de_DE}"
}

# What an engine would do with the Containerfile, of which this knows the instructions that are in it.
try_container() {
  local root="$cache/try-container" instruction rest folder user environment=()
  rm -rf --one-file-system "$root"
  cp -a --reflink=auto "$(base_root bookworm bookworm)" "$root"
  while read -r instruction rest; do
    case $instruction in
      "" | "#" | FROM) ;;
      ADD) tar -xf "$packages/${rest% *}" -C "$root${rest#* }" ;;
      ENV) environment+=("$rest") ;;
      RUN) in_root "$root" -- sh -c "$rest" ;;
      WORKDIR) folder=$rest ;;
      USER) user=$rest ;;
      ENTRYPOINT) [[ $rest == '["thinwire"]' ]] || die "Containerfile: another entry point: $rest" ;;
      *) die "Containerfile: $instruction is not tried here" ;;
    esac
  done <"$packages/Containerfile.x86_64"
  in_root "$root" -- env "${environment[@]}" sh -euc "
    cd $folder
    exec setpriv --reuid ${user%:*} --regid ${user#*:} --clear-groups sh -euc '
      thinwire --version
      thinwire recipe >here.toml'" >"$root.log" 2>&1 || { tail -30 "$root.log" && die "the image fails; see $root.log"; }
  [[ -s $root$folder/here.toml ]] || die "the image writes nothing into $folder"
  rm -rf --one-file-system "$root"
  say "the image of the Containerfile runs as its user and writes into its folder"
}

try_debian_package() {
  local suite=$1 root="$cache/try-deb"
  rm -rf --one-file-system "$root"
  cp -a --reflink=auto "$(base_root "$suite" "$suite")" "$root"
  in_root "$root" "$packages:/packages:ro" -- bash -euc '
    dpkg --install /packages/thinwire_*_amd64.deb
    thinwire --version
    [[ $(readlink -f /usr/bin/thinwire) -ef /usr/lib/thinwire/thinwire ]]
    [[ -s /usr/share/man/man1/thinwire.1.gz ]]
    mkdir -p /etc/thinwire /var/lib/thinwire/mine/run
    touch /etc/thinwire/mine.toml /var/lib/thinwire/mine/run/kept
    /usr/lib/thinwire/nats-server --version
    dpkg --install /packages/thinwire_*_amd64.deb
    dpkg --purge thinwire
    rm /etc/thinwire/mine.toml /var/lib/thinwire/mine/run/kept # which are still there
    rm -r /etc/thinwire /var/lib/thinwire
    ! find / \( -path /proc -o -path /packages \) -prune -o -name "*thinwire*" -print | grep . >&2' >"$root.log" 2>&1 ||
    { tail -30 "$root.log" && die "the Debian package fails in $suite; see $root.log"; }
  rm -rf --one-file-system "$root"
  say "the Debian package is installed, upgraded and purged in Debian $suite, and runs stay"
}

try_wheel() {
  local venv="$cache/try-wheel"
  rm -rf "$venv"
  python3 -m venv "$venv" 2>/dev/null || { say "no Python here: the wheel is not tried" && return; }
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-index "$packages"/thinwire-*_x86_64.whl
  "$venv/bin/thinwire" --version | head -1
  "$venv/bin/nats-server" --version
  env -u PYTHONPATH -u THINWIRE_BINARY PATH=/usr/bin:/bin "$venv/bin/python" - <<'PYTHON'
import sys, thinwire

assert thinwire.program() == sys.prefix + "/bin/thinwire", thinwire.program()
assert thinwire.plan(members=2, flops="100G")["recommended"]["method"]
PYTHON
  say "the wheel is installed by pip, and its Python package finds its program"
}

# The Debian package for aarch64 is installed, and its program, under an emulator, is a member beside one
# of x86-64: all end with the same weights. The wheel's program says its version there.
try_arm64() {
  local package=$1 own=$2 folder="$cache/try-arm64" root="$cache/try-deb-arm64" wheel="$cache/try-wheel-arm64"
  check_libraries "$package/bin/thinwire"
  check_libraries "$package/bin/nats-server"
  rm -rf "$folder" "$wheel"
  rm -rf --one-file-system "$root"
  mkdir -p "$folder" "$wheel"
  chown 12345:12345 "$folder"
  cp -a --reflink=auto "$(build_root arm64-user bookworm arm64 tools/package/make_arm64_user.sh)" "$root"
  if python3 -m venv "$cache/try-wheel" 2>/dev/null; then
    "$cache/try-wheel/bin/pip" install --quiet --disable-pip-version-check --no-index --only-binary :all: \
      --platform manylinux_2_31_aarch64 --target "$wheel" "$packages"/thinwire-*_aarch64.whl
  fi
  in_root "$root" "$own:/package:ro" "$packages:/packages:ro" "$wheel:/wheel:ro" "$PWD/tools/package:/tools:ro" \
    "$folder:/trial" -- bash -euc '
    cd /trial
    dpkg --install /packages/thinwire_*_arm64.deb
    SECOND="qemu-aarch64 /usr/bin/thinwire"
    $SECOND --version
    qemu-aarch64 /usr/lib/thinwire/nats-server --version
    [[ ! -e /wheel/bin ]] || qemu-aarch64 /wheel/bin/thinwire --version
    env SECOND="$SECOND" setpriv --reuid 12345 --regid 12345 --clear-groups sh /tools/try.sh /package >served.log 2>&1 ||
      { cat served.log && exit 1; }
    dpkg --purge thinwire:arm64' >"$folder.log" 2>&1 ||
    { tail -30 "$folder.log" && die "the packages for aarch64 fail; see $folder.log"; }
  tail -1 "$folder/served.log"
  rm -rf --one-file-system "$root"
  [[ -e $wheel/bin ]] || say "no Python here: the wheel for aarch64 is not tried"
  say "the Debian package for aarch64 is installed, and trains on an emulated one beside a member on x86-64"
}

main() {
  case "${1:-}" in
    -h | --help) usage && return ;;
    -*) usage >&2 && exit 2 ;;
  esac
  packages=$(realpath "${1:-build/package}")
  require_tools
  local archives=("$packages"/thinwire-*-x86_64-linux.tar.zst)
  [[ -f ${archives[0]} ]] || die "there is no package in $packages; make it with tools/package.sh"
  (cd "$packages" && sha256sum --quiet -c SHA256SUMS)
  local unpacked="$cache/unpacked" package archive
  rm -rf "$unpacked"
  mkdir -p "$unpacked"
  for archive in "$packages"/*.tar.zst; do tar --zstd -xf "$archive" -C "$unpacked"; done
  package=$(echo "$unpacked"/*-x86_64-linux)
  check_size "${archives[0]}" 40000000
  check_size "$(echo "$packages"/thinwire-*_x86_64.whl)" 60000000
  check_libraries "$package/bin/thinwire"
  check_libraries "$package/bin/nats-server"
  report_start "$package/bin/thinwire"
  check_old_processor "$package"
  try_in bullseye "$package"
  try_in bookworm "$package"
  try_in trixie "$package" hard
  try_debian_package bookworm
  try_container
  try_wheel
  [[ ! -d ${package/x86_64/aarch64} ]] || try_arm64 "${package/x86_64/aarch64}" "$package"
}

main "$@"
