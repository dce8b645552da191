// bridle generate: completions and manual pages from the command line itself, for the build. Hidden: no user needs it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/files.h"
#include "command_tree.h"
#include "completion.h"
#include "man_page.h"
#include "verbs.h"

namespace bridle {
namespace {

namespace fs = std::filesystem;

void generate(const Command& tree, const fs::path& share) {
  const fs::path bash = share / "bash-completion/completions", zsh = share / "zsh/site-functions",
                 fish = share / "fish/vendor_completions.d", man = share / "man/man1";
  for (const fs::path& folder : {bash, zsh, fish, man}) make_folder(folder);
  write_file(bash / "bridle", bash_completion(tree));
  write_file(zsh / "_bridle", zsh_completion(tree));
  write_file(fish / "bridle.fish", fish_completion(tree));
  for (const Command* command : all_commands(tree))
    write_file(man / (man_page_name(*command) + ".1"), man_page(*command, "bridle " BRIDLE_VERSION));
}

}  // namespace

void add_generate(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("generate", "Write completions and manual pages")->group("");
  auto share = std::make_shared<std::string>();
  verb->add_option("share", *share, "Folder such as /usr/share")->required();
  verb->callback([share, &app] { generate(command_tree(app), *share); });
}

}  // namespace bridle
