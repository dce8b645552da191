"""Bounds are never too small, and errors keep their kind."""
from support import *


class Linalg(Test):
    def test_a_bound_is_above_the_norm_and_near_it(self):
        for shape in ((1, 1), (3, 50), (64, 64), (200, 30)):
            for dtype in (torch.float32, torch.float64, torch.bfloat16):
                weight = torch.randn(shape).to(dtype)
                norm = spectral_norm(weight)
                self.assertGreaterEqual(bridle.spectral_norm_bound(weight), norm * (1 - 1e-13))
                self.assertLess(bridle.spectral_norm_bound(weight), norm * (1 + 1e-6))
                self.assertLessEqual(bridle.spectral_norm_estimate(weight, 100).item(), norm * 1.01)

    def test_norms_of_heads_are_those_of_row_blocks(self):
        weight = torch.randn(12, 30)
        for heads in (1, 2, 3):
            self.assertAlmostEqual(bridle.norm_bound(weight, heads=heads), rms_norm(weight, heads), places=6)

    def test_there_is_no_bound_of_nan(self):
        self.assertIsNone(bridle.spectral_norm_bound(torch.full((2, 2), float("nan"))))
        self.assertIsNone(bridle.norm_bound(torch.full((2, 2), float("inf"))))

    def test_orthogonalize_stays_below_its_bound_and_takes_batches(self):
        batch = torch.randn(3, 20, 40, dtype=torch.float64)
        for word in ("six_step", "five_step", "classic"):
            result = bridle.orthogonalize(batch, word)
            for matrix in result:
                self.assertLessEqual(spectral_norm(matrix), bridle.update_bound(word) + 1e-9)
                self.assertGreater(float(numpy.linalg.svd(matrix.numpy(), compute_uv=False)[-1]), 0.5)
        self.assertTrue(bridle.orthogonalize(torch.zeros(4, 4)).eq(0).all())

    def test_errors_are_of_bridles_kinds(self):
        with self.raises(bridle.InputError, "[orthogonalize] coefficients must be one of six_step"):
            bridle.orthogonalize(torch.eye(2), "seven_step")
        with self.raises(ValueError):
            bridle.norm_bound(torch.zeros(3, 3), heads=2)
        with self.raises(bridle.Error):
            bridle.spectral_norm_bound(torch.zeros(2, 2, 2, 2))


if __name__ == "__main__":
    main()
