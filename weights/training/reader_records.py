"""Questions over invented tables, key-value lines and facts of companies, generated from word lists of their own.

Tables are rendered as the product renders those of documents (`table_groups`). Every name is invented here.
"""

import random
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from polyhop.warehouse.documents.tables import table_groups
from reader_text import Span, TrainingPassage, TrainingQuestion, holds_any

TABLES, COMPANY = "tables", "company"


class Column(NamedTuple):
    """A column of invented tables: names of it, a value, and questions for it ({x} = the row)."""

    names: tuple[str, ...]
    value: Callable[[random.Random], str]
    questions: tuple[str, ...]


class TableKind(NamedTuple):
    """A kind of table: names of its first column, what the rows are called, its other columns and titles."""

    heads: tuple[str, ...]
    item: Callable[[random.Random], str]
    nouns: tuple[str, ...]
    columns: tuple[Column, ...]
    titles: tuple[str, ...]


_FIRST = (
    "Alva Benno Carina Dorit Edwin Fenja Gregor Hanne Imre Jorid Kasimir Leonie Matti Nadia Orla Petra Quirin Rosalind "
    "Sander Tamsin Ulla Viggo Wanda Xenia Yannick Zelda Aidan Birgit Cormac Delia Emil Farah Gwen Hugo Ines Joris Karim "
    "Lotte Milan Nuria Oskar Pia Ravi Selma Tobias Una Vera Wim Yara Anouk"
).split()
_LAST = (
    "Ashgrove Bergqvist Calloway Dahlmann Eriksen Farrow Grantham Hollis Ivarsson Jansky Kessel Lindgren Marchetti Novotny "
    "Okafor Pemberton Quayle Rasmussen Sandoval Thackeray Umarov Vasquez Whitlock Yamane Zeller Abara Brandt Castellan "
    "Devereux Ekström Fontaine Gupta Haverford Iwasaki Jovanovic Kowal Lachlan Mbeki Nakata Oyelaran Pastor Rowntree "
    "Szabo Tremaine Ueda Voss Wetherby Yildiz Zubair Kirwan"
).split()
_PROJECTS = (
    "Alder Basalt Cobalt Dune Ember Fjord Granite Heron Indigo Juniper Kestrel Lantern Merlin Nimbus Obsidian Pelican "
    "Quartz Rowan Sorrel Tundra Umber Violet Willow Yarrow Zephyr Amber Birch Cedar Drift Estuary Falcon Glacier Harrier "
    "Isthmus Jasper Krill Lichen Marlin Nettle Onyx Poppy Raven Sable Thistle Vesper Wren Cypress Delta Flint Gannet"
).split()
_FIRM_HEADS = (
    "Norvik Tessel Brightwater Cordane Halvorn Ostrava Pellworm Quillan Ramsel Sundby Tarvos Ulmen Verity Wexford Zandvoort "
    "Arkwell Belmira Castor Dunmore Elbridge Fairholm Gildan Hexham Ilmar Jarvik Kelmore Lofoten Marwick Northgate Orion"
).split()
_FIRM_TAILS = ("AG", "Ltd", "GmbH", "Systems", "Industries", "Foods", "Logistics", "Works", "Steel", "Chemicals", "& Sons", "Group", "Plastics")
_TOWNS = (
    "Arnfeld Brackwell Corvane Dunholt Eastmere Felsing Gorham Hartlow Ingleby Kelstad Lorrach Mornington Nordhavn Oldbury "
    "Penrose Quedlin Ravensburg Stokeley Tarnow Ulverton Vikesund Westerhope Yelverton Zellbach"
).split()
_PARTS = (
    "gaskets", "bearings", "valve seats", "glass bottles", "steel coils", "cardboard boxes", "sensors", "cable drums",
    "filter cartridges", "paint", "solvents", "lids", "labels", "circuit boards", "pallets", "flour", "sugar", "hops",
    "compressors", "batteries", "ball joints", "ceramic tiles", "zinc sheets", "control panels", "forklifts", "yeast",
)  # fmt: skip
_TOOLS = ("PostgreSQL", "SAP", "Jira", "Kafka", "Odoo", "Grafana", "Salesforce", "Redmine", "Oracle", "Airflow", "Tableau", "Zendesk")
_MONTHS = "January February March April May June July August September October November December".split()


