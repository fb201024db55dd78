#!/usr/bin/env bash
# A profile with mistakes is not tried again, and says what is wrong; nor do callers try it without end. Mended, it starts.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

systemctl stop stokerd.socket stokerd
sed -i 's/^reserve/resrve/' /etc/stoker/host.toml
code=0 && systemctl start stokerd || code=$?
status=$(systemctl --no-pager --full status stokerd || true) # 3 for a unit that failed
state=$(systemctl show -p ActiveState -p SubState -p ExecMainStatus -p NRestarts stokerd)
# One caller at the socket, which listens: it starts stokerd five times, then the socket fails and the caller is refused.
(stokerctl status >/dev/null 2>&1 || echo $? >/run/refused) &
caller=$!
refuses() { [[ $(systemctl show -P Result stokerd.socket) == trigger-limit-hit ]]; }
await 60 refuses
wait "$caller"
sockets=$(systemctl show -P ActiveState stokerd.socket)
refused=0 && stokerctl status >/dev/null 2>&1 || refused=$?
cp /payload/guest/host.toml /etc/stoker/
equal "the exit code of the start" "$code" 1
for pair in ActiveState=failed SubState=failed ExecMainStatus=78 NRestarts=0; do
    grep -qx "$pair" <<<"$state" || fail "it is not $pair: $state"
done
[[ $status == */etc/stoker/host.toml:4:1* ]] || fail "systemctl status does not say where the mistake is: $status"
equal "the socket that was triggered too often" "$sockets" failed
[[ -s /run/refused ]] || fail "its caller was answered"
equal "the exit code of the next caller" "$refused" 69
systemctl start stokerd
equal "the socket of a stokerd that was mended" "$(systemctl is-active stokerd.socket)" active
ready
