#include "dist/launch.h"

#include <gtest/gtest.h>

#include <map>

#include "bridle/error.h"
#include "file_support.h"

namespace bridle {
namespace {

std::optional<LaunchedRank> launched(const std::map<std::string, std::string>& variables) {
  return launched_rank([&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(LaunchedRank, IsNoneWhereNothingSaysSo) {
  EXPECT_FALSE(launched({}));
  EXPECT_FALSE(launched({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  // A batch script of Slurm without srun.
  EXPECT_FALSE(launched({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "7"}}));
}

TEST(LaunchedRank, IsWhatTorchrunSays) {
  const auto rank = launched({{"RANK", "5"},
                              {"WORLD_SIZE", "8"},
                              {"LOCAL_RANK", "1"},
                              {"MASTER_ADDR", "a.example"},
                              {"MASTER_PORT", "29500"}});
  ASSERT_TRUE(rank);
  EXPECT_EQ(rank->rank, 5);
  EXPECT_EQ(rank->size, 8);
  EXPECT_EQ(rank->local_rank, 1);
  EXPECT_EQ(rank->rendezvous, "tcp:a.example:29501");
}

TEST(LaunchedRank, IsWhatMpirunSays) {
  std::map<std::string, std::string> variables{{"OMPI_COMM_WORLD_RANK", "1"},
                                               {"OMPI_COMM_WORLD_SIZE", "4"},
                                               {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                               {"PMIX_NAMESPACE", "77"}};
  EXPECT_EQ(launched(variables)->rendezvous, "");  // two machines
  variables["OMPI_COMM_WORLD_LOCAL_SIZE"] = std::string("4");
  EXPECT_NE(launched(variables)->rendezvous.find("file:"), std::string::npos);
  EXPECT_NE(launched(variables)->rendezvous.find("-77"), std::string::npos);
}

TEST(LaunchedRank, IsWhatSrunSays) {
  const auto rank = launched({{"SLURM_PROCID", "2"},
                              {"SLURM_STEP_NUM_TASKS", "4"},
                              {"SLURM_LOCALID", "0"},
                              {"SLURM_STEP_NODELIST", "node[03-06]"},
                              {"SLURM_JOB_ID", "100"},
                              {"SLURM_STEP_ID", "1"}});
  ASSERT_TRUE(rank);
  EXPECT_EQ(rank->rank, 2);
  EXPECT_EQ(rank->rendezvous, "tcp:node03:21601");
}

TEST(LaunchedRank, RefusesNumbersThatMakeNoSense) {
  EXPECT_ERROR(launched({{"RANK", "x"}, {"WORLD_SIZE", "2"}}), InputError,
               "RANK must be a number from 0, got 'x'");
  EXPECT_ERROR(launched({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), InputError, "gives rank 2 of 2 ranks");
}

TEST(FirstHost, IsThatOfSlurmsLists) {
  EXPECT_EQ(first_host("node1"), "node1");
  EXPECT_EQ(first_host("node1,node2"), "node1");
  EXPECT_EQ(first_host("node[03-07,9],other"), "node03");
  EXPECT_EQ(first_host("rack1-n[7,9]"), "rack1-n7");
  EXPECT_EQ(first_host("n[1-2].example"), "n1.example");
  EXPECT_EQ(first_host(""), "");
}

}  // namespace
}  // namespace bridle
