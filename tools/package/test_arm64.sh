#!/usr/bin/env bash
# test_arm64.sh [TEST[=FILTER]...]: builds test programs of the commit that is checked out for aarch64,
# in the system that tools/package.sh --arm64 has made, and runs them under its emulator, with the
# filter of GoogleTest. Without arguments those of what replicas must agree on: arithmetic, codecs,
# optimizers, methods and membership whole, and the golden traces of everything else. Needs root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cache="$PWD/.cache/package"
source tools/package/roots.sh

main() {
  local tests=("$@") root=("$cache"/roots/build-arm64-*) build="$cache/build/arm64-tests"
  (($#)) || tests=(
    base_test schedule_test codec_test membership_test optim_test sync_test tensor_test
    'model_test=*Golden*' 'convert_test=*Golden*' 'train_test=*Golden*:Lora.FollowsTheReference' 'transport_test=NKey.*'
  )
  [[ -d ${root[0]} ]] || die "there is no system for aarch64; make it with tools/package.sh --arm64"
  require_tools
  enter_cache
  mkdir -p "$build"
  in_root "${root[0]}" "$(clone):/src:ro" "$build:/build" "$cache/ccache:/ccache" -- bash -euc '
    export CCACHE_DIR=/ccache
    cmake -S /src -B /build -G Ninja --log-level=WARNING --toolchain /opt/toolchain.cmake \
      -DCMAKE_PROJECT_INCLUDE=/opt/static.cmake -DCMAKE_BUILD_TYPE=Release -DTHINWIRE_MPI=OFF \
      -DTHINWIRE_CHECKS=OFF -DTHINWIRE_PYTHON=/usr/bin/python3
    ninja -C /build "${@%%=*}"
    cd /tmp
    for test in "$@"; do
      filter=${test#"${test%%=*}"}
      qemu-aarch64 -L /opt/sysroot "/build/bin/${test%%=*}" --gtest_brief=1 ${filter:+--gtest_filter"$filter"}
    done' tests "${tests[@]}"
}

main "$@"
