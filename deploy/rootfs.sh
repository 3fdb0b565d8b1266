#!/bin/sh
# Makes what the image consists of in a folder: in root the program, licences, certificates
# and a folder for temporary files, and an empty folder for data. It builds the program
# unless it gets one.
#   deploy/rootfs.sh FOLDER [PROGRAM]
set -eu
mkdir -p "$1/data" "$1/root/usr/bin"
if [ $# -gt 1 ]; then
  install -m 0755 "$2" "$1/root/usr/bin/quorate"
else
  deploy/build.sh "$1/root/usr/bin/quorate"
fi
install -D -m 0644 -t "$1/root/usr/share/doc/quorate" LICENSE THIRD_PARTY_NOTICES
install -D -m 0644 -t "$1/root/etc/ssl/certs" /etc/ssl/certs/ca-certificates.crt
install -d -m 1777 "$1/root/tmp"
