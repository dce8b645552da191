// A panel of newton_schulz.h for avx512_bf16.
#include "kernels/newton_schulz_panel_body.h"

namespace bridle::amx {

void apply_panel_avx512_bf16(const PanelTask& task) { apply_panel_here(task); }

}  // namespace bridle::amx
