#!/usr/bin/env bash
# A profile with mistakes is not tried again, and says what is wrong; mended, it starts.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

systemctl stop stokerd.socket stokerd
sed -i 's/^reserve/resrve/' /etc/stoker/host.toml
if systemctl start stokerd; then fail "it started"; fi
for pair in ActiveState=failed SubState=failed ExecMainStatus=78 NRestarts=0; do
    equal "its ${pair%=*}" "$(systemctl show -P "${pair%=*}" stokerd)" "${pair#*=}"
done
systemctl --no-pager status stokerd | grep -q /etc/stoker/host.toml:4 || fail "systemctl status does not say where the mistake is"
cp /payload/guest/host.toml /etc/stoker/
systemctl start stokerd
ready
