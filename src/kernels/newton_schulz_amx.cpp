// A panel of newton_schulz.h for amx.
#include "kernels/newton_schulz_panel_body.h"

namespace bridle::amx {

void apply_panel_amx(const PanelTask& task) { apply_panel_here(task); }

}  // namespace bridle::amx
