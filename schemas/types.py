"""Types that texts state of a page's title, by its parenthesis or its first `is a …`.

Types of other names are judged by context (warehouse/name_judge.py). Source: algorithms.md 0.8 (F-TYPE).
"""

import re

from polyhop.schemas.names import UNTYPED, UNTYPED_HEADS, name_tokens

# Source: algorithms.md 0.8 (F-TYPE), the lists of reader.md, and the commonest heads of `X is a …` in Wikipedia
# leads.

PERSON, ORGANIZATION, LOCATION, EVENT, WORK = "PERSON", "ORGANIZATION", "LOCATION", "EVENT", "WORK"

_PERSON_HEADS = """
academic activist actor actress administrator admiral adventurer advocate ambassador anchor animator anthropologist
archaeologist archbishop architect aristocrat artist astronaut astronomer athlete attorney aunt author aviator banker
baron baroness barrister bassist biologist bishop botanist boxer boy broadcaster brother businessman businesswoman
cardinal cartoonist celebrity ceo chairman chancellor character chef chemist chief child choreographer cinematographer
clergyman co-founder coach collector comedian comic commander composer conductor congressman consort contestant
correspondent count countess courtier cousin creator cricketer criminal critic dancer daughter descendant designer
developer diplomat director dj doctor drummer duchess duke earl economist editor educator emperor empress engineer
entertainer entrepreneur essayist executive explorer farmer father father-in-law fighter figure filmmaker footballer
founder friend general geographer geologist girl goalkeeper god goddess governor granddaughter grandfather grandmother
grandson guitarist half-brother half-sister handballer heir heiress historian host hurler husband industrialist
inventor investor jockey journalist judge jurist killer king knight lady landowner lawyer leader lecturer librarian
linguist lord lyricist magnate maker man manager margrave marquess mathematician mayor mayor-elect medalist merchant
minister missionary model monarch monk mother mother-in-law murderer musician musicologist nephew niece noble nobleman
noblewoman novelist nun officer official outlaw owner painter parent partner patriarch peer performer person
personality pharaoh philanthropist philosopher photographer physician physicist pianist pilot pioneer pirate pitcher
planner player playwright poet politician pope prelate premier presenter president priest prince princess principal
producer professor prophet psychiatrist psychologist publisher quarterback queen rapper regent representative
researcher revolutionary rower rugby ruler sailor saint scholar scientist screenwriter sculptor secretary senator
servant sibling singer singer-songwriter sister skater skier socialite sociologist soldier solicitor son songwriter
soprano sorcerer spokesman sportscaster sprinter star statesman stepfather stepmother student sultan surgeon swimmer
teacher tenor theologian theorist trader translator twin uncle violinist viscount vocalist warrior widow wife winner
woman wrestler writer
"""
_ORGANIZATION_HEADS = """
academy administration agency airline airlines airways alliance army association authority band bank battalion board
brand brigade broadcaster bros brothers bureau business cabinet chain charity choir church club clubs co coalition
college command commission committee communications companies company confederation conference conglomerate
congregation congress consortium cooperative corp corporation council court department diocese division duo electric
ensemble enterprise enterprises entertainment factory faculty federation firm foods force forces foundation franchise
fund gang government group guild holdings hotels inc industries initiative institute institution label laboratories
laboratory league legislature library llc ltd manufacturer marines media ministry mission motors movement museum navy
network networks newspaper office operator orchestra order organisation organization parliament partnership party
pictures plc police politburo press productions publisher railroad railway railways records regiment registry resorts
retailer school schools senate service services society squad squadron startup stores studio studios subsidiary
symphony syndicate systems team technologies theatre trio troupe trust union unit universities university workshop
"""
_LOCATION_HEADS = """
abbey aerodrome airfield airport airstrip aqueduct archipelago area arena avenue barony base basin bay beach birthplace
borough boulevard bridge building caliphate canal canton cape capital castle cathedral cave cemetery center centre
chapel citadel cities city coast colony commonwealth commune community continent convent coral counties country county
creek crossing dam desert district duchy electorate empire estate estuary falls farm forest fort fortress garden
gardens glacier gorge gulf hall hamlet harbor harbour headquarters highway hill hills home hometown hospital hotel
house hundred inlet island islands isle isles junction khanate kingdom lagoon lake landmark lighthouse locality
location mall manor mansion margraviate metropolis monastery monument mosque mount mountain mountains municipality
nation neighborhood neighbourhood oasis oblast observatory ocean palace parish park parkway pass peak peninsula place
plain plateau plaza port prefecture principality priory prison province raion ranch range region republic reserve
reservoir resort ridge river road route ruins sea seaport seat settlement shire shrine site skyscraper square stadium
state states station strait street suburb sultanate summit synagogue temple territories territory tomb tower town
township tributary valley venue viaduct village volcano ward waterfall watershed waterway wilderness woods zoo
"""
_EVENT_HEADS = """
accord accords agreement battle bombing campaign ceremony championship championships competition conference conquest
contest convention coronation coup crisis crusade cup derby disaster earthquake election elections epidemic event
exhibition expedition fair famine festival final finals fire flood games holocaust hurricane incident invasion massacre
match meeting murder olympics operation pact pageant pandemic parade plot race raid rally rebellion referendum revolt
revolution riot riots rising season siege storm strike summit super-bowl tour tournament treaty trial uprising war wars
"""
_WORK_HEADS = """
album albums anime anthem ballad ballet biography book books cartoon collection comedy comic comics compilation
composition concerto diaries diary discography documentary drama encyclopedia ep epic episode essay film films game
hymn journal magazine manga manuscript mass memoir miniseries movie musical mystery newspaper novel novella opera
operetta painting play podcast poem program programme publication remake romance sculpture sequel serial series show
single sitcom sonata song songs sonnet soundtrack story symphony telenovela thriller track trilogy video waltz
"""

