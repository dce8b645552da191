#include "dist/rendezvous.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/files.h"
#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

using std::chrono::milliseconds;

TEST(Rendezvous, RefusesWhatIsNone) {
  for (const char* text :
       {"", "tcp", "tcp:", "tcp:host", "tcp::5", "tcp:host:port", "tcp:host:99999", "file:", "udp:a:1"})
    EXPECT_ERROR(Rendezvous{text}, InputError, "must be tcp:HOST:PORT or file:PATH");
}

TEST(Rendezvous, ByAFileLeadsToWhoeverWroteIt) {
  const test::TemporaryFolder folder;
  const std::string text = "file:" + (folder / "place").string();
  Rendezvous leader(text), other(text);
  EXPECT_FALSE(other.connect(milliseconds(100)));
  write_file(folder / "place", "127.0.0.1 1 old\n");
  EXPECT_FALSE(other.connect(milliseconds(100)));
  const Descriptor listener = leader.listen();
  EXPECT_TRUE(other.connect(milliseconds(1000)));
  EXPECT_EQ(other.word(), leader.word());
  leader.close();
  EXPECT_FALSE(std::filesystem::exists(folder / "place"));
}

TEST(Rendezvous, TakesAListenerThatIsOpen) {
  Descriptor open = listen_at({"127.0.0.1", 0});
  const uint16_t port = port_of(open);
  const int number = dup(open.number());
  Rendezvous leader(fmt::format("descriptor:{}:{}", number, port));
  const Descriptor listener = leader.listen();
  EXPECT_EQ(listener.number(), number);
  EXPECT_TRUE(Rendezvous(fmt::format("tcp:127.0.0.1:{}", port)).connect(milliseconds(1000)));
}

}  // namespace
}  // namespace bridle
