"""The manual page says of every command and option what the tool itself says."""

import os
import re
import shutil
import subprocess

import pytest
from conftest import ROOT, TOOL

PAGE = os.path.join(ROOT, "capi/tools/nocter.1")


def help_of(*command):
    return subprocess.run([TOOL, *command, "--help"], capture_output=True, text=True, check=True).stdout


def options_of(text):
    """The names of the options of a help text, at the beginnings of its lines."""
    lines = re.findall(r"^ +(-[^ ,]+(?:,-[^ ]+)*)", text, re.M)
    return {name for line in lines for name in line.split(",") if name.startswith("-")}


def commands():
    listed = help_of().split("Subcommands:", 1)[1]
    return re.findall(r"^  (\w+)  ", listed, re.M)


def page():
    """The page without its commands of the typesetter, and its sections."""
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    plain = re.sub(r"\\f[A-Z]", "", text).replace("\\-", "-").replace("\\\n", "")
    return plain, dict(re.findall(r"^\.SH (.+)\n((?:(?!\.SH ).*\n)*)", plain, re.M))


def test_tsk_32_the_manual_knows_every_command_and_option():
    plain, sections = page()
    documented = dict(re.findall(r"^\.TP\n(\w+)((?: .*)?)$", sections["COMMANDS THAT LOOK"] + sections["COMMANDS THAT CHANGE"], re.M))
    assert sorted(documented) == sorted(commands()) and len(documented) == 12
    everywhere = options_of(help_of())
    assert everywhere == {"-h", "--help", "--version", "--db", "--json"}
    for option in everywhere:
        assert option in sections["OPTIONS"], option
    for command, line in documented.items():
        said = options_of(help_of(command)) - everywhere
        named = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", line))
        assert named == said, command
        for option in said:
            assert len(re.findall(rf"(?<![\w-]){option}(?![\w-])", plain)) >= (1 if len(option) == 2 else 2), (command, option)
    assert set(re.findall(r"^\.B (\d+)$", sections["EXIT STATUS"], re.M)) == {"0", "1", "2", "130"}


def test_tsk_32_the_manual_is_of_this_version():
    version = subprocess.run([TOOL, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    assert f'"nocter {version}"' in page()[0].splitlines()[0]


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
def test_tsk_32_the_manual_can_be_shown():
    shown = subprocess.run(["groff", "-man", "-Tutf8", "-ww", PAGE], capture_output=True, text=True, check=True)
    assert shown.stderr == "" and "--db jobs.db why" in shown.stdout
