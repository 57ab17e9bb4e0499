"""Examples in the help of each command; a test parses every one with its command's own parser."""

from collections.abc import Mapping, Sequence

EXAMPLES: Mapping[str, Sequence[str]] = {
    "demo": ("polyhop demo",),
    "plan": (
        "polyhop plan corpus.jsonl",
        "polyhop plan corpus.jsonl --set extraction.extractor=model --set models.extract=openai/gpt-4o-mini",
    ),
    "index": (
        "polyhop index corpus.jsonl --index mine",
        "polyhop index folder/ --index mine --set corpus.language=de",
        "polyhop index --index mine --add-strategy naive-vector",
        "polyhop index --graph triples.jsonl --index mine",
    ),
    "ask": (
        'polyhop ask "Where was the architect of the tower born?" --index mine',
        'polyhop ask "Who owned the mill in 1850?" --index mine --where "metadata.year >= 1900" --explain',
        'polyhop ask "Who owned the mill?" --index mine,other --strategy bridge-masked --html answer.html',
    ),
    "connect": ('polyhop connect "Ada Lovelace" "Charles Babbage" --index mine',),
    "entities": (
        'polyhop entities explain "River Thames" "Thames" --index mine',
        'polyhop entities edit merge "River Thames" "Thames" --index mine',
    ),
    "submit": (
        "polyhop submit questions.jsonl --index mine",
        "polyhop submit questions.jsonl --index mine --strategy bridge --priority 5 --wait",
    ),
    "worker": ("polyhop worker", "polyhop worker --queues default,urgent --until-empty"),
    "jobs": (
        "polyhop jobs --workers",
        "polyhop jobs results 3 --out answers.parquet",
        "polyhop jobs retry 3 --question q17",
        "polyhop jobs cancel 3",
        "polyhop jobs explain 3 q17 --html answer.html",
        "polyhop jobs replay 3 q17 --strategy graph-dense",
    ),
    "eval": (
        "polyhop eval questions.jsonl --index mine --strategies all",
        'polyhop eval questions.jsonl --index mine --strategies "bridge,bm25" --baseline bm25',
        'polyhop eval questions.jsonl --index mine --strategies bridge --fail-below "recall@5=.8"',
    ),
    "score": ("polyhop score predictions.jsonl",),
    "tune": ('polyhop tune questions.jsonl --index mine --strategy "bridge:seeds=3,5,10"',),
    "sql": (
        "polyhop sql --index mine --tables",
        'polyhop sql "FROM entities WHERE is_named ORDER BY df DESC LIMIT 10" --index mine',
    ),
    "versions": ("polyhop versions --index mine", "polyhop versions --index mine --use 3"),
    "export": (
        "polyhop export neo4j --index mine --uri bolt://localhost:7687",
        "polyhop export extraction extraction.jsonl --index mine",
    ),
    "cache": ("polyhop cache stats", "polyhop cache evict --older-than-days 90"),
    "doctor": ("polyhop doctor",),
    "verify": ("polyhop verify --index mine", "polyhop verify --index mine --neo4j --repair"),
    "maintain": ("polyhop maintain --dry-run", "polyhop maintain --index mine"),
    "deploy": ("polyhop deploy --index mine --source corpus.jsonl --schedule incremental",),
    "serve": ("polyhop serve --index mine --source corpus.jsonl",),
}
