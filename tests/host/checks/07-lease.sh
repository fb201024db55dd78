#!/usr/bin/env bash
# A lease's whole life: used, reached, given back, replaced.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

browser=$(stokerctl acquire browser)
sandbox=$(stokerctl acquire sandbox)
used=$(container "$browser")
[[ -n $used ]] || fail "$browser has no container"

equal "what an exec says" "$(stokerctl exec "$sandbox" -- sh -c 'echo hello; id -u')" "$(printf 'hello\n1000')"
code=0 && stokerctl exec "$sandbox" -- sh -c 'exit 3' || code=$?
equal "the exit code of an exec" "$code" 3

# The server listens on the instance's own loopback; the way there leads through its network namespace.
coproc stokerctl forward "$browser"
forward=$COPROC_PID
read -r -t 20 url <&"${COPROC[0]}" || fail "the forward did not say its address"
equal "who answers at $url" "$(curl -sS -m 10 "$url/json/version" | jq -r .Browser)" Tiny/1.0
kill -INT "$forward"
wait "$forward" || fail "the forward ended with $?"

# The same in a sandbox, which has no network but its loopback.
stokerctl exec "$sandbox" -- sh -c 'echo inside >/tmp/page; httpd -p 127.0.0.1:8000 -h /tmp'
coproc stokerctl forward "$sandbox" 8000
forward=$COPROC_PID
read -r -t 20 url <&"${COPROC[0]}" || fail "the forward did not say its address"
equal "the page of the sandbox" "$(curl -sS -m 10 "$url/page")" inside

stokerctl release "$browser" "$sandbox"
wait "$forward" || fail "the forward of a lease that has ended, ended with $?"
equal "the state of $browser" "$(lease "$browser" state)" completed
gone() { [[ $(containers) != *$used* ]]; }
await 30 gone
ready
