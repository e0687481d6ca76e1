# Sourced by scripts/test and scripts/demo: installs Debian packages that are not there yet.
#
#     need PACKAGE...       without them the work cannot go on
#     want PACKAGE...       without them something is skipped, with a message

installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q '^install ok installed'; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else return 1; fi
}

apt_updated=''
apt_install() {
    if [ -z "$apt_updated" ]; then
        as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >/dev/null 2>&1
        apt_updated=1
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1
}

missing_of() {
    for package in "$@"; do installed "$package" || printf ' %s' "$package"; done
}

need() {
    command -v dpkg-query >/dev/null || { echo "no apt on this system: assuming that $* or the like are there"; return 0; }
    missing=$(missing_of "$@")
    [ -z "$missing" ] && return 0
    echo "installing$missing"
    apt_install $missing && return 0
    echo "cannot install$missing; install them by hand and try again" >&2
    return 1
}

want() {
    command -v dpkg-query >/dev/null || return 0
    missing=$(missing_of "$@")
    [ -z "$missing" ] && return 0
    echo "installing$missing"
    apt_install $missing && return 0
    for package in $missing; do
        apt_install "$package" || echo "cannot install $package: what needs it is skipped"
    done
}