def _person(rng: random.Random) -> str:
    return f"{rng.choice(('', '', '', '', 'Dr. '))}{rng.choice(_FIRST)} {rng.choice(_LAST)}"


def _firm(rng: random.Random) -> str:
    return f"{rng.choice(_FIRM_HEADS)} {rng.choice(_FIRM_TAILS)}"


def _project(rng: random.Random) -> str:
    return rng.choice(_PROJECTS)


def _town(rng: random.Random) -> str:
    return rng.choice(_TOWNS)


def _number(low: int, high: int, step: int = 1) -> Callable[[random.Random], str]:
    return lambda rng: f"{rng.randrange(low, high, step):,}"


def _unit(low: float, high: float, unit: str, digits: int = 0) -> Callable[[random.Random], str]:
    return lambda rng: f"{rng.uniform(low, high):,.{digits}f} {unit}"


def _money(rng: random.Random) -> str:
    amount = rng.randrange(200, 900_000, 50)
    return rng.choice((f"€{amount:,}", f"${amount:,}", f"{amount:,} euros", f"EUR {amount:,}", f"£{amount:,}"))


def _date(rng: random.Random) -> str:
    day, month, year = rng.randint(1, 28), rng.randrange(12), rng.randint(1994, 2029)
    return rng.choice(
        (f"{day} {_MONTHS[month]} {year}", f"{_MONTHS[month]} {day}, {year}", f"{year}-{month + 1:02}-{day:02}", f"{_MONTHS[month]} {year}")
    )


def _code(*letters: str) -> Callable[[random.Random], str]:
    return lambda rng: f"{rng.choice(letters)}-{rng.randint(10, 990)}"


def _choice(*values: str) -> Callable[[random.Random], str]:
    return lambda rng: rng.choice(values)


