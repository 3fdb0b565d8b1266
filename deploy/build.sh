#!/bin/sh
# Builds the program that is released: linked statically, for every processor of the
# architecture. GOARCH and CC choose another one than this machine's.
#   deploy/build.sh quorate
set -eu
export CGO_ENABLED=1 CGO_CFLAGS="-O2 -D__BLST_PORTABLE__"
# netgo and osusergo replace the parts of glibc that do not work in static programs.
exec go build -trimpath -buildvcs=auto -tags netgo,osusergo \
  -ldflags "-s -w -linkmode external -extldflags -static" -o "$1" ./cmd/quorate
