# Container images (OCI) of tern-aggregator and tern-client, from Debian packages.

help_image() {
    cat <<'END'
usage: ./tern image [aggregator] [client] [amd64|arm64] [--test]

Makes build/images/tern-aggregator-ARCH.tar and tern-client-ARCH.tar, images of the OCI, and prints their digests and
sizes. They have no shell and no package manager: the program, its configuration folder and, for the aggregator,
the libraries that Debian's packages name. tern-client is a static program. Programs run as the user 10001 and write
to /var/lib/tern alone, a volume. Beside each image is its list of parts (CycloneDX). The same commit makes the same digest.

  podman load -i build/images/tern-aggregator-amd64.tar
  podman run --read-only -v tern:/var/lib/tern -p 8443:8443 tern-aggregator

  --test   runs a federation of containers by podman: kills, an upgrade, a restored backup; and configs/compose (needs root)
END
}

IMAGE_USER=10001
IMAGE_STATE=/var/lib/tern
# Largest sizes in bytes of the images' files.
declare -A IMAGE_MOST=([aggregator]=60000000 [client]=8000000)

# Uses storage below the build folder, of the kind that works within containers, too.
image_buildah() {
    BUILDAH_ISOLATION=chroot buildah --storage-driver vfs --root "$TERN_BUILD/images/storage" --runroot "$TERN_BUILD/images/run" "$@"
}

# Prints the .deb file of a program: the aggregator's is dynamic, the client's static.
image_package() { # PROGRAM ARCH
    local folder=$TERN_BUILD/packages
    case $1 in
    client) folder=$(cross_dir "$2")/static/packages ;;
    aggregator) cross_is_native "$2" || folder=$(cross_dir "$2")/dynamic/packages ;;
    esac
    compgen -G "$folder/tern-$1_*_$2.deb" | sort -V | tail -n 1 | grep . || fail "$folder has no package of tern-$1"
}

image_make_package() { # PROGRAM ARCH
    if [ "$1" = client ]; then
        verb_cross "$2" --static --package
    elif cross_is_native "$2"; then
        verb_package
    else
        verb_cross "$2" --package
    fi
}

# Prints the .deb files of the libraries that a package needs, directly or not. Programs that only their installation
# needs are left out.
image_libraries() { # DEB ARCH
    local dir=$TERN_BUILD/images/archive-$2 names packages deb
    names=$(dpkg-deb --field "$1" Depends | tr ',' '\n' | sed -E 's/\|.*//; s/\(.*//; s/ //g' | grep -E '^(lib|zlib)' || true)
    [ -n "$names" ] || return 0
    archive_open "$dir" "$2" deb >&2
    # shellcheck disable=SC2086
    packages=$(archive_packages "$dir" "$2" $names) || exit 1
    for deb in $packages; do
        [ "$(dpkg-deb --field "$deb" Section)" != libs ] || printf '%s\n' "$deb"
    done
}

# Prints NAME=VERSION of what the static client holds, which no package depends on.
image_held() { # ARCH
    local name deb source
    for source in curl cjson; do
        deb=$(compgen -G "$TERN_BUILD/cross/sources/archives/${source}_*.dsc" | sort -V | tail -n 1)
        printf '%s=%s\n' "$source" "$(sed -n 's/^Version: //p' "$deb" | head -n 1)"
    done
    for name in libc6-dev libmbedtls-dev libinih-dev libnanopb-dev zlib1g-dev; do
        if cross_is_native "$1"; then
            # shellcheck disable=SC2016 # dpkg's variables
            dpkg-query -W -f '${Package}=${Version}\n' "$name"
        else
            deb=$(compgen -G "$(cross_dir "$1")/archives/${name}_*.deb" | sort -V | tail -n 1)
            # shellcheck disable=SC2016
            dpkg-deb --show --showformat '${Package}=${Version}\n' "$deb"
        fi
    done
}

