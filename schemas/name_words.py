"""Words of names that have no type by themselves, and given names: data for types.py, which says how they are used.

Decided here: all of it, from what is generally known and from the commonest names of wiki2 and musique100; no word was
taken for a name that benchmarks/entity_types.py holds back.
"""

_DEMONYMS = """
afghan african albanian algerian american andalusian angolan arab arabian arabic argentine argentinian armenian asian
assyrian australian austrian azerbaijani aztec babylonian bahraini bangladeshi basque bavarian belarusian belgian
bengali berber bohemian bolivian bosnian brazilian breton british bulgarian burgundian burmese byzantine cambodian
cameroonian canadian cantonese carthaginian castilian catalan caucasian celtic chilean chinese colombian congolese
coptic cornish corsican cossack croatian cuban cypriot czech czechoslovak danish dutch egyptian emirati english
eritrean estonian ethiopian european fijian filipino finnish flemish frankish french frisian gaelic galician genoese
georgian german germanic ghanaian greek guatemalan gujarati haitian hawaiian hellenic hindi hispanic honduran hungarian
icelandic inca indian indonesian iranian iraqi irish israeli italian jamaican japanese jordanian kannada kazakh kenyan
khmer korean kurdish kuwaiti kyrgyz lao latin latino latvian lebanese liberian libyan lithuanian lombard luxembourgish
macedonian malagasy malay malayalam malaysian malian maltese manchu mandarin maori marathi mayan mexican moldovan
mongol mongolian montenegrin moroccan mozambican mughal namibian neapolitan nepalese nepali nicaraguan nigerian norman
norse norwegian occitan ottoman pakistani palestinian panamanian paraguayan parthian pashto persian peruvian phoenician
polish polynesian portuguese prussian punjabi qatari quechua roman romani romanian russian rwandan samoan sanskrit
sardinian saudi saxon scandinavian scots scottish senegalese serb serbian sicilian sinhala sinhalese slavic slovak
slovakian slovene slovenian somali soviet spanish spartan sudanese sumerian swahili swedish swiss syrian tagalog
taiwanese tajik tamil tanzanian tatar telugu thai tibetan tongan tunisian turkic turkish turkmen tuscan ugandan
ukrainian urdu uruguayan uyghur uzbek venetian venezuelan vietnamese viking visigothic welsh yemeni yiddish yoruba
yugoslav zambian zimbabwean zulu americans arabs australians britons canadians europeans germans greeks indians
italians romans russians africans asians serbs slavs turks vikings kurds mongols saxons normans franks jews christians
muslims hindus buddhists catholics protestants
"""
_FAITHS = """
adventist amish anglican anglicanism ashkenazi baptist buddhism buddhist calvinist catholic catholicism christian
christianity confucian evangelical franciscan hindu hinduism islam islamic ismaili jain jesuit jewish judaism lutheran
mennonite methodist mormon muslim orthodox pagan pentecostal presbyterian protestant protestantism puritan quaker
reformed sephardic shia shiite sikh sikhism sufi sufism sunni taoist unitarian zoroastrian
"""
_KINDS = """
antarctic arctic atlantic baroque capitalist classical colonial communism communist confederate conservative democrat
democratic edwardian elizabethan fascist federal gothic imperial impressionist liberal marxist medieval modernist nazi
neoclassical nationalist renaissance republican romantic romanesque socialism socialist tudor victorian
"""
_PARTS_OF_NAMES = """
ad am bc bce ce esq hon jr junior phd pm sr st ii iii iv vi vii viii ix xi xii xiii xiv xv xvi xvii monday tuesday
wednesday thursday friday saturday sunday january february march april may june july august september october november
december spring summer autumn winter christmas easter ramadan north south east west central northern southern eastern
western southeast southwest northeast northwest southeastern southwestern northeastern northwestern upper lower middle
great greater new old inc ltd llc corp co fm tv aka etc mr mrs ms dr
"""
UNTYPED = frozenset((*_DEMONYMS.split(), *_FAITHS.split(), *_KINDS.split(), *_PARTS_OF_NAMES.split()))
"""Demonyms, languages, faiths, schools of thought, months, compass points: a name of such words only has no type."""