_WEIGHT = Column(("Weight", "Mass", "Weight kg"), _unit(2, 4000, "kg"), ("How much does {x} weigh?", "What is the weight of {x}?", "How heavy is {x}?"))
_PRICE = Column(("Price", "Unit price", "Cost"), _money, ("What does {x} cost?", "How much is {x}?", "What is the price of {x}?"))
_PLACE = Column(("Location", "Site", "Town"), _town, ("Where is {x}?", "Where is {x} located?", "At which site is {x}?"))
_SUPPLIER = Column(("Supplier", "Vendor", "Manufacturer"), _firm, ("Who supplies {x}?", "Which company makes {x}?", "Who is the supplier of {x}?"))
_DUE = Column(("Due", "Deadline", "Due date"), _date, ("When is {x} due?", "What is the deadline of {x}?", "By when must {x} be done?"))
_OWNER = Column(("Owner", "Responsible", "Contact"), _person, ("Who is responsible for {x}?", "Who owns {x}?", "Who is the contact for {x}?"))
_STATUS = Column(("Status", "State"), _choice("open", "closed", "on hold", "approved", "in repair", "in service", "rejected"), ("What is the status of {x}?", "In what state is {x}?"))
_KINDS_OF_TABLES = (
    TableKind(("Pump", "Tag", "Unit"), _code("P", "PU", "KP"), ("pump {x}", "{x}"), (
        _WEIGHT, _PLACE, _SUPPLIER, _STATUS,
        Column(("Head", "Max. head"), _unit(8, 140, "m"), ("What is the head of {x}?", "What head does {x} reach?")),
        Column(("Flow", "Flow rate", "Capacity"), _unit(3, 900, "m³/h"), ("What is the flow rate of {x}?", "How much does {x} deliver?", "What is the capacity of {x}?")),
        Column(("Power", "Motor power"), _unit(1, 400, "kW", 1), ("What is the power of {x}?", "How much power does {x} need?", "How strong is the motor of {x}?")),
        Column(("Last service", "Serviced"), _date, ("When was {x} last serviced?", "When was the last service of {x}?")),
    ), ("Pump schedule", "Equipment list", "Plant equipment", "")),
    TableKind(("Name", "Employee", "Person"), _person, ("{x}",), (
        Column(("Role", "Position", "Title"), _choice("buyer", "head of quality", "plant manager", "accountant", "safety officer", "chief engineer", "driver", "data analyst", "sales lead"), ("What is the role of {x}?", "What does {x} do?", "What position does {x} hold?")),
        Column(("Office", "Room"), _code("A", "B", "C"), ("In which room is {x}?", "Where does {x} sit?", "What is the office of {x}?")),
        Column(("Phone", "Extension", "Ext."), _number(1000, 9999), ("What is the phone number of {x}?", "What is {x}'s extension?", "How can I reach {x} by phone?")),
        Column(("Department", "Team"), _choice("Logistics", "Finance", "Procurement", "Research", "Maintenance", "Legal", "Marketing"), ("Which department is {x} in?", "Where does {x} work?", "What team does {x} belong to?")),
        Column(("Manager", "Reports to"), _person, ("Who is {x}'s manager?", "Who does {x} report to?", "Who is the boss of {x}?")),
        Column(("Start", "Joined", "Since"), _date, ("When did {x} join?", "Since when has {x} been with the company?", "When did {x} start?")),
    ), ("Staff directory", "Phone list", "Contacts", "Team overview", "")),
    TableKind(("Invoice", "Order", "PO"), _code("INV", "PO", "RE"), ("invoice {x}", "order {x}", "{x}"), (
        Column(("Amount", "Total", "Sum"), _money, ("What is the amount of {x}?", "How much is {x}?", "What is the total of {x}?")),
        Column(("Customer", "Client"), _firm, ("Which customer is {x} for?", "Who gets {x}?", "Who is the customer of {x}?")),
        _DUE, _STATUS, Column(("Issued", "Date"), _date, ("When was {x} issued?", "What is the date of {x}?")),
    ), ("Open invoices", "Orders", "Accounts receivable", "")),
    TableKind(("Product", "Article", "Item"), lambda rng: f"{rng.choice(_PROJECTS)} {rng.choice(('lamp', 'kettle', 'drill', 'chair', 'filter', 'pump', 'desk', 'cable', 'valve', 'pot'))}", ("the {x}", "{x}"), (
        _PRICE, _WEIGHT, _SUPPLIER,
        Column(("Stock", "In stock", "Quantity"), _number(0, 4000), ("How many {x}s are in stock?", "What is the stock of {x}?", "How many units of {x} are there?")),
        Column(("Warranty", "Guarantee"), _choice("6 months", "1 year", "2 years", "3 years", "5 years", "24 months"), ("How long is the warranty of {x}?", "What warranty does {x} have?")),
        Column(("Colour", "Color"), _choice("red", "navy blue", "anthracite", "white", "olive", "black"), ("What colour is {x}?", "What is the color of {x}?")),
        Column(("Height", "Length", "Width"), _unit(4, 240, "cm"), ("How large is {x}?", "What are the dimensions of {x}?")),
    ), ("Price list", "Catalogue", "Product data", "Inventory", "")),
    TableKind(("Project", "Programme"), _project, ("project {x}", "the {x} project", "{x}"), (
        _OWNER, _DUE, _STATUS, Column(("Budget", "Funds"), _money, ("What is the budget of {x}?", "How much money does {x} have?")),
        Column(("Lead", "Project lead", "Leader"), _person, ("Who leads {x}?", "Who is in charge of {x}?", "Who heads {x}?")),
        Column(("Client", "Customer"), _firm, ("Who is the client of {x}?", "For which customer is {x}?")),
        Column(("Start", "Kick-off"), _date, ("When did {x} start?", "When does {x} begin?")),
    ), ("Project portfolio", "Projects", "Status report", "")),
    TableKind(("Sample", "Specimen", "Batch"), _code("S", "LOT", "B"), ("sample {x}", "batch {x}", "{x}"), (
        Column(("pH",), lambda rng: f"{rng.uniform(2, 11):.1f}", ("What is the pH of {x}?", "How acidic is {x}?")),
        Column(("Temperature", "Temp."), _unit(-20, 190, "°C", 1), ("At what temperature was {x} measured?", "What is the temperature of {x}?", "How hot is {x}?")),
        Column(("Viscosity",), _unit(1, 900, "mPa·s"), ("What is the viscosity of {x}?", "How viscous is {x}?")),
        Column(("Analyst", "Tested by"), _person, ("Who tested {x}?", "Who analysed {x}?", "Who was the analyst of {x}?")),
        Column(("Result", "Verdict"), _choice("pass", "fail", "retest", "released", "blocked"), ("What was the result of {x}?", "What is the verdict on {x}?")),
    ), ("Laboratory results", "Quality log", "Measurements", "")),
    TableKind(("Country", "Region", "Branch"), _town, ("{x}", "the {x} branch"), (
        Column(("Sales", "Revenue", "Turnover"), _money, ("What were the sales in {x}?", "What is the revenue of {x}?", "How much did {x} sell?")),
        Column(("Employees", "Headcount", "Staff"), _number(4, 2400), ("How many employees does {x} have?", "How many people work in {x}?", "What is the headcount of {x}?")),
        Column(("Manager", "Head", "Director"), _person, ("Who runs {x}?", "Who is the manager of {x}?", "Who is the head of {x}?")),
        Column(("Opened", "Founded"), _date, ("When was {x} opened?", "When did {x} open?")),
        Column(("Area", "Floor space"), _unit(100, 9000, "m²"), ("How large is {x}?", "What is the floor space of {x}?")),
    ), ("Branches", "Sales by branch", "Sites", "")),
)  # fmt: skip


