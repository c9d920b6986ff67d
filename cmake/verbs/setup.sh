# Installs the Debian packages of configs/packages.txt that are missing.

help_setup() {
    cat <<'END'
usage: ./tern setup [GROUP...]

Installs the Debian packages that are missing, with apt-get (through sudo when you are not root),
and says which and why. Does nothing, offline, when all are there. Groups: build, test, lint,
picture, overview, browser, package, docs, torch, fresh, firmware, cross, rtl, synth; without one: build
and test. The packages and what each is for: configs/packages.txt
END
}

# What rows name as package: one, or alternatives as "libllhttp-dev|libhttp-parser-dev".
packages_of() { # GROUP...
    local group
    for group in "$@"; do
        awk -v group="$group" '$1 == group { print $2 }' "$TERN_ROOT/configs/packages.txt"
    done
}

# The first of the alternatives that apt has, for releases of Debian that name things differently.
available_of() { # PACKAGES...
    local packages package
    for packages in "$@"; do
        if [[ $packages != *"|"* ]]; then
            printf '%s\n' "$packages"
            continue
        fi
        for package in ${packages//|/ }; do
            if [ -n "$(apt-cache policy "$package" 2>/dev/null | awk '/Candidate: [^(]/')" ]; then
                printf '%s\n' "$package"
                continue 2
            fi
        done
        fail "apt on this machine has no package $packages"
    done
}

is_installed() { # PACKAGE
    case $(dpkg-query -W -f '${Status}' "$1" 2>/dev/null || true) in
    *"ok installed") ;;
    *) return 1 ;;
    esac
}

# The first of the alternatives that is installed.
installed_of() { # PACKAGES...
    local packages package
    for packages in "$@"; do
        for package in ${packages//|/ }; do
            ! is_installed "$package" || printf '%s\n' "$package"
        done | head -n 1
    done
}

# Prints those of the given packages that are not installed, under no alternative name either.
missing_of() { # PACKAGES...
    local packages
    for packages in "$@"; do
        [ -n "$(installed_of "$packages")" ] || printf '%s\n' "$packages"
    done
}

why_of() { # PACKAGES
    awk -v package="$1" '$2 == package { $1 = $2 = ""; sub(/^ +/, ""); print }' \
        "$TERN_ROOT/configs/packages.txt"
}

# The python3 that Debian's python3-... packages are for, whatever PATH has before it.
debian_python() {
    if [ -x /usr/bin/python3 ]; then
        echo /usr/bin/python3
    else
        echo python3
    fi
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        env DEBIAN_FRONTEND=noninteractive "$@"
    else
        sudo env DEBIAN_FRONTEND=noninteractive "$@"
    fi
}

can_be_root() { [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null; }

LOCK_TIMEOUT=600 # seconds for another program that uses apt

# `apt-get update` does not know DPkg::Lock::Timeout, which `install` goes by.
update_lists() {
    local errors
    errors=$(mktemp)
    until as_root env LC_ALL=C apt-get -q update 2>"$errors"; do
        if ! grep -q 'Could not get lock' "$errors" || [ "$SECONDS" -ge "$LOCK_TIMEOUT" ]; then
            cat -- "$errors" >&2
            rm -f -- "$errors"
            return 1
        fi
        say "waiting for another program that uses apt"
        sleep 2
    done
    cat -- "$errors" >&2
    rm -f -- "$errors"
}

verb_setup() { # GROUP...
    local groups=("$@") missing package chosen
    [ -z "${TERN_SKIP_BUILD:-}" ] || return 0
    [ ${#groups[@]} -gt 0 ] || groups=(build test)
    for package in "${groups[@]}"; do
        [ -n "$(packages_of "$package")" ] || usage_error "there is no package group '$package'"
    done
    if ! command -v dpkg-query >/dev/null; then
        warn "this is not a Debian system: install the equivalents of configs/packages.txt yourself"
        return 0
    fi
    # shellcheck disable=SC2046
    mapfile -t missing < <(missing_of $(packages_of "${groups[@]}"))
    [ ${#missing[@]} -gt 0 ] || return 0
    say "installing ${#missing[@]} Debian packages that are missing (apt-get)"
    for package in "${missing[@]}"; do
        printf '   %-22s %s\n' "$package" "$(why_of "$package")"
    done
    can_be_root ||
        fail "installing packages needs root, and there is no sudo: as root run ./tern setup ${groups[*]}, then this again"
    update_lists || fail "apt-get update failed: is there a network, are the sources right, may you use sudo?"
    chosen=$(available_of "${missing[@]}") || exit 1
    mapfile -t missing <<<"$chosen"
    as_root apt-get -q -o DPkg::Lock::Timeout="$LOCK_TIMEOUT" install -y --no-install-recommends "${missing[@]}" ||
        fail "apt-get could not install: ${missing[*]}"
}
