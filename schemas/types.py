"""Types of names by their words and by what their own page says, a confidence with each.

Word lists of names are in names.py; dates and numbers, whose type is their form, are in values.py. Source:
algorithms.md 0.8 (F-TYPE). Decided here: the order of cues and their confidences; that a page's own parenthesis and
first `is a …` come before every other cue for its title; that a name without a cue, a demonym, a language or an award
has no type (decision 0029).
"""

import re
from functools import lru_cache

from polyhop.schemas.names import (
    COMMON_WORDS,
    GENERIC_WORDS,
    GIVEN_NAMES,
    NAME_PARTICLES,
    UNTYPED,
    UNTYPED_HEADS,
    name_tokens,
)

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

_LOCATIONS = """
adelaide|afghanistan|africa|alabama|alaska|albania|alberta|algeria|algiers|america|amsterdam|andalusia|angola
|antarctica|antwerp|argentina|arizona|arkansas|armenia|asia|athens|atlanta|auckland|australia|austria|azerbaijan
|baghdad|bahamas|bahrain|balkans|baltimore|bangalore|bangkok|bangladesh|barbados|barcelona|basel|bavaria|beijing|beirut
|belarus|belgium|belgrade|belize|bengal|benin|berlin|bhutan|birmingham|bogota|bohemia|bolivia|bologna|bordeaux|bosnia
|boston|botswana|brazil|brisbane|bristol|british columbia|brittany|brunei|brussels|bucharest|budapest|buenos aires
|bulgaria|burgundy|burkina faso|burma|burundi|byzantine empire|cairo|calgary|california|cambodia|cameroon|canada
|cape town|cape verde|caracas|casablanca|castile|catalonia|caucasus|chad|chennai|chicago|chile|china|cleveland|cologne
|colombia|colorado|congo|connecticut|constantinople|copenhagen|corsica|crimea|croatia|cuba|cyprus|czech republic
|czechoslovakia|dallas|damascus|delaware|delhi|denmark|denver|detroit|dhaka|djibouti|dominican republic|dresden|dublin
|east germany|ecuador|edinburgh|egypt|el salvador|england|eritrea|estonia|ethiopia|europe|fiji|finland|florence|florida
|france|frankfurt|gabon|gambia|geneva|georgia|germany|ghana|glasgow|greece|guam|guatemala|guinea|guyana|haiti|hamburg
|hanoi|havana|hawaii|helsinki|hollywood|honduras|hong kong|houston|hungary|hyderabad|iceland|idaho|illinois|india
|indiana|indonesia|iowa|iran|iraq|ireland|israel|istanbul|italy|ivory coast|jakarta|jamaica|japan|jerusalem
|johannesburg|jordan|kansas|karachi|kazakhstan|kentucky|kenya|kerala|kolkata|korea|kosovo|kuwait|kyoto|kyrgyzstan|lagos
|lahore|laos|las vegas|latin america|latvia|lebanon|leeds|leipzig|lesotho|liberia|libya|lima|lisbon|lithuania|liverpool
|lombardy|london|los angeles|louisiana|luxembourg|lyon|macedonia|madagascar|madrid|maine|malawi|malaysia|maldives|mali
|malta|manchester|manchuria|manhattan|manila|manitoba|marseille|maryland|massachusetts|mauritania|mauritius|melbourne
|mexico|mexico city|miami|michigan|middle east|milan|minneapolis|minnesota|mississippi|missouri|moldova|monaco|mongolia
|montana|montenegro|montreal|moravia|morocco|moscow|mozambique|mumbai|munich|myanmar|nairobi|namibia|naples|nebraska
|nepal|netherlands|nevada|new brunswick|new hampshire|new jersey|new mexico|new orleans|new south wales|new york
|new york city|new zealand|nicaragua|niger|nigeria|normandy|north america|north carolina|north dakota|north korea
|northern ireland|norway|nova scotia|ohio|oklahoma|oman|ontario|oregon|osaka|oslo|ottawa|oxford|pakistan|palermo
|palestine|panama|papua new guinea|paraguay|paris|pennsylvania|perth|peru|philadelphia|philippines|pittsburgh|poland
|portugal|prague|provence|prussia|puerto rico|punjab|qatar|quebec|queensland|rhode island|rio de janeiro|romania|rome
|rotterdam|russia|rwanda|saint petersburg|samoa|san antonio|san diego|san francisco|sao paulo|sardinia|saudi arabia
|saxony|scandinavia|scotland|seattle|senegal|seoul|serbia|shanghai|siberia|sicily|sierra leone|silesia|singapore
|slovakia|slovenia|somalia|south africa|south america|south carolina|south dakota|south korea|soviet union|spain
|sri lanka|st petersburg|stockholm|sudan|suriname|swaziland|sweden|switzerland|sydney|syria|taipei|taiwan|tajikistan
|tamil nadu|tanzania|tasmania|tehran|tel aviv|tennessee|texas|thailand|tibet|togo|tokyo|tonga|toronto|toulouse
|transylvania|trinidad|tunisia|turin|turkey|turkmenistan|tuscany|u k|u s|u s a|uganda|uk|ukraine|united arab emirates
|united kingdom|united states|united states of america|uruguay|us|usa|utah|uzbekistan|vancouver|vanuatu|venezuela
|venice|vermont|vienna|vietnam|virginia|wales|warsaw|washington|washington d c|west germany|west virginia|wisconsin
|wyoming|yemen|yugoslavia|zambia|zimbabwe|zurich
"""
LOCATIONS = frozenset(_LOCATIONS.replace("\n", "").split("|"))  # Keys of locations without a location word.

