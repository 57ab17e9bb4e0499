"""Training data of the reader: generated questions, inputs, groups and batches."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from polyhop.schemas.text import norm_simple
from weights.training import reader_data, reader_plan
from weights.training.reader_chains import (
    FactFinder,
    GeneratedQuestion,
    ask,
    chains_of,
    generate_questions,
    kind_of,
    load_relations,
    pages_of,
)
from weights.training.reader_records import company_questions, table_questions
from weights.training.reader_scores import best_answer, em_f1
from weights.training.reader_text import (
    Featurizer,
    TrainingPassage,
    TrainingQuestion,
    WordWeights,
    bridging_sentence,
    holds_any,
)

PROJECT = Path(__file__).resolve().parents[3]
TOKENIZER = PROJECT / "weights" / "src" / "polyhop_weights" / "tokenizer.json"
CORPUS = (
    ("Blue Harbour", "Blue Harbour is a 1951 drama film directed by Mara Lindholm and starring Otto Berg."),
    ("Mara Lindholm", "Mara Lindholm (4 May 1911 – 1980) was a Danish film director. She was born in Odense, Funen."),
    ("Odense", "Odense is a city in Denmark. It had a population of 181,309 in 2022."),
    ("Otto Berg", "Otto Berg (born 1920) was an actor. He was born in Malmo."),
)


def generated(corpus: Sequence[tuple[str, str]] = CORPUS, seed: int = 1) -> list[GeneratedQuestion]:
    passages = [TrainingPassage(*pair) for pair in corpus]
    return generate_questions(pages_of(corpus), lambda texts: [passages for _ in texts], lambda *_: False, seed=seed)


def relations_of(corpus: Sequence[tuple[str, str]]) -> dict[tuple[str, ...], str]:
    """Names of each chain's relations, and its answer; of one page, its facts."""
    finder = FactFinder(load_relations().values())
    facts = [fact for page in pages_of(corpus) for fact in finder.facts(page)]
    chains = chains_of(facts) if len(corpus) > 1 else [(fact,) for fact in facts]
    return {tuple(fact.relation.name for fact in chain): chain[-1].object_name for chain in chains}


def spans_of(question: TrainingQuestion) -> set[str]:
    return {passage.text[a:b] for passage in question.passages for a, b in passage.spans}


@pytest.mark.parametrize(
    ("text", "kind"),
    [(text, kind) for (_, text), kind in zip(CORPUS, ("film", "person", "place", "person"), strict=True)],
)
def test_the_first_sentence_says_what_a_page_is_about(text: str, kind: str) -> None:
    assert kind_of(text) == kind


def test_a_chain_joins_the_object_of_a_fact_with_the_page_of_that_name() -> None:
    names = relations_of(CORPUS)
    assert names["director", "born_in"] == "Odense"
    assert names["director", "born_in", "population"] == "181,309"


def test_a_question_over_two_pages_names_the_first_and_is_answered_in_the_second() -> None:
    found = next(one for one in generated() if one.relations == ("director", "birth_date"))
    assert "Blue Harbour" in found.question.text
    assert spans_of(found.question) == {"4 May 1911"}
    assert [passage.title for passage in found.question.passages] == ["Mara Lindholm", "Blue Harbour"]


def test_a_place_within_a_larger_one_may_be_answered_with_both() -> None:
    found = next(one for one in generated() if one.relations == ("director", "born_in"))
    assert found.question.answers == ("Odense", "Odense, Funen")


def test_negatives_of_generated_questions_hold_no_answer() -> None:
    questions = [one.question for one in generated()]
    assert questions
    assert not [q for q in questions for p in q.negatives if holds_any(f"{p.title} {p.text}", q.answers)]


def test_generated_questions_depend_on_nothing_but_their_seed() -> None:
    assert generated(seed=5) == generated(seed=5)
    assert [one.question.text for one in generated(seed=5)] != [one.question.text for one in generated(seed=6)]


KIN = (
    ("Ana", "Ana (born 1900) was a singer, the daughter of Bo Falk and his wife Ida Falk."),
    ("Bo Falk", "Bo Falk (born 1870) was a painter, the son of Carl Falk and his wife Dora Falk. He married Ida Falk."),
    ("Ida Falk", "Ida Falk (born 1875) was a poet. She was the daughter of Hans Holm and his wife Lena Holm."),
)


@pytest.mark.parametrize(
    ("relations", "question"),
    [
        (("father", "father"), "Who is the paternal grandfather of Ana?"),
        (("mother", "mother"), "Who is the maternal grandmother of Ana?"),
        (("spouse", "father"), "Who is the father-in-law of Bo Falk?"),
    ],
)
def test_two_relations_of_kin_have_words_of_their_own(relations: tuple[str, str], question: str) -> None:
    finder = FactFinder(load_relations().values())
    facts = [fact for page in pages_of(KIN) for fact in finder.facts(page)]
    chain = next(one for one in chains_of(facts) if tuple(fact.relation.name for fact in one) == relations)
    assert question in {ask(chain, random.Random(seed)) for seed in range(20)}


