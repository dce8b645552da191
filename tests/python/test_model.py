"""A stored model as a module: its logits are those of C++, for every option that config.json has."""
import copy
import functools
import struct
import subprocess

from support import *

WRITE_LOGITS = os.environ.get("BRIDLE_WRITE_LOGITS", str(ROOT / "build/release/tests/write_logits"))
CONFIGS = [folder / "config.json" for folder in sorted(BASES.iterdir())]


def inputs_for(model, rows=7):
    if "layer_sizes" in model.config:
        return torch.randn(rows, model.config["layer_sizes"][0])
    return torch.randint(model.config["vocab_size"], (rows, model.config["max_position_embeddings"]))


class Load(Test):
    def logits_of_cpp(self, asked):
        """Of pairs of a folder and inputs, by one process."""
        words = []
        for place, (folder, inputs) in enumerate(asked):
            inputs.contiguous().numpy().tofile(self.folder / f"inputs_{place}")
            words += [folder, self.folder / f"inputs_{place}", str(inputs.shape[1]), self.folder / f"logits_{place}"]
        subprocess.run([WRITE_LOGITS, *words], check=True)
        return [
            torch.from_numpy(numpy.fromfile(self.folder / f"logits_{place}", dtype=numpy.float32))
            for place in range(len(asked))
        ]

    def holds(self, folders, models, rows=7):
        """The models' logits, which are those of C++ for the models in the folders."""
        asked = [inputs_for(model, rows) for model in models]
        all_logits = [model(inputs) for model, inputs in zip(models, asked)]
        for folder, logits, expected in zip(folders, all_logits, self.logits_of_cpp(list(zip(folders, asked)))):
            self.assertTrue(
                torch.allclose(logits, expected.view(logits.shape), rtol=1e-5, atol=1e-5, equal_nan=True), folder
            )
        return all_logits

    def test_every_model_of_the_corpus_gives_the_logits_of_cpp(self):
        self.assertGreaterEqual(len(CONFIGS), 25)
        folders = [config.parent for config in CONFIGS]
        models = [bridle.load(folder).eval() for folder in folders]
        self.holds(folders, models)
        for config, model in zip(CONFIGS, models):
            stored = json.loads(config.read_text())
            self.assertEqual(
                {k: v for k, v in model.config.items() if k in stored and k != "learned_alpha"},
                {k: v for k, v in stored.items() if k in model.config and k != "learned_alpha"},
            )

    def test_the_corpus_has_every_option_at_another_value_than_its_default(self):
        @functools.lru_cache
        def defaults(kind):
            sizes = {"layer_sizes": [2, 2]} if kind == "bridle_mlp" else {"vocab_size": 2, "max_position_embeddings": 2}
            return bridle.Model({"model_type": kind, **sizes}).config

        seen = {}
        for folder in BASES.iterdir():
            config = bridle.load(folder).config
            for key, value in config.items():
                if value != defaults(config["model_type"])[key]:
                    seen.setdefault(config["model_type"], set()).add(key)
        for kind, keys in seen.items():
            # RoPE's own options and where biases begin are in the models that the next test makes.
            left = set(defaults(kind)) - keys - {"model_type"}
            self.assertEqual(
                left - {"rope_theta", "rope_half_truncated", "position_bias_start", "position_bias_dilation"}, set()
            )

    def test_new_models_give_the_logits_of_cpp_once_saved(self):
        small = {
            "model_type": "bridle",
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "vocab_size": 11,
            "max_position_embeddings": 9,
        }
        for place, options in enumerate(
            (
                {"rope_theta": 100.0, "rope_half_truncated": True},
                {"position_bias": True, "position_bias_start": 3.0, "position_bias_dilation": 2},
                {
                    "mixing": "quadrature",
                    "positions": "none",
                    "memory_channels": 32,
                    "hidden_act": "abs",
                    "activation_divisor": 1.0,
                    "learned_alpha": "scalar",
                },
            )
        ):
            model = bridle.Model({**small, **options}, seed=place).eval()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(0.3 * torch.randn_like(parameter))
            model.save(self.folder / str(place))
            [logits] = self.holds([self.folder / str(place)], [model])
            self.assertGreater(logits.abs().max(), 1e-3)  # it computes something

    def test_a_run_of_the_command_line_gives_its_logits_and_its_loss(self):
        run_folder = self.train()
        model = bridle.load(run_folder).eval()
        [logits] = self.holds([run_folder], [model], rows=100)
        self.assertGreater(logits.std().item(), 1e-3)
        # The loss that `bridle eval` prints, over the same targets: windows of so many tokens, and what is left.
        facts = json.loads(run("eval", run_folder, "--json", BRIDLE_DATA=str(self.folder / "data")))
        shard = next((self.folder / "data/words").glob("val*"))
        tokens = torch.from_numpy(numpy.fromfile(shard, dtype=numpy.uint16, offset=1024).astype(numpy.int64))
        self.assertEqual(facts["targets"], len(tokens) - 1)
        loss = 0.0
        with torch.no_grad():
            for start in range(0, len(tokens) - 1, 16):
                window = tokens[start : start + 17]
                logits = model(window[None, :-1])[0]
                loss += torch.nn.functional.cross_entropy(logits, window[1:], reduction="sum").item()
        self.assertAlmostEqual(loss / facts["targets"], facts["loss"], delta=1e-5)

    def test_a_perceptron_is_its_formula(self):
        model = bridle.load(BASES / "mlp_maxmin").double()
        x = torch.randn(5, 2, dtype=torch.float64)
        y = x
        weights = list(model.parameters())
        for weight in weights[:-1]:
            y = y @ weight.T
            y = torch.stack([y.view(5, -1, 2).amax(-1), y.view(5, -1, 2).amin(-1)], -1).flatten(1)
        self.assertTrue(torch.allclose(model(x), y @ weights[-1].T, rtol=1e-12, atol=1e-14))


