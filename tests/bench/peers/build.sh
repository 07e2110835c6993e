#!/usr/bin/env bash
# Builds the peers' programs into $BENCH_BUILD/bin; what lacks a package is skipped with a line that says so.
#   build.sh [--install] [--install-stores] [blocking] [signal] [keyed] [retirement] [postgresql] [sqlite]
# --install         apt-get the Debian packages first (as root)
# --install-stores  the same, and fetch what Debian lacks for keyed, postgresql and sqlite: npm packages, and client-go out of
#                   the source package of kubernetes
# Boost is the one exception among the packages: 1.81 is put in only where no Boost is there at all.
set -u
here=$(cd "$(dirname "$0")" && pwd)
: "${BENCH_BUILD:?names the folder to build in}"
bin=$BENCH_BUILD/bin
node=$BENCH_BUILD/node
mkdir -p "$bin" "$node"
skipped=$BENCH_BUILD/skipped.txt
: > "$skipped"

# a|b: either will do, a is installed if neither is there
debian="g++ cmake ninja-build make pkg-config libuv1-dev libboost1.81-dev|libboost-dev libglib2.0-dev libtbb-dev
  librust-tokio-dev librust-blocking-dev librust-async-executor-dev
  librust-futures-lite-dev librust-crossbeam-channel-dev librust-libc-dev cargo
  golang-go python3 default-jdk-headless"
debian_stores="libpq-dev postgresql libsqlite3-dev redis-server npm"
npm_packages="pg-boss@10.4.2 graphile-worker@0.17.3 @dbos-inc/dbos-sdk@5.3.0 pg@8
  better-sqlite3@12.9.0 bullmq@6.7.0 ioredis@5"

install=0 stores=0 parts=
while [ $# -gt 0 ]; do
  case $1 in
    --install) install=1 ;;
    --install-stores) install=1 stores=1 ;;
    *) parts="$parts $1" ;;
  esac
  shift
done
parts=${parts:- blocking signal}
wanted() { case "$parts " in *" $1 "*) ;; *) return 1 ;; esac; }
note() { printf 'skip %s: %s\n' "$1" "$2" | tee -a "$skipped" >&2; }

fetch_client_go() {
  local d=$BENCH_BUILD/aptsrc
  [ -d "$d/k8s/staging" ] && return
  mkdir -p "$d/lists/partial"
  (
    cd "$d" || exit 1
    # The mirror that this machine's own packages come from.
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -1)
    echo "deb-src $mirror $(. /etc/os-release; echo "$VERSION_CODENAME") main" > s.list
    o="-o Dir::Etc::SourceList=$d/s.list -o Dir::Etc::SourceParts=/dev/null -o Dir::State::lists=$d/lists"
    # shellcheck disable=SC2086
    apt-get $o update -qq && apt-get $o source -qq --download-only kubernetes
    mkdir -p k8s
    tar xzf kubernetes_*.orig.tar.gz -C k8s --strip-components=1 --wildcards \
      '*/staging/src/k8s.io/client-go/util/workqueue/*' \
      '*/staging/src/k8s.io/apimachinery/pkg/*' '*/vendor/k8s.io/klog/*' \
      '*/vendor/k8s.io/utils/*' '*/vendor/github.com/go-logr/*' \
      '*/vendor/github.com/google/gofuzz/*' '*/vendor/golang.org/x/time/*'
  )
}

if [ $install = 1 ]; then
  apt-get update -qq
  [ $stores = 1 ] && debian="$debian $debian_stores"
  for package in $debian; do
    for alternative in ${package//|/ }; do
      dpkg -s "$alternative" > /dev/null 2>&1 && continue 2
    done
    package=${package%%|*}
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" \
      > "$BENCH_BUILD/apt.log" 2>&1 || echo "apt-get could not install $package" >&2
  done
  if [ $stores = 1 ]; then
    [ -f "$node/package.json" ] || echo '{"private":true}' > "$node/package.json"
    # shellcheck disable=SC2086
    (cd "$node" && npm install --no-fund --no-audit $npm_packages 2>&1 | tail -3)
    fetch_client_go
  fi
fi

native() { # NAME SOURCE [FLAGS]: C or C++, built anew when the source or a header beside it is newer
  local out=$bin/$1 src=$here/$2
  shift 2
  if [ -x "$out" ] && [ -z "$(find "$src" "$here"/common "$here"/a/*.hpp "$here"/c/*.hpp "$here"/r/*.hpp -newer "$out" -print -quit)" ]; then
    return
  fi
  local compiler="g++ -std=c++20"
  case $src in *.c) compiler="gcc -std=gnu11" ;; esac
  # shellcheck disable=SC2086
  $compiler -O2 -DNDEBUG -pthread -Wall -Wextra "$src" -o "$out" "$@" 2> "$out.log" ||
    { rm -f "$out"; note "$(basename "$out")" "does not build: $(grep -m1 -E 'error|fatal' "$out.log")"; }
}