_TITLES_OF_PERSONS = """
abbess abbot actor actress admiral archbishop archduchess archduke baron baroness bishop brother caliph captain
cardinal chancellor colonel commander composer congressman count countess dame dauphin deacon director doctor dr
duchess duke earl elector electress emperor empress father general governor infanta infante judge justice king lady
landgrave landgravine lieutenant lord madame major margrave margravine marquess mayor minister miss mr mrs ms officer
pope premier president prince princess producer prof professor queen rabbi rapper representative rev reverend saint
secretary senator sergeant sheikh singer sir sultan tsar viscount writer
"""
TITLES_OF_PERSONS = frozenset(_TITLES_OF_PERSONS.split())  # Words before a person's name, or its first word.

HEADS: dict[str, str] = {
    **dict.fromkeys(_EVENT_HEADS.split(), EVENT),
    **dict.fromkeys(_WORK_HEADS.split(), WORK),
    **dict.fromkeys(_ORGANIZATION_HEADS.split(), ORGANIZATION),
    **dict.fromkeys(_LOCATION_HEADS.split(), LOCATION),
    **dict.fromkeys(_PERSON_HEADS.split(), PERSON),
}
"""Type by the head noun of a definition or of a title's parenthesis (`is an American film`, `(band)`).

A word in two lists has the type of the later one here.
"""


Typed = tuple[str | None, float]  # Type, None for none of the five, and confidence (0 to 1).

DEFINED = 0.9
"""Least confidence of a type that is stated rather than judged by context; a definition gives its title this one."""

