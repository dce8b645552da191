// One function a verb: each adds its subcommand, with its options, help and callback.
#pragma once

namespace CLI {
class App;
}

namespace bridle {

void add_verbs(CLI::App& app);  // all of them

void add_attack(CLI::App& app);
void add_bench(CLI::App& app);
void add_certify(CLI::App& app);
void add_check(CLI::App& app);
void add_compare(CLI::App& app);
void add_data(CLI::App& app);
void add_eval(CLI::App& app);
void add_export(CLI::App& app);
void add_generate(CLI::App& app);
void add_import(CLI::App& app);
void add_info(CLI::App& app);
void add_plan(CLI::App& app);
void add_quantize(CLI::App& app);
void add_report(CLI::App& app);
void add_sample(CLI::App& app);
void add_seal(CLI::App& app);
void add_serve(CLI::App& app);
void add_sweep(CLI::App& app);
void add_train(CLI::App& app);

}  // namespace bridle
