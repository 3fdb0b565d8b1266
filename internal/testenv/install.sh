#!/usr/bin/env bash
# Installs what the tests need besides Go: a C compiler, Node.js with npm (the official
# JavaScript clients), PostgreSQL (the store), promtool (the alert rules), chromium (the
# console) and buildah (the container image). Where it may not use apt it names what is
# missing; tests that need a missing program are skipped, or fail where CI is set.
set -u

need() { # command, Debian packages
  command -v "$1" >/dev/null || missing+=("$2")
}
look() {
  missing=()
  need gcc "gcc libc6-dev"
  need npm "nodejs npm"
  need promtool prometheus
  need chromium chromium
  need buildah buildah
  command -v postgres >/dev/null || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing+=(postgresql)
  [ ${#missing[@]} -eq 0 ]
}

look && exit 0
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  echo "installing ${missing[*]}"
  # Unquoted: an entry may hold several packages.
  apt-get update -qq && apt-get install -y -qq --no-install-recommends ${missing[*]} >/dev/null
  look && exit 0
fi
echo "Not installed: tests that need these are skipped, or fail where CI is set. To run them:" >&2
for packages in "${missing[@]}"; do
  echo "    sudo apt-get install $packages" >&2
done
