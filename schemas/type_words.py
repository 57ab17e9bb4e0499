"""Words that show what type of thing a name is: data for types.py, which says how they are used.

Source: algorithms.md 0.8 (F-TYPE), the lists of reader.md, and the commonest heads of `X is a …` in Wikipedia leads.
"""

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
linguist lord lyricist magnate man manager margrave marquess mathematician mayor mayor-elect medalist merchant
minister missionary model monarch monk mother mother-in-law murderer musician musicologist nephew niece noble nobleman
noblewoman novelist nun officer official outlaw owner painter parent partner patriarch peer performer person
personality pharaoh philanthropist philosopher photographer physician physicist pianist pilot pioneer pirate pitcher
planner player playwright poet politician pope prelate premier presenter president priest prince princess principal
producer professor prophet psychiatrist psychologist publisher quarterback queen rapper regent representative
researcher revolutionary rower rugby ruler sailor saint scholar scientist screenwriter sculptor secretary senator
servant sibling singer singer-songwriter sister skater skier socialite sociologist soldier solicitor son songwriter
sorcerer soprano spokesman sportscaster sprinter star statesman stepfather stepmother student sultan surgeon swimmer
teacher tenor theologian theorist trader translator twin uncle violinist viscount vocalist warrior widow wife winner
woman wrestler writer
"""
_ORGANIZATION_HEADS = """
academy administration agency airline airlines alliance army association authority band bank battalion board brand
brigade broadcaster bureau business cabinet chain charity choir church club clubs co coalition college command
commission committee companies company conference confederation congregation conglomerate consortium
cooperative corp corporation council court department diocese division duo empire ensemble enterprise enterprises
factory faculty federation firm force forces foundation franchise fund gang government group guild inc industries
initiative institute institution label laboratory laboratories league legislature library llc ltd manufacturer
maker marines ministry mission movement museum navy network newspaper office operator orchestra order organisation
organization parliament partnership party plc police politburo press publisher railroad railway railways records
regiment registry retailer school schools senate service services society squad squadron startup studio studios
subsidiary symphony syndicate team theatre trio troupe trust union universities university unit workshop
"""
_LOCATION_HEADS = """
airport area archipelago arena avenue barony base basin bay beach birthplace borough boulevard bridge building canal
canton cape capital castle cathedral cave cemetery cities city coast colony commune community continent coral counties
country county creek crossing desert district estate estuary falls farm forest fort fortress garden gardens glacier
gulf hall hamlet harbor harbour headquarters highway hill hills home hometown hospital hotel house hundred inlet
island islands isle isles junction kingdom lagoon lake landmark locality location mall mansion manor metropolis
monastery monument mosque mount mountain mountains municipality nation neighborhood neighbourhood oblast oasis ocean
palace parish park parkway pass peak peninsula place plain plateau plaza port prefecture principality prison province
raion ranch range region republic reserve reservoir resort ridge river road route ruins sea seaport seat settlement
shire shrine site skyscraper square stadium state states station strait street suburb summit temple territories
territory tomb tower town township tributary valley venue village volcano ward waterfall waterway watershed wilderness
woods zoo
"""
_EVENT_HEADS = """
battle bombing campaign ceremony championship championships competition conference congress conquest contest
convention coronation coup crisis crusade cup derby disaster earthquake election elections epidemic event exhibition
expedition fair famine festival fire final finals flood games holocaust hurricane incident invasion massacre match
meeting murder olympics operation pageant pandemic parade plot race raid rally rebellion referendum revolt revolution
riot riots rising season siege storm strike summit super-bowl tour tournament treaty trial uprising war wars
"""
_WORK_HEADS = """
album albums anime anthem ballad ballet biography book books cartoon collection comedy comic comics compilation
composition concerto diaries diary discography documentary drama encyclopedia ep episode epic essay film films game
hymn journal magazine manga manuscript mass memoir miniseries movie musical mystery newspaper novel novella opera
operetta painting play podcast poem programme program publication remake romance sculpture sequel serial series show
sitcom single sonata song songs sonnet soundtrack story symphony telenovela thriller track trilogy video
"""

_PLACES = """
afghanistan|africa|alabama|alaska|albania|alberta|algeria|america|amsterdam|angola|antarctica|argentina|arizona|arkansas
|armenia|asia|athens|australia|austria|azerbaijan|baltimore|bangladesh|barcelona|beijing|belarus|belgium|berlin|bolivia
|bosnia|boston|botswana|brazil|british columbia|brussels|bulgaria|burma|burundi|byzantine empire|cairo|california
|cambodia|cameroon|canada|chad|chicago|chile|china|colombia|colorado|congo|connecticut|copenhagen|croatia|cuba|cyprus
|czech republic|delaware|delhi|denmark|detroit|dublin|ecuador|egypt|england|eritrea|estonia|ethiopia|europe|fiji|finland
|florence|florida|france|gabon|georgia|germany|ghana|greece|guatemala|guyana|haiti|hawaii|hollywood|honduras|hong kong
|houston|hungary|iceland|idaho|illinois|india|indiana|indonesia|iowa|iran|iraq|ireland|israel|istanbul|italy|jamaica
|japan|jerusalem|jordan|kansas|kazakhstan|kentucky|kenya|korea|kosovo|kuwait|laos|latvia|lebanon|libya|lisbon|lithuania
|liverpool|london|los angeles|louisiana|luxembourg|macedonia|madrid|maine|malaysia|mali|malta|manchester|manhattan
|manitoba|maryland|massachusetts|melbourne|mexico|miami|michigan|milan|minnesota|mississippi|missouri|moldova|monaco
|mongolia|montana|montenegro|montreal|morocco|moscow|mozambique|mumbai|munich|myanmar|namibia|naples|nebraska|nepal
|netherlands|nevada|new brunswick|new hampshire|new jersey|new mexico|new south wales|new york|new york city|new zealand
|nicaragua|niger|nigeria|north america|north carolina|north dakota|north korea|northern ireland|norway|nova scotia|ohio
|oklahoma|oman|ontario|oregon|oxford|pakistan|panama|paraguay|paris|pennsylvania|peru|philadelphia|philippines|poland
|portugal|prague|prussia|puerto rico|qatar|quebec|queensland|rhode island|romania|rome|russia|rwanda|san francisco
|saudi arabia|scotland|seattle|senegal|serbia|shanghai|singapore|slovakia|slovenia|somalia|south africa|south america
|south carolina|south dakota|south korea|soviet union|spain|sri lanka|stockholm|sudan|sweden|switzerland|sydney|syria
|taiwan|tanzania|tasmania|tennessee|texas|thailand|tokyo|toronto|tunisia|turkey|uganda|ukraine|united kingdom
|united states|united states of america|uruguay|us|usa|utah|venezuela|venice|vermont|vienna|vietnam|virginia|wales
|warsaw|washington|west virginia|wisconsin|wyoming|yemen|zambia|zimbabwe
"""
PLACES = frozenset(_PLACES.replace("\n", "").split("|"))
"""Keys of places that carry no place word."""

_TITLES_OF_PERSONS = """
actor actress admiral archbishop baron baroness bishop brother captain cardinal chancellor colonel commander composer
congressman count countess dame deacon director doctor dr duchess duke earl emperor empress father general governor
judge justice king lady lieutenant lord madame major marquess mayor minister miss mr mrs ms officer pope premier
president prince princess producer prof professor queen rabbi rapper representative rev reverend saint secretary
senator sergeant sheikh singer sir sultan tsar viscount writer
"""
TITLES_OF_PERSONS = frozenset(_TITLES_OF_PERSONS.split())
"""Words before a person's name, or its first word."""

_PERSON_VERBS = """
acted appeared became born composed coined defeated died directed divorced married painted played resigned retired
sang served starred studied succeeded taught wrote
"""
PERSON_VERBS = frozenset(_PERSON_VERBS.split())
"""Verbs after a person's name (`was born`, `married`)."""

_PERSON_LINKS = """
composed created daughter directed father husband married mother portrayed produced son wife written wrote
"""
PERSON_LINKS = frozenset(_PERSON_LINKS.split())
"""Words before `by`, `of` or a name that make what follows a person."""

LOCATIVES = frozenset(("in", "at", "near"))


def _heads() -> dict[str, str]:
    """Type by head noun; a word in two lists has the type of the later one here."""
    heads: dict[str, str] = {}
    for kind, words in (
        (EVENT, _EVENT_HEADS),
        (WORK, _WORK_HEADS),
        (ORGANIZATION, _ORGANIZATION_HEADS),
        (LOCATION, _LOCATION_HEADS),
        (PERSON, _PERSON_HEADS),
    ):
        heads.update(dict.fromkeys(words.split(), kind))
    return heads


HEADS = _heads()
"""Type by the head noun of a definition or of a title's parenthesis (`is an American film`, `(band)`)."""