_TITLES_OF_PERSONS = """
abbess abbot actor actress admiral archbishop archduchess archduke baron baroness bishop brother caliph captain
cardinal chancellor colonel commander composer congressman count countess dame dauphin deacon director doctor dr
duchess duke earl elector electress emperor empress father general governor infanta infante judge justice king lady
landgrave landgravine lieutenant lord madame major margrave margravine marquess mayor minister miss mr mrs ms officer
pope premier president prince princess producer prof professor queen rabbi rapper representative rev reverend saint
secretary senator sergeant sheikh singer sir sultan tsar viscount writer
"""
TITLES_OF_PERSONS = frozenset(_TITLES_OF_PERSONS.split())  # Words before a person's name, or its first word.

_PERSON_VERBS = """
acted appeared became born composed coined defeated died directed divorced married painted played resigned retired
sang served starred studied succeeded taught wrote
"""
PERSON_VERBS = frozenset(_PERSON_VERBS.split())  # Verbs after a person's name (`was born`, `married`).

_PERSON_LINKS = """
composed created daughter directed father husband married mother portrayed produced son wife written wrote
"""
PERSON_LINKS = frozenset(_PERSON_LINKS.split())  # Words before `by`, `of` or a name that make what follows a person.

LOCATION_STARTS = frozenset(("cape", "fort", "gulf", "lake", "mount", "port", "rio", "river"))
"""First words of names of locations (`Lake Ontario`)."""

LOCATIVES = frozenset(("in", "at", "near"))


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

DEFAULT = 0.3  # Largest confidence of a type that no cue shows: it counts only where no mention of the name has a cue.
UNSHOWN = 0.2  # Confidence of having no type because nothing shows one.
CUE = 0.5  # Least confidence of a type that something near this name shows, rather than the other names of a list.
DEFINED = 0.9
"""Least confidence of a type that a page's definition gives its title: it comes before the cues of all mentions."""
ALIAS = 0.8
"""Most that a page's definition says of its title without the parenthesis, which may be another thing's name, too."""