def table_questions(count: int, seed: int) -> list[TrainingQuestion]:
    """Questions over invented tables and key-value lines; negatives are other rows, tables and lists."""
    rng = random.Random(seed)
    questions: list[TrainingQuestion] = []
    seen: set[str] = set()
    while len(questions) < count:
        kind = rng.choice(_KINDS_OF_TABLES)
        columns = rng.sample(kind.columns, rng.randint(2, min(5, len(kind.columns))))
        items = list(dict.fromkeys(kind.item(rng) for _ in range(rng.randint(4, 14))))
        names = [rng.choice(kind.heads), *(rng.choice(column.names) for column in columns)]
        rows = [[item, *(column.value(rng) for column in columns)] for item in items]
        title = rng.choice(kind.titles)
        passages = _rendered(names, rows, title, rng)
        other_kind = rng.choice(_KINDS_OF_TABLES)
        others = [[other_kind.item(rng), *(column.value(rng) for column in other_kind.columns)] for _ in range(4)]
        other_names = [rng.choice(other_kind.heads), *(column.names[0] for column in other_kind.columns)]
        foreign = _rendered(other_names, others, rng.choice(other_kind.titles), rng)
        for row in rng.sample(range(len(rows)), min(3, len(rows))):
            number = rng.randrange(len(columns))
            item, answer = rows[row][0], rows[row][number + 1]
            noun = rng.choice(kind.nouns).format(x=item)
            text = rng.choice(columns[number].questions).format(x=noun)
            marked = [_marked(passage, item, names[0], names[number + 1], answer) for passage in passages]
            gold = [passage for passage in marked if passage.spans]
            rest = [p for p in marked if not p.spans and not holds_any(p.text, (answer,))]
            rest += [p for p in foreign if not holds_any(p.text, (answer, item))]
            if not gold or text in seen or sum(r[number + 1] == answer for r in rows) > 1:
                continue
            seen.add(text)
            questions.append(TrainingQuestion(text[0].upper() + text[1:], (answer,), TABLES, tuple(gold), tuple(rest)))
    return questions[:count]


def _rendered(names: Sequence[str], rows: Sequence[Sequence[str]], title: str, rng: random.Random) -> list[TrainingPassage]:
    """A table in passages of a few rows, or its rows as key-value lines or sentences."""
    style = rng.random()
    if style < 0.5:
        texts = [text for text, _ in table_groups([names, *rows], rng.choice((250, 400, 600)))]
    elif style < 0.75:  # `Pump P-102: weight 1,840 kg, head 40 m.`
        colon = rng.choice((" ", ": "))
        texts = [
            f"{names[0]} {row[0]}: " + ", ".join(f"{name.lower()}{colon}{cell}" for name, cell in zip(names[1:], row[1:], strict=True)) + "."
            for row in rows
        ]
        size = rng.randint(1, 4)
        texts = [rng.choice((" ", "\n")).join(texts[at : at + size]) for at in range(0, len(texts), size)]
    elif style < 0.9:  # one card of lines for each row
        texts = ["\n".join(f"{name}: {cell}" for name, cell in zip(names, row, strict=True)) for row in rows]
    else:
        texts = ["; ".join(f"{name}: {cell}" for name, cell in zip(names, row, strict=True)) + "." for row in rows]
    return [TrainingPassage(title, text) for text in texts]