def test_the_wife_of_a_father_is_no_spouse() -> None:
    assert ("spouse",) not in relations_of(KIN[:1])
    assert relations_of(KIN[1:2])["spouse",] == "Ida Falk"


def test_of_two_parents_without_a_rank_neither_is_the_father() -> None:
    text = "Liam Hart (born 1990) is an actor, the son of {} and {}."
    assert not {("father",), ("mother",)} & relations_of([("Liam Hart", text.format("Jill Hart", "Mark Hart"))]).keys()
    found = relations_of([("Liam Hart", text.format("Duke Karl II", "Anna Holm"))])
    assert (found["father",], found["mother",]) == ("Duke Karl II", "Anna Holm")


def test_dev_chains_share_no_page_with_training() -> None:
    corpus = [
        (title, text)
        for director in ("Mara Lindholm", "Nils Stone", "Petra Wood", "Runa Vale")
        for title, text in (
            (f"Film of {director}", f"Film of {director} is a 1951 drama film directed by {director}."),
            (director, f"{director} (born 4 May 1911) was a Danish film director."),
        )
    ]
    chains = generated(corpus)
    titles = {one.question.text: one.titles for one in chains}
    train, dev = reader_data.split_chains(chains, count=2)
    assert len(dev) == 2
    assert train
    used = frozenset[str]().union(*(titles[question.text] for question in dev))
    assert not [question for question in train if titles[question.text] & used]


@pytest.mark.parametrize("make", [table_questions, company_questions])
def test_answers_of_invented_records_are_marked_where_they_stand(
    make: Callable[[int, int], list[TrainingQuestion]],
) -> None:
    questions = make(200, 3)
    assert [one for one in questions if spans_of(one) != set(one.answers)] == []
    assert make(200, 3) == questions


def test_a_rival_in_another_row_is_never_marked() -> None:
    for question in table_questions(300, 4):
        for passage in question.passages:
            lines = [line for line in passage.text.splitlines() if "|" in line]
            marked = {passage.text.count("\n", 0, a) for a, _ in passage.spans}
            rows = [line for number, line in enumerate(passage.text.splitlines()) if number in marked and line in lines]
            assert len(rows) <= 1


def test_a_question_of_a_benchmark_is_held_out_in_any_words(tmp_path: Path) -> None:
    row = {"question": "Where was the director of Blue Harbour born?", "answers": ["Odense"]}
    (tmp_path / "questions.jsonl").write_text(json.dumps(row), encoding="utf-8")
    held_out = reader_data.HeldOut([tmp_path / "questions.jsonl"])
    assert held_out.asks_the_same("where was the director of Blue Harbour born", "?", ())
    assert held_out.asks_the_same("What is the birthplace of Blue Harbour's director?", "Blue Harbour", ["Odense"])
    assert not held_out.asks_the_same("When was Blue Harbour's director born?", "Blue Harbour", ["4 May 1911"])


@pytest.mark.parametrize(
    ("question", "is_computed"),
    [
        ("Which film is older, Blue Harbour or Red Harbour?", True),
        ("Are Blue Harbour and Red Harbour both films?", True),
        ("Who directed Blue Harbour?", False),
    ],
)
def test_comparisons_and_yes_or_no_are_left_to_computed_answers(question: str, *, is_computed: bool) -> None:
    assert reader_data.is_computed(question, ["Blue Harbour", "Red Harbour"]) is is_computed


def test_the_bridging_sentence_names_the_passage_and_says_most_of_the_question() -> None:
    passages = [TrainingPassage(*pair) for pair in CORPUS]
    weights = WordWeights([passage.text for passage in passages])
    question = "Where was the director of Blue Harbour born?"
    assert bridging_sentence(question, passages, passages[1], weights) == f"Blue Harbour: {CORPUS[0][1]}"
    assert bridging_sentence(question, passages, passages[0], weights) == ""


def test_an_input_row_decodes_to_question_bridge_title_and_text() -> None:
    start = CORPUS[1][1].index("Odense")
    passage = TrainingPassage(*CORPUS[1], ((start, start + 6),))
    row = Featurizer(TOKENIZER).row("Born where?", "Blue Harbour: by Mara Lindholm", passage, 128)
    ((first, last),) = row.gold
    characters = row.offsets[first - row.first][0], row.offsets[last - row.first][1]
    assert passage.text[slice(*characters)] == "Odense"
    assert row.ids[0] == 101
    assert row.ids[row.segment - 1] == row.ids[-1] == 102


