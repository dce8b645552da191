#include "data/dataset.h"

#include "bridle/error.h"
#include "data_support.h"

namespace bridle {
namespace {

using test::entries;
using test::TemporaryData;

const BuildOptions kMine{.name = "mine", .if_present = IfPresent::replace};

DataSet one_file(const std::filesystem::path& folder) {
  write_file(folder / "a.bin", "x");
  return {.from = "a test",
          .outputs = 3,
          .train = {{folder / "a.bin", 1}},
          .validation = {{"/elsewhere/b.bin", 2}}};
}

TEST(DataFolder, FollowsTheEnvironment) {
  const TemporaryData data;
  EXPECT_EQ(data_folder(), data / "data");
  ::unsetenv("BRIDLE_DATA");
  ::setenv("XDG_CACHE_HOME", "/cache", 1);
  EXPECT_EQ(data_folder(), "/cache/bridle");
  ::unsetenv("XDG_CACHE_HOME");
  const std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  ::setenv("HOME", "/home/someone", 1);
  EXPECT_EQ(data_folder(), "/home/someone/.cache/bridle");
  ::unsetenv("HOME");
  EXPECT_ERROR(data_folder(), InputError, "set BRIDLE_DATA");
  ::setenv("HOME", home.c_str(), 1);
}

TEST(DataSets, AreBuiltAndOpened) {
  const TemporaryData data;
  build_data_set(kMine, [](const auto& folder, const auto&) { return one_file(folder); });
  const DataSet mine = open_data_set("mine");
  EXPECT_EQ(mine.name, "mine");
  EXPECT_EQ(mine.from, "a test");
  EXPECT_EQ(mine.outputs, 3);
  EXPECT_EQ(mine.train.at(0).path, data / "data/mine/a.bin");  // where it stands now, not where it was made
  EXPECT_EQ(mine.validation.at(0).path, "/elsewhere/b.bin");
  EXPECT_EQ(mine.validation.at(0).count, 2);
  EXPECT_EQ(entries(data / "data"), (std::vector<std::string>{".partial", "mine"}));
}

TEST(DataSets, RememberTheirSourcesAndTheDocumentToken) {
  const TemporaryData data;
  build_data_set(kMine, [](const auto& folder, const auto&) {
    DataSet set = one_file(folder);
    EXPECT_EQ(set.document_token, std::nullopt);
    set.document_token = Token{2};
    set.validation[0].source = "letters";
    set.sources = {{.name = "letters",
                    .package = "npm package x",
                    .version = "1.0",
                    .licence = "CC0-1.0",
                    .sha256 = "abc",
                    .bytes = 5,
                    .documents = 4,
                    .dropped = 3,
                    .duplicates = 2,
                    .train = 1,
                    .validation = 7}};
    return set;
  });
  const DataSet mine = open_data_set("mine");
  EXPECT_EQ(mine.document_token, 2);
  EXPECT_EQ(mine.train.at(0).source, "");
  EXPECT_EQ(mine.validation.at(0).source, "letters");
  ASSERT_EQ(mine.sources.size(), 1U);
  const TextSource& source = mine.sources[0];
  EXPECT_EQ(source.name + source.package + source.version + source.licence + source.sha256,
            "lettersnpm package x1.0CC0-1.0abc");
  EXPECT_EQ((std::vector{source.bytes, source.documents, source.dropped, source.duplicates, source.train,
                         source.validation}),
            (std::vector<int64_t>{5, 4, 3, 2, 1, 7}));
  const auto list = list_data();
  EXPECT_EQ(list.back().licence, "each source has its own");
  EXPECT_EQ(list.back().parts.at(0).train, 1);
}

TEST(DataSets, AreThereWholeOrNotAtAll) {
  const TemporaryData data;
  const auto fail = [](const auto& folder, const auto& downloads) -> DataSet {
    one_file(folder);
    write_file(downloads / "part", "kept");
    throw InputError("test", "in the middle");
  };
  EXPECT_ERROR(build_data_set(kMine, fail), InputError, "in the middle");
  EXPECT_ERROR(open_data_set("mine"), InputError, "run bridle data get mine");
  build_data_set(kMine, [](const auto& folder, const auto& downloads) {
    EXPECT_TRUE(entries(folder).empty());
    EXPECT_EQ(read_file(downloads / "part"), "kept");
    return one_file(folder);
  });
  EXPECT_ERROR(build_data_set(kMine, fail), InputError, "in the middle");
  EXPECT_EQ(open_data_set("mine").outputs, 3);  // the old one is still there
}

TEST(DataSets, SayThatTheirFolderCannotBeWritten) {
  const TemporaryData data;
  write_file(data / "file", "");
  ::setenv("BRIDLE_DATA", (data / "file/inside").c_str(), 1);
  EXPECT_ERROR(build_data_set(kMine, [](const auto& folder, const auto&) { return one_file(folder); }),
               InputError, "file/inside");
}

TEST(DataSets, RefuseADamagedManifest) {
  const TemporaryData data;
  build_data_set(kMine, [](const auto& folder, const auto&) { return one_file(folder); });
  const auto path = data / "data/mine/dataset.json";
  const std::string good = read_file(path);
  for (const std::string& bad :
       {std::string(), good.substr(0, 40), std::string("[]"), std::string("{\"schema\": 2}")}) {
    write_file(path, bad);
    EXPECT_ERROR(open_data_set("mine"), InputError, "is damaged");
  }
}

TEST(DataSets, NoticeFilesThatAreMissingOrHaveAnotherSize) {
  const TemporaryData data;
  build_data_set(kMine, [](const auto& folder, const auto&) { return one_file(folder); });
  write_file(data / "data/mine/a.bin", "longer");
  EXPECT_ERROR(open_data_set("mine"), InputError, "a.bin has 6 bytes instead of 1");
  std::filesystem::remove(data / "data/mine/a.bin");
  EXPECT_ERROR(open_data_set("mine"), InputError, "a.bin: No such file");
  const BuildOptions keep{.name = "mine", .if_present = IfPresent::keep};
  build_data_set(keep, [](const auto& folder, const auto&) { return one_file(folder); });  // made anew
  EXPECT_EQ(open_data_set("mine").outputs, 3);
  build_data_set(keep, [](const auto&, const auto&) -> DataSet { throw InputError("test", "it was there"); });
}

TEST(DataSets, NeverTakeAFolderThatIsNotTheirs) {
  const TemporaryData data;
  make_folder(data / "data/mine");
  write_file(data / "data/mine/notes", "precious");
  for (const IfPresent choice : {IfPresent::keep, IfPresent::refuse, IfPresent::replace}) {
    const BuildOptions options{.name = "mine", .if_present = choice};
    EXPECT_ERROR(build_data_set(options, [](const auto& folder, const auto&) { return one_file(folder); }),
                 InputError, "is not a data set of Bridle's");
  }
  EXPECT_EQ(read_file(data / "data/mine/notes"), "precious");
}

TEST(DataSets, LeaveNothingOfAFailedAttemptButDownloads) {
  const TemporaryData data;
  EXPECT_ERROR(build_data_set(kMine,
                              [](const auto& folder, const auto&) -> DataSet {
                                one_file(folder);
                                throw InputError("test", "no");
                              }),
               InputError, "no");
  EXPECT_FALSE(std::filesystem::exists(data / "data/.partial/mine"));
}

TEST(DataSets, HaveNamesThatAreFolders) {
  const std::vector<std::string> bad = {"", "../x", "a/b", ".hidden", "-flag", "a b", std::string(101, 'x')};
  for (const std::string& name : bad) EXPECT_ERROR(check_data_name(name), InputError, "cannot be");
  check_data_name("moby-dick_2.0");
}

}  // namespace
}  // namespace bridle
