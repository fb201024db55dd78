#!/usr/bin/env bash
# Somebody outside the slice takes the host's memory: what is warm goes, and a lease stays.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

level() { [[ $(api /v1/host | jq -r .pressure_level) == "$1" ]]; }
none_warm() { [[ $(stokerctl pools --json | jq '[.pools[] | .warm + .starting] | add') == 0 ]]; }

ready
lease=$(stokerctl acquire sandbox)
ready
await 30 level calm
mkdir -p /run/hog
mount -t tmpfs -o size=100% hog /run/hog
trap 'umount /run/hog 2>/dev/null || true' EXIT
available=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
# Of the floor of 256 MiB some 190 are left: tight, and not critical.
dd if=/dev/zero of=/run/hog/all bs=1M count=$((available - 190)) status=none
await 60 level tight
await 90 none_warm
equal "the state of the lease" "$(lease "$lease" state)" executing
equal "what it says" "$(stokerctl exec "$lease" -- echo alive)" alive
if said=$(stokerctl acquire browser 2>&1); then fail "a start was allowed: $said"; fi
[[ $said == *"short of memory"* ]] || fail "refused for another reason: $said"
journalctl -b -o cat STOKER_STATE=tight | grep -q 'memory pressure is tight, was calm: .* available, floor 256 MiB' ||
    fail "the journal does not tell of the level"
journalctl -b -o cat STOKER_STATE=relief STOKER_REASON=reclaim | grep -q 'relief asks . idle warm instance' ||
    fail "the journal does not tell that idle ones were asked first"
journalctl -b -o cat STOKER_STATE=relief STOKER_REASON=stock | grep -q 'relief ends one that is warm, and holds' ||
    fail "the journal does not tell of relief"

umount /run/hog
await 60 level calm