# Leaves in ROOT what the programs need of the packages.
image_root() { # ROOT DEB...
    local root=$1 deb
    shift
    rm -rf -- "$root"
    mkdir -p "$root"/{etc/tern,etc/ssl/certs,tmp} "$root${IMAGE_STATE%/*}"
    chmod 1777 "$root/tmp"
    for deb in "$@"; do
        dpkg-deb -x "$deb" "$root" || fail "dpkg-deb could not unpack $deb"
    done
    rm -rf -- "$root"/usr/share/{man,locale,lintian,bug,doc-base,info,bash-completion,gcc,gdb} "$root"/etc/{ldap,default,cron*} \
        "$root"/{usr/,}lib/{systemd,sysusers.d,tmpfiles.d} "$root"/usr/lib/*/{gconv,perl,ossl-modules,engines-3,audit,sasl2} "$root"/usr/include
    find "$root/usr/share/doc" -type f ! -name copyright -delete
    find "$root" -type d -empty ! -path "$root/etc/tern" ! -path "$root/tmp" ! -path "$root${IMAGE_STATE%/*}" -delete
    mkdir -p "$root/etc/ssl/certs"
    # The package's settings name a folder of a user that the image has not.
    sed -i -E "s#^(state(_dir)?) = /var/lib/tern-(aggregator|client)\$#\1 = $IMAGE_STATE/state#" "$root"/etc/tern/*.ini
    grep -qE "^state(_dir)? = $IMAGE_STATE/state\$" "$root"/etc/tern/*.ini || fail "the settings of ${*: -1} name no state directory"
    # The authorities that this machine trusts, for a helper, a gateway's upstream and clients' servers.
    cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" || fail "ca-certificates is not installed"
    printf 'tern:x:%s:%s::%s:/nonexistent\n' "$IMAGE_USER" "$IMAGE_USER" "$IMAGE_STATE" >"$root/etc/passwd"
    printf 'tern:x:%s:\n' "$IMAGE_USER" >"$root/etc/group"
}

# Commits the image NAME of a root and writes it to FILE.
image_commit() { # PROGRAM ARCH ROOT FILE
    local program=$1 arch=$2 root=$3 file=$4 container state=$3-state epoch version
    epoch=${SOURCE_DATE_EPOCH:-$(git -C "$TERN_ROOT" -c safe.directory='*' log -1 --format=%ct)}
    version=$(dpkg-deb --field "$deb" Version)
    container=$(image_buildah from --arch "$arch" scratch) || fail "buildah makes no container: are you root?"
    # A folder that is there keeps its owner, so that the volume's is a folder within what is added.
    rm -rf -- "$state"
    mkdir -p "$state/${IMAGE_STATE##*/}"
    image_buildah add --quiet --chown 0:0 "$container" "$root" / >/dev/null
    image_buildah add --quiet --chown "$IMAGE_USER:$IMAGE_USER" "$container" "$state" "${IMAGE_STATE%/*}" >/dev/null
    local options=(--arch "$arch" --user "$IMAGE_USER:$IMAGE_USER" --workingdir "$IMAGE_STATE" --volume "$IMAGE_STATE"
        --entrypoint "[\"/usr/bin/tern-$program\"]" --env PATH=/usr/bin --stop-signal SIGTERM
        --label "org.opencontainers.image.title=tern-$program" --label "org.opencontainers.image.version=$version"
        --label "org.opencontainers.image.revision=$(git -C "$TERN_ROOT" -c safe.directory='*' rev-parse HEAD)"
        --label "org.opencontainers.image.documentation=docs/OPERATIONS.md")
    if [ "$program" = aggregator ]; then
        options+=(--cmd serve --port 8443)
    else
        options+=(--cmd run)
    fi
    image_buildah config "${options[@]}" "$container"
    image_buildah commit --quiet --rm --format oci --timestamp "$epoch" "$container" "localhost/tern-$program:$version-$arch" >/dev/null
    rm -f -- "$file"
    image_buildah push --quiet --digestfile "$file.digest" "localhost/tern-$program:$version-$arch" "oci-archive:$file:tern-$program:latest"
    rm -rf -- "$state"
}

# Makes an image of the package that is there.
image_make() { # PROGRAM ARCH
    local program=$1 arch=$2 folder=$TERN_BUILD/images deb libraries=() held=() root bytes
    deb=$(image_package "$program" "$arch")
    say "image of tern-$program ($arch)"
    mkdir -p "$folder"
    mapfile -t libraries < <(image_libraries "$deb" "$arch")
    [ "$program" = aggregator ] || mapfile -t held < <(image_held "$arch")
    [ "$program" = client ] || [ ${#libraries[@]} -gt 0 ] || fail "the libraries of $deb were not found"
    root=$folder/root-$program-$arch
    image_root "$root" "${libraries[@]}" "$deb"
    "$PYTHON" "$TERN_ROOT/cmake/verbs/image_parts.py" "$deb" "${libraries[@]}" "${held[@]}" >"$folder/tern-$program-$arch.cdx.json" ||
        fail "the list of parts could not be made"
    image_commit "$program" "$arch" "$root" "$folder/tern-$program-$arch.tar"
    bytes=$(du --apparent-size --block-size=1 -s "$root" | cut -f 1)
    rm -rf -- "$root"
    printf '%-34s %10s  %s\n' "tern-$program-$arch.tar" "$bytes" "$(cat "$folder/tern-$program-$arch.tar.digest")"
    [ "$bytes" -le "${IMAGE_MOST[$program]}" ] ||
        fail "the image of tern-$program has $bytes bytes; the limit is ${IMAGE_MOST[$program]}"
}

# Fails if a second image has another digest.
image_make_again() { # PROGRAM ARCH
    local file=$TERN_BUILD/images/tern-$1-$2.tar.digest first
    first=$(cat "$file")
    image_make "$1" "$2"
    [ "$first" = "$(cat "$file")" ] || fail "two images of tern-$1 have the digests $first and $(cat "$file")"
}

verb_image() {
    local programs=() arch test=no program
    arch=$(dpkg --print-architecture)
    while [ $# -gt 0 ]; do
        case $1 in
        aggregator | client) programs+=("$1") ;;
        amd64 | arm64) arch=$1 ;;
        --test) test=yes ;;
        *) usage_error "image: unknown argument '$1'; ./tern image --help" ;;
        esac
        shift
    done
    [ ${#programs[@]} -gt 0 ] || programs=(aggregator client)
    verb_setup build package image
    for program in "${programs[@]}"; do
        image_make_package "$program" "$arch"
        image_make "$program" "$arch"
        [ "$test" = no ] || image_make_again "$program" "$arch"
    done
    [ "$test" = yes ] || return 0
    "$PYTHON" -B "$TERN_ROOT/tests/image/test_image.py" "$TERN_BUILD/images" "$arch" || fail "the federation of containers failed"
    cross_is_native "$arch" || return 0
    unpack_neighbours nginx libnginx-mod-stream postgresql
    "$PYTHON" -B "$TERN_ROOT/tests/image/test_compose.py" "$TERN_BUILD/images" "$arch" || fail "configs/compose failed"
}
