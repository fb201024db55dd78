#!/usr/bin/env bash
# A restart of stokerd, and of Docker, drains nothing and loses no caller.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

# The next check waits for the watchdog; this restart gives it a shorter one.
mkdir -p /run/systemd/system/stokerd.service.d
printf '[Service]\nWatchdogSec=8\n' >/run/systemd/system/stokerd.service.d/watchdog.conf
systemctl daemon-reload

began=$(date +%s)
for caller in 1 2; do
    while [[ ! -e /run/enough ]]; do
        stokerctl status >/dev/null 2>>"/run/caller-$caller" || echo "it ended with $?" >>"/run/caller-$caller"
        echo >>/run/asked
    done &
done
asked() { (($(wc -l </run/asked) >= $1)); }
await 60 asked 4
systemctl restart stokerd
before=$(wc -l </run/asked)
await 60 asked $((before + 4))
touch /run/enough
wait
equal "what callers complain of" "$(cat /run/caller-*)" ""
equal "the drain of the host" "$(api /v1/host | jq .drain)" null
equal "drains" "$(journalctl -b --since "@$began" -o cat STOKER_STATE=draining)" ""
equal "the unit that drains" "$(systemctl show -P ActiveState stoker-drain)" active
ready
