#!/usr/bin/env bash
# The reboot waited: the lease had its time, and nothing that it needs was stopped before it ended.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

# earlier FILTER FIELD=VALUE...: when the entries of the boot before were made that the jq filter selects, in microseconds.
earlier() { journalctl -b -1 -o json "${@:2}" | jq -r "select($1).__MONOTONIC_TIMESTAMP"; }

lease=$(cat /var/lib/stoker-host/lease)
journalctl -b -1 -o short-monotonic --no-pager -n 60
granted=$(earlier '.STOKER_STATE == "executing"' "STOKER_LEASE=$lease")
began=$(earlier "(.__MONOTONIC_TIMESTAMP | tonumber) > $granted" STOKER_STATE=draining | head -n 1)
ended=$(earlier '.STOKER_STATE == "interrupted" and .STOKER_REASON == "drain"' "STOKER_LEASE=$lease")
[[ -n $began && -n $ended ]] || fail "the drain began at \`$began\` and the lease was interrupted at \`$ended\`"
# Of 20 s; the times are those at which the journal heard of it.
((ended - began >= 19500000)) || fail "it waited for $((ended - began)) of 20000000 microseconds"
for unit in stokerd.service docker.service stokerd.socket; do
    stopped=$(earlier '.JOB_TYPE == "stop" and (.MESSAGE | test("^Stopp|^Closed"))' "UNIT=$unit" | tail -n 1)
    [[ -n $stopped ]] || fail "the journal does not say when $unit was stopped"
    ((stopped > ended)) || fail "$unit was stopped $((ended - stopped)) microseconds before the lease had ended"
done
journalctl -b -1 -o cat -u stoker-drain | grep -q 'drained: nothing is left' || fail "the drain did not end"
if journalctl -b -u stokerd -o cat | grep 'is not active'; then fail "stokerd misses the unit that drains, and it is enabled"; fi
# The stock of this boot is being made already.
booted=$(awk '/^btime / { print $2 }' /proc/stat)
equal "what the reboot left" "$(engine '/containers/json?all=1' | jq -r --argjson booted "$booted" '.[] | select(.Created < $booted).Id')" ""
ready
