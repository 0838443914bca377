#!/usr/bin/env bash
# Makes a real Redis available to the integration tests and reports which one: Docker if
# a daemon answers, else a redis-server on PATH, else Debian's package if this user may
# install it. Further components are promtool (Debian's package prometheus) for the
# alerts, chromium for the status page, nginx for its
# model, and nginx and caddy for the decision server. Tests whose component is missing are
# skipped.
#
# With CI=true every component is required, and a Docker daemon is started if none
# answers. Its process id is written to the file SHADOWLIMIT_DOCKERD_PID.
#
# Usage: integration/components.sh ENVFILE
# Writes variables for the tests to ENVFILE, as lines of shell.
set -euo pipefail

env_file=$1
# Debian keeps servers where only root's PATH leads.
PATH=$PATH:/usr/sbin
echo 'export PATH="$PATH:/usr/sbin"' >"$env_file"
image=shadowlimit-test-redis:local

say() { echo "components: $*"; }
have() { command -v "$1" >/dev/null 2>&1; }
docker_info() { if have timeout; then timeout 20 docker info; else docker info; fi; } # macOS does not have timeout
docker_answers() { have docker && docker_info >/dev/null 2>&1; }
may_install() { [ "$(id -u)" = 0 ] && have apt-get; }

install_packages() {
  say "installing Debian packages: $*"
  local policy=/usr/sbin/policy-rc.d made=
  # A policy that forbids it keeps packages from starting their services.
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    made=1
  fi
  local status=0
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@"; } >/dev/null || status=$?
  [ -z "$made" ] || rm -f "$policy"
  return "$status"
}

start_docker() {
  local log pid
  log=$(mktemp)

  say "starting a Docker daemon"
  dockerd >"$log" 2>&1 &
  pid=$!
  [ -z "${SHADOWLIMIT_DOCKERD_PID:-}" ] || echo "$pid" >"$SHADOWLIMIT_DOCKERD_PID"

  for _ in $(seq 60); do
    docker_answers && return 0
    kill -0 "$pid" 2>/dev/null || break
    sleep 1
  done

  say "the Docker daemon does not answer:"
  tail -20 "$log"
  return 1
}

# import_image makes an image of the installed redis-server and its libraries, because
# CI may reach no registry.
import_image() {
  local root
  root=$(mktemp -d)
  mkdir -p "$root/usr/bin" "$root/tmp"
  cp "$(command -v redis-server)" "$root/usr/bin/"

  ldd "$(command -v redis-server)" | grep -o '/[^ ]*' | sort -u | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
  done

  tar -C "$root" -c . | docker import \
    --change 'CMD ["/usr/bin/redis-server","--save","","--protected-mode","no"]' \
    --change 'EXPOSE 6379' - "$image" >/dev/null
  rm -rf "$root"
  say "image $image contains $(redis-server --version | cut -d' ' -f1-3)"

  cat >>"$env_file" <<EOF
export SHADOWLIMIT_TEST_REDIS_IMAGE=$image
export TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1
export TESTCONTAINERS_RYUK_DISABLED=true
EOF
}

if [ "${CI:-}" = true ]; then
  missing=()
  have redis-server || missing+=(redis-server)
  have dockerd || docker_answers || missing+=(docker.io)
  have promtool || missing+=(prometheus)
  have chromium || missing+=(chromium)
  have nginx || missing+=(nginx-light)
  have caddy || missing+=(caddy)
  if [ ${#missing[@]} -gt 0 ]; then
    may_install || { say "CI needs ${missing[*]}, and only root may install them, with apt-get"; exit 1; }
    install_packages "${missing[@]}"
  fi
  docker_answers || start_docker
  import_image
  say "tests run on a container and on $(command -v redis-server)"
elif docker_answers; then
  say "Docker answers: tests run on a container"
  if have redis-server; then say "if its image cannot be pulled, they run on $(command -v redis-server)"; fi
elif have redis-server; then
  say "Docker does not answer: tests run on $(command -v redis-server)"
elif may_install && install_packages redis-server; then
  say "installed redis-server: tests run on it"
else
  say "the integration tests need Docker or a redis-server, and found neither."
  say "Install one: apt-get install redis-server (Debian), brew install redis (macOS)"
  exit 1
fi

# component names a program that some tests need, and installs its package if this user may.
component() { # PROGRAM PACKAGE WHAT-IT-IS-FOR
  if have "$1"; then
    say "$3: $(command -v "$1")"
  elif may_install && install_packages "$2"; then
    say "$3: installed $2"
  else
    say "$3: skipped, for $1 is missing; Debian's package is $2"
  fi
}

component promtool prometheus "tests of the alerts"
component chromium chromium "tests of the status page"
component nginx nginx-light "the model of nginx"
component caddy caddy "the decision server behind Caddy"
