#!/bin/sh
# Installs missing Debian packages that the build needs, if run as root; otherwise prints what to install.
# Arguments are additional packages. OPTIONAL lists packages that are installed if possible and not missed otherwise.
set -eu
wanted="gcc libc6-dev make cmake pkg-config libdnnl-dev libgomp1 librandom123-dev libjansson-dev libutf8proc-dev binutils python3 $*"
missing_of() {
    for package in $*; do
        dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || printf ' %s' "$package"
    done
}
fetch() {
    echo "installing:$*" >&2
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $* >/dev/null
}
missing=$(missing_of "$wanted")
optional=$(missing_of "${OPTIONAL:-}")
if [ "$(id -u)" = 0 ]; then
    [ -z "$missing" ] || fetch "$missing"
    [ -z "$optional" ] || fetch "$optional" || echo "not installed:$optional; what needs them is skipped" >&2
elif [ -n "$missing" ]; then
    echo "missing packages:$missing" >&2
    echo "install them with: sudo apt-get install$missing" >&2
    exit 1
fi
