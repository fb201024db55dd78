#!/usr/bin/env bash
# Installed, the socket listens; the first caller starts stokerd, which warms up and says how it goes.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

groupadd --system stoker
cp /payload/bin/stokerd /payload/bin/stokerctl /usr/bin/
mkdir -p /etc/stoker
cp /payload/guest/host.toml /etc/stoker/
cp /payload/units/stoker* /usr/lib/systemd/system/
systemctl daemon-reload
systemctl enable -q --now stokerd.socket stoker-drain.service
equal "the socket" "$(stat -c '%U %G %a' /run/stoker.sock)" "root stoker 660"
equal "stokerd before anybody asks" "$(systemctl show -P ActiveState stokerd)" inactive
stokerctl status
equal "stokerd afterwards" "$(systemctl show -P ActiveState stokerd)" active
ready
equal "the answer of /readyz" "$(curl -so /dev/null -w '%{http_code}' --unix-socket /run/stoker.sock http://stoker/readyz)" 200
for pool in browser sandbox; do equal "the stock of $pool" "$(pool "$pool" warm)" 1; done

says() { [[ $(systemctl show -P StatusText stokerd) == "2 warm, 0 leased, 0 starting, 0 queued" ]]; }
await 10 says
locked() { [[ $(systemd-inhibit --list --no-legend) == *stokerd*shutdown*delay* ]]; }
await 20 locked
equal "warnings" "$(journalctl -b -u stokerd -u stokerd.socket -u stoker-drain -p warning -o cat)" ""
