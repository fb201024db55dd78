#!/usr/bin/env bash
# The journal has stokerd's fields as they are named, and a lease's story is found by its name.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

# entries FIELD=VALUE: as `state reason message`
entries() { journalctl -b -o json "$@" | jq -r '[.STOKER_STATE, .STOKER_REASON // "-", .MESSAGE] | @tsv'; }

warm=$(journalctl -b -u stokerd -o json STOKER_POOL=browser STOKER_STATE=warm | head -n 1)
for field in MESSAGE_ID STOKER_POOL STOKER_INSTANCE STOKER_STATE STOKER_TOOK_MS MESSAGE SYSLOG_IDENTIFIER PRIORITY; do
    jq -e --arg field "$field" '.[$field] | strings' <<<"$warm" >/dev/null || fail "an entry has no $field: $warm"
done
equal "the identifier" "$(jq -r .SYSLOG_IDENTIFIER <<<"$warm")" stokerd
equal "the level" "$(jq -r .PRIORITY <<<"$warm")" 6

lease=$(stokerctl acquire sandbox)
stokerctl release "$lease"
journalctl --sync
story=$(entries "STOKER_LEASE=$lease")
echo "$story"
grep -q ^executing <<<"$story" || fail "the journal does not say that $lease was granted"
grep -q $'^completed\treleased' <<<"$story" || fail "the journal does not say that $lease was released"

# The same by the tool, explained by the catalog that the package installed.
told=$(stokerctl logs "$lease" --explain -- --no-pager --boot)
grep -q "Subject: A lease of pool sandbox was granted" <<<"$told" || fail "the catalog does not explain the grant: $told"
grep -q "stokerctl logs $lease" <<<"$told" || fail "the catalog does not fill in fields: $told"

# What a container writes is there, and says to which lease it belongs.
lease=$(stokerctl acquire sandbox)
stokerctl exec "$lease" -- touch /tmp/say
await 30 bash -c "stokerctl logs '$lease' -- --no-pager --boot --output cat | grep -q 'I have been lent'"
stokerctl release "$lease"
ready
