#!/usr/bin/env bash
# A removal drains and leaves configuration and records; a purge leaves nothing of its own.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

rm -rf /etc/systemd/system/stoker-drain.service.d # of an earlier check
# Down, as after a mistake: the removal starts it, since nobody else would drain.
stokerctl acquire sandbox
systemctl stop stokerd.socket stokerd
dpkg -r stoker
equal "containers after the removal" "$(containers)" ""
[[ ! -e /run/stoker.sock && ! -e /usr/bin/stokerd ]] || fail "a part of it is still there"
[[ -e /etc/stoker/host.toml && -e /var/lib/stoker/stoker.db ]] || fail "a removal took what only a purge may"
dpkg -P stoker
left=$(find / /run -xdev \( -name 'stokerd*' -o -name 'stoker.*' -o -name 'stoker-*' -o -name stoker \) -not -path '/proc/*' \
    -not -path '/sys/*' -not -path '/var/lib/docker/*' -not -path '*stoker-host*' -not -path '/var/log/journal/*')
equal "files after the purge" "$left" ""
equal "the catalog after the purge" "$(journalctl --list-catalog | grep -i stoker || true)" ""
equal "units after the purge" "$(systemctl list-unit-files --no-legend 'stoker*' | grep -v stoker-host-test || true)" ""
# The group stays: its number must not become another's.
getent group stoker >/dev/null || fail "the group went"
