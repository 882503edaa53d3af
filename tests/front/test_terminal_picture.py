"""The picture of a terminal: the command, what it printed, and nothing from the network."""

from __future__ import annotations

import shlex
from xml.etree import ElementTree

from rich.text import Text

from docs.generate.terminal import COMMAND, PICTURE, picture, printed

TEXT = "{http://www.w3.org/2000/svg}text"


def words_of(svg: str) -> str:
    """The texts of a picture in their order, with plain spaces and one space between two."""
    return " ".join(" ".join("".join(element.itertext()) for element in ElementTree.fromstring(svg).iter(TEXT)).split())


def test_a_picture_shows_the_command_and_its_colours_and_escapes_what_was_printed() -> None:
    svg = picture(["seqtune", "predict", "gemm m=8"], "\n\x1b[31mred\x1b[0m <script> & plain\n")
    assert words_of(svg).startswith("seqtune $ seqtune predict 'gemm m=8' red <script> & plain")
    styles = svg.partition("</style>")[0]
    assert len({line for line in styles.splitlines() if "fill:" in line}) >= 3
    assert svg.count("://") == svg.count("http://www.w3.org/2000/svg") == 1


def test_a_command_prints_as_on_a_terminal_of_that_width() -> None:
    text = printed(shlex.split("seqtune kernels"), 150)
    assert max(len(Text.from_ansi(line)) for line in text.splitlines()) in range(100, 151)
    assert "\x1b[1m" in text


def test_the_picture_of_the_first_page_shows_its_command_and_a_winner() -> None:
    svg = PICTURE.read_text()
    text = words_of(svg)
    assert f"$ {shlex.join(COMMAND)}" in text
    assert "winner: " in text
    assert " correct" in text
