"""What the public headers declare, and what their comments promise: the one source of the generated calls in tests/ffi and
of the checks in tests/abi."""

import pathlib
import re
import subprocess
import tempfile
from dataclasses import dataclass, field

from pycparser import c_ast, c_parser

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "capi" / "include"

# The parser knows no system header, so the few names that the public headers take from them are put in front.
PRELUDE = """
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;
typedef unsigned long long uint64_t; typedef unsigned long size_t;
"""


@dataclass
class Parameter:
    name: str
    type: str  # as C spells it, without the name
    text: str  # the @param comment

    @property
    def may_be_null(self):
        return bool(re.search(r"[Mm]ay be NULL|NULL does nothing|NULL says|NULL:|NULL when|or NULL", self.text))


@dataclass
class Function:
    name: str
    returns: str
    parameters: list
    text: str


@dataclass
class Headers:
    functions: list = field(default_factory=list)
    structs: dict = field(default_factory=dict)  # name -> list of member names
    handles: list = field(default_factory=list)  # structs without a body
    callbacks: dict = field(default_factory=dict)  # typedefs of function pointers
    constants: dict = field(default_factory=dict)  # of enums


def public_headers():
    return [INCLUDE / "nocter.h"] + sorted((INCLUDE / "nocter").glob("*.h"))


def preprocessed():
    with tempfile.TemporaryDirectory() as empty:
        for name in ("stddef.h", "stdint.h", "stdbool.h"):
            (pathlib.Path(empty) / name).write_text("")
        command = ["cc", "-E", "-P", "-std=c11", "-nostdinc", "-DNOCTER_BINDINGS", "-Dbool=_Bool"]
        command += ["-I", empty, "-I", str(INCLUDE), str(INCLUDE / "nocter.h")]
        return PRELUDE + subprocess.run(command, check=True, capture_output=True, text=True).stdout


def spelled(node):
    if isinstance(node, c_ast.PtrDecl):
        if isinstance(node.type, c_ast.FuncDecl):
            return "function *"
        inner = spelled(node.type)
        return inner + ("*" if inner.endswith("*") else " *")
    if isinstance(node, c_ast.TypeDecl):
        return " ".join(node.quals + [spelled(node.type)])
    if isinstance(node, c_ast.IdentifierType):
        return " ".join(node.names)
    if isinstance(node, (c_ast.Struct, c_ast.Enum, c_ast.Union)):
        return f"{type(node).__name__.lower()} {node.name}"
    return type(node).__name__


def comments():
    """The comment in front of each exported function, by the function's name."""
    found = {}
    pattern = re.compile(r"/\*\*((?:(?!\*/).)*)\*/\s*NOCTER_API\s[^;(]*?\b(nocter_\w+)\s*\(", re.S)
    for header in public_headers():
        for text, name in pattern.findall(header.read_text()):
            found[name] = re.sub(r"\n\s*\* ?", "\n", text)
    return found


def parameter_texts(comment):
    texts = {}
    for part in re.split(r"\n(?=@)", comment):
        match = re.match(r"@param(?:\[[a-z,]+\])?\s+(\w+)\s+(.*)", part, re.S)
        if match:
            texts[match.group(1)] = " ".join(match.group(2).split())
    return texts


def read():
    headers = Headers()
    comment_of = comments()
    for node in c_parser.CParser().parse(preprocessed()).ext:
        if isinstance(node, c_ast.Typedef):
            read_typedef(node, headers)
        elif isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl):
            comment = comment_of.get(node.name, "")
            texts = parameter_texts(comment)
            arguments = node.type.args.params if node.type.args else []
            parameters = [Parameter(a.name, spelled(a.type), texts.get(a.name, "")) for a in arguments
                          if spelled(a.type) != "void"]
            headers.functions.append(Function(node.name, spelled(node.type.type), parameters, comment))
        elif isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.Enum):
            read_enum(node.type, headers)
    return headers


def read_typedef(node, headers):
    inner = node.type.type
    if isinstance(node.type, c_ast.PtrDecl) and isinstance(inner, c_ast.FuncDecl):
        headers.callbacks[node.name] = spelled(node.type)
    elif isinstance(inner, c_ast.Struct):
        if inner.decls is None:
            headers.handles.append(node.name)
        else:
            headers.structs[node.name] = [d.name for d in inner.decls]


def read_enum(node, headers):
    for value in node.values.enumerators:
        text = value.value
        if isinstance(text, c_ast.UnaryOp):
            headers.constants[value.name] = -int(text.expr.value)
        elif text is not None:
            headers.constants[value.name] = int(text.value)
