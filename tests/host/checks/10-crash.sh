#!/usr/bin/env bash
# stokerd is killed, comes again, and clears away what it left.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

lease=$(stokerctl acquire sandbox)
before=$(containers)
[[ -n $before && -n $lease ]]
pid=$(systemctl show -P MainPID stokerd)
kill -KILL "$pid"
again() { (($(systemctl show -P MainPID stokerd) != pid)) && api /livez; }
await 20 again
ready
left=$(comm -12 <(echo "$before") <(containers))
equal "what is left of before" "$left" ""
lease=$(stokerctl acquire sandbox)
equal "what an instance of the new run says" "$(stokerctl exec "$lease" -- echo alive)" alive
stokerctl release "$lease"
ready
