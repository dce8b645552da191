// Start here. Bridle's public headers, in the order in which they build on each other:
//
//   error.h        the few kinds of exception
//   upper_bound.h  a number that is never too small
//   bound.h        activation and Lipschitz bound of a signal
//   param.h        a weight with its role and blocks; what an optimizer says about its step
//   random.h       counter-based random numbers
//   progress.h     how far a long piece of work has come
//   linalg.h       orthogonalisation, polynomials of singular values, spectral norms from below and above
//   constraint.h   the weight constraints, and enforce–prove–repair on top of them
//   optim.h        optimizers, schedules, shares of the learning rate
//   tokenizer.h    text and token ids
//   data.h         data sets: get, import, open
//   loader.h       batches for training and evaluation
//   safetensors.h  named tensors in files
//   nn.h           models: forward and bound side by side
//   certify.h      bounds with all that proves them, and their check; the largest stretch that a search finds
//   head_logits.h  how large the logits of every head of attention can become
//   metrics.h      what a run measures, as records to sinks
//   predictions.h  predictions that cannot change
//   attack.h       accuracy under attack, beside certified accuracy
//   model_folder.h      a model's two files: config.json and model.safetensors
//   certificate_file.h  certificate.json: write, read, check
//   foreign.h      models that other tools wrote
//   ranks.h        processes that train one model together
//   train.h        recipes, training, evaluation
//   run.h          a run's folder: open it, sample from it
//   export.h       a model as a C++ header, a folder for PyTorch, an ONNX file
//   quantize.h     8-bit weights, and how far they are from the original
//   sweep.h        many runs from one file
//   report.h       a page for runs and sweeps
//   serve.h        the same page over HTTP, while runs train
#pragma once

#include "bridle/architecture.h"
#include "bridle/attack.h"
#include "bridle/bound.h"
#include "bridle/certificate_file.h"
#include "bridle/certify.h"
#include "bridle/constraint.h"
#include "bridle/data.h"
#include "bridle/error.h"
#include "bridle/export.h"
#include "bridle/foreign.h"
#include "bridle/head_logits.h"
#include "bridle/linalg.h"
#include "bridle/loader.h"
#include "bridle/metrics.h"
#include "bridle/model_folder.h"
#include "bridle/nn.h"
#include "bridle/optim.h"
#include "bridle/param.h"
#include "bridle/predictions.h"
#include "bridle/progress.h"
#include "bridle/quantize.h"
#include "bridle/random.h"
#include "bridle/ranks.h"
#include "bridle/report.h"
#include "bridle/run.h"
#include "bridle/safetensors.h"
#include "bridle/serve.h"
#include "bridle/sweep.h"
#include "bridle/tokenizer.h"
#include "bridle/train.h"
#include "bridle/upper_bound.h"
