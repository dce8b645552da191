#include "base/files.h"

#include <sys/stat.h>

#include <thread>

#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

using test::entries;
using test::FileSizeLimit;
using test::TemporaryFolder;

TEST(Files, AreWrittenAndReadBack) {
  const TemporaryFolder folder;
  const std::string text(3000000, 'x');
  write_file(folder / "small", "one line\n");
  write_file(folder / "large", text);
  EXPECT_EQ(read_file(folder / "small"), "one line\n");
  EXPECT_EQ(read_file(folder / "large"), text);
  EXPECT_EQ(MappedFile(folder / "small").text(), "one line\n");
}

TEST(Files, ThatAreWrittenPieceByPieceAreWholeOrNotThere) {
  const TemporaryFolder folder;
  write_file(folder / "file", [](OutputFile& file) {
    file.write("one ");
    file.write("two");
  });
  EXPECT_EQ(read_file(folder / "file"), "one two");
  const auto fail = [](OutputFile& file) {
    file.write("three");
    throw InputError("test", "no more");
  };
  EXPECT_ERROR(write_file(folder / "file", fail), InputError, "no more");
  EXPECT_EQ(read_file(folder / "file"), "one two");
  EXPECT_EQ(entries(folder), std::vector<std::string>{"file"});
}

TEST(Files, MayBeEmpty) {
  const TemporaryFolder folder;
  write_file(folder / "empty", "");
  EXPECT_EQ(read_file(folder / "empty"), "");
}

TEST(Files, KeepTheOldContentsWhenTheNewOnesCannotBeWritten) {
  const TemporaryFolder folder;
  make_folder(folder / "inner");
  write_file(folder / "inner" / "file", "old");
  const FileSizeLimit limit(1000);
  EXPECT_ERROR(write_file(folder / "inner" / "file", std::string(5000, 'x')), InputError, "File too large");
  EXPECT_EQ(read_file(folder / "inner" / "file"), "old");
  EXPECT_EQ(entries(folder / "inner"), std::vector<std::string>{"file"});
}

TEST(Files, SayThatTheDiskIsFull) {
  OutputFile file("/dev/full");
  file.write("text");
  EXPECT_ERROR(file.close(), InputError, "No space left on device; make room there");
}

TEST(Files, SayWhatIsMissing) {
  EXPECT_ERROR(read_file("/no/such/file"), InputError, "[read] /no/such/file: No such file or directory");
  EXPECT_ERROR(read_file("/dev/null"), InputError, "not a regular file");
  EXPECT_ERROR(write_file("/no/such/folder/file", "x"), InputError, "/no/such/folder");
}

TEST(Files, ThatAreFifosAreRefusedWithoutWaiting) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_ERROR(read_file(folder / "fifo"), InputError, "is not a regular file");
  EXPECT_ERROR(MappedFile(folder / "fifo"), InputError, "is not a regular file");
  EXPECT_ERROR(InputFile(folder / "fifo"), InputError, "is not a regular file");
  EXPECT_ERROR(read_file(folder), InputError, "is not a regular file");
}

TEST(Files, AreReadOnceWhateverHappensToTheirNames) {
  const TemporaryFolder folder;
  write_file(folder / "file", "first");
  InputFile file(folder / "file");
  write_file(folder / "file", "another");
  EXPECT_EQ(file.size(), 5U);
  std::string text(5, ' ');
  file.read(std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, "first");
  EXPECT_ERROR(file.read(std::as_writable_bytes(std::span(text))), InputError, "became shorter");
}

TEST(Files, ThatAreTooLargeAreNotRead) {
  const TemporaryFolder folder;
  write_file(folder / "file", "12345");
  EXPECT_EQ(read_file(folder / "file", 5), "12345");
  std::filesystem::resize_file(folder / "file", uint64_t{1} << 40U);
  EXPECT_ERROR(read_file(folder / "file", 5), InputError, "must have at most 5 bytes, got 1099511627776");
}

TEST(Files, HaveTheirHeadersWrittenLast) {
  const TemporaryFolder folder;
  OutputFile file(folder / "file");
  file.write("????body");
  file.write_at(0, std::as_bytes(std::span("head", 4)));
  file.write("!");
  file.close();
  EXPECT_EQ(read_file(folder / "file"), "headbody!");
}

TEST(Files, GoOnWhereTheyEnded) {
  const TemporaryFolder folder;
  write_file(folder / "file", "one");
  OutputFile file(folder / "file", OutputFile::Mode::append);
  file.write(" two");
  file.write_at(0, std::as_bytes(std::span("O", 1)));
  file.write(" three");
  file.close();
  EXPECT_EQ(read_file(folder / "file"), "One two three");
}

TEST(Publish, ReplacesAFolderInOneStep) {
  const TemporaryFolder folder;
  make_folder(folder / "new");
  make_folder(folder / "place");
  write_file(folder / "new" / "a", "new");
  write_file(folder / "place" / "b", "old");
  publish(folder / "new", folder / "place");
  EXPECT_EQ(entries(folder / "place"), std::vector<std::string>{"a"});
  EXPECT_FALSE(std::filesystem::exists(folder / "new"));
}

TEST(FileLock, LetsOneInAtATime) {
  const TemporaryFolder folder;
  int inside = 0;
  int most = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 50; ++j) {
        const FileLock lock(folder / "lock");
        most = std::max(most, ++inside);
        std::this_thread::yield();
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
}

}  // namespace
}  // namespace bridle
