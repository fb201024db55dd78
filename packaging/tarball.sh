#!/usr/bin/env bash
# Makes the archive for other distributions out of the .deb, so that both have the same files.
#
#   packaging/tarball.sh PACKAGE.deb FOLDER
set -euo pipefail
if (($# != 2)) || [[ ! -f $1 ]]; then
    echo "usage: tarball.sh PACKAGE.deb FOLDER" >&2
    exit 64
fi
here=$(cd "$(dirname "$0")" && pwd)
name=stoker-$(dpkg-deb -f "$1" Version)-linux-$(dpkg-deb -f "$1" Architecture)
when=$(dpkg-deb -c "$1" | awk '$6 ~ /usr\/bin\/stokerd$/ { print $4, $5 }')
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

mkdir -p "$scratch/$name/tree" "$2"
dpkg-deb -x "$1" "$scratch/$name/tree"
cp "$here/install.sh" "$here/../README.md" "$here/../LICENSE-MIT" "$here/../LICENSE-APACHE" "$scratch/$name/"
# Debian's own corner of the tree is nobody else's, and its zsh alone looks into vendor-completions.
rm -rf "$scratch/$name/tree/usr/share/doc/stoker/changelog.Debian.gz"
mv "$scratch/$name/tree/usr/share/zsh/vendor-completions" "$scratch/$name/tree/usr/share/zsh/site-functions"
tar -C "$scratch" --sort=name --owner=0 --group=0 --numeric-owner --mtime="$when UTC" -cf - "$name" | gzip -9n >"$2/$name.tar.gz"
echo "$2/$name.tar.gz"
