"""A plain PyTorch loop keeps every norm below its cap: held against NumPy's decomposition after every step."""
import json
import math
import warnings

from support import *


def network():
    return torch.nn.Sequential(
        torch.nn.Linear(20, 48), torch.nn.ReLU(), torch.nn.Linear(48, 32), torch.nn.ReLU(), torch.nn.Linear(32, 5)
    )


def matrices(module):
    return [p for p in module.parameters() if p.dim() == 2]


def loss_of(module):
    """Of random targets, which no network fits: the weights go on growing."""
    return torch.nn.functional.cross_entropy(8.0 * module(torch.randn(64, 20)), torch.randint(5, (64,)))


class Loop(Test):
    def holds_for(self, steps, module, optimizer, constraint, caps):
        """Trains; after every step each norm is at most its cap."""
        constraint.attach(optimizer)
        for step in range(steps):
            optimizer.zero_grad()
            loss_of(module).backward()
            optimizer.step()
            for weight, cap in zip(matrices(module), caps):
                self.assertLessEqual(rms_norm(weight), cap * (1 + 1e-13), step)

    def test_two_hundred_steps_of_adamw_stay_below_the_cap(self):
        for method, keywords in (
            ("normalize", {}),
            ("soft_cap", {"measure_reach": True}),
            ("hard_cap_svd", {}),
            ("hammer", {}),
            ("none", {}),
        ):
            with self.subTest(method):
                module = network()
                constraint = bridle.Constraint(module, method, max_norm=1.5, **keywords)
                self.holds_for(200, module, torch.optim.AdamW(module.parameters(), lr=0.01), constraint, [1.5] * 3)
                report = constraint.report()
                self.assertEqual(report.proofs, 600)
                self.assertTrue(report.holds)
                self.assertGreater(report.largest_norm_bound, 1.4)  # it was at work
                for weight, own in zip(matrices(module), report.weights.values()):
                    self.assertGreaterEqual(own.norm_bound, rms_norm(weight) * (1 - 1e-13))
                if method in ("hammer", "none"):
                    self.assertGreater(report.repairs, 0)
                else:
                    self.assertEqual(report.repairs, 0)

    def test_muons_update_is_known_and_soft_cap_needs_no_repairs(self):
        for adjust in ("original", "spectral_unclamped"):
            module = network()
            vectors = [p for p in module.parameters() if p.dim() == 1]
            muon = bridle.Muon(matrices(module), lr=0.05, adjust_lr_fn=adjust)
            constraint = bridle.Constraint(module, max_norm={"*": 2.0, "4.*": 3.0})
            torch.optim.AdamW(vectors, lr=0.01)
            self.holds_for(60, module, muon, constraint, [2.0, 2.0, 3.0])
            self.assertEqual(constraint.report().repairs, 0)

    def test_spectral_norms_are_capped_where_they_are_asked_for(self):
        module = network()
        constraint = bridle.Constraint(module, "normalize", max_norm=1.25, norm="spectral")
        constraint.attach(torch.optim.SGD(module.parameters(), lr=0.5))
        self.assertTrue(all(spectral_norm(w) <= 1.25 for w in matrices(module)))
        muon = bridle.Muon(matrices(module), lr=0.05)
        soft = bridle.Constraint(module, "soft_cap", max_norm=1.25, norm="spectral").attach(muon)
        for _ in range(20):
            muon.zero_grad()
            loss_of(module).backward()
            muon.step()
            for weight in matrices(module):
                self.assertLessEqual(spectral_norm(weight), 1.25 * (1 + 1e-13))
        self.assertEqual(soft.report().repairs, 0)

    def test_heads_are_capped_each_for_itself(self):
        largest = {}
        for heads in (1, 4):
            torch.manual_seed(1)
            layer = torch.nn.Linear(12, 24, bias=False)
            muon = bridle.Muon([{"params": [layer.weight], "heads": heads}], lr=0.2)
            constraint = bridle.Constraint(layer, max_norm=1.0, per_head={"weight": heads}).attach(muon)
            for _ in range(30):
                layer.weight.grad = torch.randn(24, 12)
                muon.step()
                self.assertLessEqual(rms_norm(layer.weight, heads), 1.0)
            self.assertEqual(constraint.report().repairs, 0)
            self.assertEqual(constraint.report().weights["weight"].heads, heads)
            largest[heads] = rms_norm(layer.weight, 4)
        self.assertGreater(largest[1], 1.0)  # capped as a whole, a head may have more
        self.assertLessEqual(largest[4], 1.0)

    def test_rows_of_a_table_are_capped_by_their_rms(self):
        module = torch.nn.Sequential(torch.nn.Embedding(10, 8), torch.nn.Linear(8, 8))
        optimizer = torch.optim.SGD(module.parameters(), lr=5.0)
        bridle.Constraint(module, "normalize", max_norm={"*": 1.0, "0.weight": 0.5}).attach(optimizer)
        for _ in range(5):
            optimizer.zero_grad()
            module(torch.randint(10, (4, 6))).square().sum().neg().backward()
            optimizer.step()
            rows = module[0].weight.detach().double().square().mean(1).sqrt()
            self.assertLessEqual(rows.max().item(), 0.5)
            self.assertLessEqual(rms_norm(module[1].weight), 1.0)

    def test_a_table_may_have_an_optimizer_whose_update_is_not_known(self):
        module = torch.nn.Sequential(torch.nn.Embedding(10, 8), torch.nn.Linear(8, 8, bias=False))
        muon, adamw = bridle.Muon(module[1].parameters(), lr=0.1), torch.optim.AdamW(module[0].parameters(), lr=0.5)
        constraint = bridle.Constraint(module, "soft_cap", max_norm=1.0).attach(muon).attach(adamw)
        for _ in range(5):
            module(torch.randint(10, (4, 6))).square().sum().neg().backward()
            for optimizer in (muon, adamw):
                optimizer.step()
                optimizer.zero_grad()
            self.assertTrue(constraint.prove())
            self.assertLessEqual(module[0].weight.detach().double().square().mean(1).sqrt().max().item(), 1.0)
        self.assertEqual([w.steps for w in constraint.report().weights.values()], [5, 5])

    def test_every_method_holds_its_cap_in_every_type(self):
        for method in bridle.constraint_names():
            for dtype in (torch.float32, torch.float64, torch.bfloat16):
                weight = torch.nn.Parameter(torch.randn(16, 24).to(dtype))
                muon = bridle.Muon([weight], lr=0.1)
                constraint = bridle.Constraint([weight], method, max_norm=0.5).attach(muon)
                for _ in range(3):
                    weight.grad = torch.randn(16, 24).to(dtype)
                    muon.step()
                    self.assertLessEqual(rms_norm(weight), 0.5 * (1 + 1e-13), (method, dtype))
                self.assertTrue(constraint.prove())


