#!/usr/bin/env bash
# Builds the packages of the last commit in two clones, in folders of other names, and compares them byte by byte. What is
# not committed is not in them.
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d "${TMPDIR:-/var/tmp}/stoker-reproduce.XXXXXX")
trap 'rm -rf --one-file-system -- "$scratch"' EXIT
places=("$scratch/one" "$scratch/another/place")

for place in "${places[@]}"; do
    git clone --quiet . "$place"
    make --no-print-directory -C "$place" tarball
done
different=0
for made in "${places[0]}"/target/{deb,tarball}/*; do
    same=${made/#"${places[0]}"/"${places[1]}"}
    if cmp "$made" "$same"; then
        echo "the same twice: $(sha256sum "$made" | cut -c1-16) $(basename "$made")"
    else
        different=1
    fi
done
exit "$different"
