# shellcheck shell=bash disable=SC2154
# The steps of tests/run, one function each; sourced by it, which sets project, trees, results, step and cores.

# ---- Counting -------------------------------------------------------------------------------------------------
# A step that counts nothing is itself one test. One that fails without a failed test counts as one failed.

count() { printf '%s %s\n' "$1" "$2" >> "$results/$step.count"; }

# Counts the tests of a JUnit file. A program that says how many cases it has stands in it as one, and is counted by its cases.
count_junit() {
  [ -f "$1" ] || return 0
  python3 - "$1" >> "$results/$step.count" << 'END'
import re, sys, xml.etree.ElementTree
passed = failed = skipped = 0
for test in xml.etree.ElementTree.parse(sys.argv[1]).iter("testcase"):
    output = test.findtext("system-out") or ""
    cases = re.search(r"^Running (\d+) test cases?\.\.\.", output, re.M)
    if test.find("skipped") is not None or test.get("status") in ("notrun", "disabled"):
        skipped += 1
    elif test.find("failure") is not None or test.find("error") is not None or test.get("status") == "fail":
        bad = max(1, len(set(re.findall(r'error: in "([^"]+)"', output))))
        failed += bad
        passed += max(0, int(cases[1]) - bad) if cases and "detected in the test module" in output else 0
    else:
        left_out = len(re.findall(r"^SKIPPED ", output, re.M))
        skipped += left_out
        passed += int(cases[1]) - left_out if cases else 1
print(passed, failed)
if skipped:
    print(f"note: {skipped} skipped", file=sys.stderr)
END
}

# ---- What steps are made of -----------------------------------------------------------------------------------

# Builds a tree: its name, then what cmake is told. A build is no test.
build_tree() {
  local name=$1
  shift
  count 0 0
  cmake -G Ninja -S "$project" -B "$trees/$name" -DNOCTER_BUILD_TESTS=ON -DNOCTER_BUILD_EXAMPLES=ON -DNOCTER_BUILD_TOOL=ON -DNOCTER_WERROR=ON "$@"
  ninja -C "$trees/$name" -j "$cores" -k 0  # all errors at once
}

# Runs the tests of a tree in random order; further words go to ctest.
run_ctest() {
  local name=$1 status=0 report=$results/$step.xml
  shift
  rm -f "$report"
  BOOST_TEST_COLOR_OUTPUT=no ctest --test-dir "$trees/$name" --output-junit "$report" --schedule-random --output-on-failure --timeout 300 -j 2 \
    --no-tests=error "$@" || status=$?
  count_junit "$report"
  return "$status"
}

# Runs pytest: the tree whose library is tested, the interpreter (with what launches it), then what pytest is told.
run_pytest() {
  local name=$1 python=$2 status=0 report=$results/$step.xml
  local -a launch
  shift 2
  read -r -a launch <<< "$python"
  rm -f "$report"
  NOCTER_LIBRARY=$trees/$name/libnocter.so.0 NOCTER_LIB_DIR=$trees/$name LD_LIBRARY_PATH=$trees/$name \
    CARGO_TARGET_DIR=$trees/rust-$name PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$project/bindings/python \
    "${launch[@]}" -m pytest -q -p no:cacheprovider --junitxml="$report" "$@" || status=$?
  count_junit "$report"
  return "$status"
}

# Runs cargo test: the tree whose library is tested, then what cargo is told.
run_cargo() {
  local name=$1 status=0 output=$results/$step.cargo
  shift
  NOCTER_LIB_DIR=$trees/$name LD_LIBRARY_PATH=$trees/$name CARGO_TARGET_DIR=$trees/rust-$name \
    cargo test --offline --manifest-path "$project/bindings/rust/Cargo.toml" --no-fail-fast "$@" 2>&1 | tee "$output" ||
    status=$?
  count_cargo "$output"
  return "$status"
}

# Counts the tests of what cargo test has printed.
count_cargo() {
  awk '/^test result: / { passed += $4; failed += $6 } END { if (passed + failed > 0) print passed, failed }' "$1" \
    >> "$results/$step.count"
}

# Runs a script that counts by itself and says at the end `N passed, N failed`.
count_script() {
  local status=0
  "$@" | tee "$results/$step.out" || status=$?
  sed -n '$s/^.*\b\([0-9]\+\) passed, \([0-9]\+\) failed$/\1 \2/p' "$results/$step.out" >> "$results/$step.count"
  return "$status"
}

# Whatever loads a library built with AddressSanitizer loads its runtime first. What an interpreter itself leaves behind
# at exit is not ours.
# The C++ runtime comes along: the sanitizer looks for what throws exceptions when the program starts, and python has none.
asan_runtime() {
  printf 'env LD_PRELOAD=%s:%s ASAN_OPTIONS=detect_leaks=0' "$(gcc -print-file-name=libasan.so)" "$(gcc -print-file-name=libstdc++.so.6)"
}

# ---- The steps ------------------------------------------------------------------------------------------------

step_generated() {
  echo "BND-01: what is committed is what the command generates"
  "$project/bindings/generate" --check
}

