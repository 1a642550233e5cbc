#!/usr/bin/env bash
# Fetches the texts of the quickstart and of studies from Debian packages; see usage below.
set -euo pipefail

usage() {
  cat <<'EOF'
Usage: tools/fetch_texts.sh [--austen]

Writes two English texts from Debian packages, which are downloaded but not installed:
  data/text/gcide.txt   a dictionary of English (dict-gcide), 40 MB; a few bytes are not UTF-8
  data/text/kjv.txt     the King James Bible (bible-kjv-text), 4 MB, one verse a line, no labels
With --austen it writes one more, for studies, and not those:
  data/text/austen/*.txt  the six novels of Jane Austen (r-cran-janeaustenr), 4 MB
An existing text is left alone. Root is not needed.
EOF
}

names=(gcide.txt kjv.txt)
case "${1:-}" in
  "") ;;
  --austen) names=(austen) ;;
  -h | --help) usage && exit ;;
  *) usage >&2 && exit 2 ;;
esac

cd "$(dirname "${BASH_SOURCE[0]}")/.."
texts=$PWD/data/text
kjv_verses=31102

die() {
  printf 'fetch_texts: %s\n' "$@" >&2
  exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work" "$texts"/*.partial' EXIT

# Downloads a Debian package and unpacks it into $work.
unpack() {
  local package=$1
  echo "fetch_texts: fetching the Debian package $package" >&2
  # Without the option apt warns that its own user cannot write here.
  (cd "$work" && apt-get -qq -o APT::Sandbox::User=root download "$package" &&
    dpkg-deb -x "$package"_*.deb .) ||
    die "the Debian package $package cannot be had: this needs a network and package lists" \
      "(apt-get update)"
}

write_gcide.txt() {
  unpack dict-gcide
  zcat <"$work/usr/share/dictd/gcide.dict.dz" >"$1"
}

# The text comes compressed in a format that only the program bible reads.
write_kjv.txt() {
  unpack bible-kjv-text
  unpack bible-kjv
  "$work/usr/bin/bible" -f -p "$work/usr/lib" Gen1:1-Rev22:21 </dev/null |
    sed -E 's/^[1-3]?[A-Za-z]+[0-9]+:[0-9]+ +//' >"$work/kjv.txt"
  [[ $(wc -l <"$work/kjv.txt") == "$kjv_verses" ]] ||
    die "the package bible-kjv-text does not hold the $kjv_verses verses it should"
  cp "$work/kjv.txt" "$1"
}

write_austen() {
  unpack r-cran-janeaustenr
  mkdir -p "$1"
  tools/rdb_to_text.py "$work/usr/lib/R/site-library/janeaustenr/data/Rdata.rdb" \
    "$1"/{emma,mansfield-park,northanger-abbey,persuasion,pride-and-prejudice,sense-and-sensibility}.txt
}

mkdir -p "$texts"
for name in "${names[@]}"; do
  if [[ ! -e $texts/$name ]]; then
    "write_$name" "$texts/$name.partial"
    mv "$texts/$name.partial" "$texts/$name"
  fi
done
