#!/usr/bin/env bash
# The machine is rebooted while a lease executes; what comes of it is seen in the next boot.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

mkdir -p /var/log/journal /etc/systemd/system/stoker-drain.service.d
journalctl --flush
printf '[Service]\nEnvironment=STOKER_DRAIN_WINDOW=20s\n' >/etc/systemd/system/stoker-drain.service.d/window.conf
systemctl daemon-reload
equal "drains without a shutdown" "$(systemctl restart stoker-drain && api /v1/host | jq .drain)" null
stokerctl acquire sandbox >/var/lib/stoker-host/lease
touch "${reboots:?it is the runner that reboots}"
