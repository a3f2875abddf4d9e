#!/bin/sh
# Installs or upgrades the Sallyport node agent @VERSION@ on Linux with glibc; no Node.js is needed. Run it as root:
#
#   curl -fsS "$SALLYPORT_ADDR/install/agent" | sudo env SALLYPORT_ADDR="$SALLYPORT_ADDR" sh
#
# SALLYPORT_ADDR  the service that this script came from (required)
# SALLYPORT_CA    PEM file of the service's certificate authority, if it is an own one
#
# With a join token in /etc/sallyport-agent/join-token the agent is started and joins. SALLYPORT_JOIN_TOKEN in the
# environment of a root shell is written there; as an argument of env or sudo, other users could read it.
#
# The package is refused unless it has the SHA-256 digest below. Docs: docs/guides/agent.md in the source repository.
set -eu

package_of() {
  case "$1" in
@PACKAGES@
    *) fail "there is no package for $1" ;;
  esac
}

fail() {
  echo "sallyport-agent: $1" >&2
  exit 1
}

# Called in the last line, so that a truncated download runs nothing.
main() {
  # The agent's user reads these files, also where root's umask closes new files to others.
  umask 022
  address="${SALLYPORT_ADDR:-}"
  address="${address%/}"
  case "$address" in
    *[!A-Za-z0-9.:/_-]*) fail "SALLYPORT_ADDR has characters that no address has" ;;
    https://* | http://127.* | http://localhost*) ;;
    *) fail "set SALLYPORT_ADDR to the service's address, https://…" ;;
  esac
  [ "$(uname -s)" = Linux ] || fail "the agent runs on Linux"
  case "$(uname -m)" in
    x86_64) package_of x64 ;;
    aarch64 | arm64) package_of arm64 ;;
    *) fail "there is no package for $(uname -m)" ;;
  esac
  [ "$(id -u)" = 0 ] || fail "run this as root"
  [ ! -e /usr/bin/sallyport-agent ] || fail "the Debian package is installed: upgrade that instead"
  for tool in curl tar gzip sha256sum mktemp groupadd useradd; do
    command -v "$tool" >/dev/null || fail "$tool is not installed"
  done
  work="$(mktemp -d)"
  trap 'rm -rf "$work"' EXIT
  ca="${SALLYPORT_CA:-}"
  for part in $parts; do
    curl -fsS ${ca:+--cacert "$ca"} "$address/install/$part" >>"$work/agent.tar.gz" ||
      fail "$address/install/$part cannot be downloaded: nothing was installed"
  done
  echo "$sum  $work/agent.tar.gz" | sha256sum -c >/dev/null 2>&1 ||
    fail "the package has another SHA-256 digest than this script expects: nothing was installed"
  mkdir "$work/files"
  tar -xzf "$work/agent.tar.gz" -C "$work/files"
  "$work/files/usr/bin/sallyport-agent" --version >/dev/null ||
    fail "the agent does not run here (it needs glibc 2.28 and libstdc++, and a TMPDIR without noexec): nothing was installed"

  getent group csi >/dev/null || groupadd --system csi
  getent group sallyport-agent >/dev/null || groupadd --system sallyport-agent
  getent passwd sallyport-agent >/dev/null ||
    useradd --system --gid sallyport-agent --home-dir /var/lib/sallyport-agent --shell /usr/sbin/nologin sallyport-agent
  place 755 "$work/files/usr/bin/sallyport-agent" /usr/local/bin/sallyport-agent
  sed 's#/usr/bin/sallyport-agent#/usr/local/bin/sallyport-agent#' \
    "$work/files/usr/lib/systemd/system/sallyport-agent.service" >"$work/unit"
  place 644 "$work/unit" /etc/systemd/system/sallyport-agent.service
  for file in "$work"/files/usr/share/doc/sallyport-agent/*; do
    place 644 "$file" "/usr/local/share/doc/sallyport-agent/${file##*/}"
  done
  configure
  start
}

# Replaces a file that may be in use.
place() {
  mkdir -p "${3%/*}"
  cp "$2" "$3.new"
  chmod "$1" "$3.new"
  mv -f "$3.new" "$3"
}

configure() {
  mkdir -p /etc/sallyport-agent
  if [ ! -e /etc/sallyport-agent/agent.json ]; then
    ca_line=""
    if [ -n "$ca" ]; then
      place 644 "$ca" /etc/sallyport-agent/ca.pem
      ca_line='
  "caFile": "/etc/sallyport-agent/ca.pem",'
    fi
    cat >/etc/sallyport-agent/agent.json <<EOF
{
  "service": "$address",$ca_line
  "joinTokenFile": "/etc/sallyport-agent/join-token",
  "monitorAddress": "127.0.0.1:9465"
}
EOF
    chmod 640 /etc/sallyport-agent/agent.json
    chgrp sallyport-agent /etc/sallyport-agent/agent.json
  fi
  if [ -n "${SALLYPORT_JOIN_TOKEN:-}" ]; then
    (umask 077 && printf '%s\n' "$SALLYPORT_JOIN_TOKEN" >/etc/sallyport-agent/join-token)
  fi
  joins="" node=""
  if [ -s /etc/sallyport-agent/join-token ]; then
    chmod 600 /etc/sallyport-agent/join-token
    chown sallyport-agent /etc/sallyport-agent/join-token
    # A node that has joined may be stopped on purpose.
    state=$(sed -n 's/.*"stateDir": *"\([^"]*\)".*/\1/p' /etc/sallyport-agent/agent.json)
    node=${state:-/var/lib/sallyport-agent}/node.json
    [ -s "$node" ] || joins=yes
  fi
  [ -z "${SALLYPORT_JOIN_TOKEN:-}" ] || joins=yes
}

start() {
  echo "sallyport-agent $version is installed in /usr/local/bin, with its configuration in /etc/sallyport-agent."
  if [ ! -d /run/systemd/system ]; then
    echo "There is no systemd here. Run it as the user sallyport-agent:"
    echo "  sallyport-agent --config /etc/sallyport-agent/agent.json"
    return
  fi
  systemctl daemon-reload
  if systemctl is-active --quiet sallyport-agent; then
    systemctl restart sallyport-agent
  elif [ -n "$joins" ]; then
    systemctl enable --now sallyport-agent
  elif [ -n "$node" ] && [ -s "$node" ]; then
    echo "This node has joined before. To start it: systemctl enable --now sallyport-agent"
    echo "If it was removed at the service: remove $node first."
  else
    echo "Write the join token to /etc/sallyport-agent/join-token, then: systemctl enable --now sallyport-agent"
  fi
}

version=@VERSION@
main
