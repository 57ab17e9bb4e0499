"""What a model costs and how many tokens a text has, from the tables that litellm ships: no network, no litellm.

Asks nobody. litellm takes seconds to import, so its files are read where they lie.
"""

import importlib.util
import json
import os
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyhop.schemas.model_settings import ModelSettings

if TYPE_CHECKING:
    from tiktoken import Encoding

TOKENS_PER_PRICE = 1_000_000  # prices are in USD per million tokens, as providers list them
# frame of a chat with one message: three, one for the role, three before the reply, as OpenAI's cookbook counts for its
# models.
MESSAGE_TOKENS = 7

_TOKENIZER_FILES = {
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
}
_OLDER = re.compile(r"(?:^|/)(?:gpt-4(?:-|$)|gpt-3\.5|text-embedding)")
_PIECE = re.compile(r"[A-Za-z]+|\d|[^\sA-Za-z\d]")
# characters, some 50,000 tokens; chosen: requests of ours are shorter, and an odd text must not hold up the estimate.
_LONG_TEXT = 200_000
_CHARACTERS_PER_TOKEN = 4
"""Of English text, where no tokenizer is at hand."""


def price_of(model: str, settings: ModelSettings) -> tuple[float, float] | None:
    """USD per million prompt and completion tokens: as set, else by litellm's table; None if neither knows.

    Args:
        model: Provider and model, as litellm names them.
        settings: May set one or both prices.
    """
    entry = _table_entry(model)
    prompt = settings.prompt_price if settings.prompt_price is not None else _listed(entry, "input_cost_per_token")
    completion = (
        settings.completion_price if settings.completion_price is not None else _listed(entry, "output_cost_per_token")
    )
    return None if prompt is None or completion is None else (prompt, completion)


def embedding_price(model: str, price: float | None) -> float | None:
    """USD per million tokens of texts for an encoder: as set, else by litellm's table; None if neither knows.

    Args:
        model: Provider and model, as litellm names them.
        price: As set (encoder.price).
    """
    return price if price is not None else _listed(_table_entry(model), "input_cost_per_token")


def has_price_list() -> bool:
    """Whether litellm is installed, whose tables know the prices of models."""
    return _price_file().is_file()


def cost_of(price: tuple[float, float] | None, prompt_tokens: int, completion_tokens: int) -> float | None:
    """USD of a call; None where the price of its tokens is unknown."""
    if price is None:
        return None if prompt_tokens or completion_tokens else 0.0
    return (prompt_tokens * price[0] + completion_tokens * price[1]) / TOKENS_PER_PRICE


def count_tokens(text: str, model: str) -> int:
    """Tokens of a text by OpenAI's tokenizer for the model, which other providers' resemble.

    Args:
        text: Any text.
        model: Provider and model, as litellm names them.
    """
    encoding = _encoding("cl100k_base" if _OLDER.search(model) else "o200k_base")
    if encoding is None or len(text) > _LONG_TEXT:
        return estimated_tokens(text)
    return len(encoding.encode_ordinary(text))


def cut_text(text: str, most: int, model: str) -> str:
    """The beginning of a text, at most so many tokens as `count_tokens` counts them; 0: all of it.

    Args:
        text: Any text.
        most: Tokens.
        model: Provider and model, as litellm names them.
    """
    if not most or len(text) <= most:  # a token is a character at least
        return text
    encoding = _encoding("cl100k_base" if _OLDER.search(model) else "o200k_base")
    if encoding is None:
        return text[: most * _CHARACTERS_PER_TOKEN]
    tokens = encoding.encode_ordinary(text[:_LONG_TEXT])
    return text if len(tokens) <= most else encoding.decode(tokens[:most]).rstrip("\ufffd")


def count_prompt_tokens(text: str, model: str) -> int:
    """Tokens of a request with one message of this text, its frame included."""
    return count_tokens(text, model) + MESSAGE_TOKENS


def estimated_tokens(text: str) -> int:
    """Tokens by words alone: one for a short word, more for long ones, half for a digit, one for any other sign."""
    total = 0.0
    for piece in _PIECE.findall(text):
        if piece[0].isdigit():
            total += 0.5
        elif piece[0].isascii() and piece[0].isalpha():
            total += max(1.0, len(piece) / 6)
        else:
            total += 0.9
    return round(total)


def _listed(entry: dict[str, Any], column: str) -> float | None:
    value = entry.get(column)
    return value * TOKENS_PER_PRICE if isinstance(value, int | float) else None


def _table_entry(model: str) -> dict[str, Any]:
    """The table's row for a model, under its full name or without its provider."""
    table = _table()
    entry = table.get(model) or table.get(model.partition("/")[2])
    return entry if isinstance(entry, dict) else {}


@cache
def _table() -> dict[str, Any]:
    if not has_price_list():
        return {}
    table = json.loads(_price_file().read_text(encoding="utf-8"))
    return table if isinstance(table, dict) else {}


def _price_file() -> Path:
    return _litellm_folder() / "model_prices_and_context_window_backup.json"


@cache
def _encoding(name: str) -> "Encoding | None":
    """A tokenizer from litellm's files, None where they are missing: it would be fetched over the network."""
    folder = _litellm_folder() / "litellm_core_utils" / "tokenizers"
    if not (folder / _TOKENIZER_FILES[name]).is_file():
        return None
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    import tiktoken

    return tiktoken.get_encoding(name)


def _litellm_folder() -> Path:
    spec = importlib.util.find_spec("litellm")
    return Path(spec.origin).parent if spec and spec.origin else Path("litellm")
