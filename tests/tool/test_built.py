"""How the library was built, and what of its surroundings it listens to."""

import os
import re
import subprocess
import sys

import pytest
from conftest import LIBRARY, TOOL

SHARED = os.path.join(LIBRARY, "libnocter.so.0")


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("path", [SHARED, TOOL])
def test_sec_10_the_linker_was_told_to_protect(path):
    assert re.search(r"Type:\s+DYN", readelf("-h", path)), "it is loaded anywhere"
    segments = readelf("-l", path)
    assert re.search(r"GNU_STACK\s.*\sRW\s", segments), "nothing on a stack is run"
    assert "GNU_RELRO" in segments
    assert "NOW" in readelf("-d", path), "what is resolved is resolved before the first call"


def test_sec_10_the_compiler_was_told_to_protect():
    needed = set(re.findall(r"UND (\w+)", readelf("--dyn-syms", SHARED)))
    assert "__stack_chk_fail" in needed, "stacks are checked"
    assert any(name.endswith("_chk") for name in needed), "bounds are checked where the compiler knows them"
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "--disassemble=nocter_now_ns", SHARED],
                          capture_output=True, text=True, check=True).stdout
    if os.uname().machine == "x86_64":
        assert "endbr64" in code, "calls land where calls may land"


PROGRAM = """
import json, locale, sys
import nocter.tasks as durable
if len(sys.argv) > 2:
    locale.setlocale(locale.LC_ALL, sys.argv[2])
    assert locale.localeconv()["decimal_point"] == ","
with durable.open("sqlite:" + sys.argv[1]) as store:
    payload = {"whole": 1, "part": 1.5, "small": 2.5e-7}
    task = store.submit("number", payload)
    record = store.get(task)
    assert record.payload == payload, record.payload
    assert store.shared("scope").put_if_absent("key", 0.25)[0] and store.shared("scope").get("key") == 0.25
    print(json.dumps(record.payload))
"""


def run(*arguments, **environment):
    return subprocess.run(arguments, capture_output=True, text=True, env={**os.environ, **environment}, timeout=50)


def test_sec_10_a_locale_with_a_decimal_comma_changes_nothing(tool, tmp_path):
    made = run("localedef", "-i", "de_DE", "-f", "UTF-8", str(tmp_path / "de_DE.UTF-8"))
    if not (tmp_path / "de_DE.UTF-8").exists():
        pytest.skip(f"no such locale can be made here: {made.stderr}")
    german = {"LOCPATH": str(tmp_path), "LC_ALL": "de_DE.UTF-8"}
    ended = run(sys.executable, "-c", PROGRAM, str(tmp_path / "numbers.db"), "de_DE.UTF-8", **german)
    assert (ended.returncode, ended.stdout) == (0, '{"whole": 1, "part": 1.5, "small": 2.5e-07}\n'), ended.stderr

    one = tool.run("submit", "--create", "odd", '{"n": [1.50, -2e-3]}', environment=german).strip()
    shown = [tool.run("--json", "show", one, environment=each) for each in (german, {})]
    assert "[1.50, -2e-3]" in shown[0] and shown[0] == shown[1]
    tool.run("submit", "odd", "1,5", expect=1, environment=german)


SPY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
extern char** environ;
static char* look(const char* name, void* caller) {
  Dl_info who;
  if (dladdr(caller, &who) != 0 && strstr(who.dli_fname, "libnocter") != NULL) fprintf(stderr, "asked for %s\n", name);
  const size_t length = strlen(name);
  for (char** each = environ; each != NULL && *each != NULL; each++)
    if (strncmp(*each, name, length) == 0 && (*each)[length] == '=') return *each + length + 1;
  return NULL;
}
char* getenv(const char* name) { return look(name, __builtin_return_address(0)); }
char* secure_getenv(const char* name) { return look(name, __builtin_return_address(0)); }
"""


def test_sec_10_of_the_environment_one_variable_is_read(tmp_path):
    (tmp_path / "spy.c").write_text(SPY)
    spy = str(tmp_path / "spy.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", spy, str(tmp_path / "spy.c")], check=True)
    ended = run(sys.executable, "-c", PROGRAM, str(tmp_path / "work.db"), LD_PRELOAD=spy)
    assert ended.returncode == 0, ended.stderr
    assert set(re.findall("asked for (.*)", ended.stderr)) == {"NOCTER_CHECK"}