_UNTYPED_HEADS = """
acid adjective aircraft alphabet animal architecture award awards beer belief bird breed butterfly card caste cell
chemical class clan code colour color compound computer concept custom dance decade decoration degree dialect diet
diploma disease disorder dish doctrine drink drug dynasty economy ethnicity fabric family fish flag flavor flower food
formation format fruit fungus garment gene generation genre genus gun holiday ideology infection instrument insect
issue language languages law laws literature locomotive mammal measure medal medication method mineral molecule moth
motorcycle nickname noun number numeral occupation oil ornament pattern penalty peoples philosophy phrase phylum piece
playing practice principle prize procedure process product profession pronoun property protein protocol psalm quantity
rank reactor religion rifle ritual rule scale science scholarship sector ship software species sport standard structure
style subfamily subgenus subspecies substance surname symbol symptom syndrome system technique technology term test tax
theorem theory title toponym tradition transformer tree tribe trophy typeface vehicle virus weapon weekday wine word
words year zodiac probe spacecraft vessel boat yacht satellite slab engine tool artefact artifact script scripts
"""
UNTYPED_HEADS = frozenset(_UNTYPED_HEADS.split())
"""Head nouns of what has none of the five types (`is a Bantu language`, `Academy Award`)."""

_GIVEN_NAMES = """
aaron abdul abdullah abigail abraham ada adam adolf adrian agnes ahmad ahmed alan albert alec alejandro aleksandr alex
alexander alexandra alexandre alexei alexis alfonso alfred ali alice allan allen alphonse amanda ambrose amelia amy ana
anastasia anders andre andrea andreas andrei andrew angela angelo ann anna anne annie anthony antoine anton antonia
antonio archibald ariel armand arnold art arthur ashley astrid audrey august augusta augustus barbara barry beatrice
ben benedict benjamin bernard bernhard bert bertha bertrand beth betty beverly bill billy blanche bob bobby boris brad
brandon brenda brendan brian bridget bruce bruno bryan calvin cameron camille carl carla carlo carlos carmen carol
carole caroline casimir catherine cecil cecilia cedric chad charles charlie charlotte chloe chris christian christina
christine christoph christopher claire clara clarence claude claudia claudio clifford clint colin connie conrad
constance craig cristina curtis cynthia cyril daisy dale dan daniel daniela danny dave david dean deborah deepak della
denis dennis derek diana diane dick diego dieter dimitri dmitri dominic dominique don donald donna dora doris dorothea
dorothy doug douglas duncan dustin dwight earl ed eddie edgar edith edmund eduard eduardo edward edwin eileen elaine
eleanor elena eliza elizabeth ella ellen elliott elsa elsie emil emilio emily emma enrico enrique eric erica erich erik
ernest ernst erwin esther ethel eugene eugenia eva evan eve evelyn federico felix ferdinand fernando fiona florence
frances francesca francesco francis francisco franco francois frank franklin franz fred freddie frederic frederick
frederik friedrich fritz gabriel gareth gary gavin gene geoffrey george georg georges georgina gerald gerard gerhard
gertrude giacomo gilbert giovanni giulia giuliano giulio giuseppe gladys glen glenn gloria gordon grace graham greg
gregory gretchen guido guillaume gunther gustav guy hans harold harriet harry hasan hassan heather hector heinrich
heinz helen helena helene henri henrietta henrik henry herbert herman hermann hilda hiroshi holly horace howard hubert
hugh hugo hussein ian ibrahim ida ignacio igor ilya ingrid irene iris irina isaac isabel isabella isabelle ivan jack
jackie jacob jacqueline jacques jaime james jamie jan jane janet janice jason javier jay jean jeanne jeff jeffrey
jennifer jenny jeremy jerome jerry jesse jessica jessie jill jim jimmy joachim joan joanna joe joel johan johann
johannes john johnny jon jonathan jorge jose josef joseph josephine joshua joyce juan juana judith judy julia julian
julie juliet julio julius june karen karin karl kate katherine kathleen kathryn kathy katie keith kelly ken kenneth
kenny kevin khalid kim kirk kitty klaus kristen kurt larry laura lauren laurence lawrence lee leo leon leonard leonardo
leonid leopold leroy leslie lewis lila lillian linda lionel lisa liz lloyd lois lorenzo louis louisa louise luc lucia
lucien lucy ludwig luigi luis luisa luke lydia lynn mabel madeleine maggie malcolm manuel marc marcel marcello marco
marcus margaret margarita margery maria marian marianne marie marilyn mario marion marjorie mark marlene marta martha
martin marvin mary mathilde matilda matt matthew matthias maud maureen maurice max maximilian maxwell megan mehmed
melanie melissa melvin mercedes michael michel michelle miguel mike mikhail mildred miles milton miriam mitchell
mohamed mohammad mohammed molly monica morgan morris moses muhammad muriel murad mustafa myra nadia nancy naomi natalia
natalie natasha nathan nathaniel neil nelson nicholas nick nicola nicolas nicole nigel nikolai nina noel nora norma
norman octavia olaf olga oliver olivia omar oscar osman otto pablo pamela paola paolo pat patricia patrick patsy paul
paula pauline pearl pedro peggy penelope percy perry pete peter petr petra phil philip philipp philippa philippe
phillip phyllis pierre pietro priscilla rachel rafael ralph ramon randall randolph randy raoul raphael raul ray raymond
rebecca reginald rene renee rex ricardo richard rick rita rob robert roberta roberto robin rodney rodrigo roger roland
rolf ron ronald rosa rosalind rose rosemary ross roy ruby rudolf rudolph rupert russell ruth ryan sabrina sally
salvatore sam samantha samuel sandra sandy santiago sara sarah saul scott sean sebastian serena serge sergei sergio
seth sharon shaun sheila shirley sidney sigismund sigmund silvia simon simone sofia sonia sophia sophie spike stan
stanislaus stanislaw stanley stefan stella stephan stephanie stephen steve steven stewart stuart sue susan susanna
suzanne sven sybil sylvia tatiana ted teresa terence terry thelma theo theodor theodora theodore theresa thomas tim
timothy tina toby todd tom tommy tony tracy trevor tyler ulrich umberto ursula valentin valerie vanessa vera vernon
veronica victor vikram vincent vincenzo viola violet virgil vivian vivien vladimir walter wanda warren wayne wendy
werner wilfred wilhelm wilhelmina will william willie willy winifred winston wladyslaw wolfgang xavier yang yolanda
yuri yusuf yves yvonne zachary zhang zoe
"""
GIVEN_NAMES = frozenset(_GIVEN_NAMES.split())
"""Given names that are rarely anything else."""