_WORD_OR_STOP = re.compile(r"[^\W_]+(?:-[^\W_]+)*|[,.;:]")
_PARENTHESES = re.compile(r"\([^()]*\)")
_LIFE = re.compile(r"[^(]{0,80}\([^()]{0,120}?(?:\b(?:born|died|reigned|née)\b|\b(?:b|d|fl)\.|†)")
_DATES = re.compile(
    r"[^(]{0,80}\([^()]{0,120}?\b(?:[12]?\d|3[01]) [A-Z][a-z]{2,8},? \d{3,4}[^()]{0,40}[-–−]"
    r"|[^(]{0,80}\([^()]{0,120}?\b[A-Z][a-z]{2,8} \d{1,2}, \d{3,4}[^()]{0,40}[-–−]"
)
_DEFINITION = re.compile(r"\b(?:is|was|are|were)\s+(?:one\s+of\s+)?(?:a|an|the)\s+(.{1,200})", re.DOTALL)
_BARE_DEFINITION = re.compile(r"\b(?:is|was|are|were)\s+(?!(?:a|an|the)\s)(.{1,200})", re.DOTALL)
_RANK = re.compile(r"[^,.;]{1,80},\s+(?:the\s+)?([^,.;]{1,60})")
_MAY_REFER = re.compile(r"\bmay\s+(?:also\s+)?refer\s+to\b")
_NUMERAL = re.compile(r"[ivx]+|\d+")
_REGNAL = re.compile(r"[ivx]+")
_STOPS = frozenset(
    (",", ".", ";", ":", "of", "in", "by", "from", "who", "whose", "which", "that", "for", "on", "to", "at", "with")
)
_PARTICIPLES = (
    "starring directed featuring written produced based set played located known called named born as during between "
    "under near over into after through when where while released published owned operated about situated created "
    "following including formed"
)
_STOPS_AFTER_HEAD = frozenset((",", *_PARTICIPLES.split()))
_SURNAMES = (
    "banks bay bishop bush chase church cliff coast court field ford forest hall hill hills house lake lane park parks "
    "pike single stone street temple vale ward west wood woods young"
)
_AMBIGUOUS_HEADS = frozenset(_SURNAMES.split())
_HEADS_OF_HEADS = frozenset(("name", "kind", "type", "sort", "form", "part", "variety", "piece", "term"))
_PERSON_ENDINGS = ("er", "or", "ist", "man", "ician")
_ABSTRACT_ENDINGS = ("tion", "ness", "ism", "ics", "logy", "graphy", "eering")
# chosen: a definition is in the first sentence; as many as the reader looks at (reader.md 6.3).
_LEAD_CHARACTERS = 400
_NO_TYPE = "no type"


def title_type(title: str, key: str, lead: str) -> Typed:
    """Type of what a page is about.

    Source: algorithms.md 0.8 (F-TYPE); the definition in the first sentence is ours.
    """
    lead = lead[:_LEAD_CHARACTERS]
    plain = lead  # parentheses are blanked in it; two of them may be nested
    for _ in range(2):
        plain = _PARENTHESES.sub(lambda hit: " " * len(hit[0]), plain)
    said = _type_in_parenthesis(title)
    if said and not (said[1] and (_type_of_definition(key, plain, lead) or (None, 0.0))[1] >= DEFINED):
        return said[0], 0.95
    if _LIFE.match(lead):
        return PERSON, 0.9
    defined = _type_of_definition(key, plain, lead)
    if defined and defined[1] >= DEFINED:
        return defined
    by_name = name_type(key)
    if _MAY_REFER.search(plain):
        return by_name if by_name[1] > 0.5 else (None, DEFAULT)
    found = [defined, by_name, (PERSON, 0.85) if _DATES.match(lead) else None, _type_of_rank(key, plain)]
    return max((typed for typed in found if typed), key=lambda typed: typed[1])


@lru_cache(maxsize=1 << 15)
def name_type(key: str) -> Typed:
    """Type by the words of a name alone. Source: algorithms.md 0.8 (F-TYPE)."""
    if key in LOCATIONS:
        return LOCATION, 0.9
    words = key.split() or [""]
    if UNTYPED.issuperset(words):
        return None, 0.9
    numbered = len(words)
    while numbered > 1 and _NUMERAL.fullmatch(words[numbered - 1]):
        numbered -= 1
    core = words[:numbered]
    # an `of` at the very beginning (`OF THE SECURITIES EXCHANGE ACT OF` on a cover page) has no head noun before it
    front = core[: core.index("of", 1)] if "of" in core[1:] else core
    is_king = any(_REGNAL.fullmatch(part[-1]) for part in (words, front) if len(part) > 1)
    return _type_of_words(words, core, front) or _type_of_bearer(words, core, front, is_king=is_king)


def _type_of_words(words: list[str], core: list[str], front: list[str]) -> Typed | None:
    """By head nouns, ranks and first words."""
    if len(words) > 1:
        typed = _type_of_phrase(words, core, front) or _type_of_heads(core, front)
        if typed:
            return typed
        if words[0] in LOCATION_STARTS:
            return LOCATION, 0.85
        if words[0] in TITLES_OF_PERSONS or front[-1] in TITLES_OF_PERSONS:
            return PERSON, 0.85
    if "university" in words or "olympics" in words:
        return (ORGANIZATION, 0.9) if "university" in words else (EVENT, 0.9)
    return (None, 0.8) if len(words) > 1 and core[-1] in UNTYPED_HEADS else None


