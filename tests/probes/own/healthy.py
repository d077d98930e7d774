"""Steps as users write them, right on every rank."""

import os

import torch
import torch.nn.functional as F
from torch import nn

from mistakes import Policy, ids, selected


def a_training_step(device):
    model, tokens = Policy().to(device), ids(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(2):
        loss = F.cross_entropy(model(tokens)[:, :-1].reshape(-1, 50), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return loss.item()


def the_device_of_the_launcher():
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    model = Policy().cuda()
    assert next(model.parameters()).device == torch.device("cuda", local)
    model(ids("cuda"))


def what_is_there():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    assert device == "cuda" and torch.cuda.device_count() > 1
    Policy().to(device)(ids(device))


class Buffered(Policy):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(50), persistent=False)

    def forward(self, tokens):
        return super().forward(tokens) * self.scale


def a_buffer(device):
    Buffered().to(device)(ids(device))


def tensors_like_others(device):
    logits = Policy().to(device)(ids(device))
    mask = torch.ones_like(logits, dtype=torch.bool).tril()
    bias = logits.new_zeros(50)
    position = torch.arange(logits.shape[1], device=logits.device)
    return (logits.masked_fill(~mask, -1.0) + bias)[:, position]


def single_numbers_of_the_host(device):
    logits = Policy().to(device)(ids(device))
    return logits * torch.tensor(0.5) + 1 / torch.tensor(2)


def indices_of_the_host(device):
    logits = Policy().to(device)(ids(device))
    return logits[torch.tensor([0]), :, torch.tensor([3])]


def results_that_go_to_the_host(device):
    logps = selected(Policy().to(device)(ids(device)), ids(device))
    kept = torch.zeros(2, 8)
    kept[:] = logps.detach()
    return kept + logps.detach().cpu(), logps.detach().cpu().numpy(), logps.sum().item(), logps.tolist()


def a_loss_of_a_group(device):
    policy, reference, tokens = Policy().to(device), Policy().to(device).eval(), ids(device, rows=4)
    with torch.no_grad():
        before = selected(reference(tokens), tokens)
    rewards = torch.tensor([1.0, 0.0, 0.5, 0.25], device=device).view(2, 2)
    advantages = ((rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)).view(-1, 1)
    now = selected(policy(tokens), tokens)
    ratio = (now - before).exp()
    loss = -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
    (loss + 0.1 * (before - now).exp().mean()).backward()


def a_map_by_hand_with_moves():
    class Split(Policy):
        def forward(self, tokens):
            return self.head(self.hidden(tokens).to(self.head.weight.device))

    model = Split()
    model.embed.to("cuda:0")
    model.layer.to("cuda:0")
    model.head.to("cuda:1")
    assert model(ids("cuda:0")).device == torch.device("cuda:1")


def with_a_default_device(device):
    with torch.device(device):
        model, tokens = Policy(), torch.randint(0, 50, (2, 8))
        mask = torch.ones(8, 8).tril()
    assert tokens.device == torch.device(device)
    assert torch.zeros(1).device == torch.device("cpu")
    return model(tokens).mean() * mask


def made_on_meta_and_filled(device):
    with torch.device("meta"):
        model = Policy()
    model = model.to_empty(device=device)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    model(ids(device))


def a_checkpoint_to_its_own_device(device):
    import io

    file = io.BytesIO()
    torch.save(Policy().state_dict(), file)
    file.seek(0)
    model = Policy().to(device)
    model.load_state_dict(torch.load(file, map_location=device))
    file.seek(0)
    model.load_state_dict(torch.load(file, map_location="cpu"))
    model(ids(device))


def a_sampler_of_its_own(device):
    chance = torch.Generator(device=device).manual_seed(3)
    probabilities = Policy().to(device)(ids(device))[:, -1].softmax(-1)
    token = torch.multinomial(probabilities, 1, generator=chance)
    return torch.cat([ids(device), token], dim=1)


def attention_in_half_precision(device):
    attention = nn.MultiheadAttention(16, 2, batch_first=True).to(device, torch.bfloat16)
    x = torch.randn(2, 8, 16, device=device, dtype=torch.bfloat16)
    mask = nn.Transformer.generate_square_subsequent_mask(8, device=device, dtype=torch.bfloat16)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        attention(x, x, x, attn_mask=mask)[0].float().mean().backward()


def recurrent_and_convolved(device):
    x = torch.randn(2, 8, 16, device=device)
    y, _ = nn.GRU(16, 16, batch_first=True).to(device)(x)
    packed = nn.utils.rnn.pack_padded_sequence(y, torch.tensor([8, 5]), batch_first=True)
    padded, _ = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    nn.Sequential(nn.Conv1d(16, 8, 3), nn.BatchNorm1d(8), nn.Dropout(0.1)).to(device)(padded.transpose(1, 2))


def transformers_models(device):
    from transformers import AutoConfig, AutoModelForCausalLM

    small = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    heads = {"num_key_value_heads": 2, "head_dim": 8, "vocab_size": 64, "pad_token_id": 0}
    for kind, more in {
        "qwen2": {},
        "qwen3": {},
        "llama": {},
        "mistral": {"sliding_window": 4},
        "gemma": {},
        "gemma2": {},
        "mixtral": {"num_local_experts": 4},
        "olmo2": {},
        "granite": {},
        "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4},
        "gpt_neox": {},
        "opt": {"ffn_dim": 64, "word_embed_proj_dim": 32, "max_position_embeddings": 64},
        "phi": {},
        "stablelm": {},
    }.items():
        config = AutoConfig.for_model(kind, **{**small, **heads, **more})
        model = AutoModelForCausalLM.from_config(config).to(device)
        tokens = ids(device)
        mask = torch.ones_like(tokens)
        mask[0, :3] = 0
        model(input_ids=tokens, attention_mask=mask, labels=tokens).loss.backward()
    model.generate(tokens, attention_mask=mask, max_new_tokens=3, do_sample=True)


def generators_of_the_device(device):
    chance = torch.Generator(device=device).manual_seed(1)
    noise = torch.randn(2, 8, device=device, generator=chance).softmax(-1)
    return torch.multinomial(noise, 1, generator=chance), noise.bernoulli(generator=chance)


def a_generator_of_the_host_for_the_host(device):
    order = torch.randperm(8, generator=torch.Generator().manual_seed(1))
    return torch.randn(8, 2, device=device)[order]