step_tidy() { "$project/tests/tidy"; }

step_plain_build() { build_tree plain -DCMAKE_BUILD_TYPE=RelWithDebInfo; }

step_core() { run_ctest plain; }

step_lint() {
  cd "$project"
  # On stderr it counts what it suppresses in the system's headers. It is told of options that only g++ knows.
  find cpp capi/src -name '*.cpp' -print0 |
    xargs -0 -n 1 -P 2 clang-tidy-14 --quiet -p "$trees/plain" --extra-arg=-Wno-ignored-optimization-argument \
      2> >(grep -v 'warnings\? .*generated' >&2)
}

step_python() { run_pytest plain /usr/bin/python3 "$project/tests/python"; }

# The interpreter that a user finds first, when it is another one and has cffi: that it loads the library, and what stands on its own
# modules for threads and loops. The rest does not depend on the interpreter and is tested by the step above.
step_python_in_path() {
  run_pytest plain "$(command -v python3)" "$project"/tests/python/test_{native,blocking,executor,aio,tasks}.py
}

step_types() {
  mypy --strict --cache-dir "$trees/mypy" "$project/bindings/python/nocter"
}

# As a user installs it: without a compiler, and here without a network.
step_venv() {
  rm -rf "$trees/venv" "$trees/python-source"
  cp -r "$project/bindings/python" "$trees/python-source"
  /usr/bin/python3 -m venv --system-site-packages "$trees/venv"
  "$trees/venv/bin/pip" install --no-index --no-build-isolation --no-deps "$trees/python-source"
  cd "$trees"
  NOCTER_LIBRARY=$trees/plain/libnocter.so.0 "$trees/venv/bin/python" -c '
import sys
import nocter
assert nocter.__file__.startswith(sys.prefix), nocter.__file__
print(nocter.__file__)'
}

step_rust() { run_cargo plain; }

step_tokio() {
  local status=0 output=$results/$step.cargo
  "$project/tests/loops/tokio/run" "$trees/plain" --no-fail-fast 2>&1 | tee "$output" || status=$?
  count_cargo "$output"
  return "$status"
}

step_clippy() {
  NOCTER_LIB_DIR=$trees/plain CARGO_TARGET_DIR=$trees/rust-clippy \
    cargo clippy --offline --manifest-path "$project/bindings/rust/Cargo.toml" --all-targets -- -D warnings
}

step_treesum() { TREESUM_C=$trees/plain/treesum run_pytest plain /usr/bin/python3 "$project/tests/treesum"; }

step_mirror() { MIRROR_C=$trees/plain/mirror run_pytest plain /usr/bin/python3 "$project/tests/mirror"; }
step_gather() { GATHER_C=$trees/plain/gather run_pytest plain /usr/bin/python3 "$project/tests/gather"; }

step_tool() { NOCTER_TOOL=$trees/plain/nocter run_pytest plain /usr/bin/python3 "$project/tests/tool"; }

step_crawl() {
  CRAWL_C=$trees/plain/crawl NOCTER_TOOL=$trees/plain/nocter run_pytest plain /usr/bin/python3 "$project/tests/crawl"
}

step_languages() { run_pytest plain /usr/bin/python3 "$project/tests/languages"; }

step_readme() { "$project/tests/readme" "$trees/plain"; }

step_consumer() { count_script "$project/tests/consumer/run" "$trees/plain"; }

# Unoptimised: g++ needs five times as long to optimise what the two sanitizers add to a test as the test then runs.
step_asan_build() {
  build_tree asan -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS=-g1 -DCMAKE_C_FLAGS=-g1 -DNOCTER_SANITIZE=address,undefined
}

# Not the ABI: what a sanitizer adds to the library is no part of it.
step_asan() { run_ctest asan --exclude-regex '^abi$'; }

step_asan_python() { run_pytest asan "$(asan_runtime) /usr/bin/python3" "$project/tests/python"; }

step_asan_rust() {
  local triple
  triple=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
  export "CARGO_TARGET_${triple}_RUNNER=$(asan_runtime)"
  run_cargo asan --lib --tests
}

# clang's runtime costs less than half of what g++'s does, and it knows more of libstdc++.
step_tsan_build() {
  CC=clang-14 CXX=clang++-14 build_tree tsan -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="-O1 -g1" \
    -DCMAKE_C_FLAGS="-O1 -g1" -DNOCTER_SANITIZE=thread
}

step_tsan() {
  export TSAN_OPTIONS=detect_deadlocks=1:second_deadlock_stack=1
  # ThreadSanitizer of clang 14 cannot start where the kernel spreads addresses over more than 28 bits.
  if [ "$(cat /proc/sys/vm/mmap_rnd_bits 2> /dev/null || echo 28)" -gt 28 ]; then
    export -f run_ctest count_junit
    export project trees results step
    setarch -R bash -c 'set -eo pipefail; run_ctest tsan --exclude-regex "^abi$"'
  else
    run_ctest tsan --exclude-regex '^abi$'
  fi
}

step_mutants() { count_script "$project/tests/mutants/run" "$trees/mutants"; }
