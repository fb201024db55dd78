#!/usr/bin/env bash
# What dies behind stokerd's back is noticed, and harms nobody else.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

lease=$(stokerctl acquire sandbox)
docker kill "$(container "$lease")"
failed() { [[ $(lease "$lease" state) == failed ]]; }
await 20 failed
ready

lease=$(stokerctl acquire sandbox)
code=0
# More than its 64 MiB: the kernel kills the command, and not the instance.
stokerctl exec "$lease" -- sh -c 'exec tail -c 200m /dev/zero' || code=$?
equal "the exit code of what was killed for its memory" "$code" 137
grep -q '^oom_kill [1-9]' "$(cgroup "$(container "$lease")")/memory.events" || fail "the kernel has killed nothing"
equal "what the instance says next" "$(stokerctl exec "$lease" -- echo alive)" alive
stokerctl release "$lease"
ready
