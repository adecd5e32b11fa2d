"""The words of the documentation: each is said once what it means, and used where that page sends its reader."""

import re

import pytest

from tests.docs.pages import ROOT
from tools.words import WORDS, Word

EVERY = [word for found in WORDS.values() for word in found]


@pytest.mark.parametrize("word", EVERY, ids=lambda word: word.word)
def test_a_word_is_used_where_it_is_said_to_be_explained(word: Word) -> None:
    page = (ROOT / "docs" / word.page.partition("#")[0]).read_text(encoding="utf-8")
    assert re.search(rf"\b{word.word}", page, re.IGNORECASE)


def test_no_word_has_two_meanings() -> None:
    names = [word.word for word in EVERY]
    assert sorted(set(names)) == sorted(names)
