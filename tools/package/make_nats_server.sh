#!/usr/bin/env bash
# make_nats_server.sh MIRROR: in a minimal Debian 13, builds its nats-server for amd64 and arm64 without
# C, so that the program runs with any glibc. Leaves /opt/nats-server/{amd64,arm64}/nats-server and
# /opt/nats-server/licenses.
set -euo pipefail
mirror=$1
readonly import_path=github.com/nats-io/nats-server/v2

export DEBIAN_FRONTEND=noninteractive GOFLAGS=-buildvcs=false GO111MODULE=off CGO_ENABLED=0
export GOPATH=/opt/go:/usr/share/gocode GOCACHE=/opt/go/cache
printf '%s\n' "deb $mirror trixie main" "deb-src $mirror trixie main" >/etc/apt/sources.list
rm -f /etc/apt/sources.list.d/*
echo 'APT::Sandbox::User "root";' >/etc/apt/apt.conf.d/90package
apt-get -q update
dependencies=$(apt-cache showsrc --only-source nats-server |
  sed -n 's/^Build-Depends[^:]*: //p' | tr ',' '\n' | grep -oE 'golang-[a-z0-9.-]+-dev' | sort -u)
# shellcheck disable=SC2086 # a list
apt-get -q install -y --no-install-recommends dpkg-dev golang-go $dependencies

mkdir -p "/opt/go/src/${import_path%/*}" /opt/nats-server/licenses
cd /opt/go
apt-get -q source --only-source nats-server
mv nats-server-*/ "src/$import_path"
for arch in amd64 arm64; do
  GOARCH=$arch nice -n 5 go build -trimpath -ldflags '-s -w -buildid=' -o /opt/nats-server/$arch/nats-server $import_path
done

# Who wrote what is in it: the packages that the sources which it is made of belong to.
cp "src/$import_path/debian/copyright" /opt/nats-server/licenses/nats-server
go list -deps -f '{{if not .Standard}}{{.Dir}}{{end}}' $import_path | { grep ^/usr || true; } |
  xargs -r dpkg-query -S | sed 's/: .*//' | sort -u | while read -r package; do
  cp "/usr/share/doc/$package/copyright" "/opt/nats-server/licenses/$package"
done
cp "$(ls -d /usr/share/doc/golang-1.*-go/copyright)" /opt/nats-server/licenses/go
