#!/usr/bin/env bash
# An upgrade of the package under a running lease: another daemon, the same lease and container, and no caller fails.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

# A profile that the new one refuses: the old one goes on until it is mended.
pid=$(systemctl show -P MainPID stokerd)
sed -i 's/^reserve/resrve/' /etc/stoker/host.toml
dpkg -i /payload/stoker-0.0.2.deb >/run/refused-upgrade 2>&1
cp /payload/guest/host.toml /etc/stoker/
grep -q "the old one goes on" /run/refused-upgrade || fail "the upgrade does not say that the profile is refused: $(cat /run/refused-upgrade)"
equal "the daemon beside a refused profile" "$(systemctl show -P MainPID stokerd)" "$pid"
lease=$(stokerctl acquire sandbox)
id=$(container "$lease")
(until [[ -e /run/upgraded ]]; do stokerctl status >/dev/null 2>>/run/upgrade-callers || echo "it ended with $?" >>/run/upgrade-callers; done) &
dpkg -i /payload/stoker-0.0.2.deb
again() { (($(systemctl show -P MainPID stokerd) != pid)) && api /livez; }
await 60 again
touch /run/upgraded
wait
equal "what callers complain of" "$(cat /run/upgrade-callers)" ""
equal "the installed version" "$(dpkg-query -W -f '${Version}' stoker)" 0.0.2
equal "the profile" "$(cmp /etc/stoker/host.toml /payload/guest/host.toml && echo kept)" kept
equal "the state of the lease" "$(lease "$lease" state)" executing
equal "its container" "$(container "$lease")" "$id"
equal "what it says" "$(stokerctl exec "$lease" -- echo alive)" alive
stokerctl release "$lease"
ready
