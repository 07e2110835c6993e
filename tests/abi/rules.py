"""What the language of the public headers may not contain, because a generator of bindings would drop or misread it."""

import re
import subprocess

from pycparser import c_ast, c_parser

import headers as public

ALLOWED_INCLUDES = {"stddef.h", "stdint.h", "stdbool.h"}
MAXIMUM_BY_VALUE = 32  # bytes


def is_bytes(array):
    """`uint8_t name[16]`: what every generator makes the same of."""
    inner = array.type.type if isinstance(array.type, c_ast.TypeDecl) else None
    return isinstance(inner, c_ast.IdentifierType) and inner.names == ["uint8_t"] and isinstance(array.dim, c_ast.Constant)


class Visitor(c_ast.NodeVisitor):
    def __init__(self):
        self.broken = []

    def say(self, node, what):
        self.broken.append(f"{node.coord}: {what}")

    def visit_Union(self, node):
        self.say(node, "a union")

    def visit_Enum(self, node):
        if node.name is None:
            self.say(node, "an enum without a name")
        for enumerator in node.values.enumerators if node.values else []:
            value = enumerator.value
            if isinstance(value, c_ast.UnaryOp) and value.op == "-":
                value = value.expr
            if not isinstance(value, c_ast.Constant):
                self.say(node, f"{enumerator.name} is no plain literal")

    def visit_FuncDecl(self, node):
        inner = node.type
        while isinstance(inner, (c_ast.PtrDecl, c_ast.TypeDecl)):
            inner = inner.type
        if isinstance(inner, c_ast.IdentifierType) and {"long", "short"} & set(inner.names):
            self.say(node, f"a result is a {' '.join(inner.names)}")
        self.generic_visit(node)

    def visit_EllipsisParam(self, node):
        self.say(node, "a variable number of arguments")

    def visit_FuncDef(self, node):
        self.say(node, "a function with a body")

    def visit_Decl(self, node):
        if node.bitsize is not None:
            self.say(node, f"{node.name} is a bit-field")
        inner = node.type
        while isinstance(inner, (c_ast.PtrDecl, c_ast.ArrayDecl, c_ast.TypeDecl)):
            if isinstance(inner, c_ast.ArrayDecl) and not is_bytes(inner):
                self.say(node, f"{node.name} is an array")
            inner = inner.type
        if isinstance(inner, c_ast.Enum) and node.name is not None:
            self.say(node, f"{node.name} has the type of an enum")
        if isinstance(inner, c_ast.IdentifierType) and {"long", "short"} & set(inner.names):
            self.say(node, f"{node.name} is a {' '.join(inner.names)}")
        self.generic_visit(node)


def by_value(headers, sizes):
    """Structs passed or returned by value that are larger than any binding handles well; `sizes` as the compiler says."""
    for function in headers.functions:
        for type_ in [function.returns] + [parameter.type for parameter in function.parameters]:
            if type_ in headers.structs and sizes[type_] > MAXIMUM_BY_VALUE:
                yield f"{function.name}: {type_} by value, of {sizes[type_]} bytes"


# What each rule is there to find: a rule that lets its own example pass is broken itself.
EXAMPLES = [
    "union nocter_u { int a; };",
    "enum { NOCTER_A = 1 };",
    "enum nocter_e { NOCTER_A = 1 << 3 };",
    "enum nocter_e { NOCTER_A = 1 }; struct nocter_s { enum nocter_e e; };",
    "enum nocter_e { NOCTER_A = 1 }; void nocter_f(enum nocter_e e);",
    "struct nocter_s { uint32_t a : 3; };",
    "struct nocter_s { long a; };",
    "struct nocter_s { uint32_t a[4]; };",
    "void nocter_f(int a, ...);",
    "int nocter_f(void) { return 1; }",
    "long nocter_f(void);",
]


def examples_missed():
    for example in EXAMPLES:
        visitor = Visitor()
        visitor.visit(c_parser.CParser().parse(public.PRELUDE + example))
        if not visitor.broken:
            yield f"the rules do not see what is wrong with: {example}"


def macros():
    command = ["cc", "-E", "-dM", "-std=c11", "-DNOCTER_BINDINGS", "-I", str(public.INCLUDE),
               str(public.INCLUDE / "nocter.h")]
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        match = re.match(r"#define (NOCTER_\w+)(\(.*?\))?\s*(.*)", line)
        if not match or match.group(1) in ("NOCTER_BINDINGS",) or match.group(1).endswith("_H"):
            continue
        name, arguments, value = match.groups()
        if arguments or not re.fullmatch(r"|\d+|\(-\d+\)", value):
            yield f"the macro {name} is no plain literal: {value}"


def includes():
    own = {str(header.relative_to(public.INCLUDE)) for header in public.public_headers()}
    for header in public.public_headers():
        for name in re.findall(r"^\s*#\s*include\s*[<\"](.*?)[>\"]", header.read_text(), re.M):
            if name not in own | ALLOWED_INCLUDES:
                yield f"{header.name} includes {name}"


def promises(headers):
    """Each function says who may call it and since when, and each status-returning one what it says."""
    for function in headers.functions:
        for part in ("@brief", "@par Threads", "@since"):
            if part not in function.text:
                yield f"{function.name}: no {part}"
        if function.returns != "void" and "@return" not in function.text:
            yield f"{function.name}: no @return"
        names = [parameter.name for parameter in function.parameters]
        outs = [name == "out" or name.startswith("out_") for name in names]
        if outs != sorted(outs) and not function.name.endswith(("_completed", "_take_many")):  # room, how much, how many
            yield f"{function.name}: its out-parameters do not come last"
        if function.returns == "nocter_status" and "NOCTER_OK" not in function.text:
            yield f"{function.name}: does not say what NOCTER_OK means"


def broken(headers):
    visitor = Visitor()
    text = public.preprocessed()
    visitor.visit(c_parser.CParser().parse(text))
    found = visitor.broken + list(examples_missed()) + list(macros()) + list(includes()) + list(promises(headers))
    if re.search(r"__attribute__|__declspec|\binline\b|_Static_assert", text):
        found.append("an attribute, an inline function or a static assertion is seen by the bindings")
    return found
