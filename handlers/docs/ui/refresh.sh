#!/usr/bin/env bash
# Brings another version of Swagger UI: refresh.sh VERSION
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && npm pack --silent "swagger-ui-dist@$1" && tar xzf ./*.tgz)
for file in swagger-ui-bundle.js swagger-ui.css; do
  gzip -9nc "$work/package/$file" >"$file.gz"
done
cp "$work/package/LICENSE" "$work/package/NOTICE" .
(cd "$work/package" && echo "# swagger-ui-dist $1" && sha256sum swagger-ui-bundle.js swagger-ui.css) >SHA256SUMS
