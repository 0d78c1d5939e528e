#include "distribution.h"

#include "fifo.h"
#include "proportional.h"
#include "uniform.h"

namespace replay {

std::unique_ptr<Distribution> MakeDistribution(const DistributionSpec& spec,
                                               size_t max_slots) {
  if (spec.kind == "uniform") return std::make_unique<Uniform>(max_slots);
  if (spec.kind == "fifo") return std::make_unique<Fifo>(max_slots);
  if (spec.kind == "proportional") {
    return std::make_unique<Proportional>(max_slots, spec.exponent);
  }
  return nullptr;
}

}  // namespace replay
