#include "distribution.h"

#include <utility>

#include "contextual_tree.h"
#include "fifo.h"
#include "proportional.h"
#include "rank_based.h"
#include "uniform.h"

namespace replay {
namespace {

std::unique_ptr<Distribution> MakeUnmixed(const DistributionSpec& spec,
                                          size_t max_slots) {
  if (spec.kind == "uniform") return std::make_unique<Uniform>(max_slots);
  if (spec.kind == "fifo") return std::make_unique<Fifo>(max_slots);
  if (spec.kind == "proportional") {
    return std::make_unique<Proportional>(max_slots, spec.exponent);
  }
  if (spec.kind == "contextual") {
    return std::make_unique<ContextualTree>(max_slots, spec.exponent);
  }
  if (spec.kind == "rank_based") {
    return std::make_unique<RankBased>(max_slots, spec.exponent, spec.period);
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<Distribution> MakeDistribution(const DistributionSpec& spec,
                                               size_t max_slots) {
  std::unique_ptr<Distribution> distribution = MakeUnmixed(spec, max_slots);
  if (distribution == nullptr || !(spec.uniform_mix > 0)) return distribution;
  return std::make_unique<UniformMix>(max_slots, spec.uniform_mix,
                                      std::move(distribution));
}

}  // namespace replay
