#!/usr/bin/env bash
# A profile with mistakes is not tried again, and says what is wrong; mended, it starts.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

systemctl stop stokerd.socket stokerd
sed -i 's/^reserve/resrve/' /etc/stoker/host.toml
code=0 && systemctl start stokerd || code=$?
status=$(systemctl --no-pager --full status stokerd || true) # 3 for a unit that failed
state=$(systemctl show -p ActiveState -p SubState -p ExecMainStatus -p NRestarts stokerd)
cp /payload/guest/host.toml /etc/stoker/
equal "the exit code of the start" "$code" 1
for pair in ActiveState=failed SubState=failed ExecMainStatus=78 NRestarts=0; do
    grep -qx "$pair" <<<"$state" || fail "it is not $pair: $state"
done
[[ $status == */etc/stoker/host.toml:4:1* ]] || fail "systemctl status does not say where the mistake is: $status"
systemctl start stokerd
ready
