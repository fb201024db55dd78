#!/usr/bin/env bash
# While stokerd is down, the unit of the timer ends what is past its deadline, and nothing else.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

systemctl start stoker-reap.service
equal "reap beside a daemon" "$(systemctl show -P Result stoker-reap.service)" exec-condition
long=$(stokerctl acquire sandbox)
ready # so that the one with little time waits for no start
short=$(stokerctl acquire sandbox --max-runtime 20s)
gone=$(container "$short") kept=$(container "$long")
systemctl stop stokerd.socket stokerd
reaped() { systemctl start stoker-reap.service && ! containers | grep -q "$gone"; }
await 60 reaped
containers | grep -q "$kept" || fail "it ended a lease that has time"
systemctl start stokerd
equal "how the overdue one ended" "$(lease "$short" state) $(lease "$short" reason)" "expired max_runtime"
equal "the other one" "$(stokerctl exec "$long" -- echo alive)" alive
stokerctl release "$long"
ready
