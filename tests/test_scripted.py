"""The scripted agent: paired by its inclinations, helped and misled by what it reads."""

from typing import Any

import pytest

from harness.embedders import HashingEmbedder
from harness.kit import AS_ASKED, Family, Task, Way
from harness.scripted import Note, Reader, Traits, attempt, fields_of, notes_of
from memos_flow.injection import FENCE_CLOSE, FENCE_OPEN
from memos_flow.lexicon import Lexicon

FILES = {"a.txt": "1 2 3"}
FAMILY = Family(
    steps={
        "zeros": {
            "keep": Way("Keep the zero rows.", "kept zeros", says=("Zero rows belong in.",)),
            "drop": Way("Drop the zero rows.", "dropped zeros", says=("Do not keep zero rows.",)),
        }
    },
    tasks={"one": Task("Do it.", {"zeros": "keep", "schema": AS_ASKED})},
    generate=lambda random: {"one": FILES},
    solve=lambda task, files, ways: {"count": 3 if ways["zeros"] == "keep" else 2},
    recompute=lambda task, files: {"count": 3},
)
NEVER = Traits(0.0, 0.0, 0.0, understands=0.6, attention_characters=10_000)
ALWAYS_WEAK = Traits(1.0, 1.0, 0.0, understands=0.6, attention_characters=10_000)


@pytest.fixture(scope="module")
def reader(lexicon: Lexicon) -> Reader:
    return Reader(HashingEmbedder(dimensions=512, max_characters=500), lexicon, understands=0.6)


def _packet(*lines: str) -> str:
    return "\n".join([FENCE_OPEN, "Notes.", *lines, FENCE_CLOSE])


def _done(reader: Reader, traits: Traits, packet: str = "", **over: Any) -> Any:
    given = {"previous_names": [], "seed": 1} | over
    return attempt(
        FAMILY, "one", FILES, {"count": 3}, packet, traits=traits, reader=reader, **given
    )


def test_without_weakness_nothing_goes_wrong_and_with_it_everything(reader: Reader) -> None:
    assert _done(reader, NEVER).faults == ()
    assert _done(reader, ALWAYS_WEAK).faults == ("zeros:drop",)


def test_a_schema_is_carried_over_only_where_there_was_an_answer_before(reader: Reader) -> None:
    carried = _done(reader, ALWAYS_WEAK, previous_names=["total"])
    assert "schema:carried_over" in carried.faults
    assert '"total": 2' in carried.output


def test_the_same_seed_and_task_err_alike_whatever_was_read(reader: Reader) -> None:
    some = Traits(0.5, 0.6, 0.1, understands=0.6, attention_characters=10_000)
    unrelated = _packet("Do:", "- Let the dough rest overnight.")
    for seed in range(30):
        alone = _done(reader, some, seed=seed)
        assert _done(reader, some, unrelated, seed=seed).faults == alone.faults


@pytest.mark.parametrize(
    ("line", "faults"),
    [
        ("- Keep the zero rows", ()),
        ("- Drop the zero rows", ("zeros:drop",)),
        ("- Do not drop the zero rows", ()),
    ],
)
def test_advice_is_obeyed_right_or_wrong(reader: Reader, line: str, faults: tuple) -> None:
    for traits in (NEVER, ALWAYS_WEAK):
        assert _done(reader, traits, _packet("Do:", line)).faults == faults


def test_an_agent_is_misled_by_a_line_that_tells_the_wrong_way_and_by_nothing_else(
    reader: Reader,
) -> None:
    for line in ("- Drop the zero rows", "- Do not keep the zero rows"):
        assert _done(reader, NEVER, _packet("Do:", line)).misled == ("zeros:drop",)
    for packet in ("", _packet("Do:", "- Let the dough rest overnight.")):
        erring = _done(reader, ALWAYS_WEAK, packet)
        assert (erring.faults, erring.misled) == (("zeros:drop",), ())


def test_a_bare_warning_lifts_the_weakness_without_telling_the_way(reader: Reader) -> None:
    warned = _packet("Avoid:", "- The zero rows, keep or drop the zero rows")
    assert _done(reader, ALWAYS_WEAK, warned).faults == ()
    assert _done(reader, NEVER, warned).faults == ()


def test_a_check_of_a_field_makes_it_right_and_only_it(reader: Reader) -> None:
    checked = _done(reader, ALWAYS_WEAK, _packet("Check:", "- Wrong value: count"))
    assert '"count": 3' in checked.output
    assert checked.faults == ("zeros:drop",)


def test_the_longer_the_packet_the_fewer_lines_are_read(reader: Reader) -> None:
    lines = [f"- note number {number}" for number in range(200)]
    short = Traits(0.0, 0.0, 0.0, understands=0.6, attention_characters=500)
    assert _done(reader, NEVER, _packet("Do:", *lines)).read == 200
    assert 0 < _done(reader, short, _packet("Do:", *lines)).read < 100


def test_notes_stand_under_their_headings() -> None:
    packet = _packet(
        "## Skills", "- Skill: zeros", "- kept zeros", "- Avoid: dropping",
        "## Relevant experiences", "Do:", "- this", "Avoid:", "- that", "Check:", "- it",
        "## Similar past tasks", "- old step", "## Environment", "- a fact",
    )  # fmt: skip
    assert list(notes_of(packet)) == [
        Note("do", "kept zeros"),
        Note("avoid", "dropping"),
        Note("do", "this"),
        Note("avoid", "that"),
        Note("check", "it"),
    ]


def test_fields_of_an_answer() -> None:
    answer = {"a": 1, "rows": [{"x": 1, "ys": [1, 2]}]}
    assert fields_of(answer) == ["a", "rows", "rows[]", "rows[].x", "rows[].ys", "rows[].ys[]"]