def _marked(passage: TrainingPassage, item: str, head: str, column: str, answer: str) -> TrainingPassage:
    """The passage with the answer marked in the lines and sentences of one row."""
    text, spans = passage.text, list[Span]()
    is_card = _is_card(text, item)
    starts = [0, *(match.end() for match in re.finditer(rf"\n|\. (?={re.escape(head)} )", text))]
    value = re.compile(rf"(?<![\w,.-]){re.escape(answer)}(?!\w|[,.-]\w)")
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        line = text[start:end]
        named = re.search(rf"(?<!\w){re.escape(item)}(?!\w)", line)
        if named is None and not (is_card and line.startswith(f"{column}: ")):
            continue
        found = value.search(line, named.end() if named else 0)
        if found:
            spans.append((start + found.start(), start + found.end()))
    return TrainingPassage(passage.title, text, tuple(spans))


def _is_card(text: str, item: str) -> bool:
    """Returns whether a text is the card of one item: `Name: value` on each line, the item on the first."""
    lines = text.split("\n")
    return lines[0].endswith(f": {item}") and all(": " in line for line in lines)


class CompanyFact(NamedTuple):
    """A fact of a company's documents: statements and questions with {x} the subject and {y} the answer."""

    subject: Callable[[random.Random], str]
    answer: Callable[[random.Random], str]
    statements: tuple[str, ...]
    questions: tuple[str, ...]



def _supply(rng: random.Random) -> str:
    return f"{rng.choice(_PARTS)} for the {rng.choice(_TOWNS)} plant"


