#!/usr/bin/env bash
# Instances live where systemd can see them, with the limits of their profile.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

# limits LEASE SLICE MEMORY_MAX PIDS_MAX
limits() {
    local id dir
    id=$(container "$1")
    dir=$(cgroup "$id")
    equal "the cgroup of $1" "$dir" "/sys/fs/cgroup/stoker.slice/$2/docker-$id.scope"
    equal memory.max "$(cat "$dir/memory.max")" "$3"
    equal pids.max "$(cat "$dir/pids.max")" "$4"
    equal memory.swap.max "$(cat "$dir/memory.swap.max")" 0
    equal cpu.max "$(cat "$dir/cpu.max")" "150000 100000"
    equal "the state of its scope" "$(systemctl is-active "docker-$id.scope")" active
    equal "the slice of its scope" "$(systemctl show -P Slice "docker-$id.scope")" "$2"
    equal "the slice of that" "$(systemctl show -P Slice "$2")" stoker.slice
    systemd-cgls -u stoker.slice | grep -q "docker-$id.scope" || fail "systemd-cgls does not show it in stoker.slice"
}

for slice in stoker stoker-browser stoker-sandbox; do
    equal "the unit of $slice.slice" "$(readlink -f "$(systemctl show -P FragmentPath "$slice.slice")")" "/usr/lib/systemd/system/$slice.slice"
    equal "the swap of $slice.slice" "$(systemctl show -P MemorySwapMax "$slice.slice")" 0
done
# The kernel keeps no more of a cgroup than of those around it, up to the root, which has no limit.
dir=/sys/fs/cgroup$(cut -d: -f3 "/proc/$(systemctl show -P MainPID stokerd)/cgroup")
[[ $dir == */stokerd.service ]] || fail "stokerd is in $dir"
while [[ $dir != /sys/fs/cgroup ]]; do
    kept=$(cat "$dir/memory.min")
    [[ $kept == max ]] || ((kept >= 64 << 20)) || fail "$dir/memory.min is $kept, so stokerd has no more"
    dir=$(dirname "$dir")
done
browser=$(stokerctl acquire browser)
sandbox=$(stokerctl acquire sandbox)
limits "$browser" stoker-browser.slice $((96 << 20)) 48
limits "$sandbox" stoker-sandbox.slice $((64 << 20)) 32
stokerctl release "$browser" "$sandbox"
ready
