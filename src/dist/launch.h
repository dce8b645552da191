// Which rank this process is, where torchrun, mpirun or srun have started it: they say so in its environment.
//   torchrun  RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT; its agent holds the port: ours is the next one
//   mpirun    OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK (Open MPI)
//   srun      SLURM_PROCID SLURM_STEP_NUM_TASKS SLURM_LOCALID SLURM_STEP_NODELIST SLURM_JOB_ID SLURM_STEP_ID
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace bridle {

struct LaunchedRank {
  int64_t rank = 0;
  int64_t size = 1;
  int64_t local_rank = 0;       // on its machine
  std::string rendezvous = {};  // empty: it must be named
  std::string launcher = {};
};

// The value of a variable, or null; std::getenv.
using Environment = std::function<const char*(const char*)>;

// None where none of them has started this process, or it is the only one. Throws InputError for values that make no sense.
std::optional<LaunchedRank> launched_rank(const Environment& environment);

// "node[03-07,9],other" → "node03"
std::string first_host(const std::string& list);

}  // namespace bridle
