#!/usr/bin/env bash
# stokerd is killed, comes again, and takes over what it left.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

lease=$(stokerctl acquire sandbox)
# What is being started at that moment would be ended.
stocked() { (($(pool sandbox warm) == 1 && $(pool sandbox starting) == 0 && $(pool browser warm) == 1)); }
await 60 stocked
before=$(containers)
[[ -n $before && -n $lease ]]
pid=$(systemctl show -P MainPID stokerd)
kill -KILL "$pid"
again() { (($(systemctl show -P MainPID stokerd) != pid)) && api /livez; }
await 20 again
ready
equal "the containers of before" "$(containers)" "$before"
equal "what an instance of the earlier run says" "$(stokerctl exec "$lease" -- echo alive)" alive
stokerctl release "$lease"
ready
