#!/usr/bin/env bash
# Installs what building needs; see usage below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'EOF'
Usage: tools/setup.sh [build|test]

Installs what is missing, and nothing else. `build` (the default) is what building and running
needs, Debian packages; `test` adds what the tests and checks need, further Debian packages and the
pinned Python packages of requirements.txt, into .venv. Takes under a second when nothing is missing.
EOF
}

build_packages=(
  ccache cmake g++ lld-16 ninja-build pkg-config python3
  libbz2-dev libcli11-dev libexpected-dev libfmt-dev libhwy-dev libicu-dev libsentencepiece-dev
  libssl-dev libtomlplusplus-dev libxxhash-dev libzstd-dev nlohmann-json3-dev zlib1g-dev
  libbenchmark-dev gnuplot-nox libcpp-httplib-dev libnats-dev libopenmpi-dev nats-server openmpi-bin
)
test_packages=(
  clang-16 clang-format-16 libclang-rt-16-dev
  libgmock-dev libgtest-dev librapidcheck-dev locales python3-venv
)

die() {
  printf 'setup: %s\n' "$@" >&2
  exit 1
}

# Prints those of the given Debian packages that are not installed.
missing_packages() {
  local installed
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    grep -qxF "$package installed" <<<"$installed" || echo "$package"
  done
}

install_packages() {
  command -v dpkg-query >/dev/null ||
    die "this is no Debian system; provide the equivalents of these Debian packages yourself," \
      "then build with cmake --preset release: $*"
  local missing
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0

  local by_hand="apt-get install --no-install-recommends ${missing[*]}"
  local as_root=(env DEBIAN_FRONTEND=noninteractive)
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die "Debian packages are missing and there is no sudo; as root, run:" "$by_hand"
    as_root=(sudo "${as_root[@]}")
  fi
  echo "setup: installing Debian packages: ${missing[*]}"
  # The first command finishes what an interrupted installation left.
  if ! { "${as_root[@]}" dpkg --configure -a && "${as_root[@]}" apt-get -qq update &&
    "${as_root[@]}" apt-get -qq install --no-install-recommends -y "${missing[@]}"; }; then
    die "Debian packages could not be installed; when the cause is removed, run again, or as root:" \
      "$by_hand"
  fi
}

# Whether .venv holds exactly the versions pinned in requirements.txt.
venv_is_complete() {
  [[ -x .venv/bin/python ]] && .venv/bin/python - <<'EOF'
import importlib.metadata, sys

for line in open("requirements.txt"):
    name, _, version = line.strip().partition("==")
    if version:
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            sys.exit(1)
        if installed.partition("+")[0] != version:
            sys.exit(1)
EOF
}

# Packages are linked, not copied: pip replaces files and never writes into them. The files that
# making a virtual environment writes into are copied.
copy_venv() {
  cp -al "$1" "$2"
  rm -rf "$2/bin" "$2/pyvenv.cfg"
  cp -a "$1/bin" "$1/pyvenv.cfg" "$2"
}

# Works on a copy that replaces .venv when it is complete, so that no broken one ever stays.
install_python() {
  local new="$PWD/.venv.new" final="$PWD/.venv"
  trap 'rm -rf .venv.new' EXIT
  rm -rf "$new"
  if [[ -x .venv/bin/python ]]; then
    copy_venv "$final" "$new"
  fi
  echo "setup: installing Python packages of requirements.txt into .venv (torch is large)"
  python3 -m venv "$new"
  # Compiling all of torch's dependencies ahead would take longer than what is run of them.
  "$new/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
    -r requirements.txt ||
    die "Python packages of requirements.txt could not be installed (see above);" \
      "nothing was changed, run again when the cause is removed"
  # Scripts in a virtual environment name its folder.
  { grep -rlIF "$new" "$new/bin" || true; } | xargs -r sed -i "s|$new|$final|g"
  rm -rf "$final"
  mv "$new" "$final"
}

main() {
  local packages=("${build_packages[@]}") needs_python=false
  case "${1:-build}" in
    build) ;;
    test)
      packages+=("${test_packages[@]}")
      needs_python=true
      ;;
    -h | --help)
      usage
      return
      ;;
    *)
      usage >&2
      exit 2
      ;;
  esac

  mkdir -p .cache
  exec 9>.cache/setup.lock
  flock 9 # one installation at a time
  install_packages "${packages[@]}"
  if $needs_python && ! venv_is_complete; then
    install_python
  fi
}

main "$@"
