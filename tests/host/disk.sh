# The base disk of the host test: Debian 12 from its packages, with Docker, as `disk.ext4`, `vmlinuz` and `initrd.img`
# in a folder of the cache that is named after this recipe. To be sourced; needs `here`, `say` and `cannot`.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # what is shared with whoever sources this

suite=bookworm
cache=${STOKER_HOST_CACHE:-/var/cache/stoker-host}
packages=(
    linux-image-cloud-amd64 systemd-sysv dbus udev kmod iproute2 procps
    docker.io iptables apparmor tini # docker-init is in the last
    curl jq
)

# Sets `base` to the folder of this recipe, making it when it is not there. Whole or not at all: it gets its name last.
base_disk() {
    local key
    key=$(cat "$here/disk.sh" "$here/guest/stoker-host-test.service" | sha256sum | cut -c1-16)
    base=$cache/$key
    if [[ ! -d $base ]]; then
        [[ $(id -u) == 0 ]] || cannot "the base disk is made as root, and there is none in $cache"
        mkdir -p "$cache"
        exec 9>"$cache/lock" # two that make the same disk at once
        flock 9
        [[ -d $base ]] || make_base
        exec 9>&-
    fi
    touch "$base" # as used; see the removing below
}

make_base() {
    local making began=$SECONDS
    needs debootstrap debootstrap debian-archive-keyring
    needs mkfs.ext4 e2fsprogs
    # shellcheck source=packaging/mirror.sh
    . "$here/../../packaging/mirror.sh"
    rm -rf --one-file-system -- "$cache"/making.* # the lock is ours: nobody else makes one
    find "$cache" -mindepth 1 -maxdepth 1 -type d -mtime +7 -exec rm -rf --one-file-system {} +
    making=$(mktemp -d "$cache/making.XXXXXX")
    say "making the base disk, Debian $suite from $mirror (log: $cache/making.log)"
    populate "$making" >"$cache/making.log" 2>&1 || {
        tail -n 15 "$cache/making.log" >&2
        rm -rf --one-file-system -- "$making"
        cannot "the base disk could not be made, see $cache/making.log"
    }
    mv "$making" "$base"
    say "made in $((SECONDS - began)) s, $(du -sm "$base" | cut -f1) MiB in $base"
}

# populate FOLDER. Every step is joined by &&, as nothing stops a function whose outcome is asked.
populate() {
    local root=$1/root
    debootstrap --variant=minbase --include="$(IFS=,; echo "${packages[*]}")" \
        --keyring=/usr/share/keyrings/debian-archive-keyring.gpg "$suite" "$root" "$mirror" &&
        configure "$root" &&
        cp -L "$root/vmlinuz" "$1/vmlinuz" &&
        cp -L "$root/initrd.img" "$1/initrd.img" &&
        truncate -s 3G "$1/disk.ext4" &&
        # No journal: whoever boots from it writes to an overlay that is thrown away.
        mkfs.ext4 -q -O ^has_journal -d "$root" "$1/disk.ext4" &&
        rm -rf --one-file-system -- "$root"
}

configure() {
    local root=$1
    rm -rf "${root:?}"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale} &&
        echo stoker-host >"$root/etc/hostname" &&
        echo '127.0.0.1 localhost stoker-host' >"$root/etc/hosts" &&
        echo '/dev/vda / ext4 defaults 0 0' >"$root/etc/fstab" &&
        # Empty, and not missing: with a first boot systemd would enable every service there is.
        : >"$root/etc/machine-id" &&
        # What a machine that lives for minutes, without a network and a user, has no need of.
        ln -sf /dev/null "$root/etc/systemd/system/apt-daily.timer" &&
        ln -sf /dev/null "$root/etc/systemd/system/apt-daily-upgrade.timer" &&
        ln -sf /dev/null "$root/etc/systemd/system/e2scrub_reap.service" &&
        ln -sf /dev/null "$root/etc/systemd/system/serial-getty@.service" &&
        ln -sf /dev/null "$root/etc/systemd/system/getty@.service" &&
        cp "$here/guest/stoker-host-test.service" "$root/etc/systemd/system/" &&
        ln -sf ../stoker-host-test.service "$root/etc/systemd/system/multi-user.target.wants/"
}