_WORD_OR_STOP = re.compile(r"[^\W_]+(?:-[^\W_]+)*|[,.;:]")
_PARENTHESES = re.compile(r"\([^()]*\)")
_LIFE = re.compile(r"[^(]{0,80}\([^()]{0,120}?(?:\b(?:born|died|reigned|née)\b|\b(?:b|d|fl)\.|†)")
_DEFINITION = re.compile(r"\b(?:is|was|are|were)\s+(?:one\s+of\s+)?(?:a|an|the)\s+(.{1,200})", re.DOTALL)
_BARE_DEFINITION = re.compile(r"\b(?:is|was|are|were)\s+(?!(?:a|an|the)\s)(.{1,200})", re.DOTALL)
_STOPS = frozenset(
    (",", ".", ";", ":", "of", "in", "by", "from", "who", "whose", "which", "that", "for", "on", "to", "at", "with")
)
_PARTICIPLES = (
    "starring directed featuring written produced based set played located known called named born as during between "
    "under near over into after through when where while released published owned operated about situated created "
    "following including formed"
)
_STOPS_AFTER_HEAD = frozenset((",", *_PARTICIPLES.split()))
# chosen: a definition is in the first sentence; as many as the reader looks at (worker/reading/pages.py).
_LEAD_CHARACTERS = 400
_NO_TYPE = "no type"


def title_type(title: str, key: str, lead: str) -> Typed:
    """Type that a page states of its title, by the title's parenthesis or the first `is a …`; confidence 0 if neither.

    Source: algorithms.md 0.8 (F-TYPE); the definition in the first sentence is ours.
    """
    lead = lead[:_LEAD_CHARACTERS]
    plain = lead  # parentheses are blanked in it; two of them may be nested
    for _ in range(2):
        plain = _PARENTHESES.sub(lambda hit: " " * len(hit[0]), plain)
    said, defined = _type_in_parenthesis(title), _type_of_definition(key, plain, lead)
    if said and not (said[1] and defined):
        return said[0], 0.95
    if _LIFE.match(lead):
        return PERSON, DEFINED
    return defined or (None, 0.0)


def is_people_or_language(key: str) -> bool:
    """Returns whether a name is a demonym, a language, a faith or the like (`English`, `the French language`)."""
    words = key.removeprefix("the ").removesuffix(" language").split()
    return bool(words) and UNTYPED.issuperset(words)


def head_type(words: list[str]) -> Typed | None:
    """Type of the last head noun before a preposition, None if there is none; a comma ends only after a head."""
    kind = None
    for word in words:
        if word in _STOPS_AFTER_HEAD and not kind:
            continue
        if word in _STOPS or word in _STOPS_AFTER_HEAD:
            break
        singular = f"{word[:-3]}y" if word.endswith("ies") else word.removesuffix("s")
        head = HEADS.get(word) or HEADS.get(singular) or HEADS.get(word.rpartition("-")[2])
        kind = head or (_NO_TYPE if word in UNTYPED_HEADS else kind)
    return (None if kind == _NO_TYPE else kind, DEFINED) if kind else None


def _words(phrase: str) -> list[str]:
    """Lower-case words and signs of a phrase."""
    return _WORD_OR_STOP.findall(phrase.lower())


def _type_in_parenthesis(title: str) -> tuple[str | None, bool] | None:
    """Type, and whether its head has a capital: it may be the name of something else (`(Faerie Tale Theatre)`)."""
    if not title.endswith(")") or "(" not in title:
        return None
    inside = title[title.rindex("(") + 1 : -1]
    typed = head_type(_words(inside))
    return (typed[0], inside[:1].isupper()) if typed else None


def _type_of_definition(key: str, plain: str, lead: str) -> Typed | None:
    """By the head noun of the first `is a …` about `key`; without an article only persons are defined."""
    match = _DEFINITION.search(plain)
    if match is not None and _is_about(key, lead[: match.start()]):
        return head_type(_words(match[1]))
    match = _BARE_DEFINITION.search(plain)
    if match is None or not _is_about(key, lead[: match.start()]):
        return None
    typed = head_type(_words(match[1]))
    return typed if typed and typed[0] == PERSON else None


def _is_about(key: str, before: str) -> bool:
    return not set(key.split()).isdisjoint(name_tokens(before))
