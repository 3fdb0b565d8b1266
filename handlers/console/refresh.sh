#!/usr/bin/env bash
# Gets the chart library from npm: ./refresh.sh 1.6.32
set -euo pipefail
version=${1:?the version of uPlot to get}
lib=$(cd "$(dirname "$0")" && pwd)/assets/lib
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm pack --silent "uplot@$version" >/dev/null
tar xzf uplot-*.tgz
install -m 644 package/dist/uPlot.esm.js "$lib/uPlot.js"
install -m 644 package/dist/uPlot.min.css "$lib/uPlot.css"
install -m 644 package/LICENSE "$lib/uPlot.LICENSE.txt"
sed -i "s/^uPlot [0-9.]*,/uPlot $version,/" "$lib/README.txt"
