"""Prices and token counts come from litellm's files, without litellm and without a network."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from polyhop.schemas.settings import ModelSettings
from polyhop.warehouse.models.budget import count_prompt_tokens, count_tokens, estimated_tokens, price_of

TEXT = (
    "Ada Lovelace (1815-1852) was an English mathematician and writer, chiefly known for her work on Charles "
    "Babbage's proposed mechanical general-purpose computer, the Analytical Engine. "
)


def test_a_known_model_has_its_listed_price_with_and_without_its_provider() -> None:
    assert price_of("openai/gpt-4o-mini", ModelSettings()) == pytest.approx((0.15, 0.6))
    assert price_of("gpt-4o-mini", ModelSettings()) == pytest.approx((0.15, 0.6))


def test_an_unknown_model_has_no_price() -> None:
    assert price_of("openai/my-own-model", ModelSettings()) is None


def test_prices_that_are_set_win_over_the_table() -> None:
    assert price_of("openai/my-own-model", ModelSettings(price=(2, 4))) == (2, 4)
    assert price_of("openai/gpt-4o-mini", ModelSettings(price=(0, 0))) == (0, 0)


def test_tokens_are_those_of_the_models_own_tokenizer() -> None:
    # Counted with OpenAI's tokenizer page: "Hello world" is two tokens in either encoding.
    assert count_tokens("Hello world", "openai/gpt-4o-mini") == 2
    assert count_tokens("Hello world", "gpt-3.5-turbo") == 2
    assert count_tokens("", "openai/gpt-4o-mini") == 0
    assert count_tokens("北京大学是中国的", "openai/gpt-4o") < count_tokens("北京大学是中国的", "openai/gpt-4")


def test_words_that_look_like_special_tokens_are_text() -> None:
    assert count_tokens("<|endoftext|>", "openai/gpt-4o-mini") > 1


def test_a_prompt_has_a_few_tokens_more_than_its_text() -> None:
    assert count_prompt_tokens("Hello world", "openai/gpt-4o-mini") == 9


def test_the_estimate_without_a_tokenizer_is_within_15_percent(demo_folder: Path) -> None:
    lines = (demo_folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    corpus = " ".join(json.loads(line)["text"] for line in lines)
    for text in (TEXT * 10, corpus):
        counted = count_tokens(text, "openai/gpt-4o-mini")
        assert abs(estimated_tokens(text) - counted) <= 0.15 * counted


def test_prices_and_gateway_are_imported_without_litellm() -> None:
    code = (
        "import sys, polyhop.warehouse.models.chat, polyhop.warehouse.models.budget as p;"
        "from polyhop.schemas.settings import ModelSettings;"
        "from polyhop.warehouse.models.litellm_client import Completions; Completions('openai/a', ModelSettings());"
        "p.count_tokens('a', 'm'); print('litellm' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
