"""The layout of every public struct: as the C compiler lays it out, and as the bindings believe it to be."""

import importlib.util
import pathlib
import re

BINDINGS = pathlib.Path(__file__).resolve().parents[2] / "bindings"


def c_program(headers):
    """Prints `struct size`, and `struct.member offset size`, a line each."""
    lines = ["#include <nocter.h>", "#include <stdio.h>", "int main(void) {"]
    for name, members in headers.structs.items():
        lines.append(f'  printf("{name} %zu\\n", sizeof({name}));')
        for member in members:
            lines.append(f'  printf("{name}.{member} %zu %zu\\n", offsetof({name}, {member}), '
                         f"sizeof((({name} *)0)->{member}));")
    return "\n".join(lines + ["  return 0;", "}", ""])


def of_c(output):
    layout = {}
    for line in output.splitlines():
        name, *numbers = line.split()
        layout[name] = int(numbers[0])
    return layout


def holes(output):
    """Members after which there is padding: they differ from compiler to compiler, and cannot be compared as bytes."""
    found, end, of = [], 0, None
    sizes = {}
    for line in output.splitlines():
        name, *numbers = line.split()
        if "." not in name:
            if of is not None and end != sizes[of]:
                found.append(f"end of {of}")
            of, end = name, 0
            sizes[name] = int(numbers[0])
        else:
            if int(numbers[0]) != end:
                found.append(name)
            end = int(numbers[0]) + int(numbers[1])
    if of is not None and end != sizes[of]:
        found.append(f"end of {of}")
    return found


def python_module():
    path = BINDINGS / "python" / "nocter" / "_ffi.py"
    specification = importlib.util.spec_from_file_location("nocter_ffi", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def of_python(headers):
    module = python_module()
    layout = {}
    for name, members in headers.structs.items():
        layout[name] = module.ffi.sizeof(name)
        for member in members:
            layout[f"{name}.{member}"] = module.ffi.offsetof(name, member)
    return layout


def of_rust():
    """From the layout tests that the generator writes, which cargo compares with the compiler's own."""
    text = (BINDINGS / "rust" / "nocter-sys" / "src" / "bindings.rs").read_text()
    layout = {}
    for test in re.findall(r"fn bindgen_test_layout_\w+\(\) \{.*?\n\}", text, re.S):
        name, size = re.search(r"size_of::<(\w+)>\(\),\s*(\d+)usize", test).groups()
        layout[name] = int(size)
        pattern = r"addr_of!\(\(\*ptr\)\.(\w+)\) as usize - ptr as usize\s*\},\s*(\d+)usize"
        for member, offset in re.findall(pattern, test):
            layout[f"{name}.{member.removesuffix('_')}"] = int(offset)  # it writes type_, since type is a word of Rust
    return layout


def rust_names():
    text = (BINDINGS / "rust" / "nocter-sys" / "src" / "bindings.rs").read_text()
    constants = {name: int(value) for name, value in re.findall(r"pub const (NOCTER_\w+): \w+ = (-?\d+);", text)}
    return set(re.findall(r"pub fn (nocter_\w+)", text)), constants


def python_names(library):
    loaded = python_module().ffi.dlopen(str(library))
    names = dir(loaded)
    functions = {name for name in names if name.startswith("nocter_")}
    return functions, {name: getattr(loaded, name) for name in names if name.startswith("NOCTER_")}