class Gradients(Test):
    def test_gradients_are_those_of_finite_differences(self):
        for name in (
            "mlp_gelu",
            "transformer_grouped",
            "transformer_quadrature",
            "transformer_lipsformer",
            "transformer_biased",
        ):
            model = bridle.load(BASES / name).double().eval()
            inputs = inputs_for(model, 2)
            for parameter in model.parameters():
                with torch.no_grad():
                    parameter.mul_(0.5)
            weight = torch.randn_like(model(inputs.double() if inputs.is_floating_point() else inputs))

            def value(model=model, inputs=inputs, weight=weight):
                return (model(inputs) * weight).sum()

            model.zero_grad()
            value().backward()
            for key, parameter in model.named_parameters():
                direction = torch.randn_like(parameter)
                with torch.no_grad():
                    parameter.add_(1e-5 * direction)
                    above = value()
                    parameter.sub_(2e-5 * direction)
                    below = value()
                    parameter.add_(1e-5 * direction)
                slope, expected = (parameter.grad * direction).sum().item(), ((above - below) / 2e-5).item()
                self.assertAlmostEqual(slope, expected, delta=1e-4 * max(1.0, abs(expected)), msg=f"{name} {key}")

    def test_frozen_weights_stay_frozen(self):
        model = bridle.load(BASES / "mlp_relu")
        first, last = model.parameters()
        first.requires_grad_(False)
        model(torch.randn(4, 3)).sum().backward()
        self.assertFalse(first.requires_grad)
        self.assertIsNone(first.grad)
        self.assertIsNotNone(last.grad)

    def test_it_learns_in_a_loop_of_ones_own_below_its_caps(self):
        model = bridle.Model({"model_type": "bridle_mlp", "layer_sizes": [8, 32, 3], "mlp_activation": "relu"}, seed=1)
        optimizer = bridle.Muon(model.parameters(), lr=0.05, weight_decay=0.0)
        constraint = bridle.Constraint(model, max_norm=2.0).attach(optimizer)
        x = torch.randn(200, 8)
        y = x[:, :3].argmax(1)
        losses = []
        for _ in range(60):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        self.assertLess(losses[-1], 0.7 * losses[0])
        self.assertTrue(constraint.report().holds)
        model.save(self.folder / "model")
        self.assertLessEqual(bridle.certify(self.folder / "model")["lipschitz"], 4.0 * (1 + 1e-6))


