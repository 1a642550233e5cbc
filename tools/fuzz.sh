#!/bin/bash
# Runs the fuzz targets of tests/fuzz, one after the other, until each has made RUNS runs (10
# million by default): tools/fuzz.sh [-n RUNS] FOLDER [TARGET...]. FOLDER keeps what was found, one
# log a target, and how many runs there were, so that the same command goes on where it was stopped.
# Builds nothing: cmake --preset fuzz && cmake --build build/fuzz
set -eu
runs=10000000
if [ "${1-}" = -n ]; then
  runs=$2
  shift 2
fi
folder=${1:?usage: tools/fuzz.sh [-n RUNS] FOLDER [TARGET...]}
shift
root=$(cd "$(dirname "$0")/.." && pwd)
slice=100000  # runs between two notes of how far it is
[ $# -gt 0 ] || set -- $(cd "$root/tests/fuzz" && ls ./*_fuzz.cpp | sed 's|./\(.*\)_fuzz.cpp|\1|')

for target; do
  here=$folder/$target
  mkdir -p "$here/corpus"
  saved=$root/tests/fuzz/corpus/$target
  [ -d "$saved" ] && cp -n "$saved"/* "$here/corpus"
  [ -f "$here/runs" ] || echo 0 > "$here/runs"
  while [ "$(cat "$here/runs")" -lt "$runs" ]; do
    left=$((runs - $(cat "$here/runs")))
    [ "$left" -gt $slice ] && left=$slice
    if ! "$root/build/fuzz/bin/${target}_fuzz" -runs=$left -max_len=1024 -timeout=300 \
        -print_funcs=0 -verbosity=0 -print_final_stats=1 -artifact_prefix="$here/" \
        "$here/corpus" > "$here/log" 2>&1; then
      echo "$target: FAILED after $(cat "$here/runs") runs; see $here"
      exit 1
    fi
    made=$(awk '/number_of_executed_units/ {print $2}' "$here/log")
    echo $(($(cat "$here/runs") + made)) > "$here/runs"
  done
  echo "$target: $(cat "$here/runs") runs"
done
