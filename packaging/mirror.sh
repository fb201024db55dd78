# Where Debian comes from: sets `mirror` and `security`, and apt's own proxy in the environment. To be sourced, with
# `suite` set; nothing is asked of the network.
# shellcheck shell=bash
# shellcheck disable=SC1091,SC2034 # /etc/os-release; what is set is for whoever sources this

# host_sources: this host's apt sources as lines of `URI SUITE`, from *.sources and *.list alike.
host_sources() {
    local dir=/etc/apt
    # A stanza lists several of each; a line that begins with a space continues the field before it.
    { cat "$dir"/sources.list.d/*.sources 2>/dev/null || true; } | awk '
        function flush(  u, s, i, j, n, m) {
            if (f["types"] ~ /(^| )deb( |$)/ && tolower(f["enabled"]) !~ /no|false/) {
                n = split(f["uris"], u, " "); m = split(f["suites"], s, " ")
                for (i = 1; i <= n; i++) for (j = 1; j <= m; j++) print u[i], s[j]
            }
            split("", f)
        }
        /^#/ { next }
        /^[ \t]*$/ { flush(); next }
        /^[ \t]/ { f[key] = f[key] " " $0; next }
        { key = tolower($0); sub(/:.*/, "", key); value = $0; sub(/^[^:]*:[ \t]*/, "", value); f[key] = value }
        END { flush() }'
    { cat "$dir"/sources.list "$dir"/sources.list.d/*.list 2>/dev/null || true; } |
        sed -n 's/#.*//; s/^[ \t]*deb[ \t]\+\(\[[^]]*\][ \t]*\)\?//p' | awk 'NF >= 2 { print $1, $2 }'
}

# mirror_for PATTERN DEFAULT: the first usable URI whose suite matches PATTERN.
mirror_for() {
    local uri suites os=''
    os=$(. /etc/os-release && echo "${ID:-}")
    if [[ $os == debian ]]; then
        while read -r uri suites; do
            [[ $suites =~ $1 ]] || continue
            # Debian's cloud images name a file that lists mirrors.
            if [[ $uri == mirror+file:* ]]; then uri=$(grep -m1 -o '^https\?://[^ ]*' "/${uri#mirror+file:*(/)}" || true); fi
            # Not a mirror with a password: it would be readable in the image.
            if [[ $uri == http?(s)://* && $uri != *@* ]]; then echo "${uri%/}"; return; fi
        done < <(host_sources)
    fi
    echo "$2"
}

shopt -s extglob
# Any Debian mirror has the suite that we want, so that of the host's own release will do.
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-$suite}")
mirror=$(mirror_for "^($suite|$codename|stable)\$" http://deb.debian.org/debian)
security=$(mirror_for '-security$' http://deb.debian.org/debian-security)

# apt's own proxy setting counts where the environment has none: only apt uses the network in these builds.
if [[ -z ${http_proxy:-${HTTP_PROXY:-}} ]] && command -v apt-config >/dev/null; then
    proxy='' && eval "$(apt-config shell proxy Acquire::http::Proxy)"
    [[ -z $proxy || $proxy == DIRECT ]] || export http_proxy=$proxy
fi
