#!/usr/bin/env bash
# Runs the suites that depend on Redis on each server that is supported: packages of
# Debian's releases, unpacked into a cache and run with their own libraries. Nothing
# is installed. The machine must be a Debian, whose mirror is used.
#
# Usage: integration/servers.sh [SERVER...]
# Prints a line for each server and test. The exit status is 1 if one of them fails.
#
# Variables: SHADOWLIMIT_SERVERS is the cache, by default in ~/.cache;
# GO is the go command; SERVER_STEPS is the number of differential steps on each server, by default 10,000; with SHORT there are
# fewer programs of property tests.
# With SEARCH_STEPS only so many differential steps run, on all servers at once, from SEED on.
set -euo pipefail
cd "$(dirname "$0")"

# name      version  release   package  program
servers="
redis-6.0   6.0.     bullseye  redis    redis-server
redis-7.0   7.0.     bookworm  redis    redis-server
redis-8.0   8.0.     trixie    redis    redis-server
valkey-8.1  8.1.     trixie    valkey   valkey-server
"

# Beginnings of the names of tests: of pairs, stores and ledgers; of all algorithms beside
# the oracle; of twins; by Sentinel, Cluster and TLS; with the least rights.
suites="
TestRedisKeepsTheLaws TestRedisStore TestRedisLedger TestRecordKeepsTwoParts TestForgottenScripts
TestLogThatLost TestWrongType TestRedisOutOfMemory TestLogsAreGivenUp TestRollbackWithoutTheRight
TestDifferential
TestTwins
TestEveryWayToRedis TestSentinel TestCluster TestSlot TestMigratingSlot TestDeadMaster TestWrongCertificate
TestMinimalRights TestDoctor
"

cache=${SHADOWLIMIT_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/shadowlimit-servers}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

say() { echo "servers: $*"; }
give_up() { say "$*" >&2; exit 1; }
version_of() { "$1" --version 2>/dev/null | grep -o 'v=[0-9.]*'; }

# twice tries something that needs the network once more.
twice() { timeout 180 "$@" || { say "$1 has failed, and is tried once more" >&2; sleep 3; timeout 180 "$@"; }; }

# mirror_of prints the address from which apt has a suite of this machine's release.
mirror_of() {
  apt-get update --print-uris 2>/dev/null | sed -n "s|^'\([^']*\)/dists/$1/InRelease'.*|\1|p" | head -1
}

# write_sources lists a release, and its security updates if this machine has its own.
write_sources() {
  local release=$1 file=$2 codename main security
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  main=$(mirror_of "$codename")
  security=$(mirror_of "$codename-security")
  [ -n "$main" ] || give_up "apt-get knows no mirror of the release \"$codename\" of this machine, which is to be a Debian"

  echo "deb [signed-by=$keyring] $main $release main" >"$file"
  [ -z "$security" ] || echo "deb [signed-by=$keyring] $security $release-security main" >>"$file"
}

