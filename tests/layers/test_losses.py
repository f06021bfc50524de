import pytest
import torch
import torch.nn.functional as F

from regard.core.batch import IGNORED
from regard.core.layout import Layout
from regard.layers.losses import mean_square, mean_square_change, smoothed_cross_entropy

GOALS = torch.tensor([3, IGNORED, 0, 6, IGNORED])


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_sums_are_torchs(smoothing):
    logits_TV = torch.randn(5, 7, dtype=torch.float64).float().requires_grad_()
    loss, likelihood = smoothed_cross_entropy(logits_TV, GOALS, smoothing)
    settings = {"ignore_index": IGNORED, "reduction": "sum"}
    reference = F.cross_entropy(logits_TV, GOALS, label_smoothing=smoothing, **settings)
    torch.testing.assert_close(loss, reference)
    torch.testing.assert_close(likelihood, F.cross_entropy(logits_TV, GOALS, **settings).detach())
    (found,), (wanted,) = (torch.autograd.grad(one, logits_TV) for one in (loss, reference))
    torch.testing.assert_close(found, wanted)
    assert (found[GOALS == IGNORED] == 0).all()
    assert not likelihood.requires_grad


def test_goals_may_weigh_unlike():
    logits_TV, weights_V = torch.randn(5, 7), torch.rand(7) + 0.5
    settings = {"ignore_index": IGNORED, "reduction": "sum"}
    weights_T = weights_V[GOALS.clamp(min=0)]
    loss, likelihood = smoothed_cross_entropy(logits_TV, GOALS, 0.0, weights_T)
    reference = F.cross_entropy(logits_TV, GOALS, weight=weights_V, **settings)
    torch.testing.assert_close(loss, reference)
    torch.testing.assert_close(likelihood, reference)


def test_half_precision_logits_are_summed_in_single():
    logits_TV = torch.randn(5, 7).bfloat16()
    loss, likelihood = smoothed_cross_entropy(logits_TV, GOALS, 0.1)
    assert loss.dtype == likelihood.dtype == torch.float32


@pytest.mark.slow
@pytest.mark.native("compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
def test_compiled_it_writes_no_table_in_single_precision():
    """Logits of a large vocabulary are gigabytes; their gradient has the precision they have."""
    from torch._inductor.utils import run_fw_bw_and_get_code

    logits_TV = torch.randn(64, 501).bfloat16().requires_grad_()
    targets_T = torch.randint(501, (64,))
    targets_T[3] = IGNORED

    def loss(twice_TV, targets_T):
        return smoothed_cross_entropy(twice_TV / 2, targets_T)[0]

    compiled = torch.compile(loss)
    found, code = run_fw_bw_and_get_code(lambda: compiled(logits_TV, targets_T))
    torch.testing.assert_close(found, loss(logits_TV, targets_T))
    assert "(64, 501), (501, 1), torch.bfloat16)" in code[1]
    assert not any("(64, 501), (501, 1), torch.float32)" in part for part in code)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_impossible_tokens_get_no_share_of_the_smoothing(smoothing):
    torch.manual_seed(3)
    logits_TV = torch.randn(4, 6, requires_grad=True)
    targets_T = torch.tensor([0, 5, 2, IGNORED])
    padded_TF = F.pad(logits_TV, (0, 3), value=-torch.inf)
    sums, expected = (
        smoothed_cross_entropy(logits, targets_T, smoothing) for logits in (padded_TF, logits_TV)
    )
    torch.testing.assert_close(sums, expected)
    gradients = [torch.autograd.grad(loss, logits_TV)[0] for loss, _ in (sums, expected)]
    torch.testing.assert_close(*gradients)


def test_changes_are_those_between_successive_tokens_of_a_row():
    torch.manual_seed(4)
    states_TD, layout = torch.randn(9, 3), Layout.ragged([4, 0, 1, 4])
    rows = [row for row in layout.split(states_TD) if len(row) > 1]
    changes = torch.cat([row[1:] - row[:-1] for row in rows])
    assert torch.allclose(mean_square_change(states_TD, layout), changes.square().mean())
    assert torch.allclose(mean_square(states_TD), states_TD.square().mean())
    assert mean_square_change(states_TD[:1], Layout.ragged([1])) == 0
