// power_rounds' inner loops for avx512.
#include "kernels/power_rounds_body.h"

namespace bridle {

RowPass<float> row_pass_avx512_float() { return row_pass<float>; }
RowPass<double> row_pass_avx512_double() { return row_pass<double>; }

}  // namespace bridle
