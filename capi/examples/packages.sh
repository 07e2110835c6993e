# shellcheck shell=bash
# To be sourced: which Debian 12 packages nocter needs, and getting those that are missing.
#
#   need_packages build          what building the library and the example needs
#   need_packages tests PKG…     the same, and the packages named: what a test run needs beside it
#
# Says and does nothing when all of them are installed. Otherwise root gets them installed, and anybody else is told in one
# line what to install. Returns 0 when everything is there, else 1. On a system without dpkg nothing is checked:
# the build itself then says what it misses.

# Boost: 1.81, because the default one of Debian 12 (1.74) does not compile as C++20. xxHash: a header for
# hashing keys. SQLite: durable tasks in a file. libpq: in a PostgreSQL database. CLI11: a header for the tool's command line. The examples: zlib for a
# CRC-32, libcurl and libxml2 for crawling, and
# something to crawl with a server for it.
nocter_build_packages=(
  cmake ninja-build g++ libboost1.81-dev libxxhash-dev libsqlite3-dev libpq-dev libcli11-dev
  zlib1g-dev libcurl4-openssl-dev libxml2-dev python3 python3-doc
)

need_packages() {
  local purpose=$1 package log
  local -a missing=()
  shift
  case $purpose in
    build | tests) ;;
    *)
      echo "need_packages: the purpose is build or tests, not '$purpose'" >&2
      return 1
      ;;
  esac
  command -v dpkg-query >/dev/null || return 0
  for package in "${nocter_build_packages[@]}" "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0

  if ((EUID != 0)); then
    echo "Missing packages for the $purpose; as root: apt-get install ${missing[*]}" >&2
    return 1
  fi
  log=$(mktemp) || return 1
  echo "Installing ${missing[*]}" >&2
  # Nothing of the machine's own is removed to make room: where packages exclude each other, apt says so and stops.
  if apt-get update >"$log" 2>&1 &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-remove --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
    rm -f "$log"
    return 0
  fi
  cat "$log" >&2
  rm -f "$log"
  echo "Could not install ${missing[*]}" >&2
  return 1
}
