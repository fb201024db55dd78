#!/usr/bin/env bash
# Makes the archive for other distributions out of the .deb, so that both have the same files, but for the programs: those
# of PROGRAMS are taken, which need nothing of the system that they run on.
#
#   packaging/tarball.sh PACKAGE.deb PROGRAMS FOLDER
set -euo pipefail
if (($# != 3)) || [[ ! -f $1 || ! -d $2 ]]; then
    echo "usage: tarball.sh PACKAGE.deb PROGRAMS FOLDER" >&2
    exit 64
fi
here=$(cd "$(dirname "$0")" && pwd)
name=stoker-$(dpkg-deb -f "$1" Version)-linux-$(dpkg-deb -f "$1" Architecture)
when=$(dpkg-deb -c "$1" | awk '$6 ~ /usr\/bin\/stokerd$/ { print $4, $5 }')
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

mkdir -p "$scratch/$name/tree" "$3"
dpkg-deb -x "$1" "$scratch/$name/tree"
for program in "$scratch/$name"/tree/usr/bin/*; do
    install -m 755 "$2/${program##*/}" "$program"
    # What names the loader of a C library, or the library itself, does not run without that one.
    headers=$(LC_ALL=C readelf -ld "$program")
    if grep -E 'INTERP|\(NEEDED\)' <<<"$headers"; then
        echo "tarball.sh: ${program##*/} is not linked statically" >&2
        exit 1
    fi
done
cp "$here/install.sh" "$here/../README.md" "$here/../LICENSE-MIT" "$here/../LICENSE-APACHE" "$scratch/$name/"
# Debian's own corner of the tree is nobody else's, and its zsh alone looks into vendor-completions.
rm -rf "$scratch/$name/tree/usr/share/doc/stoker/changelog.Debian.gz"
mv "$scratch/$name/tree/usr/share/zsh/vendor-completions" "$scratch/$name/tree/usr/share/zsh/site-functions"
tar -C "$scratch" --sort=name --owner=0 --group=0 --numeric-owner --mtime="$when UTC" -cf - "$name" | gzip -9n >"$3/$name.tar.gz"
echo "$3/$name.tar.gz"
