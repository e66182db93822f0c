#!/bin/sh
# Install the system packages that tests need: as root on Debian. Elsewhere, say which are missing.
set -eu
need=""
command -v cc >/dev/null || need="$need gcc libc6-dev"
[ -e /usr/include/jpeglib.h ] || need="$need libjpeg62-turbo-dev"
command -v openssl >/dev/null || need="$need openssl"
command -v npm >/dev/null || need="$need npm"
[ -z "$need" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -q
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $need
else
    echo "not installed, because this is not root on Debian:$need; tests that need them are not run"
fi
