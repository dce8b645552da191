"""DistributedDataParallel: each process enforces and proves for itself, and replicas stay equal bit for bit."""
import subprocess
import sys

from support import *

WORKER = """
import sys

import torch
import bridle

rank, folder, kind = int(sys.argv[1]), sys.argv[2], sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting_{kind}", rank=rank, world_size=2)
torch.manual_seed(7)
if kind == "model":
    network = bridle.Model({"model_type": "bridle", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
                            "vocab_size": 11, "max_position_embeddings": 8}, seed=1)
    inputs = lambda: torch.randint(11, (4, 8))
    names = ["*_proj.weight", "lm_head.weight"]
else:
    network = torch.nn.Sequential(torch.nn.Linear(12, 32), bridle.Activation("maxmin"), torch.nn.Linear(32, 11))
    inputs = lambda: torch.randn(16, 12)
    names = ["*.weight"]
replica = torch.nn.parallel.DistributedDataParallel(network)
if kind == "muon":
    optimizer = bridle.Muon([p for p in network.parameters() if p.dim() == 2], lr=0.1)
    constraint = bridle.Constraint(network, "soft_cap", max_norm={name: 1.0 for name in names})
else:
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.05)
    constraint = bridle.Constraint(network, "hammer", max_norm={name: 1.0 for name in names})
constraint.attach(optimizer)
torch.manual_seed(100 + rank)  # each has its own data
seen = 0.0
for _ in range(20):
    x = inputs()
    seen += x.double().sum().item()
    optimizer.zero_grad()
    logits = replica(x)
    torch.nn.functional.cross_entropy(8 * logits.flatten(0, -2), torch.randint(11, (logits.numel() // 11,))).backward()
    optimizer.step()
report = constraint.report()
assert report.holds, report
torch.save({"weights": [p.detach() for p in network.parameters()], "seen": seen, "repairs": report.repairs,
            "proofs": report.proofs}, f"{folder}/{kind}_{rank}.pt")
torch.distributed.destroy_process_group()
"""


class Distributed(Test):
    def test_two_replicas_stay_equal_bit_for_bit(self):
        if not torch.distributed.is_available():
            self.skipTest("this PyTorch has no torch.distributed: replicas are not compared")
        program = self.folder / "worker.py"
        program.write_text(WORKER)
        kinds = ("adamw", "muon", "model")
        workers = [
            subprocess.Popen(
                [sys.executable, program, str(rank), self.folder, kind],
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
            )
            for kind in kinds
            for rank in (0, 1)
        ]
        for worker in workers:
            errors = worker.communicate(timeout=300)[1]
            self.assertEqual(worker.returncode, 0, errors)
        repairs = 0
        for kind in kinds:
            first, second = (torch.load(self.folder / f"{kind}_{rank}.pt") for rank in (0, 1))
            self.assertNotEqual(first["seen"], second["seen"])
            self.assertEqual(first["repairs"], second["repairs"])
            self.assertGreaterEqual(first["proofs"], 40)
            repairs += first["repairs"]
            for a, b in zip(first["weights"], second["weights"]):
                self.assertTrue(a.equal(b), kind)
                if a.dim() == 2 and kind != "model":
                    self.assertLessEqual(rms_norm(a), 1.0 + 1e-13)
        self.assertGreater(repairs, 0)  # repairs are the same on both, too


if __name__ == "__main__":
    main()