class Attach(Test):
    def test_schedulers_before_and_after_it_are_content(self):
        for before in (True, False):
            module = network()
            optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
            constraint = bridle.Constraint(module, "normalize", max_norm=1.0)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                if before:
                    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
                constraint.attach(optimizer)
                if not before:
                    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
                for _ in range(3):
                    loss_of(module).backward()
                    optimizer.step()
                    scheduler.step()
            self.assertEqual(constraint.report().proofs, 9)
            self.assertLess(optimizer.param_groups[0]["lr"], 0.001)

    def test_it_starts_by_bringing_weights_inside_and_leaves_what_is_inside(self):
        weight, inside = torch.nn.Parameter(10 * torch.randn(8, 8)), torch.nn.Parameter(0.01 * torch.randn(8, 8))
        before = inside.detach().clone()
        constraint = bridle.Constraint([("a", weight), ("b", inside)], "normalize", max_norm=1.0)
        self.assertFalse(constraint.prove())
        constraint.attach(torch.optim.SGD([weight, inside], lr=0.1))
        self.assertTrue(constraint.prove())
        self.assertTrue(inside.equal(before))

    def test_each_optimizer_enforces_its_own_weights_until_it_is_left(self):
        module = network()
        first, last = (torch.optim.SGD(module[i].parameters(), lr=1.0) for i in (0, 4))
        constraint = bridle.Constraint(module, "normalize", max_norm=1.0).attach(first).attach(last)
        loss_of(module).backward()
        first.step()
        last.step()
        last.step()
        self.assertEqual([w.steps for w in constraint.report().weights.values()], [1, 0, 2])
        constraint.detach()
        first.step()
        self.assertEqual(constraint.report().proofs, 3)

    def test_a_step_of_any_kind_can_be_followed_by_enforce(self):
        module = network()
        constraint = bridle.Constraint(module, "normalize", max_norm=1.0)
        constraint.start()
        with torch.no_grad():
            for weight in matrices(module):
                weight.mul_(3.0)
        constraint.enforce()
        self.assertTrue(constraint.prove())

    def test_a_run_that_goes_on_is_the_run_that_was_not_interrupted(self):
        def train(steps, module, state=None):
            muon = bridle.Muon(matrices(module), lr=0.1)
            constraint = bridle.Constraint(module, "hammer", max_norm=1.0)
            if state:
                muon.load_state_dict(state[0])
                constraint.load_state_dict(state[1])
            constraint.attach(muon)
            for step in steps:
                torch.manual_seed(step)
                muon.zero_grad()
                loss_of(module).backward()
                muon.step()
            return muon.state_dict(), constraint.state_dict()

        whole, parts = network(), network()
        parts.load_state_dict(whole.state_dict())
        all_of_it = train(range(10), whole)
        state = train(range(6), parts)
        rest = train(range(6, 10), parts, state)
        for a, b in zip(whole.parameters(), parts.parameters()):
            self.assertTrue(a.equal(b))
        self.assertEqual(
            {k: v["repairs"] for k, v in all_of_it[1].items()}, {k: v["repairs"] for k, v in rest[1].items()}
        )
        with self.raises(bridle.InputError, "the state must be about the weights"):
            bridle.Constraint(network()[0], "hammer", max_norm=1.0).load_state_dict(state[1])

    def test_weights_that_are_replaced_or_cast_are_the_ones_that_are_capped(self):
        module = network()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        constraint = bridle.Constraint(module, "normalize", max_norm=1.0).attach(optimizer)
        module.double()  # gives every parameter other memory
        optimizer.zero_grad()
        module(torch.randn(64, 20, dtype=torch.float64)).square().sum().neg().backward()
        optimizer.step()
        self.assertTrue(constraint.report().holds)
        for weight in matrices(module):
            self.assertEqual(weight.dtype, torch.float64)
            self.assertLessEqual(rms_norm(weight), 1.0 + 1e-13)


