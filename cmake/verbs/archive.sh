# Debian packages and sources that are unpacked into the build folder instead of being installed: apt
# with lists, status and cache of its own, so that nothing of this machine's package system changes.

# The release of Debian that packages and sources are taken from: this machine's, unless a verb says
# otherwise.
ARCHIVE_OWN_SUITE=$(. /etc/os-release 2>/dev/null && printf '%s\n' "${VERSION_CODENAME:-}") || true
ARCHIVE_SUITE=$ARCHIVE_OWN_SUITE

# Prints the address that this machine's apt uses for a suite, in any format of its sources; needs no downloaded
# lists. Other releases of Debian are at the same address.
archive_mirror() { # SUITE
    archive_mirror_of "$1" | grep . || archive_mirror_of "${1/#$ARCHIVE_SUITE/$ARCHIVE_OWN_SUITE}"
}

archive_mirror_of() { # SUITE
    apt-get indextargets --no-release-info --format '$(RELEASE) $(REPO_URI)' \
        'Created-By: Packages' 2>/dev/null | awk -v suite="$1" '$1 == suite { print $2; exit }'
}

# Runs apt-get with all its files below DIR, for packages of ARCH.
archive_apt() { # DIR ARCH ARGUMENT...
    local dir=$1 arch=$2
    shift 2
    apt-get -q -o Dir::Etc::sourcelist="$dir/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dir::Etc::preferencesparts=- -o Dir::Etc::preferences=- \
        -o Dir::State="$dir/state" -o Dir::State::lists="$dir/lists" \
        -o Dir::State::status="$dir/status" -o Dir::Cache="$dir/cache" \
        -o Dir::Cache::archives="$dir/archives" -o Dir::Log="$dir/log" \
        -o APT::Architecture="$arch" -o APT::Architectures="$arch" -o APT::Sandbox::User= \
        -o APT::Install-Recommends=false -o Acquire::Languages=none "$@"
}

# Makes such a folder, and updates its lists of packages (deb) or sources (deb-src).
archive_open() { # DIR ARCH deb|deb-src
    local dir=$1 arch=$2 type=$3 suite mirror
    mkdir -p "$dir"/{state,lists/partial,cache,archives/partial,log}
    : >"$dir/status"
    : >"$dir/sources.list"
    for suite in "$ARCHIVE_SUITE" "$ARCHIVE_SUITE-updates"; do
        mirror=$(archive_mirror "$suite")
        if [ -n "$mirror" ]; then
            printf '%s\n' "$type $mirror $suite main" >>"$dir/sources.list"
        elif [ "$suite" = "$ARCHIVE_SUITE" ]; then
            fail "apt has no source for $suite. Add one to /etc/apt/sources.list"
        fi
    done
    # Without the option apt takes lists that cannot be fetched for a mere warning.
    quietly "$dir/update.log" "reading the package lists for $arch" \
        archive_apt "$dir" "$arch" -o APT::Update::Error-Mode=any update
}

# Prints the .deb files of packages and of all their dependencies; downloads missing ones.
archive_packages() { # DIR ARCH PACKAGE...
    local dir=$1 arch=$2 package version found
    shift 2
    quietly "$dir/download.log" "downloading packages for $arch" \
        archive_apt "$dir" "$arch" install --yes --download-only "$@"
    archive_apt "$dir" "$arch" install --simulate "$@" >"$dir/chosen" 2>/dev/null
    while read -r package version; do
        found=$(compgen -G "$dir/archives/${package}_${version//:/%3a}_*.deb") ||
            fail "apt could not download $package $version for $arch"
        printf '%s\n' "$found"
    done < <(awk '$1 == "Inst" { sub(/^\(/, "", $3); print $2, $3 }' "$dir/chosen")
}

# Absolute symbolic links would lead out of ROOT.
archive_relative_links() { # ROOT
    local root=$1 link target
    while IFS= read -r -d '' link; do
        target=$(readlink "$link")
        ln -sfnr "$root$target" "$link"
    done < <(find "$root" -type l -lname '/*' -print0)
}

# Unpacks packages and what they depend on into ROOT. Does nothing, offline, when exactly these are
# there already.
archive_unpack() { # DIR ARCH ROOT PACKAGE...
    local dir=$1 arch=$2 root=$3 packages package
    shift 3
    [ "$(cat "$root/.packages" 2>/dev/null)" != "$*" ] || return 0
    say "libraries for $arch: $*"
    archive_open "$dir" "$arch" deb
    packages=$(archive_packages "$dir" "$arch" "$@") || exit 1
    rm -rf -- "$root"
    mkdir -p "$root"
    while IFS= read -r package; do
        dpkg-deb -x "$package" "$root" || fail "dpkg-deb could not unpack $package"
    done <<<"$packages"
    archive_relative_links "$root"
    printf '%s\n' "$*" >"$root/.packages"
}

# Unpacks one package of this machine's architecture into ROOT, and of what it depends on the libraries
# that this machine has not, and what a version of PostgreSQL consists of. Does nothing, offline, when it is there.
# The archive was opened.
archive_program() { # DIR ROOT PACKAGE
    local dir=$1 root=$2 package=$3 arch libraries archive
    [ ! -e "$root/.complete" ] || return 0
    say "Debian's $package, unpacked and not installed"
    arch=$(dpkg --print-architecture)
    rm -rf -- "$root"
    mkdir -p "$root"
    mapfile -t libraries < <(archive_apt "$dir" "$arch" -o Dir::State::status=/var/lib/dpkg/status \
        install --simulate "$package" 2>/dev/null | awk '$1 == "Inst" && $2 ~ /^(lib|postgresql-)/ && $2 !~ /^libjs-/ { print $2 }')
    (cd "$root" && quietly "$dir/download.log" "downloading $package" \
        archive_apt "$dir" "$arch" download "$package" "${libraries[@]}") || exit 1
    for archive in "$root"/*.deb; do
        quietly "$dir/download.log" "unpacking ${archive##*/}" dpkg-deb -x "$archive" "$root" || exit 1
        rm -- "$archive"
    done
    : >"$root/.complete"
}

# Unpacks the source of a package, with Debian's patches applied, as DIR/PACKAGE. Does nothing,
# offline, when it is there.
archive_source() { # DIR PACKAGE
    local dir=$1 package=$2 control
    [ ! -e "$dir/$package/.complete" ] || return 0
    say "Debian's source of $package"
    archive_open "$dir" "$(dpkg --print-architecture)" deb-src
    (cd "$dir/archives" && quietly "$dir/source.log" "downloading the source of $package" \
        archive_apt "$dir" "$(dpkg --print-architecture)" source --download-only "$package") || exit 1
    control=$(compgen -G "$dir/archives/${package}_*.dsc" | sort -V | tail -n 1)
    rm -rf -- "${dir:?}/$package"
    quietly "$dir/source.log" "unpacking the source of $package" \
        dpkg-source --no-check -x "$control" "$dir/$package"
    : >"$dir/$package/.complete"
}
