#!/usr/bin/env bash
# systemd reads its units anew while a lease lives. It takes memory.swap.max = 0 from containers then, as it was not
# told of that by the engine; that no instance swaps is held by the slice, which systemd knows.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

lease=$(stokerctl acquire sandbox)
id=$(container "$lease")
systemctl daemon-reload
equal "memory.max after it" "$(cat "$(cgroup "$id")/memory.max")" $((64 << 20))
equal "memory.swap.max of the slice after it" "$(cat /sys/fs/cgroup/stoker.slice/stoker-sandbox.slice/memory.swap.max)" 0
equal "what the instance says after it" "$(stokerctl exec "$lease" -- echo alive)" alive
equal "the state of the lease" "$(lease "$lease" state)" executing
equal "the state of the container" "$(engine "/containers/$id/json" | jq -r .State.Status)" running
stokerctl release "$lease"
ready
