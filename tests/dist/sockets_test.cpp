#include "dist/sockets.h"

#include <gtest/gtest.h>

#include <thread>

#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

using std::chrono::milliseconds;

TEST(LineSocket, CarriesLinesBothWays) {
  const Descriptor listener = listen_at({"127.0.0.1", 0});
  auto client = connect_to({"127.0.0.1", port_of(listener)}, milliseconds(1000));
  ASSERT_TRUE(client);
  auto server = accept_from(listener, milliseconds(1000));
  ASSERT_TRUE(server);
  EXPECT_EQ(client->other_address(), "127.0.0.1");
  EXPECT_TRUE(client->send("first"));
  EXPECT_TRUE(client->send("second\nof two"));
  std::vector<std::string> lines;
  while (lines.size() < 2) {
    ASSERT_TRUE(server->receive());
    while (auto line = server->next_line()) lines.push_back(*line);
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"first", "second of two"}));
  { const LineSocket gone = *std::move(client); }
  while (server->receive()) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_FALSE(server->next_line());
}

TEST(LineSocket, FindsNobodyWhereNobodyListens) {
  uint16_t port = 0;
  { port = port_of(listen_at({"127.0.0.1", 0})); }
  EXPECT_FALSE(connect_to({"127.0.0.1", port}, milliseconds(200)));
}

TEST(LineSocket, SaysThatAPortIsInUse) {
  const Descriptor listener = listen_at({"127.0.0.1", 0});
  EXPECT_ERROR(listen_at({"127.0.0.1", port_of(listener)}), RankError,
               "Address already in use; name another port");
  EXPECT_ERROR(listen_at({"no such host.", 1}), RankError, "no such host.");
}

}  // namespace
}  // namespace bridle