def test_a_window_of_a_long_passage_keeps_an_answer() -> None:
    text = "one two three four five " * 80 + "Odense " + "six seven eight " * 80
    start = text.index("Odense")
    passage = TrainingPassage("Long", text, ((start, start + 6),))
    features = Featurizer(TOKENIZER)
    rows = [features.row("Where?", "", passage, 64, random.Random(seed)) for seed in range(20)]
    assert all(len(row.ids) == 64 and len(row.gold) == 1 for row in rows)


def small_plan() -> tuple[reader_plan.Plan, dict[str, int]]:
    by_source = {"two-hop": [one.question for one in generated()], "company": company_questions(30, 8)}
    texts = [passage.text for questions in by_source.values() for one in questions for passage in one.passages]
    builder = reader_data.GroupBuilder(Featurizer(TOKENIZER), WordWeights(texts))
    return reader_plan.draw_plan(by_source, builder, 40_000, lambda _: None)


def test_a_plan_is_equal_whenever_it_is_drawn() -> None:
    once, twice = small_plan()[0].arrays(), small_plan()[0].arrays()
    assert all(np.array_equal(once[name], twice[name]) for name in once)


def test_every_group_of_a_batch_has_something_to_find() -> None:
    plan = small_plan()[0].arrays()
    for number in range(len(plan["batches"]) - 1):
        batch = reader_plan.batch_of(plan, number)
        groups = len(batch["ids"])
        for side in ("start", "end"):
            assert batch[f"shared_{side}"].reshape(groups, -1).any(axis=1).all()
            assert not np.any(batch[f"shared_{side}"] > batch["may"])
            assert np.array_equal(np.max(batch[side], axis=2) > 0, batch["may"][:, :, 0] > 0)


def test_a_tenth_of_the_groups_has_no_answer() -> None:
    plan = small_plan()[0].arrays()
    group_of_gold = np.searchsorted(plan["groups"][:, 0], plan["golds"][:, 0], side="right")
    answered = len(np.unique(group_of_gold)) / (len(plan["groups"]) - 1)
    assert 0.04 < 1 - answered < 0.2


def test_arrays_are_the_same_after_writing_and_no_partial_file_remains(tmp_path: Path) -> None:
    arrays = {"encoder.layer.0/weight": np.arange(6.0).reshape(2, 3), "step": np.array(4)}
    reader_plan.save_arrays(tmp_path / "checkpoint.npz", arrays)
    loaded = reader_plan.load_arrays(tmp_path / "checkpoint.npz")
    assert all(np.array_equal(loaded[name], array) for name, array in arrays.items())
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.npz"]


def test_probabilities_of_equal_answers_add_up() -> None:
    def row(text: str, best: dict[int, float]) -> dict[str, object]:
        words = text.split()
        offsets = [(text.index(word), text.index(word) + len(word)) for word in words]
        logits = np.full((len(words) + 1, 2), -20.0)
        logits[0] = 0.0
        for number, score in best.items():
            logits[number + 1] = score
        return {"text": text, "offsets": offsets, "first": 1, "last": len(words) + 1, "logits": logits}

    rows = [row("Malmo here", {0: 2.0}), row("in Odense", {1: 1.8}), row("near Odense", {1: 1.8})]
    answer, lead = best_answer(rows)
    assert answer == "Odense"
    assert lead == pytest.approx(3.6)


def test_f1_counts_shared_words_of_the_best_gold_answer() -> None:
    assert em_f1("the Odense", ["Odense"]) == (1.0, 1.0)
    assert em_f1("Odense, Funen", ["Malmo", "Odense"]) == pytest.approx((0.0, 2 / 3))


@pytest.mark.shared_data
@pytest.mark.slow
def test_no_question_of_a_benchmark_is_generated_from_a_corpus(shared_data: Path) -> None:
    sources = reader_data.sources_in(shared_data, PROJECT)
    passages = [(row["title"], row["text"]) for row in reader_data.read_lines(sources.corpora[0])]
    held_out = reader_data.HeldOut(sources.held_out)
    questions = generate_questions(
        pages_of(passages), lambda texts: [[] for _ in texts], held_out.asks_the_same, seed=reader_data.CHAIN_SEED
    )
    texts = {norm_simple(one.question.text) for one in questions}
    texts |= {norm_simple(one.text) for one in table_questions(400, reader_plan.RECORD_SEED)}
    assert len(questions) > 1000
    held_out_rows = (row for path in sources.held_out for row in reader_data.read_lines(path))
    assert texts.isdisjoint(norm_simple(row["question"]) for row in held_out_rows)
