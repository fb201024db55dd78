#!/usr/bin/env bash
# Installed, the socket listens; the first caller starts stokerd, which warms up and says how it goes.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

dpkg -i /payload/stoker-0.0.1.deb
for unit in stokerd.service stokerd.socket stoker-drain.service stoker-reap.timer; do
    equal "$unit after the installation" "$(systemctl show -P ActiveState "$unit") $(systemctl is-enabled "$unit" || true)" "inactive disabled"
done
equal "the folder of records" "$(stat -c '%U %a' /var/lib/stoker)" "root 700"
# As it is installed it says what is missing, and is not tried again.
if stokerd --check 2>/run/unedited; then fail "a profile without pools is taken"; fi
grep -q "at least one pool is required" /run/unedited || fail "it does not say what is missing: $(cat /run/unedited)"
cp /payload/guest/host.toml /etc/stoker/
stokerctl profile check
systemctl enable -q stokerd.service
systemctl start stokerd.socket
equal "the socket" "$(stat -c '%U %G %a' /run/stoker.sock)" "root stoker 660"
equal "stokerd before anybody asks" "$(systemctl show -P ActiveState stokerd)" inactive
stokerctl status
equal "stokerd afterwards" "$(systemctl show -P ActiveState stokerd)" active
for unit in stoker-drain.service stoker-reap.timer; do equal "$unit" "$(systemctl is-active "$unit") $(systemctl is-enabled "$unit")" "active enabled"; done
ready
equal "the answer of /readyz" "$(curl -so /dev/null -w '%{http_code}' --unix-socket /run/stoker.sock http://stoker/readyz)" 200
for pool in browser sandbox; do equal "the stock of $pool" "$(pool "$pool" warm)" 1; done

says() { [[ $(systemctl show -P StatusText stokerd) == "2 warm, 0 leased, 0 starting, 0 queued" ]]; }
await 10 says
locked() { [[ $(systemd-inhibit --list --no-legend) == *stokerd*shutdown*delay* ]]; }
await 20 locked
equal "warnings" "$(journalctl -b -u stokerd -u stokerd.socket -u stoker-drain -p warning -o cat)" ""
