#!/usr/bin/env bash
# Installs Stoker from the folder that its archive unpacks to, on distributions without its .deb.
#
#   ./install.sh [--root DIR]            install, or upgrade what is there; /etc/stoker is never overwritten
#   ./install.sh --uninstall             drain, stop and remove; configuration and records stay
#   ./install.sh --uninstall --purge     these too
#
# With --root, files are put below DIR and nothing is run (for images). Exit codes: 64 usage, 69 not this host, 77 not root,
# 78 installed, but the profile is refused and the old stokerd goes on.
set -euo pipefail
cd "$(dirname "$0")"

units=(stokerd.service stokerd.socket stoker-drain.service stoker-reap.timer)
root='' uninstall='' purge=''

say() { printf '%s\n' "$*" >&2; }
die() { local code=$1; shift; say "install.sh: $*"; exit "$code"; }

while (($#)); do
    case $1 in
    --root) [[ -n ${2:-} && -d $2 ]] || die 64 "--root needs a folder that is there"; root=${2%/}; shift ;;
    --uninstall) uninstall=yes ;;
    --purge) purge=yes ;;
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "${0##*/}"; exit ;;
    *) die 64 "unknown argument \`$1', see --help" ;;
    esac
    shift
done
[[ -z $purge || -n $uninstall ]] || die 64 "--purge goes with --uninstall"

list=$root/usr/lib/stoker/files # what was installed, for upgrades and removals
live=
[[ -n $root ]] || live=yes

fits_here() {
    ((EUID == 0)) || die 77 "it writes below /usr and /etc, which needs root"
    [[ -d /run/systemd/system ]] || die 69 "systemd does not run here; --root DIR only puts the files there"
    local version
    version=$(systemctl --version | awk 'NR == 1 { print $2 + 0 }')
    ((version >= 252)) || die 69 "systemd $version is too old, 252 or later is needed"
    tree/usr/bin/stokerd --version >/dev/null 2>&1 ||
        die 69 "the programs do not run here: $(tree/usr/bin/stokerd --version 2>&1 | head -n 1)"
}

put_files() {
    local file new=() old=()
    [[ ! -e $list ]] || mapfile -t old <"$list"
    mapfile -t new < <(cd tree && find . -type f -o -type l | sed 's,^\./,,' | LC_ALL=C sort)
    for file in "${new[@]}"; do
        mkdir -p "$root/$(dirname "$file")"
        if [[ $file == etc/* && -e $root/$file ]]; then
            cmp -s "tree/$file" "$root/$file" || { cp -p "tree/$file" "$root/$file.new"; say "kept /$file; the new one is /$file.new"; }
            continue
        fi
        # In place of the old one at once: a program that runs is not written over.
        cp -p "tree/$file" "$root/$file.part"
        ((EUID)) || chown root:root "$root/$file.part"
        mv -f "$root/$file.part" "$root/$file"
    done
    # What an earlier version had and this one has not.
    for file in "${old[@]}"; do
        [[ $file == etc/* || -e tree/$file ]] || rm -f "$root/$file"
    done
    mkdir -p "$(dirname "$list")"
    printf '%s\n' "${new[@]}" >"$list"
}

remove_files() {
    [[ -e $list ]] || die 69 "nothing is installed here (\`$list' is not there)"
    local file
    while read -r file; do
        [[ $file == etc/* ]] || rm -f "$root/$file"
    done <"$list"
    rm -f "$list"
    [[ -z $live ]] || rm -rf /run/systemd/system.control/stoker.slice.d # the limits that systemd kept for the daemon
    [[ -z $purge ]] || rm -rf "$root/etc/stoker" "$root/var/lib/stoker"
    find "$root"/usr/lib/stoker "$root"/usr/share/doc/stoker "$root"/usr/share/stoker -type d -empty -delete 2>/dev/null || true
}

tidy_up() {
    journalctl --update-catalog
    systemctl daemon-reload
}

[[ -z $live ]] || fits_here
if [[ -n $uninstall ]]; then
    # Without records there never was a stokerd here. Where it is down it is started, because nobody else drains.
    if [[ -n $live && -e /var/lib/stoker/stoker.db ]]; then
        say "draining the host; leases have 30 s"
        { timeout 90 systemctl start stokerd.service && timeout 120 stokerctl drain --window 30s --wait --for-now; } ||
            say "not drained; see \`docker ps -a --filter label=stoker.host'"
    fi
    [[ -z $live ]] || systemctl --quiet disable --now "${units[@]}" || true
    remove_files
    [[ -z $live ]] || tidy_up
    say "removed"
    exit
fi
put_files
if [[ -n $live ]]; then
    systemd-sysusers stoker.conf
    systemd-tmpfiles --create stoker.conf
    tidy_up
    if ! systemctl --quiet is-active stokerd.service; then
        say "installed: describe pools in /etc/stoker/host.toml, then \`systemctl enable --now stokerd.service'"
    elif stokerd --check >/dev/null; then
        # Its socket stays, so callers wait for the new one, and running leases live on.
        systemctl restart stokerd.service
        say "upgraded, and stokerd restarted"
    else
        # The new one may read a profile more strictly. One that it refuses would leave the host without a daemon.
        say "the new stokerd refuses the profile, so the old one goes on; mend it and \`systemctl restart stokerd'"
        exit 78
    fi
fi
