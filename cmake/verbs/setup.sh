# Installs the Debian packages of configs/packages.txt that are missing.

help_setup() {
    cat <<'END'
usage: ./tern setup [GROUP...]

Installs the Debian packages that are missing, with apt-get (through sudo when you are not root).
On a terminal it shows a progress bar; elsewhere it lists the packages and what each is for. The output
of apt is in build/apt.log. Does nothing, offline, when all packages are there. Asks nothing: settings
files of other packages that you have changed stay as they are. Groups: build, test, lint,
picture, overview, browser, npm, package, docs, image, torch, fresh, firmware, cross, rtl, synth; without one: build
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

# Prints the first alternative that apt has, as releases of Debian differ in names.
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
        fail "apt has no package $packages. Add a source that has it"
    done
}

# Prints the names of those that are installed, alone and with their architecture. One call asks for all, since every verb asks.
installed_among() { # PACKAGE...
    { dpkg-query -W -f '${Package} ${Package}:${Architecture} ${Status}\n' "$@" 2>/dev/null || true; } | # 1: some are not
        awk '/ok installed$/ { print $1; print $2 }'
}

# Prints, for each of the given packages, its first installed alternative, or nothing. With "missing": those that have none.
alternatives_of() { # installed|missing PACKAGES...
    local which=$1
    shift
    # shellcheck disable=SC2048,SC2086
    installed_among ${*//|/ } | awk -v which="$which" -v wanted="$*" '
        { installed[$1] = 1 }
        END {
            count = split(wanted, rows, " ")
            for (i = 1; i <= count; i++) {
                names = split(rows[i], name, "|")
                for (j = 1; j <= names && !(name[j] in installed); j++) continue
                if (which == "installed" && j <= names) print name[j]
                if (which == "missing" && j > names) print rows[i]
            }
        }'
}

installed_of() { alternatives_of installed "$@"; } # PACKAGES...

missing_of() { alternatives_of missing "$@"; } # PACKAGES...

# Lists packages, and what each is for.
list_reasons() { # PACKAGES...
    awk -v wanted="$*" '
        { name = $2; $1 = $2 = ""; sub(/^ +/, ""); if (!(name in why)) why[name] = $0 }
        END { count = split(wanted, names, " "); for (i = 1; i <= count; i++) printf "   %-22s %s\n", names[i], why[names[i]] }' \
        "$TERN_ROOT/configs/packages.txt"
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

# `apt-get update` does not use DPkg::Lock::Timeout, which `install` does.
update_lists() { # LOG
    local log=$1 output
    output=$(mktemp)
    until as_root env LC_ALL=C apt-get -q update >"$output" 2>&1 </dev/null; do
        cat -- "$output" >>"$log"
        if ! grep -q 'Could not get lock' "$output" || [ "$SECONDS" -ge "$LOCK_TIMEOUT" ]; then
            grep -E '^[EW]: ' "$output" >&2 || true
            rm -f -- "$output"
            return 1
        fi
        say "waiting for another program that uses apt"
        sleep 2
    done
    cat -- "$output" >>"$log"
    rm -f -- "$output"
}

# Shows how far apt is: a bar on a terminal, elsewhere a line for each quarter.
show_progress() { # PERCENT WHAT
    local filled=$(($1 * 30 / 100)) bar
    if [ -t 1 ]; then
        printf -v bar '%*s' "$filled" ''
        printf '\r   [%-30s] %3d %%  %-30.30s' "${bar// /#}" "$1" "$2"
    elif [ "$1" -ge "$PROGRESS_NEXT" ]; then
        printf '   %3d %%  %s\n' "$1" "$2"
        PROGRESS_NEXT=$(($1 / 25 * 25 + 25))
    fi
}

# Reads what apt-get prints with APT::Status-Fd=1. Downloads are the first half of the progress, installing is the second.
# Progress never goes back.
follow_apt() { # LOG
    local line kind package percent most=0 PROGRESS_NEXT=25
    while IFS= read -r line; do
        printf '%s\n' "$line" >>"$1"
        IFS=: read -r kind package percent _ <<<"$line"
        percent=${percent%%.*}
        case $kind:$percent in
        dlstatus:*[!0-9]* | pmstatus:*[!0-9]* | dlstatus: | pmstatus:) continue ;;
        dlstatus:*) percent=$((percent / 2)) package=downloading ;;
        pmstatus:*) percent=$((50 + percent / 2)) package="installing ${package/dpkg-exec/packages}" ;;
        *) continue ;;
        esac
        [ "$percent" -le "$most" ] || most=$percent
        show_progress "$most" "$package"
    done
}

# Installs packages. No question stops it: settings files that were changed stay, and there is no input to read.
run_apt() { # LOG PACKAGE...
    local log=$1 failed=no
    shift
    as_root env LC_ALL=C apt-get -q -o APT::Status-Fd=1 -o DPkg::Lock::Timeout="$LOCK_TIMEOUT" \
        -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold \
        install -y --no-install-recommends "$@" </dev/null 2>&1 | follow_apt "$log" || failed=yes
    [ ! -t 1 ] || printf '\r%79s\r' ''
    [ "$failed" = no ]
}

# Lists the packages that apt reports as failed: not found, not downloaded, not installable, or not configured. Where
# apt names none, lists the packages that are still missing.
failed_of() { # LOG PACKAGE...
    local log=$1 named
    shift
    named=$(sed -nE \
        -e 's/^E: Unable to locate package (\S+).*/\1/p' \
        -e "s/^E: (Version '.*' for|Package) '(\S+)' .*/\2/p" \
        -e 's/^E: Failed to fetch .*\/([a-z0-9][a-z0-9+.-]*)_[^/]*\.deb.*/\1/p' \
        -e 's/^pmerror:(\/.*\/)?([a-z0-9][a-z0-9+.-]*)(_[^:]*)?:.*/\2/p' \
        -e 's/^ ([a-z0-9][a-z0-9+.-]*)(:[a-z0-9]+)? : (Pre-?)?(Depends|Conflicts|Breaks): .*/\1/p' \
        -e '/^Errors were encountered while processing:/,$ s/^ (\/.*\/)?([a-z0-9][a-z0-9+.-]*)((:|_).*)?$/\2/p' \
        "$log" | sort -u)
    if [ -n "$named" ]; then
        printf '%s\n' "$named"
    else
        missing_of "$@"
    fi
}

verb_setup() { # GROUP...
    local groups=("$@") missing package chosen log
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
    log=$TERN_BUILD/apt.log
    mkdir -p "$TERN_BUILD"
    : >"$log"
    say "installing ${#missing[@]} Debian packages that are missing (apt-get; log: $log)"
    [ -t 1 ] || list_reasons "${missing[@]}"
    can_be_root ||
        fail "installing packages needs root, and there is no sudo: as root run ./tern setup ${groups[*]}, then this again"
    update_lists "$log" || fail "apt-get update failed: is there a network, are the sources right, may you use sudo?"
    chosen=$(available_of "${missing[@]}") || exit 1
    mapfile -t missing <<<"$chosen"
    run_apt "$log" "${missing[@]}" || {
        grep -m 5 '^E: ' "$log" >&2 || true
        chosen=$(failed_of "$log" "${missing[@]}")
        fail "apt-get could not install: ${chosen//$'\n'/ }. The output is in $log"
    }
}
