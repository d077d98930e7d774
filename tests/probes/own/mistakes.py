"""Steps as users write them, each with a tensor that is on another device than the rest from the second rank on. The
line that is to be named ends in ``# here``."""

import os

import torch
import torch.nn.functional as F
from torch import nn

FIRST = torch.device("cuda:0")


def ids(device, rows=2, length=8):
    return torch.arange(rows * length, device=device).reshape(rows, length) % 50


class Policy(nn.Module):
    """Embedding, a layer and a head."""

    def __init__(self, width=16):
        super().__init__()
        self.embed = nn.Embedding(50, width)
        self.layer = nn.Linear(width, width)
        self.head = nn.Linear(width, 50, bias=False)

    def hidden(self, tokens):
        return torch.tanh(self.layer(self.embed(tokens)))

    def forward(self, tokens):
        return self.head(self.hidden(tokens))


def selected(logits, tokens):
    return logits.log_softmax(-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


class ShiftInForward(Policy):
    def forward(self, tokens):
        shift = torch.zeros(50, device="cuda:0")
        return super().forward(tokens) + shift  # here


def a_tensor_made_on_the_first_device(device):
    ShiftInForward().to(device)(ids(device))


class MovesInside(Policy):
    def forward(self, tokens):
        h = self.hidden(tokens).to("cuda:0")
        return self.head(h)  # here


def the_hidden_state_is_moved(device):
    MovesInside().to(device)(ids(device))


class Buffered(Policy):
    def __init__(self):
        super().__init__()
        self.scale = torch.ones(50)  # no buffer

    def forward(self, tokens):
        return super().forward(tokens) * self.scale  # here


def a_table_that_is_no_buffer(device):
    Buffered().to(device)(ids(device))


class Rotary(nn.Module):
    def __init__(self, dim=16, length=32):
        super().__init__()
        inverse = 1.0 / 10000 ** (torch.arange(0, dim, 2).float() / dim)
        angles = torch.outer(torch.arange(length).float(), inverse)
        self.cos, self.sin = angles.cos(), angles.sin()

    def forward(self, x):
        cos = self.cos[: x.shape[1]].repeat(1, 2)
        return x * cos  # here


class WithRotary(Policy):
    def __init__(self):
        super().__init__()
        self.rotary = Rotary()

    def forward(self, tokens):
        return self.head(self.rotary(self.hidden(tokens)))


def a_rotary_table_made_at_init(device):
    WithRotary().to(device)(ids(device))


def a_rotary_table_that_was_moved_by_hand(device):
    model = WithRotary().to(device)
    model.rotary.cos = model.rotary.cos.cuda(0)
    model(ids(device))


def cuda_without_a_number(device):
    model = Policy().cuda()
    model(ids(device))  # here-or-in-model


def the_batch_stays_on_the_host(device):
    Policy().to(device)(ids("cpu"))  # here-or-in-model


def a_mask_of_the_host(device):
    logits = Policy().to(device)(ids(device))
    mask = torch.ones(2, 8).bool()
    torch.where(mask.unsqueeze(-1), logits, torch.zeros_like(logits))  # here


def a_mask_made_with_the_default_device(device):
    tokens = ids(device)
    scores = torch.randn(2, 8, 8, device=device)
    causal = torch.full((8, 8), float("-inf")).triu(1)
    (scores + causal).softmax(-1)  # here
    return tokens


def labels_that_were_not_moved(device):
    tokens = ids(device)
    labels = tokens.cpu()
    logits = Policy().to(device)(tokens)
    F.cross_entropy(logits.reshape(-1, 50), labels.reshape(-1))  # here


def indices_for_gather_on_the_host(device):
    tokens = ids(device)
    logits = Policy().to(device)(tokens)
    selected(logits[:, :-1], tokens.cpu()[:, 1:])


def a_reference_model_on_the_first_device(device):
    policy, reference = Policy().to(device), Policy().to(FIRST)
    tokens = ids(device)
    ratio = policy(tokens) - reference(tokens.to(FIRST))  # here
    return ratio.exp().mean()


class Reward(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(16, 1)

    def forward(self, hidden):
        return self.score(hidden[:, -1])


def a_reward_model_that_is_loaded_once(device):
    reward = Reward().to("cuda:0")
    policy = Policy().to(device)
    reward(policy.hidden(ids(device)))  # here-or-in-model


def rewards_of_the_first_device_in_the_loss(device):
    policy, tokens = Policy().to(device), ids(device)
    logps = selected(policy(tokens), tokens).sum(-1)
    rewards = torch.tensor([1.0, 0.0], device=FIRST)
    advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
    (logps * advantages).mean().backward()  # here


def advantages_on_the_host(device):
    policy, tokens = Policy().to(device), ids(device)
    logps = selected(policy(tokens), tokens)
    advantages = torch.tensor([[1.0], [-1.0]])
    (-(logps * advantages)).mean()  # here


def a_list_of_kept_values(device):
    kept = [torch.zeros(3, device="cuda:0"), torch.ones(3, device=device)]
    torch.stack(kept)  # here


def padding_that_is_joined_on_the_host(device):
    torch.cat([ids(device), torch.zeros(2, 3, dtype=torch.long)], dim=1)  # here


class HeadApart(Policy):
    """A device map by hand."""

    def forward(self, tokens):
        return self.head(self.hidden(tokens))  # here-or-in-model


def a_device_map_by_hand_without_moves(device):
    model = HeadApart()
    model.embed.to("cuda:0")
    model.layer.to("cuda:0")
    model.head.to("cuda:1")
    model(ids("cuda:0"))


def a_default_device_for_what_is_made_later(device):
    model = Policy().to(device)
    with torch.device("cuda:0"):
        tokens = torch.randint(0, 50, (2, 8))
    model(tokens)  # here-or-in-model


def a_cache_of_the_first_call(device):
    class Cached(Policy):
        positions = None

        def forward(self, tokens):
            if self.positions is None:
                self.positions = torch.randn(8, 16).cuda(0)
            return self.head(self.hidden(tokens) + self.positions)  # here

    Cached().to(device)(ids(device))


def numpy_of_a_tensor_on_the_device(device):
    rewards = Policy().to(device)(ids(device)).mean(-1)
    return rewards.detach().numpy().tolist()  # here


def a_token_index_for_another_device(device):
    embedding = nn.Embedding(50, 4).to(device)
    special = torch.tensor([1, 2, 3]).to(FIRST)
    embedding.weight.index_select(0, special)  # here


def a_checkpoint_that_goes_to_the_first_device(device):
    import io

    file = io.BytesIO()
    torch.save({"bias": torch.ones(50)}, file)
    file.seek(0)
    state = torch.load(file, map_location="cuda:0")
    Policy().to(device)(ids(device)) + state["bias"]  # here


def a_gate_of_the_local_rank_that_is_missing(device):
    rank = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", 0))
    model = Policy().to(f"cuda:{rank}")
    model(ids(device))  # here-or-in-model


def a_generator_of_the_host(device):
    chance = torch.Generator().manual_seed(1)
    torch.randn(4, device=device, generator=chance)  # here


def a_sampler_with_a_generator_of_the_host(device):
    chance = torch.Generator().manual_seed(1)
    torch.multinomial(Policy().to(device)(ids(device))[0].softmax(-1), 1, generator=chance)  # here


def an_adapter_that_comes_after_the_move(device):
    model = Policy().to(device)
    down, up = nn.Linear(16, 2), nn.Linear(2, 50)
    tokens = ids(device)
    model(tokens) + up(down(model.hidden(tokens)))  # here


def heads_in_a_plain_list(device):
    class Heads(Policy):
        def __init__(self):
            super().__init__()
            self.heads = [nn.Linear(16, 1) for _ in range(2)]

        def forward(self, tokens):
            return [head(self.hidden(tokens)) for head in self.heads]  # here

    Heads().to(device)(ids(device))


def the_state_of_an_optimizer_on_the_host(device):
    model = Policy()
    optimizer = torch.optim.AdamW(model.parameters())
    model(ids("cpu")).sum().backward()
    optimizer.step()
    model.to(device).zero_grad()
    model(ids(device)).sum().backward()
    optimizer.step()  # here
