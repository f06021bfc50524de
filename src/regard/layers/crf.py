"""Linear-chain conditional random fields (Lafferty et al., 2001; Lample et al., 2016, section 2.2).

The score of a sequence of labels is the sum of the logits of its tokens and of its transitions. A
table of transitions is (labels + 2, labels): from each label, from the beginning, and (as the last
row) from each label to the end. Only ``real`` tokens have a label.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.core.layout import Layout


def log_partition(logits_BLV: Tensor, real_BL: Tensor, table: Tensor) -> Tensor:
    """Log of the summed exp scores of all label sequences, for each row (forward algorithm)."""
    between_VV, begin_V, end_V = table[:-2], table[-2], table[-1]
    begun_B1 = real_BL.new_zeros(len(real_BL), 1)
    alpha_BV = logits_BLV[:, :0].sum(1)  # zeros, through which gradients flow
    for time in range(logits_BLV.shape[1]):
        before_BV = (alpha_BV[:, :, None] + between_VV).logsumexp(1)
        new_BV = torch.where(begun_B1, before_BV, begin_V) + logits_BLV[:, time]
        real_B1 = real_BL[:, time, None]
        alpha_BV, begun_B1 = torch.where(real_B1, new_BV, alpha_BV), begun_B1 | real_B1
    return torch.where(begun_B1[:, 0], (alpha_BV + end_V).logsumexp(1), 0.0)


def path_score(logits_BLV: Tensor, labels_BL: Tensor, real_BL: Tensor, table: Tensor) -> Tensor:
    """Score of the labels of each row; labels of tokens that are not ``real`` are ignored."""
    between_VV, begin_V, end_V = table[:-2], table[-2], table[-1]
    begun_B = real_BL.new_zeros(len(real_BL))
    score_B, before_B = logits_BLV[:, :0, 0].sum(1), labels_BL.new_zeros(len(labels_BL))
    for time in range(logits_BLV.shape[1]):
        real_B = real_BL[:, time]
        label_B = torch.where(real_B, labels_BL[:, time], 0)
        move_B = torch.where(begun_B, between_VV[before_B, label_B], begin_V[label_B])
        logit_B = logits_BLV[:, time].gather(1, label_B[:, None])[:, 0]
        score_B = torch.where(real_B, score_B + move_B + logit_B, score_B)
        before_B, begun_B = torch.where(real_B, label_B, before_B), begun_B | real_B
    return torch.where(begun_B, score_B + end_V[before_B], score_B)


@torch.no_grad()
def viterbi(logits_BLV: Tensor, real_BL: Tensor, table: Tensor) -> Tensor:
    """Label sequence with the highest score for each row, (B, L); undefined where not ``real``."""
    between_VV, begin_V, end_V = table[:-2], table[-2], table[-1]
    begun_B1 = real_BL.new_zeros(len(real_BL), 1)
    best_BV, back = logits_BLV[:, :0].sum(1), list[Tensor]()
    itself_BV = torch.arange(best_BV.shape[1], device=best_BV.device).expand_as(best_BV)
    for time in range(logits_BLV.shape[1]):
        moved_BV, before_BV = (best_BV[:, :, None] + between_VV).max(1)
        new_BV = torch.where(begun_B1, moved_BV, begin_V) + logits_BLV[:, time]
        real_B1 = real_BL[:, time, None]
        back.append(torch.where(real_B1 & begun_B1, before_BV, itself_BV))
        best_BV, begun_B1 = torch.where(real_B1, new_BV, best_BV), begun_B1 | real_B1
    labels = [(best_BV + end_V).argmax(1, keepdim=True)]
    for before_BV in reversed(back):
        labels.append(before_BV.gather(1, labels[-1]))
    return torch.cat(labels[-2::-1], dim=1) if back else labels[0][:, :0]


def marginals(logits_BLV: Tensor, real_BL: Tensor, table: Tensor) -> Tensor:
    """Probability of each label of each token: the gradient of ``log_partition``."""
    with torch.enable_grad():
        logits_BLV = logits_BLV.detach().requires_grad_()
        total = log_partition(logits_BLV, real_BL, table.detach()).sum()
        return torch.autograd.grad(total, logits_BLV)[0]


def best_labels(logits: Sequence[Tensor], table: Tensor) -> list[list[int]]:
    """Best labels of each sequence (Viterbi)."""
    layout = Layout.ragged([*map(len, logits)])
    labels_BL = viterbi(layout.pad(torch.cat([*logits])), layout.real_BL, table)
    rows = zip(labels_BL.tolist(), layout.known_lengths, strict=True)
    return [labels[:count] for labels, count in rows]


def best_sequences(logits: Sequence[Tensor], table: Tensor) -> list[tuple[list[int], list[float]]]:
    """Best labels of each sequence (Viterbi), and the probability of each of these labels."""
    layout = Layout.ragged([*map(len, logits)])
    inputs = layout.pad(torch.cat([*logits])), layout.real_BL, table
    labels_BL, probabilities_BLV = viterbi(*inputs), marginals(*inputs)
    chosen_BL = probabilities_BLV.gather(2, labels_BL[:, :, None])[:, :, 0]
    rows = zip(labels_BL.tolist(), chosen_BL.tolist(), layout.known_lengths, strict=True)
    return [(labels[:count], chosen[:count]) for labels, chosen, count in rows]