def _type_of_phrase(words: list[str], core: list[str], front: list[str]) -> Typed | None:
    if front == ["house"] and len(core) > 2:
        return ORGANIZATION, 0.6  # House of Lords, House of Habsburg
    if words[0] == "best":
        return None, 0.6  # Best Director
    if len(front) < len(core) and HEADS.get(front[-1]) == PERSON:
        return PERSON, 0.85 if front[-1] in TITLES_OF_PERSONS else 0.5  # Duke of Legnica, Leader of the Opposition
    return None


def _type_of_heads(core: list[str], front: list[str]) -> Typed | None:
    head = next((head for head in (front[-1], core[-1]) if HEADS.get(head, PERSON) != PERSON), "")
    if not head:
        return None
    if head in _AMBIGUOUS_HEADS:
        return (PERSON, 0.6) if front[0] in GIVEN_NAMES else (HEADS[head], 0.5)
    return HEADS[head], (0.75 if HEADS[head] == WORK else 0.9)


def _type_of_bearer(words: list[str], core: list[str], front: list[str], *, is_king: bool) -> Typed:
    """By what names of persons look like; the defaults where they do not."""
    if len(words) == 1:
        return (PERSON, 0.4) if words[0] in GIVEN_NAMES else (None, UNSHOWN)
    is_plain = COMMON_WORDS.isdisjoint({*words} - {"of"})
    has_given_name = core[0] in GIVEN_NAMES and "and" not in words and len(front) <= 4
    if has_given_name and (is_plain or len(core) == 2 or len(front) < len(core)):
        return PERSON, 0.65
    if not is_plain:
        return None, 0.2
    return _type_of_plain_bearer(words, core, front, is_king=is_king and not has_given_name)


def _type_of_plain_bearer(words: list[str], core: list[str], front: list[str], *, is_king: bool) -> Typed:
    """By regnal number, initials, particles and length; of names without common words."""
    if is_king and len(front) <= 2 and core[0] not in LOCATIONS:
        return PERSON, 0.6
    if len(core) <= 4 and any(len(word) == 1 and word.isalpha() and word != "s" for word in core[:-1]):
        return PERSON, 0.6
    if len(front) <= 5 and not NAME_PARTICLES.isdisjoint(core[1:-1]):
        return PERSON, 0.5
    # what names of persons do not have: an abstract noun, a possessive, a number
    is_thing = words[-1].endswith(_ABSTRACT_ENDINGS) or "s" in words[1:-1] or not UNTYPED.isdisjoint(words)
    is_thing = is_thing or any(word[0].isdigit() for word in words)
    return (PERSON, DEFAULT) if len(front) == len(core) <= 3 and not is_thing else (None, UNSHOWN)


def may_be_person(surface: str, key: str, confidence: float) -> bool:
    """Returns whether a name that cues took for a person's may be one.

    Dates and numbers never are; a generic word alone only where a page defines it; a name in capitals alone (`BIT
    STRING`), which may be any term, only with its own cue.
    """
    words = key.split()
    if all(word.isdigit() or word in UNTYPED for word in words):
        return False
    if len(words) == 1 and key in GENERIC_WORDS and key not in GIVEN_NAMES:
        return confidence >= DEFINED
    return confidence >= CUE or not surface.isupper()


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


def phrase_words(phrase: str) -> list[str]:
    """Lower-case words and signs of a phrase."""
    return _WORD_OR_STOP.findall(phrase.lower())


def _type_in_parenthesis(title: str) -> tuple[str | None, bool] | None:
    """Type, and whether its head has a capital: it may be the name of something else (`(Faerie Tale Theatre)`)."""
    if not title.endswith(")") or "(" not in title:
        return None
    inside = title[title.rindex("(") + 1 : -1]
    typed = head_type(phrase_words(inside))
    return (typed[0], inside[:1].isupper()) if typed else None