# fetch unpacks a package with the libraries that it needs, and writes a program that
# runs its server by the loader among them.
fetch() {
  local name=$1 version=$2 release=$3 package=$4 program=$5
  local home=$cache/$name apt options
  [ ! -d "$home/root" ] || write_program "$home" "$program"
  case $(version_of "$home/server") in v=$version*) return ;; esac

  say "fetching $name from the release $release"
  apt=$cache/apt-$release
  rm -rf "$home"
  mkdir -p "$home/root" "$apt"/{lists,cache/archives}/partial
  : >"$apt/status" # no package is installed: apt fetches all that the server needs
  write_sources "$release" "$apt/sources.list"
  options=(
    -qq -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$apt/lists" -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt/cache"
    -o "APT::Sandbox::User=$(id -un)" -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
    -o Acquire::Languages=none -o Acquire::http::Timeout=30 -o Debug::NoLocking=true -o APT::Update::Error-Mode=any
  )
  twice apt-get "${options[@]}" update ||
    give_up "the release $release cannot be read by $(paste -sd, "$apt/sources.list"). If a key is missing, update the package debian-archive-keyring"

  # The package of the server needs a whole system, that of its tools only the libraries.
  rm -f "$apt"/cache/archives/*.deb
  twice apt-get "${options[@]}" install -y --download-only --no-install-recommends "$package-tools" >/dev/null &&
    (cd "$apt/cache/archives" && twice apt-get "${options[@]}" download "$package-server") ||
    give_up "the release $release does not give $package-server and $package-tools"
  for deb in "$apt"/cache/archives/*.deb; do dpkg-deb -x "$deb" "$home/root"; done
  rm -rf "$apt"

  write_program "$home" "$program"
  case $(version_of "$home/server") in
    v=$version*) say "$name is $("$home/server" --version | cut -d' ' -f1-3)" ;;
    *) give_up "$name is to have version $version*: $("$home/server" --version 2>&1 || true)" ;;
  esac
}

# The server of an older release loads cjson from a folder of the system.
write_program() {
  local root=$1/root loader libraries modules
  loader=$(find "$root" -type f \( -name 'ld-linux*.so.*' -o -name 'ld-2.*.so' \) | head -1)
  libraries=$(find "$root" -path '*/lib/*-linux-*/lib*.so*' -not -path '*/lib/*-linux-*/*/*' -printf '%h\n' | sort -u | paste -sd:)

  modules=$(find "$root" -path '*/lua/5.1/cjson.so' -printf '%h')
  printf '#!/bin/bash\nexport LUA_CPATH=%q\n' "$modules/?.so;;" >"$1/server"
  printf 'exec %q --library-path %q %q "$@"\n' "$loader" "$libraries" "$root/usr/bin/$2" >>"$1/server"
  chmod +x "$1/server"
}

# run runs the suites on one server.
run() {
  local name=$1 tests=$2 log status=0
  log=$(mktemp)

  SHADOWLIMIT_TEST_REDIS_SERVER=$cache/$name/server timeout -k 10 15m \
    "$tests" -test.v -test.timeout 14m -test.run "$(echo $suites | tr ' ' '|')" -steps "${SERVER_STEPS:-10000}" ${SHORT:+-test.short} \
    >"$log" 2>&1 || status=$?

  grep -E '^(--- |integration:)' "$log" | sed "s/^/$name  /"
  [ "$status" = 0 ] || { cat "$log"; say "$name has failed"; }
  rm -f "$log"
  return "$status"
}

for tool in apt-get dpkg-deb; do
  command -v "$tool" >/dev/null || give_up "this needs $tool, and so a Debian"
done
[ -e "$keyring" ] || give_up "$keyring is missing: apt-get install debian-archive-keyring"

tests=$(mktemp)
trap 'rm -f "$tests"' EXIT
"${GO:-go}" test -c -o "$tests" .

# Two servers at once: the suites wait for most of their time.
results=$(mktemp)
trap 'rm -f "$tests" "$results"' EXIT
ran=
running=0
while read -r name version release package program; do
  case " $* " in "  " | *" $name "*) ;; *) continue ;; esac
  [ -n "$name" ] || continue
  fetch "$name" "$version" "$release" "$package" "$program"
  ran="$ran $name"
  [ -z "${SEARCH_STEPS:-}" ] || continue
  { run "$name" "$tests" </dev/null || echo " $name" >>"$results"; } &
  running=$((running + 1))
  [ $((running % 2)) = 1 ] || wait
done <<<"$servers"
wait
failed=$(tr -d '\n' <"$results")

[ -n "$ran" ] || give_up "none of them is called $*"
[ -z "$failed" ] || give_up "failed:$failed"

[ -z "${SEARCH_STEPS:-}" ] || SHADOWLIMIT_TEST_SEARCH=$(printf "$cache/%s/server\n" $ran | paste -sd:) \
  "$tests" -test.timeout 0 -test.run '^TestSearch$' -steps "$SEARCH_STEPS" -seed "${SEED:-1}"
