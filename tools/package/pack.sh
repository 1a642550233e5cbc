#!/usr/bin/env bash
# pack.sh FOLDER VERSION ARCH MACHINE: packs /stage/FOLDER into /out as archives, a Debian package and a
# wheel, and copies the Containerfile that unpacks the archive there. Times are those of
# SOURCE_DATE_EPOCH and all orders fixed, so that the same folder gives the same bytes.
set -euo pipefail
readonly folder=/stage/$1 name=$1 version=$2 arch=$3 machine=$4 tools=/src/tools/package

archives() {
  tar --create --directory=/stage --format=gnu --sort=name --owner=0 --group=0 --numeric-owner \
    --mtime="@$SOURCE_DATE_EPOCH" --file="/out/$name.tar" "$name"
  zstd --quiet -T1 -19 --force "/out/$name.tar" -o "/out/$name.tar.zst"
  gzip --no-name -9 --force "/out/$name.tar"
}

# The programs are beside each other, so that Debian's nats-server may be installed as well.
debian_package() {
  local root=/tmp/deb share=/tmp/deb/usr/share
  rm -rf "$root"
  mkdir -p "$root"/{DEBIAN,usr/bin,usr/lib/systemd/system} "$share"/{doc,}/thinwire "$share/man/man1" \
    "$share"/{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
  cp -r "$folder/bin" "$root/usr/lib/thinwire"
  ln -s ../lib/thinwire/thinwire "$root/usr/bin/thinwire"
  cp -r "$folder/recipes" "$share/thinwire/"
  cp "$folder/completion/thinwire.bash" "$share/bash-completion/completions/thinwire"
  cp "$folder/completion/thinwire.zsh" "$share/zsh/vendor-completions/_thinwire"
  cp "$folder/completion/thinwire.fish" "$share/fish/vendor_completions.d/"
  gzip --no-name -9 <"$folder/man/man1/thinwire.1" >"$share/man/man1/thinwire.1.gz"
  cp -r "$folder/licenses" "$share/doc/thinwire/"
  cp "$folder/LICENSE" "$share/doc/thinwire/copyright"
  cp "$tools"/systemd/*.service "$root/usr/lib/systemd/system/"
  cat >"$root/DEBIAN/control" <<CONTROL
Package: thinwire
Version: $version
Architecture: $arch
Maintainer: Thinwire's authors
Depends: libc6 (>= 2.31)
Recommends: ca-certificates
Suggests: gnuplot-nox
Section: science
Priority: optional
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Description: trains language models on machines in different places
 One program that trains, serves runs to members over ordinary internet links, joins them, and reads
 and writes models in Hugging Face format. A nats-server comes with it.
CONTROL
  find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
  dpkg-deb --root-owner-group -Zxz --build "$root" "/out/thinwire_${version}_$arch.deb" >/dev/null
}

mkdir -p /out
archives
debian_package
sed "s/NAME/$name/g; s/MACHINE/$machine/g" "$tools/Containerfile" >"/out/Containerfile.$machine"
python3 "$tools/make_wheel.py" "$folder" "$version" "$machine" /out
python3 "$tools/make_sbom.py" "$name" "$version" /stage/linked >"/out/$name.spdx.json"
