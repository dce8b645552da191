#!/usr/bin/env python3
"""A controller for a pendulum, with a Lipschitz bound, as a C++ header without dependencies.

    controller.py BRIDLE FOLDER

A network learns the torque that a formula with a limit gives, under a bound that is named before training: sensors
that are off by ε, as an RMS in their standard deviations, move the torque by at most the bound times ε of its own. Then
the header steers the pendulum upright.
FOLDER is made and keeps everything: data, run, certificate, header. Needs the program BRIDLE and a C++ compiler.
"""
import json
import math
import os
import pathlib
import random
import subprocess
import sys

RECIPE = """
[data]
name = "pendulum"
batch_size = 64
[model]
kind = "mlp"
hidden_sizes = [32, 32]
mlp_activation = "maxmin"
bias = true
[optimizer]
method = "muon"
lr = 0.1
[constraint]
lipschitz = 4.0                  # of standardised angle, speed and torque
[training]
steps = 400
evaluate_every = 0
checkpoint_every = 0
"""

LOOP = """
#include <cmath>
#include <cstdio>
#include "controller.h"
int main() {
  double angle = 0.8, speed = 0.0;  // from upright
  for (int step = 0; step < 1000; ++step) {
    const double seen[2] = {angle, speed};
    double in[2], out[1];
    controller::standardise(seen, in);
    controller::evaluate(in, out);
    const double torque = TORQUE_MEAN + TORQUE_DEVIATION * out[0];
    speed += 0.01 * (9.81 * std::sin(angle) + torque);
    angle += 0.01 * speed;
  }
  std::printf("after ten seconds the angle is %.3f\\n", angle);
  return std::fabs(angle) < 0.1 ? 0 : 1;
}
"""


def main():
    bridle, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True)
    environment = {**os.environ, "BRIDLE_DATA": str(folder / "data")}

    def run(*words):
        return subprocess.run(words, check=True, cwd=folder, env=environment, capture_output=True, text=True).stdout

    dice = random.Random(0)
    with open(folder / "pendulum.csv", "w", encoding="utf-8") as out:
        out.write("angle,speed,torque\n")
        for _ in range(4000):
            angle, speed = dice.uniform(-1.5, 1.5), dice.uniform(-4.0, 4.0)
            torque = max(-15.0, min(15.0, -25.0 * angle - 7.0 * speed))
            out.write(f"{angle!r},{speed!r},{torque!r}\n")
    (folder / "recipe.toml").write_text(RECIPE)
    (folder / "loop.cpp").write_text(LOOP)
    run(bridle, "data", "import", "pendulum", "--csv", "pendulum.csv", "--target", "torque", "--regression")
    run(bridle, "train", "recipe.toml", "--out", "controller")
    run(bridle, "check", "controller/certificate.json")  # proves it again
    facts = json.loads((folder / "controller/certificate.json").read_text())
    loss = json.loads(run(bridle, "eval", "controller", "--json"))["loss"]
    print(f"certified: {facts['lipschitz']:.4f}; mean square error, in deviations: {loss:.6f}")
    assert facts["lipschitz"] <= 4.0 and math.isfinite(loss)
    run(bridle, "export", "controller", "--format", "header", "--out", "controller.h")
    units = json.loads((folder / "controller/statistics.json").read_text())
    words = [f"-DTORQUE_MEAN={units['output_mean'][0]!r}", f"-DTORQUE_DEVIATION={units['output_deviation'][0]!r}"]
    run("c++", "-std=c++11", "-O2", *words, "loop.cpp", "-o", "loop")
    print(run("./loop"), end="")


if __name__ == "__main__":
    main()
