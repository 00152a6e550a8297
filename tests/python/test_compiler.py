import re
from pathlib import Path

import pytest

from nanoplane import compiler
from nanoplane.errors import DescriptionError, ProgramError

HELLO = '#include <stdio.h>\nint main(void) { return printf("hello\\n") - 6; }\n'


def test_an_elf_file_does_not_depend_on_where_its_source_is(tmp_path: Path) -> None:
    images = []
    for name in ("one", "two"):
        path = tmp_path / name / "hello.c"
        path.parent.mkdir()
        path.write_text(HELLO)
        images.append(compiler.build(path))
    assert images[0].startswith(b"\x7fELF")
    assert images[0] == images[1]


def test_a_changed_header_is_seen(tmp_path: Path) -> None:
    source, header = tmp_path / "program.c", tmp_path / "number.h"
    source.write_text('#include "number.h"\nint main(void) { return NUMBER; }\n')
    header.write_text("#define NUMBER 3\n")
    first = compiler.build(source)
    header.write_text("#define NUMBER 4\n")
    assert compiler.build(source) != first


def test_built_in_programs_are_found() -> None:
    assert "packet-encapsulation" in compiler.programs()
    assert {"nanopu/raft", "traditional/set-algebra"} < set(compiler.rack_programs())
    for name in [*compiler.programs(), "nanopu/mica", "traditional/mica"]:
        assert compiler.elf(compiler.find_program(name, Path(), "program")).startswith(b"\x7fELF")


def test_built_in_programs_say_what_they_are() -> None:
    assert compiler.about("echo") == ("The smallest data plane: delivers each packet unchanged.")
    for name in compiler.programs() + compiler.rack_programs():
        about = compiler.about(name)
        assert about[0].isupper()
        assert len(about) < 200  # A sentence, and not the whole comment.
        assert "*" not in about


def test_an_error_is_the_compilers(tmp_path: Path) -> None:
    source = tmp_path / "wrong.c"
    source.write_text("int main(void) { return undeclared; }\n")
    with pytest.raises(ProgramError, match=r"wrong\.c does not compile:\n(.|\n)*undeclared"):
        compiler.build(source)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("int f(void) { return 0; }\n", "does not define main(); that of a data plane is"),
        (
            "#include <data_plane.h>\nint main(void) { return data_plane(); }\n",
            "does not define process(), which a data plane calls for each item",
        ),
    ],
)
def test_a_program_without_what_the_runtime_calls(tmp_path: Path, text: str, sentence: str) -> None:
    source = tmp_path / "lacking.c"
    source.write_text(text)
    with pytest.raises(ProgramError, match=rf"lacking\.c {re.escape(sentence)}"):
        compiler.build(source)


def test_a_missing_source() -> None:
    with pytest.raises(DescriptionError, match=r"^missing\.c: there is no such file$"):
        compiler.build(Path("missing.c"))


def test_a_program_for_nanopu_leaves_its_registers_alone(tmp_path: Path) -> None:
    # So many values at once that a compiler takes every register that it may.
    values = "\n".join(f"  uint64_t v{n} = in[{n}] * in[{n + 1}];" for n in range(40))
    total = " + ".join(f"(v{n} ^ in[v{n} & 7])" for n in range(40))
    body = f"uint64_t f(uint64_t *in) {{\n{values}\n  return {total};\n}}\n"
    body += "uint64_t in[64];\nint main(void) { return (int)f(in); }\n"

    def uses(include: str) -> bool:
        source = tmp_path / "program.c"
        source.write_text(f"#include <{include}>\n#include <stdint.h>\n{body}")
        image = compiler.build(source)
        start = int.from_bytes(image[32:40], "little")
        header = image[start : start + 56]
        offset, size = (int.from_bytes(header[at : at + 8], "little") for at in (8, 32))
        code, at = image[offset : offset + size], 0
        while at + 4 <= len(code):
            word = int.from_bytes(code[at : at + 4], "little")
            if word & 3 != 3:
                at += 2
                continue
            # `ld rd, offset(rs1)`: its destination.
            if word & 0x707F == 0x3003 and word >> 7 & 31 in (30, 31):
                return True
            at += 4
        return False

    assert uses("stdint.h")
    assert not uses("lnic.h")
