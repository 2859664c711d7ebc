#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The library as its users find it: installed, found by pkg-config, linked by a program of their own.

usage: embedding_test.py DAYBOOK SLOW_DISK [TEST...]; DAYBOOK stands in its build directory."""
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

import daybook_process as dp

BUILD = os.path.dirname(os.path.abspath(sys.argv[1]))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, "examples", "embedded", "embedded.c")


def run(*command, **more):
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            check=False, timeout=120, **more)
    assert result.returncode == 0, (command, result.stdout.decode())
    return result.stdout.decode()


def build_options():
    options = json.loads(subprocess.run(["meson", "introspect", "--buildoptions", BUILD], check=True,
                                        stdout=subprocess.PIPE).stdout)
    return {option["name"]: option["value"] for option in options}


def test_a_program_of_forty_lines():
    with tempfile.TemporaryDirectory(prefix="daybook-embed-") as directory:
        run("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", directory)
        prefix = build_options()["prefix"]
        found = [os.path.join(at, "daybook.pc") for at, _, files in os.walk(directory) if "daybook.pc" in files]
        assert len(found) == 1, found
        environment = {**os.environ, "PKG_CONFIG_PATH": os.path.dirname(found[0]), "PKG_CONFIG_SYSROOT_DIR": directory}
        flags = run("pkg-config", "--cflags", "--libs", "daybook", env=environment).split()
        assert f"-I{directory}{prefix}/include" in flags, flags
        library = next(flag[2:] for flag in flags if flag.startswith("-L"))
        sanitize = build_options()["b_sanitize"]
        more = [f"-fsanitize={sanitize}"] if sanitize != "none" else []
        if more and build_options().get("c_std") and "clang" in BUILD:
            raise dp.Skip("a clang build with sanitizers links them into programs alone")
        program = os.path.join(directory, "embedded")
        run("cc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *more, PROGRAM, "-o", program,
            *flags)
        run_environment = {**os.environ, "LD_LIBRARY_PATH": library}
        told = run(program, cwd=directory, env=run_environment)
        assert told == "ok at position 1\ndelivered 1, left 0\n", told
        # Run again: the event is there already, and nothing is delivered twice.
        told = run(program, cwd=directory, env=run_environment)
        assert told == "already_present at position 1\ndelivered 0, left 0\n", told
        with sqlite3.connect(os.path.join(directory, "usage.db")) as database:
            assert database.execute("select request_id, input_tokens from usage").fetchall() == [("first-1", 12)]
        # The public headers are usable one by one, and from C++.
        headers = os.listdir(os.path.join(directory + prefix, "include", "daybook"))
        assert "file.h" in headers and "daybook.h" in headers
        if shutil.which("c++"):
            for header in headers:
                source = os.path.join(directory, "one.cc")
                with open(source, "w", encoding="utf-8") as file:
                    file.write(f"#include <daybook/{header}>\nint main() {{ return 0; }}\n")
                run("c++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", source,
                    *[flag for flag in flags if flag.startswith("-I")])
        dp.promise("installed, found by pkg-config, linked, run twice: appended once, delivered once",
                   f"{len(headers)} headers; {told.strip().splitlines()[0]}, one row")


def test_the_page_shows_the_program():
    """docs/EMBEDDING.md shows the file that is built, word for word, and it is as short as promised."""
    with open(os.path.join(ROOT, "docs", "EMBEDDING.md"), encoding="utf-8") as page:
        shown = re.search(r"```c\n(.*?)```", page.read(), re.S).group(1)
    with open(PROGRAM, encoding="utf-8") as file:
        program = file.read()
    assert shown == program[program.index("#include"):], "docs/EMBEDDING.md shows another program"
    main = program[program.index("int main"):]
    assert main.count("\n") <= 40, main.count("\n")


sys.exit(dp.run_tests(globals(), sys.argv[3:]))