_COMPANY_FACTS = (
    CompanyFact(_project, _person,
        ("The {x} project is led by {y}.", "{y} leads the {x} project.", "{y} is head of project {x}.", "Project {x} is headed by {y}.", "{y} manages {x}, our new line.", "Responsibility for {x} lies with {y}.", "{y} has been in charge of the {x} project since spring."),
        ("Who leads the {x} project?", "Who is in charge of {x}?", "Who manages project {x}?", "Who heads {x}?", "Who is the project manager of {x}?", "Who runs the {x} project?")),
    CompanyFact(_supply, _firm,
        ("{y} supplies the {x}.", "The {x} are delivered by {y}.", "We buy the {x} from {y}.", "{y} has been providing the {x} since last year.", "The {x} come from {y}.", "Supplier of the {x} is {y}."),
        ("Which company supplies the {x}?", "Who delivers the {x}?", "Who provides the {x}?", "From whom do we buy the {x}?", "Where do the {x} come from?", "Who is the supplier of the {x}?")),
    CompanyFact(_project, _money,
        ("The budget of {x} is {y}.", "{x} has a budget of {y}.", "The board approved {y} for the {x} project.", "{y} were set aside for {x}.", "Project {x} costs {y} in all."),
        ("What is the budget of {x}?", "How much money was approved for {x}?", "How much does project {x} cost?", "How expensive is {x}?")),
    CompanyFact(_project, _date,
        ("{x} goes live on {y}.", "The {x} project must be finished by {y}.", "The deadline of {x} is {y}.", "Delivery of {x} is planned for {y}.", "{x} will be launched on {y}."),
        ("When does {x} go live?", "When is the deadline of {x}?", "When is {x} due?", "By when must {x} be finished?", "When will {x} be launched?")),
    CompanyFact(_firm, _town,
        ("{x} is based in {y}.", "{x} has its headquarters in {y}.", "The head office of {x} is in {y}.", "{x}, of {y}, employs some 300 people.", "{x} moved its seat to {y}."),
        ("Where is {x} based?", "Where are the headquarters of {x}?", "In which town is {x}?", "Where does {x} have its seat?")),
    CompanyFact(_firm, _person,
        ("The chief executive of {x} is {y}.", "{y} is managing director of {x}.", "{x} is run by {y}.", "{y}, who runs {x}, signed the contract.", "Since January {y} has been the head of {x}."),
        ("Who runs {x}?", "Who is the CEO of {x}?", "Who is the managing director of {x}?", "Who heads {x}?", "Who is the boss of {x}?")),
    CompanyFact(_firm, _firm,
        ("{x} was acquired by {y}.", "{y} bought {x}.", "{x} belongs to {y}.", "{x} is a subsidiary of {y}.", "{y} owns {x}."),
        ("Who owns {x}?", "Which company bought {x}?", "To which company does {x} belong?", "Who took over {x}?", "What is the parent company of {x}?")),
    CompanyFact(lambda rng: f"the {rng.choice(_TOWNS)} {rng.choice(('plant', 'warehouse', 'depot', 'office', 'laboratory'))}", _person,
        ("{y} is manager of {x}.", "{y} runs {x}.", "The person responsible for safety at {x} is {y}.", "At {x}, {y} is in command.", "The head of {x} is {y}."),
        ("Who runs {x}?", "Who is in charge of {x}?", "Who is the manager of {x}?", "Who is responsible for {x}?")),
    CompanyFact(lambda rng: f"the {rng.choice(_TOWNS)} {rng.choice(('plant', 'warehouse', 'depot', 'office', 'laboratory'))}", _choice("gaskets", "frozen pizza", "electric motors", "beer", "brake discs", "washing powder", "window frames", "garden tools", "insulin", "toothpaste"),
        ("In {x} we make {y}.", "Production of {y} takes place at {x}.", "{y} are made at {x}.", "The main product of {x} is {y}."),
        ("What is made at {x}?", "What does {x} produce?", "What is the main product of {x}?")),
    CompanyFact(lambda rng: f"the {rng.choice(('payroll', 'invoicing', 'ticket', 'shipping', 'recruiting', 'reporting', 'archive', 'planning'))} system", _choice(*_TOOLS),
        ("{x} runs on {y}.", "{x} is built with {y}.", "For {x} we use {y}.", "{y} is behind {x}.", "{x} was moved to {y}."),
        ("What does {x} run on?", "Which software is used for {x}?", "What is {x} built with?", "Which product is behind {x}?")),
    CompanyFact(_person, _choice("head of quality", "data protection officer", "works council chair", "chief financial officer", "night shift supervisor", "fire warden", "union representative", "export manager"),
        ("{x} is our {y}.", "{x} works as {y}.", "{x} was appointed {y}.", "As {y}, {x} signs every report.", "The post of {y} is held by {x}."),
        ("What is the role of {x}?", "What does {x} do?", "What post does {x} hold?", "What is {x}'s job?")),
    CompanyFact(_person, _person,
        ("{x} reports to {y}.", "{y} is the manager of {x}.", "{y} stands in for {x} during leave.", "The deputy of {x} is {y}."),
        ("Who does {x} report to?", "Who is the manager of {x}?", "Who stands in for {x}?", "Who is the deputy of {x}?")),
    CompanyFact(lambda rng: f"machine {rng.choice('ABCDKM')}{rng.randint(10, 99)}", _unit(20, 260, "°C"),
        ("{x} must not be run above {y}.", "The maximum temperature of {x} is {y}.", "{x} stops by itself at {y}.", "{x} tolerates up to {y}."),
        ("What is the maximum temperature of {x}?", "How hot may {x} get?", "At what temperature does {x} stop?")),
    CompanyFact(lambda rng: f"machine {rng.choice('ABCDKM')}{rng.randint(10, 99)}", _choice("every 200 hours", "every two weeks", "once a month", "every 1,500 hours", "twice a year", "each Friday"),
        ("{x} is serviced {y}.", "The oil of {x} is changed {y}.", "{x} needs maintenance {y}.", "Inspections of {x} take place {y}."),
        ("How often is {x} serviced?", "How often does {x} need maintenance?", "What is the service interval of {x}?")),
    CompanyFact(lambda rng: f"contract {rng.choice(('K', 'C', 'V'))}-{rng.randint(100, 999)}", _date,
        ("{x} ends on {y}.", "{x} expires on {y}.", "{x} runs until {y}.", "The term of {x} ends {y}."),
        ("When does {x} end?", "When does {x} expire?", "Until when does {x} run?")),
    CompanyFact(lambda rng: f"contract {rng.choice(('K', 'C', 'V'))}-{rng.randint(100, 999)}", _firm,
        ("{x} was signed with {y}.", "{x} is an agreement with {y}.", "The other party of {x} is {y}.", "We closed {x} with {y}."),
        ("With whom was {x} signed?", "Who is the other party of {x}?", "Which company is {x} with?")),
)  # fmt: skip
_MATCHING = {  # statements and questions that belong together: the deputy is not the manager
    "{x} reports to {y}.": (0, 1), "{y} is the manager of {x}.": (0, 1), "{y} stands in for {x} during leave.": (2, 3),
    "The deputy of {x} is {y}.": (2, 3), "The person responsible for safety at {x} is {y}.": (3,),
}  # fmt: skip
_FILLERS = (
    "The meeting took place on Tuesday.", "Minutes go to all participants.", "The next review is in the autumn.",
    "Please send corrections to the office.", "All prices are without tax.", "This page replaces the version of last year.",
    "Questions go to the help desk.", "The canteen is closed on Fridays.", "Visitors sign in at the gate.",
    "The figures are preliminary.", "Details are in the annex.", "Parking is behind the main building.",
)  # fmt: skip
_DOCUMENTS = (
    "Minutes of the weekly meeting", "Project handbook", "Supplier notes", "Quarterly report", "Memo", "Newsletter",
    "Plant handbook", "Maintenance notes", "Who does what", "Contracts overview", "Annual report", "",
)  # fmt: skip


