import torch

from specviz.training.batched import LockstepDecoder, sample_top_k


def test_rows_at_different_positions_and_a_row_that_starts_anew(target):
    texts = [[5, 9, 30, 31, 7, 40], [8, 60, 61]]
    decoder, seen = LockstepDecoder(target, rows=2, length=8), []
    for at in range(6):
        feed = [texts[0][at], texts[1][at % 3]]  # the second row begins again at position 0 while the first goes on
        seen.append(decoder.step(torch.tensor(feed), torch.tensor([at, at % 3])))
    with torch.no_grad():
        first, second = (target.model(input_ids=torch.tensor([text])).last_hidden_state[0] for text in texts)
    torch.testing.assert_close(torch.stack([state[0] for state in seen]), first, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(torch.stack([state[1] for state in seen[3:]]), second, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(decoder.logits(seen[-1]), target.lm_head(seen[-1]))


def test_draws_come_from_the_top_k_at_the_rows_temperature():
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0]]).log_softmax(-1).repeat(40_000, 1)
    temperature = torch.tensor([1.0, 0.5]).repeat(20_000)
    drawn = sample_top_k(logits, 2, temperature, torch.Generator().manual_seed(0))
    assert set(drawn.tolist()) == {2, 3}
    for row, expected in ((drawn[0::2], 1 / (1 + torch.e**-1)), (drawn[1::2], 1 / (1 + torch.e**-2))):
        assert abs((row == 3).float().mean().item() - expected) < 0.02  # 5.7 standard errors of the wider one
