#!/bin/sh
# Installs missing Debian packages that the build needs, if run as root; otherwise prints what to install.
# Arguments are additional packages.
set -eu
wanted="gcc libc6-dev make cmake pkg-config libdnnl-dev libgomp1 librandom123-dev libjansson-dev libutf8proc-dev binutils python3 $*"
missing=""
for package in $wanted; do
    dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ]; then
    echo "missing packages:$missing" >&2
    echo "install them with: sudo apt-get install$missing" >&2
    exit 1
fi
echo "installing:$missing" >&2
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
