#!/usr/bin/env bash
# A profile with mistakes is not tried again, and says what is wrong; mended, it starts.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

sed -i 's/^reserve/resrve/' /etc/stoker/host.toml
if systemctl start stokerd; then fail "it started"; fi
equal "its state" "$(systemctl show -P ActiveState -P SubState -P ExecMainStatus -P NRestarts stokerd | paste -sd' ')" "failed failed 78 0"
systemctl --no-pager status stokerd | grep -q /etc/stoker/host.toml:4 || fail "systemctl status does not say where the mistake is"
cp /payload/guest/host.toml /etc/stoker/
systemctl start stokerd
ready
