#!/usr/bin/env bash
# A drain empties the host, and a stop leaves nothing.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

lease=$(stokerctl acquire sandbox)
stokerctl drain --window 1s --wait
equal "what is left" "$(docker ps -aq)" ""
equal "the state of $lease" "$(lease "$lease" state)" interrupted
systemctl stop stokerd.socket stokerd
equal "how stokerd ended" "$(systemctl show -P Result stokerd)" success
[[ ! -e /run/stoker.sock ]] || fail "the socket is still there"
systemctl start stokerd.socket stokerd
equal "the drain after a restart" "$(api /v1/host | jq '.drain != null')" true
stokerctl undrain
ready