class Reports(Test):
    def test_a_report_is_a_table_and_a_dictionary(self):
        module = network()
        constraint = bridle.Constraint(module, "normalize", max_norm={"*": 1.0, "4.weight": None})
        report = constraint.report()
        self.assertEqual(report.unconstrained, ("0.bias", "2.bias", "4.weight", "4.bias"))
        self.assertEqual(list(report.weights), ["0.weight", "2.weight"])
        self.assertEqual(len(str(report).splitlines()), 3)
        for own in report.weights.values():
            shown = float(str(report).split(own.name)[1].split()[2])
            self.assertGreaterEqual(shown, own.norm_bound)
        self.assertEqual(json.loads(json.dumps(report.to_dict()))["weights"]["0.weight"]["cap"], 1.0)

    def test_the_largest_norm_of_broken_weights_is_infinite(self):
        layer = torch.nn.Linear(2, 2)
        constraint = bridle.Constraint(layer, "normalize", max_norm=1.0)
        with torch.no_grad():
            layer.weight.fill_(math.nan)
        self.assertEqual(constraint.report().largest_norm_bound, math.inf)
        self.assertFalse(constraint.report().holds)
        self.assertFalse(constraint.prove())


class Refusals(Test):
    def test_nan_ends_the_step_with_an_error_that_names_the_weight(self):
        for method in bridle.constraint_names():
            layer = torch.nn.Linear(4, 4)
            optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
            bridle.Constraint(layer, method, max_norm=1.0, measure_reach=True).attach(optimizer)
            layer.weight.grad = torch.full((4, 4), math.nan)
            with self.raises((bridle.NumericError, bridle.PromiseError), "weight"):
                optimizer.step()

    def test_a_method_that_needs_the_updates_norm_says_so_at_once(self):
        module = network()
        with self.raises(bridle.InputError, "soft_cap must know the norm of the update, which Adam does not say"):
            bridle.Constraint(module, max_norm=1.0).attach(torch.optim.Adam(module.parameters()))

    def test_what_makes_no_sense_is_refused(self):
        module = network()
        for keywords, part in (
            ({"max_norm": 0.0}, "0.weight: max_norm must be positive and finite, got 0.0"),
            ({"max_norm": math.inf}, "positive and finite"),
            ({"max_norm": math.nan}, "positive and finite"),
            ({"method": "softcap", "max_norm": 1.0}, "did you mean 'soft_cap'?"),
            ({"max_norm": {"none": 1.0}}, "nothing matches 'none'"),
            ({"max_norm": 1.0, "per_head": {"heads": 2}}, "nothing matches 'heads'"),
            ({"max_norm": 1.0, "per_head": {"0.weight": 5}}, "per_head must divide its 48 rows, got 5"),
            ({"max_norm": {"0.bias": 1.0}}, "0.bias must be a matrix"),
            ({"max_norm": {"*": None}}, "at least one weight must be a matrix"),
            ({"max_norm": 1.0, "norm": "frobenius"}, "norm must be one of rms, spectral"),
        ):
            with self.raises(bridle.InputError, "[constraint]", part):
                bridle.Constraint(module, **keywords)
        with self.raises(bridle.InputError, "the optimizer must step at least one of the weights"):
            bridle.Constraint(module, max_norm=1.0).attach(bridle.Muon([torch.nn.Parameter(torch.zeros(2, 2))]))
        with self.raises(bridle.InputError, "of a convolution no norm is bounded here"):
            bridle.Constraint(torch.nn.Conv2d(2, 2, 3), max_norm=1.0)
        with self.raises(bridle.InputError, "it is a table"):
            bridle.Constraint(torch.nn.Embedding(4, 2), max_norm=1.0, norm="spectral")
        with self.raises(bridle.InputError, "float32, float64 or bfloat16"):
            bridle.Constraint(torch.nn.Linear(2, 2).half(), max_norm=1.0)
        weight = torch.nn.Parameter(torch.zeros(2, 2))
        with self.raises(bridle.InputError, "a name of its own; a is there twice"):
            bridle.Constraint([("a", weight), ("a", weight)], max_norm=1.0)

    def test_frozen_weights_are_left_alone_and_listed(self):
        module = network()
        module[0].requires_grad_(False)
        constraint = bridle.Constraint(module, "normalize", max_norm=0.01)
        before = module[0].weight.clone()
        constraint.start()
        self.assertTrue(module[0].weight.equal(before))
        self.assertIn("0.weight", constraint.report().unconstrained)

    def test_a_tied_head_is_a_matrix(self):
        embedding, head = torch.nn.Embedding(12, 8), torch.nn.Linear(8, 12, bias=False)
        head.weight = embedding.weight
        module = torch.nn.ModuleDict({"embedding": embedding, "head": head})
        bridle.Constraint(module, "normalize", max_norm=0.5).start()
        self.assertLessEqual(rms_norm(head.weight), 0.5 * (1 + 1e-13))


if __name__ == "__main__":
    main()
