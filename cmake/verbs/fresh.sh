# Runs the two commands of the README on a system without any installed packages.

help_fresh() {
    cat <<'END'
usage: ./tern fresh [--suite bookworm|trixie] [--keep] [VERB...]

Makes a minimal root of Debian 12 (bookworm, the default) or 13 (trixie) by debootstrap, from the
mirror that this machine's apt uses, copies a clean clone of the last commit into it, and runs ./tern demo and ./tern test there (or the VERBs
given), so that a package that is missing from configs/packages.txt shows. Needs root. Takes some
ten minutes and 3 GB under TMPDIR; removes it afterwards unless --keep. With TERN_DATA_DIR set, the
data set is copied in too and a skipped test fails.
END
}

# What apt was told here that is no package's file: where proxies are, what is not fetched.
copy_apt_options() { # ROOT
    local file
    for file in /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
        if grep -qs Acquire "$file" && ! dpkg-query -S "$file" >/dev/null 2>&1; then
            cp -a "$file" "$1/etc/apt/apt.conf.d/"
        fi
    done
}

# The sources of this machine where it runs the same release; else the release from the same mirror.
copy_apt_sources() { # ROOT SUITE MIRROR
    local root=$1 suite=$2 file
    rm -f "$root/etc/apt/sources.list"
    if [ "$suite" != "$ARCHIVE_OWN_SUITE" ]; then
        printf 'deb %s %s main\n' "$3" "$suite" "$3" "$suite-updates" >"$root/etc/apt/sources.list"
        return 0
    fi
    for file in sources.list sources.list.d trusted.gpg trusted.gpg.d keyrings auth.conf \
        auth.conf.d; do
        [ ! -e "/etc/apt/$file" ] || cp -aT "/etc/apt/$file" "$root/etc/apt/$file"
    done
    cp -a /usr/share/keyrings/. "$root/usr/share/keyrings/"
}

# Lets apt in ROOT reach the same archives in the same way as here.
copy_apt_configuration() { # ROOT SUITE MIRROR
    local root=$1
    copy_apt_sources "$@"
    copy_apt_options "$root"
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/" 2>/dev/null || true
    if grep -qrs 'https://' "$root/etc/apt/sources.list" "$root/etc/apt/sources.list.d"; then
        mkdir -p "$root/etc/ssl/certs"
        cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    fi
}

proxy_environment() {
    local name
    for name in http_proxy https_proxy no_proxy; do
        [ -z "${!name:-}" ] || printf '%s\n' "$name=${!name}"
    done
}

# Runs a verb in ROOT. The mounts live in a mount namespace of their own and the programs in a
# process namespace of their own, so both are gone when the verb ends, however it ends.
run_in_root() { # ROOT VERB...
    local root=$1 environment=()
    shift
    mapfile -t environment < <(proxy_environment)
    [ ! -d "$root/data" ] || environment+=(TERN_DATA_DIR=/data)
    # shellcheck disable=SC2016
    unshare --mount --pid --fork --kill-child bash -euc '
        root=$1; shift
        mount --make-rprivate /
        mount -t proc proc "$root/proc"
        mount --rbind /sys "$root/sys"
        mount --rbind /dev "$root/dev"
        exec chroot "$root" "$@"
    ' fresh "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb \
        LANG=C.UTF-8 "${environment[@]}" bash -euc '
        cd /root/tern
        ./tern "$@"
        left=$(cat /proc/[0-9]*/comm | grep ^tern- || true)
        [ -z "$left" ] || { echo "left running: $left" >&2; exit 1; }
    ' verb "$@"
}

FRESH_ROOT=
remove_root() {
    [ -z "$FRESH_ROOT" ] || rm -rf --one-file-system -- "$FRESH_ROOT"
}

verb_fresh() {
    local keep=no suite=bookworm mirror verbs=() verb started=$SECONDS
    while [ $# -gt 0 ]; do
        case $1 in
        --keep) keep=yes ;;
        --suite)
            [ $# -gt 1 ] || usage_error "fresh: --suite needs a name"
            suite=$2
            shift
            ;;
        -*) usage_error "fresh: unknown option '$1'; ./tern fresh --help" ;;
        *) verbs+=("$1") ;;
        esac
        shift
    done
    case $suite in
    bookworm | trixie) ;;
    *) usage_error "fresh: --suite '$suite': use bookworm or trixie" ;;
    esac
    [ ${#verbs[@]} -gt 0 ] || verbs=(demo test)
    [ "$(id -u)" -eq 0 ] || fail "fresh needs root (chroot): sudo ./tern fresh"
    verb_setup test fresh
    mirror=$(ARCHIVE_SUITE=$suite archive_mirror "$suite")
    [ -n "$mirror" ] || fail "apt has no source for Debian. Add one to /etc/apt/sources.list"
    FRESH_ROOT=$(mktemp -d "${TMPDIR:-/tmp}/tern-fresh.XXXXXX")
    chmod 755 "$FRESH_ROOT" # a root folder that any user may pass, as on a real machine
    [ "$keep" = yes ] || trap remove_root EXIT
    trap 'exit 5' INT TERM HUP
    say "a minimal root of $suite in $FRESH_ROOT"
    quietly "$FRESH_ROOT.log" debootstrap debootstrap --variant=minbase "$suite" "$FRESH_ROOT" "$mirror"
    rm -f "$FRESH_ROOT.log"
    copy_apt_configuration "$FRESH_ROOT" "$suite" "$mirror"
    say "a clone of $(git -C "$TERN_ROOT" -c safe.directory='*' log -1 --format='%h %s')"
    git -c safe.directory='*' clone -q --no-hardlinks "$TERN_ROOT" "$FRESH_ROOT/root/tern"
    [ -z "${TERN_DATA_DIR:-}" ] || cp -aL "$TERN_DATA_DIR" "$FRESH_ROOT/data"
    for verb in "${verbs[@]}"; do
        say "fresh: ./tern $verb"
        if [ "$verb" = test ] && [ -d "$FRESH_ROOT/data" ]; then
            run_in_root "$FRESH_ROOT" test --no-skips
        else
            run_in_root "$FRESH_ROOT" "$verb"
        fi || fail "./tern $verb does not work on a fresh $suite"
    done
    say "fresh: ./tern ${verbs[*]} worked in $((SECONDS - started)) s"
}
