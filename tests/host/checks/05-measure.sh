#!/usr/bin/env bash
# What stokerd reads of cgroup v2 is what the kernel and Docker say.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

MIB=$((1 << 20))
holds_over() { (($(pool "$1" memory_bytes) > $2)); }
refilled() { (($(pool sandbox leased) + $(pool sandbox warm) == 2)); }
fresh() { [[ $(api /v1/host | jq -r '[.memory, .cpu, .pressure] | map(.telemetry) | unique[]') == fresh ]]; }

# agrees: stokerd leaves out what the kernel can take back, here the few pages of a small program.
agrees() {
    local said current=0 folder
    said=$(pool sandbox memory_bytes)
    for folder in /sys/fs/cgroup/stoker.slice/stoker-sandbox.slice/docker-*.scope; do
        ((current += $(cat "$folder/memory.current")))
    done
    ((said <= current && said > current - 10 * MIB))
}

for name in browser sandbox; do await 30 holds_over "$name" 0; done
await 30 fresh
total=$(awk '/^MemTotal:/ { printf "%.0f", $2 * 1024 }' /proc/meminfo)
equal "the host's memory" "$(api /v1/host | jq .memory.value.total_bytes)" "$total"

lease=$(stokerctl acquire sandbox)
await 60 refilled
before=$(pool sandbox memory_bytes)
# 24 MiB in its /tmp, which the kernel cannot take back; a start that has just ended counts some less from now on.
stokerctl exec "$lease" -- dd if=/dev/zero of=/tmp/held bs=1M count=24
await 30 holds_over sandbox $((before + 12 * MIB))
await 30 agrees
docker stats --no-stream --format '{{.Name}} {{.MemUsage}}'
stokerctl release "$lease"
ready
