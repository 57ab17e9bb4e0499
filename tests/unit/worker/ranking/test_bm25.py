"""BM25 against hand-computed values and an independent package."""

from collections.abc import Callable

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.graph import LexicalIndex
from tests_support import lexical_from
from worker.ranking.bm25 import containment, count_terms, impacts, score
