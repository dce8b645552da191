#include "io/onnx_graph.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/subprocess.h"
#include "file_support.h"

namespace bridle {
namespace {

// ONNX's own library reads what was written: names, types, shapes, attributes and values.
TEST(AnOnnxGraph, IsReadByOnnxItself) {
  const test::TemporaryFolder folder;
  if (run_program({"/usr/bin/python3", "-c", "import onnx"}, folder).exit_code != 0)
    GTEST_SKIP() << "ONNX IS MISSING (python3-onnx): the file was not read";
  OnnxGraph graph("small");
  const std::string x = graph.input("x", at::kFloat, {"batch", int64_t{3}});
  const std::string scaled = graph.apply("Mul", {x, graph.constant(at::arange(3, at::kDouble).add(0.5))});
  const std::string cut =
      graph.apply("Slice", {scaled, graph.integers({0}), graph.integers({-1}), graph.integers({1})});
  const std::string y = graph.apply("Softmax", {cut}, {{"axis", int64_t{-1}}});
  graph.output(graph.apply("Add", {y, graph.constant(2.0)}), "y", {"batch", int64_t{2}});
  write_file(folder / "small.onnx", graph.serialized({{"key", "value"}}));
  const ProgramResult seen = run_program(
      {"/usr/bin/python3", "-c",
       "import onnx, onnx.numpy_helper as h\n"
       "m = onnx.load('small.onnx')\n"
       "onnx.checker.check_model(m, full_check=True)\n"
       "print([n.op_type for n in m.graph.node], m.metadata_props[0].value, m.opset_import[0].version)\n"
       "print([h.to_array(t).tolist() for t in m.graph.initializer], m.graph.node[2].attribute[0].i)\n"
       "print([d.dim_param or d.dim_value for d in m.graph.input[0].type.tensor_type.shape.dim])\n"},
      folder);
  ASSERT_EQ(seen.exit_code, 0) << seen.errors;
  EXPECT_EQ(seen.output,
            "['Mul', 'Slice', 'Softmax', 'Add', 'Identity'] value 13\n"
            "[[0.5, 1.5, 2.5], [0], [-1], [1], 2.0] -1\n"
            "['batch', 3]\n");
}

}  // namespace
}  // namespace bridle
