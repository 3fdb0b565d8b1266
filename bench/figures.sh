#!/usr/bin/env bash
# Measures every figure of the documentation and runs the fuzz tests. Writes the output of each
# command to a file in a folder, and summary.md: name, command, duration, result. The fuzz tests take ten
# minutes each, FUZZERS of them at a time; all else takes about two hours.
#
#   bench/figures.sh FOLDER [NAME...]     only these, default all
#
# POSTGRES_18: folder with the programs of PostgreSQL 18, which the runs with 18 in their names use.
# FUZZERS: number of fuzz tests at a time, default one for each processor. They run beside the soak.
set -uo pipefail
cd "$(dirname "$0")/.."
mkdir -p "${1:?folder for the results}"
out=$(cd "$1" && pwd)
shift
names=" $* "
inside=""
[[ $out != "$PWD"/* ]] || inside=${out#"$PWD"/}
ulimit -n "$(ulimit -Hn)" 2>/dev/null

# run NAME COMMAND... adds a row to the summary. While listing is set it only prints the name.
run() {
  local name=$1 start=$SECONDS status=0
  shift
  if [[ -n ${listing-} ]]; then
    echo "$name"
    return
  fi
  [[ $names = "  " || $names = *" $name "* ]] || return 0
  "$@" >"$out/$name.txt" 2>&1 || status=$?
  local result=passed
  [[ $status = 0 ]] || result="failed ($status)"
  printf '| %s | `%s` | %d:%02d | %s |\n' "$name" "$*" $(((SECONDS - start) / 60)) $(((SECONDS - start) % 60)) "$result" >>"$out/summary.md"
}

figures() {
  # These two may disturb each other: neither measures time.
  run fuzz make fuzz &
  run soak make soak
  wait

  run ingest go -C bench run ./ingest -txs 1000000
  run postgres15 go -C bench run ./ingest -txs 300000 -store postgres
  if [[ -n ${POSTGRES_18-} ]]; then
    export POSTGRES_BIN=$POSTGRES_18
    run postgres18 go -C bench run ./ingest -txs 300000 -store postgres
    run store18 go test -count 1 -timeout 30m ./internal/store ./internal/index/primary
    run replicas18 go test -count 1 ./cmd/quorate -run TestReplicas -timeout 30m -v
    unset POSTGRES_BIN
  fi
  run report go -C bench run ./report
  run realnode go -C e2e test -run xxx -bench Indexing -benchtime 1x -timeout 30m
  run nodeapi go -C e2e test -run xxx -bench NodeAPI -benchtime 1x -timeout 30m
  for attack in heights slow idle pages tokens; do
    run "attack-$attack" go -C bench run ./attack $attack
  done
  run unsigned go -C bench run ./attack/unsigned
  run kills go test -count 1 ./cmd/quorate -run TestReplicas -timeout 30m -v -args -kills 50
  run matrix go -C bench run ./latency -matrix -validators 5,100,500,1000 -c 1 -rounds 60 -warmup 20
  run uniform16 go -C bench run ./latency -validators 1000 -c 16 -rounds 160 -warmup 40
  run heavy16 go -C bench run ./latency -validators 1000 -c 16 -rounds 160 -warmup 40 -weights heavy
  run liars go -C bench run ./latency -validators 1000 -c 1 -liars -rounds 40 -warmup 10
  run evm go -C bench run ./evm -txs 1000000
  run chains go -C bench run ./evm -chains 100 -txs 2000 -idle 40s
  run rows go test ./internal/index/evm -bench Record -run xxx -benchtime 1x
  run execute go test ./internal/peernode/pchainvm -run xxx -bench Execute -benchtime 20000x
  run download go -C e2e test -run xxx -bench PChain -benchtime 7x -timeout 30m
  run following go -C e2e test -run xxx -bench Following -benchtime 1x -timeout 30m
  run start go test ./internal/peernode -run xxx -bench Start -benchtime 1x
  run import go test ./internal/peernode -run xxx -bench Import -benchtime 5000000x
}

known=" $(listing=1 figures | tr '\n' ' ')"
for name in $names; do
  if [[ $known != *" $name "* ]]; then
    echo "no figure has the name $name (those of PostgreSQL 18 need POSTGRES_18); the names are:$known" >&2
    exit 2
  fi
done

# Files that are not in Git may be part of the builds too; those in the folder of the results are not.
changes=$(git status --porcelain --untracked-files=all -- . ":(exclude)docs" ${inside:+":(exclude)$inside"})
touch "$out/summary.md"
before=$(wc -l <"$out/summary.md") # rows of earlier runs do not count
{
  echo "Commit $(git rev-parse --short=12 HEAD)${changes:+ and changes}, $(date -u '+%F %H:%M UTC'), $(nproc) processors."
  echo
  echo "| name | command | min:s | |"
  echo "|---|---|---|---|"
} >>"$out/summary.md"
figures
cat "$out/summary.md"
! tail -n "+$((before + 1))" "$out/summary.md" | grep 'failed (' >/dev/null