class Module(Test):
    def test_its_state_goes_out_and_in_again(self):
        model = bridle.load(BASES / "transformer_vector_alpha").eval()
        inputs = inputs_for(model)
        other = bridle.Model(model.config, seed=5).eval()
        self.assertFalse(other(inputs).equal(model(inputs)))
        torch.save(model.state_dict(), self.folder / "state.pt")
        other.load_state_dict(torch.load(self.folder / "state.pt"))
        self.assertTrue(other(inputs).equal(model(inputs)))
        self.assertIn("model.layers.0.self_attn.q_proj.weight", model.state_dict())
        self.assertTrue(copy.deepcopy(model)(inputs).equal(model(inputs)))
        torch.save(model, self.folder / "model.pt")
        whole = torch.load(self.folder / "model.pt", **({"weights_only": False} if torch.__version__ >= "2" else {}))
        self.assertTrue(whole(inputs).equal(model(inputs)))

    def test_state_names_are_those_of_the_weight_file(self):
        for folder in sorted(BASES.iterdir()):
            with open(folder / "model.safetensors", "rb") as file:
                header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
            self.assertEqual(set(bridle.load(folder).state_dict()), set(header) - {"__metadata__"})

    def test_what_is_saved_is_what_was_loaded(self):
        for name in ("transformer", "mlp_maxmin", "transformer_biased"):
            model = bridle.load(BASES / name)
            model.save(self.folder / name)
            again = bridle.load(self.folder / name)
            self.assertEqual(again.config, model.config)
            for (key, a), (other, b) in zip(model.state_dict().items(), again.state_dict().items()):
                self.assertEqual(key, other)
                self.assertEqual(a.dtype, b.dtype)
                self.assertTrue(a.equal(b))

    def test_nothing_is_saved_over_a_model_unless_asked(self):
        model = bridle.load(BASES / "mlp_relu")
        model.save(self.folder / "model")
        before = (self.folder / "model/model.safetensors").read_bytes()
        with torch.no_grad():
            model.get_parameter("model.layers.0.weight").zero_()
        with self.raises(bridle.InputError, "[save]", "must not hold a model yet"):
            model.save(self.folder / "model")
        self.assertEqual((self.folder / "model/model.safetensors").read_bytes(), before)
        model.save(self.folder / "model", overwrite=True)
        self.assertNotEqual((self.folder / "model/model.safetensors").read_bytes(), before)

    def test_autocast_does_not_reach_into_it_and_its_own_type_does(self):
        model = bridle.load(BASES / "transformer").eval()
        inputs = inputs_for(model)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.assertTrue(model(inputs).equal(model(inputs)))
            self.assertEqual(model(inputs).dtype, torch.float32)
        model.compute_dtype = torch.bfloat16
        self.assertEqual(model(inputs).dtype, torch.bfloat16)
        self.assertEqual(model.double()(inputs).dtype, torch.float64)

    def test_dropout_is_pytorchs_seeds_and_only_in_training(self):
        model = bridle.load(BASES / "transformer_normed")
        inputs = inputs_for(model)
        first, second = model.train()(inputs), model(inputs)
        self.assertFalse(first.equal(second))
        torch.manual_seed(3)
        first = model(inputs)
        torch.manual_seed(3)
        self.assertTrue(model(inputs).equal(first))
        self.assertTrue(model.eval()(inputs).equal(model(inputs)))

    def test_what_is_no_model_is_refused_with_the_name_of_what_is_wrong(self):
        folder = self.folder / "model"
        bridle.load(BASES / "transformer").save(folder)
        config = json.loads((folder / "config.json").read_text())
        for change, part in (
            ({"norm": "batch_norm"}, "norm must be one of"),
            ({"hidden_sizes": 4}, "there is no key"),
            ({"hidden_size": 8}, "has shape"),
            ({"num_hidden_layers": 2}, "is missing"),
            ({"model_type": "llama"}, "model_type is"),
        ):
            (folder / "config.json").write_text(json.dumps({**config, **change}))
            with self.raises(bridle.InputError, "[model]", part):
                bridle.load(folder)
        (folder / "config.json").write_text(json.dumps(config))
        weights = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(weights[:-1])
        with self.raises(bridle.InputError, "model.safetensors"):
            bridle.load(folder)
        with self.raises(bridle.InputError, "is not a folder"):
            bridle.load(self.folder / "none")

    def test_inputs_that_do_not_fit_are_refused(self):
        transformer, perceptron = bridle.load(BASES / "transformer"), bridle.load(BASES / "mlp_relu")
        with self.raises(bridle.InputError, "[forward] inputs must be token ids [B, T] in int64"):
            transformer(torch.zeros(1, 3))
        with self.raises(bridle.InputError, "[forward] inputs must be vectors [B, 3]"):
            perceptron(torch.zeros(1, 4))
        with self.raises((IndexError, RuntimeError)):
            transformer(torch.full((1, 3), 99))
        perceptron.get_submodule("model.layers.0").weight = torch.nn.Parameter(torch.zeros(2, 2))
        with self.raises(bridle.InputError, "model.layers.0.weight must have shape [5, 3], got [2, 2]"):
            perceptron(torch.zeros(1, 3))


if __name__ == "__main__":
    main()
