"""Operators with gradients: attention and activations."""
import math

from support import *


def plain_attention(q, k, v, scale):
    hidden = torch.full((q.shape[2], q.shape[2]), -math.inf, dtype=q.dtype).triu(1)
    return torch.softmax(scale * q @ k.transpose(2, 3) + hidden, -1) @ v


class Attention(Test):
    def test_it_is_the_softmax_and_so_are_its_gradients(self):
        for shape in ((1, 1, 5, 8), (2, 3, 40, 16)):
            own = [torch.randn(shape, requires_grad=True) for _ in range(3)]
            twin = [x.detach().double().requires_grad_() for x in own]
            out, expected = bridle.causal_attention(*own, scale=0.3), plain_attention(*twin, 0.3)
            self.assertEqual(out.dtype, torch.float32)
            self.assertLess((out - expected).norm(), 0.01 * expected.norm())
            weight = torch.randn(shape)
            (out * weight).sum().backward()
            (expected * weight).sum().backward()
            for x, y in zip(own, twin):
                self.assertEqual(x.grad.dtype, torch.float32)
                self.assertLess((x.grad - y.grad).norm(), 0.02 * y.grad.norm() + 1e-6)

    def test_a_tensor_in_three_places_gets_all_three_gradients(self):
        x = torch.randn(1, 2, 6, 8).bfloat16().requires_grad_()
        bridle.causal_attention(x, x, x, scale=0.125).float().square().sum().backward()
        y = x.detach().double().requires_grad_()
        plain_attention(y, y, y, 0.125).square().sum().backward()
        self.assertEqual(x.grad.dtype, torch.bfloat16)
        self.assertLess((x.grad - y.grad).norm(), 0.03 * y.grad.norm())

    def test_there_are_no_second_derivatives_and_it_says_so(self):
        x = torch.randn(1, 1, 4, 8, requires_grad=True)
        out = bridle.causal_attention(x, x, x, scale=1.0).sum()
        with self.raises(RuntimeError, "the kernel has no second derivatives"):
            torch.autograd.grad(out, x, create_graph=True)

    def test_what_does_not_fit_is_refused(self):
        x = torch.randn(1, 1, 4, 8)
        with self.raises(bridle.InputError, "[causal_attention]", "all are [B, H, T, h]"):
            bridle.causal_attention(x, x[..., :4], x, scale=1.0)
        with self.raises(bridle.InputError, "float32 or bfloat16"):
            bridle.causal_attention(x.double(), x.double(), x.double(), scale=1.0)


class Activations(Test):
    FORMULAS = {
        "gelu": lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(2))),
        "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        "relu": lambda x: x.clamp_min(0),
        "abs": torch.abs,
        "relu_squared": lambda x: x.clamp_min(0) ** 2,
        "maxmin": lambda x: torch.stack(
            [torch.maximum(x[..., ::2], x[..., 1::2]), torch.minimum(x[..., ::2], x[..., 1::2])], -1
        ).flatten(-2),
    }

    def test_values_and_gradients_are_those_of_the_formulas(self):
        for kind, formula in self.FORMULAS.items():
            x = torch.randn(3, 10, dtype=torch.float64, requires_grad=True)
            y = bridle.Activation(kind, divisor=1.5)(x)
            self.assertTrue(torch.allclose(y, formula(x) / 1.5, rtol=1e-12, atol=1e-12), kind)
            self.assertTrue(torch.autograd.gradcheck(lambda z: bridle.activation(z, kind, divisor=1.5), x), kind)
            self.assertTrue(torch.autograd.gradgradcheck(lambda z: bridle.activation(z, kind, divisor=1.5), x), kind)

    def test_it_is_a_module_that_is_printed_and_stored(self):
        module = torch.nn.Sequential(torch.nn.Linear(2, 2), bridle.Activation("maxmin"))
        self.assertIn("Activation('maxmin', divisor=1.0)", str(module))
        self.assertEqual(list(module.state_dict()), ["0.weight", "0.bias"])

    def test_what_makes_no_sense_is_refused(self):
        for kind, divisor, part in (
            ("swish", 1.0, "kind must be one of gelu, gelu_tanh"),
            ("relu", 0.0, "divisor must be positive"),
            ("relu", math.nan, "divisor must be positive"),
        ):
            with self.raises(bridle.InputError, "[activation]", part):
                bridle.Activation(kind, divisor=divisor)
        with self.raises(bridle.InputError, "the last dimension must be even"):
            bridle.activation(torch.zeros(3), "maxmin")


if __name__ == "__main__":
    main()
