#!/bin/sh
# Install the system packages that tests need: as root on Debian. Elsewhere, say which are missing.
set -eu
PATH=$PATH:/usr/sbin:/sbin
need=""
command -v cc >/dev/null || need="$need gcc libc6-dev"
[ -e /usr/include/jpeglib.h ] || need="$need libjpeg62-turbo-dev"
command -v openssl >/dev/null || need="$need openssl"
command -v npm >/dev/null || need="$need npm"
# The browser of tests/browser.
command -v chromium >/dev/null || need="$need chromium"
command -v chromedriver >/dev/null || need="$need chromium-driver"
# The lab of tests/cluster.
command -v tc >/dev/null || need="$need iproute2"
command -v ssh >/dev/null || need="$need openssh-client"
command -v sshd >/dev/null || need="$need openssh-server"
command -v slurmctld >/dev/null || need="$need slurm-wlm munge"
command -v mpiexec >/dev/null || need="$need openmpi-bin"
[ -z "$need" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    # Install daemons without starting them.
    policy=/usr/sbin/policy-rc.d
    [ -e $policy ] || { trap 'rm -f $policy' EXIT; printf '#!/bin/sh\nexit 101\n' >$policy; chmod +x $policy; }
    apt-get update -q
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $need
else
    echo "not installed, because this is not root on Debian:$need; tests that need them are not run"
fi
