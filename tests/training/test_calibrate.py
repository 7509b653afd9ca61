import torch

from specviz.training import calibrate


def test_ranks_are_counted_as_by_hand():
    tokens = torch.tensor([4, 5, 6, 7, 8, 9, 5, 6])
    guesses = {0: [6, 9], 1: [8, 6]}  # each head says the same everywhere, most probable first

    def best(head: int, hidden: torch.Tensor, ranks: int) -> torch.Tensor:
        return torch.tensor(guesses[head])[:ranks].expand(len(hidden), -1)

    # Spans 4 5 6 7 8 and 9 5 6. Head 0 is judged by the tokens two ahead: 6 7 8 | 6; head 1 by those three ahead: 7 8 | nothing.
    found = calibrate.rank_accuracies(best, 2, tokens, torch.zeros(8, 3), [(0, 5), (5, 8)], ranks=2)
    assert found == [[0.5, 0.0], [0.5, 0.0]]
    guesses[1] = [1, 7]
    assert calibrate.rank_accuracies(best, 2, tokens, torch.zeros(8, 3), [(0, 5), (5, 8)], ranks=2)[1] == [0.0, 0.5]


def test_greedy_answers_are_the_models_own(target):
    prompts, length = [[5, 9, 30], [8, 60, 61, 62, 63, 12], [40]], 12
    with torch.no_grad():
        expected = []
        for prompt in prompts:
            ids = list(prompt)
            for _ in range(length):
                ids.append(int(target(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
            expected.append(ids)
    eos = expected[1][8]  # a token that ends the second answer early
    stopped = [
        ids[: ids.index(eos, len(prompt)) + 1] if eos in ids[len(prompt) :] else ids for ids, prompt in zip(expected, prompts, strict=True)
    ]
    answers = calibrate.greedy_answers(target, prompts, length, eos)
    spans = [answers.conversation(i) for i in range(3)]
    assert [answers.tokens[span].tolist() for span in spans] == stopped and len(stopped[1]) < len(expected[1])
    assert answers.answers.tolist() == [3, 6, 1]
    with torch.no_grad():
        hidden = target.model(input_ids=torch.tensor([stopped[1]])).last_hidden_state[0]
    torch.testing.assert_close(answers.hidden[spans[1]][:-1], hidden[:-1], rtol=1e-4, atol=1e-4)


def test_prompts_end_where_the_answer_begins(corpus):
    prompts = calibrate.held_out_prompts(corpus)
    last = len(corpus) - 1
    span = corpus.conversation(last)
    assert prompts[-1] == corpus.tokens[span].tolist()[: int(corpus.answers[last])]