def company_questions(count: int, seed: int) -> list[TrainingQuestion]:
    """Questions over one-sentence facts of invented companies, with rivals of the same kind around the answer."""
    rng = random.Random(seed)
    questions: list[TrainingQuestion] = []
    seen: set[str] = set()
    while len(questions) < count:
        fact = rng.choice(_COMPANY_FACTS)
        subjects = list(dict.fromkeys(fact.subject(rng) for _ in range(8)))
        pairs = [(subject, fact.answer(rng)) for subject in subjects]
        answers = [answer for _, answer in pairs]
        if len(set(answers)) < 3 or len(pairs) < 4:
            continue
        subject, answer = pairs[0]
        number = rng.randrange(len(fact.statements))
        statement = fact.statements[number]
        choices = _MATCHING.get(statement, range(len(fact.questions)))
        text = fact.questions[rng.choice(list(choices))].format(x=subject)
        text = text[0].upper() + text[1:]
        sentence = _sentence(statement, subject, answer)
        if text in seen or sentence.count(answer) != 1 or holds_any(text, (answer,)):
            continue
        seen.add(text)
        rivals = [
            _sentence(statement if rng.random() < 0.6 else rng.choice(fact.statements), *pair)
            for pair in pairs[1:]
            if pair[1] != answer
        ]
        about = [_other_fact(fact, subject, rng) for _ in range(3)]
        gold = _document([sentence, *rivals[:rng.choice((0, 1, 1, 2))], *about[:1]], rng)
        start = gold.text.find(sentence)
        at = start + sentence.find(answer)
        gold = TrainingPassage(gold.title, gold.text, ((at, at + len(answer)),))
        negatives = [
            _document(rivals[2:4] + about[1:2], rng), _document(rivals[4:6], rng),
            _document(about[2:] + [_other_fact(fact, "", rng)], rng), _document(rivals[-1:], rng),
        ]  # fmt: skip
        clean = tuple(p for p in negatives if p.text and not holds_any(f"{p.title} {p.text}", (answer,)))
        if len(clean) >= 2 and gold.text.count(answer) == 1:
            questions.append(TrainingQuestion(text, (answer,), COMPANY, (gold,), clean))
    return questions


def _sentence(statement: str, subject: str, answer: str) -> str:
    sentence = statement.format(x=subject, y=answer)
    return sentence[0].upper() + sentence[1:]


def _other_fact(fact: CompanyFact, subject: str, rng: random.Random) -> str:
    """A statement of another relation: of the same subject, if there is one of its kind, else of anything."""
    others = [other for other in _COMPANY_FACTS if other is not fact and (not subject or other.subject is fact.subject)]
    other = rng.choice(others or [one for one in _COMPANY_FACTS if one is not fact])
    own = subject if subject and other.subject is fact.subject else other.subject(rng)
    return _sentence(rng.choice(other.statements), own, other.answer(rng))


def _document(sentences: Sequence[str], rng: random.Random) -> TrainingPassage:
    """A passage of the sentences in random order, among some that say nothing."""
    mixed = [*sentences, *rng.sample(_FILLERS, rng.randint(0, 2))] if sentences else []
    rng.shuffle(mixed)
    return TrainingPassage(rng.choice(_DOCUMENTS), rng.choice((" ", " ", "\n")).join(mixed))