rust() {
  local registry=/usr/share/cargo/registry src=$BENCH_BUILD/rust-src features=
  command -v cargo > /dev/null || { note rust "no cargo"; return; }
  ls -d $registry/libc-0.2* > /dev/null 2>&1 || { note rust "no librust-libc-dev"; return; }
  mkdir -p "$src"
  cp -r "$here/lang/rust/." "$src/"
  feature() { # FEATURE CRATE...
    local name=$1 crate
    shift
    for crate in "$@"; do
      if ! ls -d $registry/"$crate"-[0-9]* > /dev/null 2>&1; then
        note "rust $name" "no librust-$crate-dev"
        sed -i "/^$name *=/d" "$src/Cargo.toml"
        for crate in "$@"; do sed -i "/^$crate *=/d" "$src/Cargo.toml"; done
        return
      fi
    done
    features="$features $name"
  }
  feature p-tokio tokio
  feature p-blocking blocking async-executor futures-lite
  feature p-crossbeam crossbeam-channel
  (cd "$src" && CARGO_TARGET_DIR=$BENCH_BUILD/rust cargo build -q --offline --release \
    --features "$features" --config 'source.crates-io.replace-with="debian"' \
    --config "source.debian.directory=\"$registry\"" 2> "$BENCH_BUILD/rust.log") ||
    note rust "does not build: $(grep -m1 error "$BENCH_BUILD/rust.log")"
  find "$BENCH_BUILD/rust/release" -maxdepth 1 -type f -executable -exec cp -f {} "$bin/" \; 2> /dev/null
}

golang() { # PROGRAM...
  command -v go > /dev/null || { note go "no golang-go"; return; }
  local k8s=$BENCH_BUILD/aptsrc/k8s debian_go=/usr/share/gocode program
  mkdir -p "$BENCH_BUILD/gopath/src" "$BENCH_BUILD/vpath" "$BENCH_BUILD/spath"
  cp -r "$here/lang/go/." "$BENCH_BUILD/gopath/src/"
  ln -sfn "$k8s/vendor" "$BENCH_BUILD/vpath/src"
  ln -sfn "$k8s/staging/src" "$BENCH_BUILD/spath/src"
  export GO111MODULE=off GOFLAGS='' GOTOOLCHAIN=local GOCACHE=$BENCH_BUILD/gocache
  export GOPATH=$BENCH_BUILD/gopath:$debian_go:$BENCH_BUILD/vpath:$BENCH_BUILD/spath
  for program in "$@"; do
    if [ "$program" = b_workqueue ] && [ ! -d "$k8s/staging" ] &&
       [ ! -d $debian_go/src/k8s.io/client-go/util/workqueue ]; then
      note "$program" "no client-go (--install-stores takes it from Debian's kubernetes source)"
      continue
    fi
    go build -o "$bin/$program" "$program" 2> "$bin/$program.log" ||
      note "$program" "does not build: $(head -1 "$bin/$program.log")"
  done
}

java_programs() {
  command -v javac > /dev/null || { note java "no javac"; return; }
  mkdir -p "$BENCH_BUILD/java"
  javac -d "$BENCH_BUILD/java" "$here/lang/java/Bench.java" 2> "$BENCH_BUILD/java/log" || note java "does not build"
}

if wanted blocking; then
  glib=$(pkg-config --cflags --libs glib-2.0 2> /dev/null)
  native a_floor_condvar a/floor_condvar.cpp
  native a_floor_condvar_batch a/floor_condvar.cpp -DBATCH
  native a_floor_condvar_eventfd a/floor_condvar.cpp -DEVENTFD
  native a_limit_mpmc a/floor_mpmc.cpp
  native a_libuv a/libuv.cpp -luv
  native a_asio a/asio.cpp
  # shellcheck disable=SC2086
  native a_glib_main a/glib.cpp $glib
  # shellcheck disable=SC2086
  native a_glib_aq a/glib.cpp -DASYNCQUEUE $glib
  native a_tbb a/tbb.cpp -ltbb
  native a_tbb_group a/tbb.cpp -DGROUP -ltbb
  golang a_go
fi
if wanted signal; then
  native c_signal c/signal.cpp
  golang c_go
fi
if wanted blocking || wanted signal; then
  rust
  java_programs
fi
if wanted keyed; then
  native b_floor b/floor_keyed.cpp
  native b_limit b/floor_keyed.cpp -DREGISTERED
  golang b_workqueue
fi
if wanted retirement; then
  native r_limit r/mutex_list.cpp
  native r_floor r/mutex_list.cpp -DALLOCATING
fi
if wanted postgresql; then
  native d_limit d/pg_limit.c "-I$(pg_config --includedir 2> /dev/null || echo /usr/include/postgresql)" -lpq
fi
if wanted sqlite; then
  native e_limit e/sqlite_limit.c -lsqlite3
fi
exit 0
