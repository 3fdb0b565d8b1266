#!/usr/bin/env bash
# Writes what is released into a folder: for each architecture an archive, .deb and .rpm
# packages and a list of contents (CycloneDX); the Helm chart; checksums. amd64 and arm64 are
# built where a C compiler for them is installed.
#   deploy/release.sh FOLDER             for all architectures
#   deploy/release.sh FOLDER PROGRAM     with a program that is built already, for its architecture
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1
given=${2:-}
nfpm="go run github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.0"

version=$(sed -n 's/^const version = "\(.*\)"$/\1/p' cmd/quorate/version.go)
native=$(go env GOARCH)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$out"
mkdir -p "$out"

# What the Go toolchain recorded in a program.
recorded() { # program, key
  go version -m "$1" | sed -n "s/^\tbuild\t$2=//p"
}

declare -A compilers=([amd64]=x86_64-linux-gnu-gcc [arm64]=aarch64-linux-gnu-gcc)
if [ -n "$given" ]; then
  mkdir -p "$work/$native"
  cp "$given" "$work/$native/quorate"
else
  for arch in "$native" $(printf '%s\n' "${!compilers[@]}" | grep -vx "$native"); do
    cc=${compilers[$arch]}
    [ "$arch" != "$native" ] || cc=${CC:-gcc}
    if ! command -v "$cc" >/dev/null; then
      echo "not built for $arch: $cc is not in PATH (Debian: gcc-aarch64-linux-gnu libc6-dev-arm64-cross, or gcc-x86-64-linux-gnu libc6-dev-amd64-cross)" >&2
      continue
    fi
    echo "building for $arch"
    mkdir -p "$work/$arch"
    GOARCH=$arch CC=$cc deploy/build.sh "$work/$arch/quorate"
    if [ -z "$(recorded "$work/$arch/quorate" vcs.revision)" ]; then
      echo "the program does not know its commit: run this in a git clone, not in a copy or an extra worktree" >&2
      exit 1
    fi
  done
fi
if [ "$(recorded "$work/$native/quorate" vcs.modified)" = true ]; then
  echo "warning: files differ from the commit; the programs say so" >&2
fi
# The date of the commit, so that the same commit gives the same archives.
date=$(recorded "$work/$native/quorate" vcs.time)
date=${date:-1970-01-01T00:00:00Z}
reproducible=(--sort=name --owner=0 --group=0 --numeric-owner --mtime="$date")

"$work/$native/quorate" man --dir "$work/man"
gzip -n9 "$work"/man/*
mkdir "$work/completions"
"$work/$native/quorate" completion bash > "$work/completions/quorate.bash"
"$work/$native/quorate" completion zsh > "$work/completions/_quorate"
"$work/$native/quorate" completion fish > "$work/completions/quorate.fish"

for arch in amd64 arm64; do
  [ -e "$work/$arch" ] || continue
  cc=${compilers[$arch]}
  [ "$arch" != "$native" ] || cc=${CC:-gcc}
  glibc=$(printf '#include <features.h>\n__GLIBC__.__GLIBC_MINOR__\n' | "$cc" -E -P - | tail -n 1 | tr -d ' ')
  name=quorate_${version}_linux_$arch
  tree=$work/$name
  mv "$work/$arch" "$tree"
  cp -RL "$work/man" "$work/completions" deploy/quorate.service config.example.yaml README.md CHANGELOG.md LICENSE THIRD_PARTY_NOTICES "$tree/"
  chmod -R u=rwX,go=rX "$tree"
  find "$tree" -exec touch -d "$date" {} +
  go run ./deploy/sbom -version "$version" -glibc "$glibc" "$tree/quorate" > "$out/$name.cdx.json"
  tar -C "$work" "${reproducible[@]}" -cf - "$name" | gzip -n9 > "$out/$name.tar.gz"
  for packager in deb rpm; do
    ARCH=$arch VERSION=$version TREE=$tree SOURCE_DATE_EPOCH=$(date -d "$date" +%s) $nfpm package --config deploy/package/nfpm.yaml --packager $packager --target "$out/" > "$work/log" || { cat "$work/log" >&2; exit 1; }
  done
done
tar -C deploy/helm "${reproducible[@]}" --exclude=quorate/ci -cf - quorate | gzip -n9 > "$out/quorate-chart-$version.tgz"
(cd "$out" && sha256sum -- * > "$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
ls -l "$out"
