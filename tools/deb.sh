#!/bin/sh
# Builds the Debian packages from the files that git tracks, in BUILD/deb, and runs lintian on them: deb.sh BUILD.
set -eu
folder=$1/deb
rm -rf "$folder"
mkdir -p "$folder/hashattn"
git ls-files -z | xargs -0 cp --parents -t "$folder/hashattn"
top=$PWD
cd "$folder/hashattn"
dpkg-buildpackage -us -uc -b >../build.log 2>&1 || { tail -n 30 ../build.log >&2; exit 1; }
cd ..
for package in ./*.deb; do
    dpkg-deb -x "$package" files
done
sh "$top/tools/check_rpaths.sh" files
rm -rf files
lintian --fail-on error --suppress-tags initial-upload-closes-no-bugs ./*.changes
ls "$PWD"/*.deb
