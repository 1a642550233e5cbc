#!/usr/bin/env bash
# compile.sh [EMULATOR...]: in the root that make_build_root.sh makes, builds thinwire from /src in
# /build, where the emulator runs it if it is for another processor. Leaves /build/out/{thinwire,completion,man}.
set -euo pipefail
export CCACHE_DIR=/ccache
cmake -S /src -B /build -G Ninja --log-level=WARNING --toolchain /opt/toolchain.cmake \
  -DCMAKE_PROJECT_INCLUDE=/opt/static.cmake -DCMAKE_BUILD_TYPE=Release -DTHINWIRE_MPI=OFF \
  -DTHINWIRE_TESTS=OFF -DTHINWIRE_PYTHON=/usr/bin/python3
ninja -C /build -j "$(nproc)" thinwire
rm -rf /build/out
mkdir -p /build/out/{completion,man/man1}
strip=$(sed -n 's/^CMAKE_STRIP:FILEPATH=//p' /build/CMakeCache.txt)
"$strip" -o /build/out/thinwire /build/bin/thinwire
for shell in bash zsh fish; do
  "$@" /build/out/thinwire completion $shell >/build/out/completion/thinwire.$shell
done
python3 /src/tools/package/make_man.py "$@" /build/out/thinwire >/build/out/man/man1/thinwire.1
