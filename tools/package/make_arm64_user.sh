#!/usr/bin/env bash
# make_arm64_user.sh MIRROR SECURITY_MIRROR ARCH: turns a minimal Debian 12 on x86-64 into one in which
# packages for ARCH can be installed, with an emulator for their programs.
set -euo pipefail
mirror=$1 security=$2 arch=$3
export DEBIAN_FRONTEND=noninteractive
printf 'deb %s bookworm main\ndeb %s bookworm-security main\n' "$mirror" "$security" >/etc/apt/sources.list
dpkg --add-architecture "$arch"
apt-get -q -o APT::Sandbox::User=root update
apt-get -q -o APT::Sandbox::User=root install -y --no-install-recommends qemu-user "libc6:$arch"
