"""Muon's formula, its known update norm, and what it refuses."""
import math

from support import *

CLASSIC = [(3.4445, -4.7750, 2.0315)] * 5


def newton_schulz(matrix, polynomials):
    """The definition, in float64."""
    x = matrix.double() / matrix.double().norm()
    for a, b, c in polynomials:
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


SCALES = {
    "original": lambda m, n: max(1.0, m / n) ** 0.5,
    "match_rms_adamw": lambda m, n: 0.2 * max(m, n) ** 0.5,
    "spectral_unclamped": lambda m, n: (m / n) ** 0.5,
}


class Muon(Test):
    def test_four_steps_are_the_formula(self):
        for adjust, scale in SCALES.items():
            for nesterov in (False, True):
                for shape in ((16, 40), (40, 16), (24, 24)):
                    weight = torch.nn.Parameter(torch.randn(shape, dtype=torch.float64))
                    expected, average = weight.detach().clone(), torch.zeros(shape, dtype=torch.float64)
                    muon = bridle.Muon(
                        [weight],
                        lr=0.1,
                        weight_decay=0.2,
                        momentum=0.9,
                        nesterov=nesterov,
                        ns_coefficients=CLASSIC[0],
                        adjust_lr_fn=adjust,
                    )
                    for _ in range(4):
                        weight.grad = torch.randn(shape, dtype=torch.float64)
                        average = 0.9 * average + 0.1 * weight.grad
                        direction = 0.1 * weight.grad + 0.9 * average if nesterov else average
                        expected = expected * (1 - 0.1 * 0.2) - 0.1 * scale(*shape) * newton_schulz(direction, CLASSIC)
                        muon.step()
                    self.assertTrue(torch.allclose(weight, expected, rtol=0, atol=1e-10), (adjust, nesterov, shape))

    def test_it_steps_as_pytorchs_own_where_that_is_there(self):
        if not hasattr(torch.optim, "Muon"):
            self.skipTest(f"PyTorch {torch.__version__} has no torch.optim.Muon (2.9 has): not compared with it")
        start, gradient = torch.randn(64, 96), torch.randn(64, 96)
        moved = []
        for optimizer, keywords in ((bridle.Muon, {"ns_coefficients": "classic"}), (torch.optim.Muon, {})):
            weight = torch.nn.Parameter(start.clone())
            weight.grad = gradient
            optimizer([weight], lr=0.1, **keywords).step()
            moved.append(weight.detach() - start)
        self.assertLess((moved[0] - moved[1]).norm(), 0.03 * moved[0].norm())  # products in bfloat16 there

    def test_no_update_exceeds_the_bound_that_it_says(self):
        for heads in (1, 2, 4):
            for adjust in SCALES:
                weight = torch.nn.Parameter(torch.randn(24, 40, dtype=torch.float64))
                muon = bridle.Muon([weight], lr=1.0, weight_decay=0.0, adjust_lr_fn=adjust, heads=heads)
                for _ in range(5):
                    weight.grad = torch.randn(24, 2, dtype=torch.float64) @ torch.randn(2, 40, dtype=torch.float64)
                    before = weight.detach().clone()
                    muon.step()
                    update = before - weight.detach()
                    for blocks in (1, 2, 3, 4, 8):
                        observed = max(spectral_norm(block) for block in update.chunk(blocks))
                        self.assertLessEqual(
                            observed, muon.update_norm_bound(weight, blocks) + 1e-9, (heads, blocks, adjust)
                        )

    def test_bfloat16_weights_keep_their_momentum_in_float32(self):
        weight = torch.nn.Parameter(torch.randn(8, 8).bfloat16())
        muon = bridle.Muon([weight], lr=0.1)
        for _ in range(2):
            weight.grad = torch.randn(8, 8).bfloat16()
            muon.step()
            muon.load_state_dict(muon.state_dict())
        self.assertEqual(muon.state[weight]["momentum_buffer"].shape, weight.shape)
        self.assertTrue(weight.isfinite().all())

    def test_a_closure_gives_the_loss_and_no_gradient_no_step(self):
        weight, still = torch.nn.Parameter(torch.randn(4, 4)), torch.nn.Parameter(torch.randn(4, 4))
        muon, before = bridle.Muon([weight, still]), still.detach().clone()

        def closure():
            loss = weight.square().sum()
            loss.backward()
            return loss

        self.assertGreater(muon.step(closure).item(), 0.0)
        self.assertTrue(still.equal(before))

    def test_what_makes_no_sense_is_refused(self):
        matrix, vector = torch.nn.Parameter(torch.zeros(4, 4)), torch.nn.Parameter(torch.zeros(4))
        for keywords, part in (
            ({"lr": -1.0}, "lr must be 0 or more"),
            ({"momentum": 1.0}, "momentum must be"),
            ({"adjust_lr_fn": "none"}, "adjust_lr_fn must be"),
            ({"heads": 3}, "heads must divide"),
            ({"ns_coefficients": (1.0, 2.0, 3.0)}, "ns_coefficients must be six_step"),
            ({"ns_coefficients": "sixstep"}, "coefficients must be one of"),
            ({"weight_decay": math.nan}, "weight_decay must be"),
        ):
            with self.raises(bridle.InputError, part):
                bridle.Muon([matrix], **keywords)
        with self.raises(bridle.InputError, "[muon] every weight must be a matrix, got shape [4]"):
            bridle.Muon([vector])
        with self.raises(bridle.InputError, "must be one of the optimizer's"):
            bridle.Muon([matrix]).update_norm_bound(vector)


if __name__ == "__main__":
    main()