def _type_of_definition(key: str, plain: str, lead: str) -> Typed | None:
    """By the head noun of the first `is a …` about `key`; a head after a preposition counts less."""
    match = _DEFINITION.search(plain)
    if match is None or not _is_about(key, lead[: match.start()]):
        return _type_of_bare_definition(key, plain, lead)
    words = phrase_words(match[1])
    return head_type(words) or _type_around_preposition(words)


def _type_of_bare_definition(key: str, plain: str, lead: str) -> Typed | None:
    """By the head noun of a definition without an article; only persons are defined so."""
    match = _BARE_DEFINITION.search(plain)
    if match is None or not _is_about(key, lead[: match.start()]):
        return None
    typed = head_type(phrase_words(match[1]))
    return (PERSON, DEFINED) if typed and typed[0] == PERSON else None


def _type_around_preposition(words: list[str]) -> Typed | None:
    """By the ending of an unknown head noun, or by the noun that `name of a`, `kind of a` and the like lead to."""
    stop = next((index for index, word in enumerate(words) if word in _STOPS), len(words))
    if stop and words[stop - 1].endswith(_PERSON_ENDINGS):
        return PERSON, 0.6
    if not stop or words[stop - 1] not in _HEADS_OF_HEADS:
        return None
    kind = next((HEADS[word] for word in words[stop:] if word in HEADS), None)
    return (kind, 0.4) if kind else None


def _is_about(key: str, before: str) -> bool:
    return not set(key.split()).isdisjoint(name_tokens(before))


def _type_of_rank(key: str, plain: str) -> Typed | None:
    """By a rank behind the name at the very beginning: `Mugain, daughter of …`, `Dietrich, count of …`."""
    match = _RANK.match(plain)
    if match is None or not _is_about(key, plain[: match.start(1)]):
        return None
    typed = head_type(phrase_words(match[1]))
    return (PERSON, 0.8) if typed and typed[0] == PERSON else None


# Source: algorithms.md 0.8 (F-TYPE). Decided here: how far a cue may be from the name, and the confidence of each.

_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_QUOTES = frozenset("\"'“”‘’«»")
_WORKS = "album book film movie musical novel opera series song soundtrack single episode sitcom"
_WORK_AFTER = frozenset(_WORKS.split())
_WORK_BEFORE = _WORK_AFTER | frozenset(("play", "poem", "novella", "miniseries", "documentary", "show", "serial"))
_GROUP_BEFORE = frozenset(("band", "company", "club", "label", "group", "party", "newspaper", "publisher", "airline"))
_PERSON_SIGNS = frozenset(("née", "nee", "starring", "featuring"))
_LOCATION_LINKS = frozenset(("located", "based", "situated", "born", "died", "buried", "lives", "lived", "raised"))
_OPENINGS = frozenset(" ('’")
_FOR_NAMES = frozenset((PERSON, LOCATION))
_AROUND, _BEYOND = 32, 72  # characters before and after a name that are looked at; chosen: a few words, an apposition
_POSSESSED = re.compile(
    r"['’]\s?s\s+(?:\w+\s+){0,2}?(?:novels?|novella|play|film|book|wife|husband|son|daughter|mother|father)\b"
)
_LIFE_DATES = re.compile(r"\s?\(\s?(?:née|b\.|d\.|fl\.|[^()]{0,20}\d{3,4}\s?[-–−]\s?[^()]{0,24}\d{2,4}\s?\))")
_APPOSITION = re.compile(r",\s+(?:(?:a|an|the)\s+|(?=[^\W\d_A-Z]))([^,.;()]{1,60})")
_BEFORE_NICKNAME = re.compile(r"\b[A-Z]\w*\.?\s?[\"“]\s?$")
_AFTER_NICKNAME = re.compile(r"[\"”]\s[A-Z]")
_IS_A = re.compile(r"\s+(?:is|was|are|were)\s+(?:a|an|the)\s+([^,.;()]{1,60})")
_NEXT_NAME = re.compile(r",\s+([A-Z][^\W\d_]+(?:\s[A-Z][^\W\d_]+)?)")


