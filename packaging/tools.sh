#!/usr/bin/env bash
# Brings what tests need beside a container engine: `systemd-analyze`, which reads the units, `dbus-daemon`, for a bus of
# a test's own, what reads the manual pages and the completions, lintian, which reads the package, and shellcheck, which
# reads the scripts. None is started here. Where they cannot be had, the tests that need them say so.
set -euo pipefail

missing=()
command -v systemd-analyze >/dev/null || missing+=(systemd)
command -v dbus-daemon >/dev/null || missing+=(dbus-daemon)
for reader in groff zsh fish lintian shellcheck; do
    command -v "$reader" >/dev/null || missing+=("$reader")
done
((${#missing[@]})) || exit 0
command -v apt-get >/dev/null || { echo "tools: there is no apt-get to install ${missing[*]}" >&2; exit 0; }
echo "tools: installing Debian's ${missing[*]} with apt-get" >&2
apt() { DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120 "$@" >/dev/null; }
apt update
apt install --no-install-recommends "${missing[@]}"
