"""The answers of several indexes as lines for a terminal; asks nothing."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from polyhop.commands.ask import certainty, print_source
from polyhop.output import print_block, print_line
from polyhop.passages import passage_line, text_line

if TYPE_CHECKING:
    from polyhop.several import SeveralAnswers


def print_several(several: "SeveralAnswers", texts: Mapping[tuple[str, str], str]) -> None:
    """The answer and the index that it is from, then the fused passages with theirs.

    Args:
        several: What was answered.
        texts: Text by (index, passage id).
    """
    print_line(f"Question  {several.question}")
    if several.index is None:
        print_line("Answer    (none found; read the passages)" if several.passages else "Answer    (none found)")
    else:
        chosen = several.answers[several.index]
        print_block("Answer", f"{several.answer}{certainty(chosen)}  (from the index {several.index})")
        for sentence in chosen.evidence["sentences"][:1]:
            print_source(sentence)
    asked = ", ".join(f"{name}: {one.strategy}, version {one.version}" for name, one in several.answers.items())
    print_line(f"Passages  ({asked})")
    for passage in several.passages:
        held = ", ".join((passage["index"], *passage.get("also_in", ())))
        print_line(f"{passage_line(passage)}  in {held}")
        text = text_line(texts.get((passage["index"], passage["id"]), ""))
        if text:
            print_line(text)
