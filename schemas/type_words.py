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

_PLACES = """
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
PLACES = frozenset(_PLACES.replace("\n", "").split("|"))
"""Keys of places that carry no place word."""

_TITLES_OF_PERSONS = """
abbess abbot actor actress admiral archbishop archduchess archduke baron baroness bishop brother caliph captain
cardinal chancellor colonel commander composer congressman count countess dame dauphin deacon director doctor dr
duchess duke earl elector electress emperor empress father general governor infanta infante judge justice king lady
landgrave landgravine lieutenant lord madame major margrave margravine marquess mayor minister miss mr mrs ms officer
pope premier president prince princess producer prof professor queen rabbi rapper representative rev reverend saint
secretary senator sergeant sheikh singer sir sultan tsar viscount writer
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

PLACE_STARTS = frozenset(("cape", "fort", "gulf", "lake", "mount", "port", "rio", "river"))
"""First words of names of places (`Lake Ontario`)."""

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
