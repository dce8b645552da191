#include <gtest/gtest.h>

#include "base/files.h"
#include "base/words.h"
#include "bridle/certificate_file.h"
#include "bridle/error.h"
#include "bridle/export.h"
#include "bridle/run.h"
#include "bridle/safetensors.h"
#include "export_support.h"
#include "file_support.h"
#include "train_support.h"

namespace bridle {
namespace {

TEST(AnExportedRun, HasItsFilesExamplesAndCertificate) {
  const test::TemporaryData data;
  const auto run = test::short_run(data);
  const ExportResult torch =
      export_model(run.folder, {.format = ExportFormat::torch, .out = data / "torch", .examples = 3});
  EXPECT_EQ(torch.files.size(), 6U);  // with the vocabulary
  EXPECT_TRUE(check_certificate(data / "torch" / "certificate.json", data / "torch").loose.empty());
  const SafetensorsFile examples = read_safetensors(data / "torch" / "examples.safetensors");
  Pass pass{.dtype = at::kDouble};
  const auto opened = open_run(run.folder);
  EXPECT_TRUE(opened.model->forward(examples.at("inputs"), pass).detach().equal(examples.at("logits")));
  EXPECT_EQ(examples.at("inputs").size(0), 3);
  const ExportResult onnx = export_model(run.folder, {.format = ExportFormat::onnx, .out = data / "a.onnx"});
  EXPECT_EQ(onnx.files, std::vector<std::filesystem::path>{data / "a.onnx"});
  EXPECT_EQ(onnx.sha256, torch.sha256);
  EXPECT_GT(onnx.lipschitz.value(), 0.0);
  EXPECT_ERROR(export_model(run.folder, {.format = ExportFormat::header, .out = data / "a.h"}), InputError,
               "--format header is for MLPs");
  EXPECT_FALSE(std::filesystem::exists(data / "a.h"));
}

TEST(AnExport, RefusesWhatIsThereAndWhatItCannotDo) {
  const test::TemporaryFolder folder;
  make_folder(folder / "model");
  write_model(*test::trained_like(MlpOptions{.layer_sizes = {4, 3}}), folder / "model");
  write_file(folder / "file", "kept");
  make_folder(folder / "full");
  write_file(folder / "full" / "file", "kept");
  const auto refused = [&](const ExportOptions& options, const char* part) {
    EXPECT_ERROR(export_model(folder / "model", options), InputError, part);
  };
  refused({.format = ExportFormat::torch, .out = folder / "full"}, "must be missing or empty");
  refused({.format = ExportFormat::torch, .out = folder / "file"}, "must be missing or empty");
  refused({.format = ExportFormat::onnx, .out = folder / "full"}, "must be a file");
  refused({.format = ExportFormat::onnx, .out = folder / "a.onnx", .examples = -1},
          "--examples must be 0 or more");
  refused({.format = ExportFormat::onnx, .out = folder / "a.onnx", .property = 0}, "--property needs a run");
  refused({.format = ExportFormat::torch, .out = folder / "b", .property = 0},
          "--property goes with --format onnx");
  refused({.format = ExportFormat::onnx, .out = folder / "a.onnx", .epsilon = -1.0},
          "--eps must be positive");
  EXPECT_ERROR(export_model(folder / "none", {.out = folder / "b"}), InputError, "is not a folder");
  EXPECT_EQ(read_file(folder / "file"), "kept");
  EXPECT_EQ(test::entries(folder / "full"), std::vector<std::string>{"file"});
}

TEST(AnExport, LeavesNothingHalfWritten) {
  const test::TemporaryFolder folder;
  make_folder(folder / "model");
  write_model(*test::trained_like(MlpOptions{.layer_sizes = {64, 64, 3}}), folder / "model");
  const std::vector<std::string> before = test::entries(folder);
  {
    const test::FileSizeLimit limit(4096);  // as on a full disk
    EXPECT_THROW(export_model(folder / "model", {.format = ExportFormat::torch, .out = folder / "t"}),
                 InputError);
    EXPECT_THROW(export_model(folder / "model", {.format = ExportFormat::onnx, .out = folder / "o.onnx"}),
                 InputError);
    EXPECT_THROW(export_model(folder / "model", {.format = ExportFormat::header, .out = folder / "h.h"}),
                 InputError);
  }
  EXPECT_EQ(test::entries(folder), before);
}

TEST(ExportFormats, HaveWords) {
  EXPECT_EQ(value_of<ExportFormat>("header"), ExportFormat::header);
  EXPECT_EQ(value_of<ExportFormat>("torch"), ExportFormat::torch);
  EXPECT_EQ(value_of<ExportFormat>("onnx"), ExportFormat::onnx);
  EXPECT_EQ(value_of<ExportFormat>("pickle"), std::nullopt);
}

}  // namespace
}  // namespace bridle
