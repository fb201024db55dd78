#!/usr/bin/env bash
# A reload by systemd: a right profile holds at once, a wrong one changes nothing and says why.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

lease=$(stokerctl acquire sandbox)
pid=$(systemctl show -P MainPID stokerd)
mkdir -p /etc/stoker/host.toml.d
printf '[pool.sandbox]\nmax_instances = 5\n' >/etc/stoker/host.toml.d/more.toml
systemctl reload stokerd
equal "max_instances of the sandbox" "$(pool sandbox max_instances)" 5
stokerctl profile show | grep -q 'max_instances = 5 *# /etc/stoker/host.toml.d/more.toml:2' || fail "profile show does not say where it is from: $(stokerctl profile show)"

printf '[pool.sandbox]\nmax_instances = 0\n' >/etc/stoker/host.toml.d/more.toml
if systemctl reload stokerd; then fail "a wrong profile was reloaded"; fi
equal "max_instances of the sandbox" "$(pool sandbox max_instances)" 5
journalctl --sync
journalctl -b -u stokerd -o cat STOKER_STATE=profile_refused | grep -q more.toml:2 || fail "the journal does not say where the mistake is"

rm /etc/stoker/host.toml.d/more.toml
systemctl reload stokerd
equal "max_instances of the sandbox" "$(pool sandbox max_instances)" 4
equal "stokerd's process" "$(systemctl show -P MainPID stokerd)" "$pid"
equal "the state of the lease" "$(lease "$lease" state)" executing
stokerctl release "$lease"
ready
