"""Legal forms that the names of companies end with: `AG`, `S.p.A.`, `Sp. z o.o.`.

Source: GLEIF (2023), "Entity Legal Forms Code List" (ISO 20275), with parts of forms (`Pte`, `Sdn`) and customary
spellings (`K.K.`, `OOO`) that it lacks; benchmarks/legal_forms.py compares both. Countries (ISO 3166) are those in
which companies have a form. A spelling in capitals counts in capitals only, because `spa` and `as` are words.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from polyhop.schemas.text import fold


class LegalForm(NamedTuple):
    """A legal form: its word in normal form, its spellings, the countries, whether any case is meant.

    Letters with dots between have middle dots in normal form, so that the initials of a person are none.
    """

    word: str
    spellings: tuple[str, ...]
    countries: str
    is_any_case: bool = False


LEGAL_FORMS = (
    # English
    LegalForm("inc", ("Inc", "Incorporated"), "US CA PH", is_any_case=True),
    LegalForm("corp", ("Corp", "Corporation"), "US CA PH", is_any_case=True),
    LegalForm("co", ("Co", "Company"), "US GB TH", is_any_case=True),
    LegalForm("ltd", ("Ltd", "Limited"), "GB IE IN AU NZ HK SG ZA NG KE CA IL", is_any_case=True),
    LegalForm("pty", ("Pty", "Proprietary"), "AU ZA", is_any_case=True),
    LegalForm("pte", ("Pte",), "SG", is_any_case=True),
    LegalForm("pvt", ("Pvt",), "IN PK LK", is_any_case=True),
    LegalForm("plc", ("PLC", "plc", "P.L.C."), "GB IE NG", is_any_case=True),
    LegalForm("llc", ("LLC", "L.L.C."), "US AE", is_any_case=True),
    LegalForm("llp", ("LLP", "L.L.P."), "GB US IN SG", is_any_case=True),
    LegalForm("l·p", ("LP", "L.P."), "US GB CA"),
    LegalForm("pllc", ("PLLC",), "US", is_any_case=True),
    LegalForm("c·i·c", ("CIC", "C.I.C."), "GB"),
    LegalForm("dac", ("DAC",), "IE"),
    LegalForm("ulc", ("ULC",), "CA IE"),
    LegalForm("sdn", ("Sdn",), "MY", is_any_case=True),
    LegalForm("bhd", ("Bhd", "Berhad"), "MY BN", is_any_case=True),
    # German
    LegalForm("gmbh", ("GmbH", "mbH"), "DE AT CH LI", is_any_case=True),
    LegalForm("ggmbh", ("gGmbH",), "DE AT", is_any_case=True),
    LegalForm("gmbh·co·kg", ("GmbH & Co. KG", "GmbH & Co KG"), "DE AT", is_any_case=True),
    LegalForm("ag·co·kg", ("AG & Co. KG", "AG & Co. KGaA", "SE & Co. KG", "SE & Co. KGaA"), "DE"),
    LegalForm("ag", ("AG", "A.G.", "Aktiengesellschaft"), "DE AT CH LI"),
    LegalForm("kg", ("KG", "Co. KG", "Kommanditgesellschaft"), "DE AT"),
    LegalForm("kgaa", ("KGaA",), "DE"),
    LegalForm("ohg", ("OHG",), "DE"),
    LegalForm("gbr", ("GbR",), "DE"),
    LegalForm("u·g", ("UG", "UG (haftungsbeschränkt)"), "DE"),
    LegalForm("e·v", ("e.V.", "eV"), "DE"),
    LegalForm("e·g", ("eG",), "DE"),
    LegalForm("e·u", ("e.U.",), "AT"),
    # French, Italian, Spanish, Portuguese, Romanian
    LegalForm("s·a", ("SA", "S.A."), "FR BE CH LU ES PT PL AR BR"),
    LegalForm("sas", ("SAS", "S.A.S."), "FR CO"),
    LegalForm("sasu", ("SASU",), "FR"),
    LegalForm("sarl", ("SARL", "S.A.R.L.", "Sàrl", "S.à r.l."), "FR CH LU MA"),
    LegalForm("eurl", ("EURL",), "FR"),
    LegalForm("snc", ("SNC", "S.n.c."), "FR IT"),
    LegalForm("sca", ("SCA", "S.C.A."), "FR LU"),
    LegalForm("s·p·a", ("SpA", "S.p.A.", "SPA"), "IT CL"),
    LegalForm("srl", ("Srl", "S.r.l.", "SRL"), "IT RO AR BE"),
    LegalForm("s·l", ("SL", "S.L."), "ES"),
    LegalForm("slu", ("SLU", "S.L.U."), "ES"),
    LegalForm("s·a·u", ("SAU", "S.A.U."), "ES"),
    LegalForm("sa·de·cv", ("S.A. de C.V.", "SA de CV", "S.A.B. de C.V.", "SAB de CV"), "MX"),
    LegalForm("s·de·rl", ("S. de R.L.", "S. de R.L. de C.V."), "MX"),
    LegalForm("ltda", ("Ltda", "Lda"), "BR PT CL CO", is_any_case=True),
    LegalForm("eireli", ("EIRELI",), "BR"),
    # Dutch, Nordic, Baltic
    LegalForm("n·v", ("NV", "N.V."), "NL BE"),
    LegalForm("b·v", ("BV", "B.V.", "BVBA"), "NL BE"),
    LegalForm("vof", ("VOF", "V.O.F."), "NL BE"),
    LegalForm("a·b", ("AB", "Aktiebolag"), "SE FI"),
    LegalForm("abp", ("Abp",), "FI"),
    LegalForm("o·y", ("Oy", "OY", "Osakeyhtiö"), "FI"),
    LegalForm("oyj", ("Oyj", "OYJ"), "FI", is_any_case=True),
    LegalForm("a·s", ("A/S", "AS", "A.S.", "a.s.", "A.Ş.", "AŞ"), "DK NO EE CZ SK TR"),
    LegalForm("asa", ("ASA",), "NO"),
    LegalForm("aps", ("ApS", "Aps"), "DK"),
    LegalForm("k·s", ("K/S", "k.s."), "DK CZ SK"),
    LegalForm("i·s", ("I/S",), "DK"),
    LegalForm("ehf", ("ehf",), "IS"),
    LegalForm("o·u", ("OÜ",), "EE"),
    LegalForm("s·i·a", ("SIA",), "LV"),
    LegalForm("u·a·b", ("UAB",), "LT"),
    # Central and eastern Europe
    LegalForm("spzoo", ("Sp. z o.o.", "Sp z o.o.", "Sp. z oo"), "PL", is_any_case=True),
    LegalForm("spk", ("Sp.k.", "Sp. k.", "Sp.j.", "Sp. j."), "PL"),
    LegalForm("s·r·o", ("s.r.o.", "spol. s r.o.", "S.R.O."), "CZ SK"),
    LegalForm("d·o·o", ("d.o.o.", "D.O.O."), "SI HR RS BA ME MK"),
    LegalForm("d·d", ("d.d.",), "SI HR BA"),
    LegalForm("kft", ("Kft",), "HU", is_any_case=True),
    LegalForm("zrt", ("Zrt", "Nyrt", "Rt"), "HU"),
    LegalForm("eood", ("EOOD", "OOD"), "BG"),
    LegalForm("ooo", ("OOO", "ООО"), "RU"),
    LegalForm("pao", ("PAO", "ПАО", "OAO", "ОАО", "ZAO", "ЗАО"), "RU"),
    LegalForm("pjsc", ("PJSC", "JSC", "OJSC", "CJSC"), "RU UA KZ AE SA"),
    LegalForm("tov", ("TOV", "ТОВ"), "UA"),
    # Europe, Asia, Middle East
    LegalForm("s·e", ("SE",), "EU"),
    LegalForm("eeig", ("EEIG", "GEIE", "EWIV"), "EU"),
    LegalForm("k·k", ("K.K.", "KK", "Kabushiki Kaisha"), "JP"),
    LegalForm("g·k", ("G.K.", "Godo Kaisha"), "JP"),
    LegalForm("tbk", ("Tbk",), "ID", is_any_case=True),
    LegalForm("fze", ("FZE", "FZCO", "FZ-LLC"), "AE"),
    LegalForm("wll", ("WLL", "W.L.L."), "QA BH KW"),
)
FORM_NAMES = frozenset(form.word for form in LEGAL_FORMS)
"""All legal forms in normal form, a word each."""


@cache
def _ending() -> re.Pattern[str]:
    """A legal form at the end of a name, behind a word."""
    parts = []
    for number, form in enumerate(LEGAL_FORMS):
        spelled = "|".join(re.escape(spelling.removesuffix(".")) for spelling in _longest_first(form.spellings))
        capitals = "|".join(re.escape(spelling.removesuffix(".").upper()) for spelling in form.spellings)
        written = f"(?i:{spelled})" if form.is_any_case else f"(?:{spelled}|{capitals})"
        parts.append((max(map(len, form.spellings)), f"(?P<f{number}>{written})"))
    longest_first = [part for _, part in sorted(parts, key=lambda pair: -pair[0])]
    return re.compile(rf"[\s,]+(?:{'|'.join(longest_first)})\.?\s*$")


def _longest_first(spellings: Sequence[str]) -> list[str]:
    return sorted(spellings, key=len, reverse=True)


@cache
def _last_words() -> frozenset[str]:
    """The last words of all spellings, by which most names are cleared."""
    return frozenset(_last_word(spelling) for form in LEGAL_FORMS for spelling in form.spellings)


def _last_word(name: str) -> str:
    return name.rsplit(None, 1)[-1].rstrip(".)").casefold()


def with_normal_form(name: str) -> str:
    """A name with its legal forms at the end in normal form: `Enel s·p·a` of `Enel S.p.A.`."""
    bare, forms = _parted(name)
    return " ".join((bare, *forms)) if forms else name


_ALSO_ELSEWHERE = frozenset(("a·s", "d·d", "kg", "l·p", "s·e", "zrt"))


def names_company(name: str) -> bool:
    """Returns whether a name ends with a legal form that persons, works and locations do not have.

    Such are `John Alton, A.S.`, `Robert Hovenden D.D.`, `Duke of Lennox KG`, `Avenue SE` and `Windows RT`.
    """
    return not _ALSO_ELSEWHERE.issuperset(_parted(name)[1])


def _parted(name: str) -> tuple[str, list[str]]:
    """A name without the legal forms at its end, and these in normal form."""
    forms: list[str] = []
    while name.strip() and _last_word(name) in _last_words() and (match := _ending().search(name)):
        forms.insert(0, LEGAL_FORMS[int(str(match.lastgroup)[1:])].word)
        name = name[: match.start()]
    return name, forms


_TOKEN = re.compile(r"[^\W_]+")


@cache
def token_forms() -> dict[str, tuple[tuple[str, ...], ...]]:
    """The words of each spelling as written, without accents, by the first; longest first."""
    forms: dict[str, set[tuple[str, ...]]] = {}
    for words in _spelled_words():
        forms.setdefault(words[0], set()).add(words)
    return {first: tuple(sorted(some, key=lambda words: (-len(words), words))) for first, some in forms.items()}


def _spelled_words() -> Iterator[tuple[str, ...]]:
    for form in LEGAL_FORMS:
        for spelling in form.spellings:
            yield tuple(_TOKEN.findall(fold(spelling)))
