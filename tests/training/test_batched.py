import pytest
import torch

from specviz.engine.fast import FastModel
from specviz.models.load import load_local
from specviz.training.batched import Lockstep, RowByRow, decoder, sample_top_k
from tests.fakes import TableLM


@pytest.mark.parametrize("kind", [Lockstep, RowByRow])
def test_rows_at_different_positions_and_a_row_that_starts_anew(pair, target, kind):
    texts = [[5, 9, 30, 31, 7, 40], [8, 60, 61]]
    run = Lockstep(pair.target, 2, 8) if kind is Lockstep else RowByRow(pair.target, 2)
    seen = []
    for at in range(6):
        feed = [texts[0][at], texts[1][at % 3]]  # the second row begins again at position 0 while the first goes on
        seen.append(run.step(torch.tensor(feed), torch.tensor([at, at % 3])))
    with torch.no_grad():
        first, second = (target(input_ids=torch.tensor([text]), output_hidden_states=True) for text in texts)
    for b, (rows, whole) in enumerate(((seen, first), (seen[3:], second))):
        torch.testing.assert_close(torch.stack([row.hidden[b] for row in rows]), whole.hidden_states[-1][0], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(torch.stack([row.logits[b] for row in rows]), whole.logits[0], rtol=1e-4, atol=1e-4)


def test_a_row_never_sees_another(pair):
    """What stands in one row changes nothing in the other, to the last bit."""
    alone = [run_rows(pair, [[5, 9, 30, 31], other]) for other in ([5, 9, 30, 31], [90, 3, 3, 17])]
    assert torch.equal(alone[0][:, 0], alone[1][:, 0]) and not torch.equal(alone[0][:, 1], alone[1][:, 1])


def run_rows(pair, rows: list[list[int]]) -> torch.Tensor:
    run = decoder(pair.target, len(rows), 8)
    steps = zip(*rows, strict=True)
    return torch.stack([run.step(torch.tensor(tokens), torch.full((len(rows),), at)).logits for at, tokens in enumerate(steps)])


def test_every_model_has_a_decoder(pair, tiny_folder):
    assert isinstance(pair.target, FastModel) and isinstance(decoder(pair.target, 2, 8), Lockstep)
    assert isinstance(decoder(load_local(tiny_folder, device="cpu", dtype="float32", engine="hf").target, 2, 8), RowByRow)
    assert isinstance(decoder(TableLM(0), 2, 8), RowByRow)


def test_draws_come_from_the_top_k_at_the_rows_temperature():
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0]]).log_softmax(-1).repeat(40_000, 1)
    temperature = torch.tensor([1.0, 0.5]).repeat(20_000)
    uniforms = torch.rand(40_000, generator=torch.Generator().manual_seed(0))
    drawn = sample_top_k(logits, 2, temperature, uniforms)
    assert set(drawn.tolist()) == {2, 3}
    for row, expected in ((drawn[0::2], 1 / (1 + torch.e**-1)), (drawn[1::2], 1 / (1 + torch.e**-2))):
        assert abs((row == 3).float().mean().item() - expected) < 0.02  # 5.7 standard errors of the wider one


def test_at_temperature_0_the_most_likely_token_is_drawn_whatever_the_uniform():
    logits = torch.randn(500, 30, generator=torch.Generator().manual_seed(1))
    uniforms = torch.tensor([0.0, 0.25, 0.5, 0.999999]).repeat(125)
    assert torch.equal(sample_top_k(logits, 40, torch.zeros(500), uniforms), logits.argmax(-1))
