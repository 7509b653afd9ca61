"""What is assumed of other machines: dense numbers, and a document that says so."""

from specviz.analysis.datasheets import A100, DATASHEETS, H100, H200, L4, RTX_4090, T4
from specviz.i18n import LANGUAGES, t


def test_the_numbers_are_dense_ones_with_fp32_accumulation() -> None:
    stated = {sheet.name: (sheet.flops / 1e12, sheet.bandwidth / 1e9, round(sheet.ridge)) for sheet in DATASHEETS}
    assert stated == {
        "A100 80 GB": (312, 2039, 153), "H100 SXM": (989.4, 3350, 295), "H200 SXM": (989.4, 4800, 206),
        "L4": (121, 300, 403), "T4": (65, 320, 203), "RTX 4090": (165.2, 1008, 164),
    }  # fmt: skip


def test_every_sheet_names_its_document_and_what_is_special_about_it() -> None:
    for sheet in DATASHEETS:
        assert "NVIDIA" in sheet.source and ("datasheet" in sheet.source or "whitepaper" in sheet.source)
        assert sheet.note is None or all(t(lang, sheet.note) for lang in LANGUAGES)
    assert all("sparsity" in t("en", sheet.note) for sheet in (A100, H100, H200, L4))
    assert "bf16" in t("en", T4.note) and "fp16 accumulation" in t("en", RTX_4090.note)