_PARTICLES = "abd abu al ben bin bint da de del della den der di dos du ibn ten ter van von"
NAME_PARTICLES = frozenset(_PARTICLES.split())
"""Lower-case words inside names of persons."""

_COMMON = """
about above after again against alone always american angel another anything apart around away back bad bear beast
beauty before begin behind best better big black blood blue body boy bride broken brother bubble call came can captain
case child children christmas city cold come comes complete crazy cross cry damned dance dangerous dark daughter day
days dead dear death devil devils diamond die dirty doctor dog dollar don door down dream dreams early easy eight end
enemy ever every evil eye eyes face faith fall false fast fate father fear fifth final fire first five flesh flight
follow fool forever forget four fourth free friend from full general ghost gift girl girls give glass go gods gold
golden gone good great green ground gun half hand hands happy hard have hearts heart heaven hell here hero high his
hold holy honor hot hour how hundred i if in innocent into iron is it its just keep kill killer killing kind kings kiss
lady land last late law leading left legend let life light like lion little live lives long looking lost love lovers
low mad make man many mask master matter me memory men midnight million mind miracle mine miss modern money monster
month moon more morning most mother murder my naked national never new next nice night nights nine no nobody not
nothing now of off oh old on once one only open or original other our out over own paradise part party past path peace
people perfect pilot place pleasure poor power prince princess private promised public purple question red return rich
right ring rising road rock romance room royal run running sacred sad same sea second secret see seven sex shadow she
short show silent silver sin sing single sister six sky small so some someone something soul souls special spirit star
stars state stop story strange stranger street strong summer sun supporting sweet ten that the their then these they
things third thirteen this those thousand three time times to today together tomorrow tonight too total touch town
tragedy true truth twelve twenty two under united until up upon us vice victory wait wake wall want war was way we
wedding what wheel when where white who why wide wife wild will wind winter wisdom with without wolf woman women wonder
word words world would year years yes yesterday yet you young your later baseball basketball cricket football hockey
rugby tennis music television although despite during there also several both each others
"""
COMMON_WORDS = frozenset(_COMMON.split())
"""Common words: a name of two or three words with one of them is not taken for a person's without another cue."""

_HEADERS = """
abstract address amount appendix author cc chapter comment comments conclusion contact contents customer date department
description editor email fax figure from id index introduction invoice item name note notes order owner page phone price
quantity reference references remark remarks section signature status subject summary supplier table to total type unit
version
"""
GENERIC_WORDS = COMMON_WORDS | UNTYPED_HEADS | frozenset(_HEADERS.split())
"""Words that are no name of a person when they stand alone with a capital: common ones, headers of tables and forms."""
