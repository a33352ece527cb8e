# Owns: comparing qfuse/abi.py with the headers: struct layouts through a C compiler, functions by their declarations.
# Does not own: what the functions do.
# Next: qfuse/abi.py.
import ctypes
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from qfuse import abi

INCLUDE = Path(__file__).resolve().parents[2] / "include"


def declarations():
    """name: text of the parameter list, of every exported function."""
    found = {}
    for header in sorted((INCLUDE / "qfuse").glob("*.h")):
        for match in re.finditer(r"^QF_API\s[^;(]*?(qf_\w+)\(([^;]*)\);", header.read_text(), re.M | re.S):
            found[match[1]] = match[2]
    return found


def split(parameters):
    """The parameters of a list; those of function pointers among them are not split."""
    depth, parts, part = 0, [], ""
    for letter in parameters:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append(part)
            part = ""
        else:
            part += letter
    return [] if part.strip() == "void" else [*parts, part]


class Layouts(unittest.TestCase):
    @unittest.skipUnless(shutil.which(os.environ.get("CC", "cc")), "no C compiler")
    def test_structs_are_laid_out_as_in_c(self):
        headers = sorted(path.relative_to(INCLUDE) for path in (INCLUDE / "qfuse").glob("*.h") if path.stem != "mlir")
        lines = [f"#include <{header}>" for header in headers]  # mlir.h needs MLIR's headers, and is for hosts in C
        lines += ["#include <stddef.h>", "#include <stdio.h>", "int main(void) {"]
        expected = []
        for struct in abi.STRUCTS:
            name = struct.__name__
            if not issubclass(struct, abi.Options):  # those say their size, and grow at the end
                lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
                expected.append(f"{name} {ctypes.sizeof(struct)}")
            for field, *_ in struct._fields_:
                member = getattr(struct, field)
                lines.append(f'printf("{name}.{field} %zu %zu\\n", offsetof({name}, {field}), '
                             f"sizeof((({name} *)0)->{field}));")
                expected.append(f"{name}.{field} {member.offset} {member.size}")
        lines += ["return 0;", "}"]
        with tempfile.TemporaryDirectory() as folder:
            source, program = Path(folder, "layout.c"), Path(folder, "layout")
            source.write_text("\n".join(lines))
            subprocess.run([os.environ.get("CC", "cc"), f"-I{INCLUDE}", source, "-o", program], check=True)
            found = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
        self.assertEqual(expected, found)

    def test_structs_that_grow_begin_with_their_size(self):
        for struct in abi.STRUCTS:
            if issubclass(struct, abi.Options):
                self.assertEqual(struct._fields_[0], ("struct_size", ctypes.c_size_t))
                self.assertEqual(struct().struct_size, ctypes.sizeof(struct))

    def test_every_struct_is_compared(self):
        structs = {value for value in vars(abi).values()
                   if isinstance(value, type) and issubclass(value, ctypes.Structure)} - {ctypes.Structure, abi.Options}
        self.assertEqual(structs, set(abi.STRUCTS))


class Functions(unittest.TestCase):
    def test_functions_take_what_the_headers_say(self):
        kinds = {"size_t": 8, "uint64_t": 8, "int64_t": 8, "uint32_t": 4, "int32_t": 4, "qf_dtype": 4, "bool": 1}
        declared = declarations()
        for name, (_, arguments) in abi.FUNCTIONS.items():
            parameters = split(declared[name])
            self.assertEqual(len(parameters), len(arguments), name)
            for parameter, argument in zip(parameters, arguments):
                words = re.sub(r"\bconst\b", "", parameter).split()
                pointer = "*" in parameter or words[0].endswith("_function")
                self.assertEqual(ctypes.sizeof(argument), 8 if pointer else kinds[words[0]], f"{name}: {parameter}")

    def test_tables_are_the_headers(self):
        status = (INCLUDE / "qfuse/status.h").read_text()
        dtype = (INCLUDE / "qfuse/dtype.h").read_text()
        found = {int(number): name for number, name in re.findall(r'X\((\d+), QF_\w+, "(\w+)",', status)}
        self.assertEqual(found, abi.STATUS_NAMES)
        self.assertEqual(tuple(re.findall(r'X\(\d+, QF_\w+, "(\w+)",', dtype)), abi.DTYPE_NAMES)


if __name__ == "__main__":
    unittest.main()