def mention_type(key: str, text: str, start: int, end: int) -> Typed:
    """Type of a name in a text.

    Returns:
        One of PERSON, ORGANIZATION, LOCATION, EVENT, WORK, or None for none of them, and how sure the cue makes it.
    Source: algorithms.md 0.8 (F-TYPE).
    """
    by_name = name_type(key)
    if by_name[1] >= 0.9:
        return by_name
    before = text[max(0, start - _AROUND) : start]
    after = text[end : end + _BEYOND]
    around = _surest(_type_after(before, after), _type_before(before), _type_beyond(after))
    if around is None or around[1] <= by_name[1]:
        return by_name
    # before a name of common words only (`The Time`) `in` or `by` show nothing
    if around[0] in _FOR_NAMES and COMMON_WORDS.issuperset(key.split()):
        return by_name
    return around


def _surest(*found: Typed | None) -> Typed | None:
    return max((typed for typed in found if typed), key=lambda typed: typed[1], default=None)


def _type_after(before: str, after: str) -> Typed | None:
    """By the words after the name, and by quotes around it."""
    quoted = _type_in_quotes(before, after)
    if quoted:
        return quoted
    words = _WORD.findall(after[:_AROUND])[:2]
    if after[:1] in _OPENINGS and (_LIFE_DATES.match(after) or _POSSESSED.match(after)):
        return PERSON, 0.7
    if not words or not after[0].isspace():
        return (PERSON, 0.85) if after[:1] == "(" and words[:1] in (["born"], ["died"]) else None
    if words[0] in _WORK_AFTER and after.lstrip()[0] not in ",.;":
        return WORK, 0.5
    if words[0] in ("born", "died") or words == ["was", "born"]:
        return PERSON, 0.85
    return (PERSON, 0.7) if words[0] in PERSON_VERBS or words[0] in ("who", "whose") else None


def _type_in_quotes(before: str, after: str) -> Typed | None:
    if not (after[:1] in _QUOTES and before.rstrip()[-1:] in _QUOTES and before.strip()):
        return None
    is_nickname = _BEFORE_NICKNAME.search(before) and _AFTER_NICKNAME.match(after)
    return (PERSON if is_nickname else WORK), 0.8


def _type_beyond(after: str) -> Typed | None:
    """By `X is a …`, `X, a Polish city,`, `X, daughter of …`, and `X, Hungary`."""
    if after[:1] == ",":
        return _type_after_comma(after)
    match = _IS_A.match(after) if after[:1].isspace() else None
    typed = head_type(phrase_words(match[1])) if match else None
    return (typed[0], 0.8) if typed else None


def _type_after_comma(after: str) -> Typed | None:
    match = _NEXT_NAME.match(after)
    if match:
        words = name_tokens(match[1])
        if " ".join(words) in LOCATIONS or words[0] in LOCATIONS:
            return LOCATION, 0.65
        return (PERSON, 0.7) if words[0] in TITLES_OF_PERSONS else None
    match = _APPOSITION.match(after)
    typed = head_type(phrase_words(match[1])) if match else None
    return (typed[0], 0.7) if typed and typed[0] else None


def _type_before(before: str) -> Typed | None:
    """By the words in front of the name."""
    bare = before.rstrip()
    if not bare or bare == before:
        return None
    words = [word.lower() for word in _WORD.findall(bare[:-1] if bare[-1] == "." else bare)[-3:]]
    if not words or (bare[-1] in ",;:!?)" or (bare[-1] == "." and len(words[-1]) > 4)):
        return None
    last, front = words[-1], words[-2] if len(words) > 1 else ""
    if last in _WORK_BEFORE:
        kind: Typed | None = (WORK, 0.7)
    else:
        kind = (ORGANIZATION, 0.7) if last in _GROUP_BEFORE else None
    return _surest(_person_before(last, front), _location_before(last, front), kind)


def _person_before(last: str, front: str) -> Typed | None:
    if last in TITLES_OF_PERSONS or last in _PERSON_SIGNS:
        return PERSON, 0.85
    is_linked = last in PERSON_LINKS or (last in ("by", "of", "to") and front in PERSON_LINKS)
    return (PERSON, 0.7) if is_linked or HEADS.get(last) == PERSON else None


def _location_before(last: str, front: str) -> Typed | None:
    if last == "of" and HEADS.get(front) == LOCATION:
        return LOCATION, 0.7
    if last in LOCATIVES or last == "from":
        return LOCATION, 0.75 if front in _LOCATION_LINKS else 0.55 if last != "from" else 0.5
    return (LOCATION, 0.35) if last == "the" and front in LOCATIVES else None
