"""Who is told that this machine could encode faster, and who is not."""

import pytest

from polyhop.flows.reports import IndexReport, encoding_advice, summary_lines
from polyhop.schemas.settings import EncoderSettings, Settings
from polyhop.warehouse.models import onnx_session as openvino_session

ADVICE = "encoder.precision = bfloat16 would help"


@pytest.mark.parametrize(
    ("seconds", "computed", "encoder", "expected"),
    [
        (61.0, 900, EncoderSettings(), f"encoding took 61 s; {ADVICE}"),
        (59.0, 900, EncoderSettings(), ""),
        (61.0, 0, EncoderSettings(), ""),
        (61.0, 900, EncoderSettings(precision="int8"), ""),
        (61.0, 900, EncoderSettings(name="onnx:folder"), ""),
    ],
)
def test_long_encoding_by_the_local_encoder_in_float32_is_advised(
    monkeypatch: pytest.MonkeyPatch, seconds: float, computed: int, encoder: EncoderSettings, expected: str
) -> None:
    monkeypatch.setattr(openvino_session, "faster_precision", lambda: ADVICE)
    settings = Settings(encoder=encoder)
    stages = {"ingest": 100.0, "embed-passage": seconds}
    report = IndexReport("one", 1, changed=True, seconds=stages, computed={"embed-passage": computed})
    assert encoding_advice(settings, report) == expected
    assert (ADVICE in "\n".join(summary_lines(settings, report))) == bool(expected)
