// A store of finished episodes whose values, importance weights and returns are
// rewritten by updates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "distribution.h"
#include "lazy_array.h"
#include "rows.h"
#include "saved_file.h"

namespace replay {

// The range of the importance weights rho of steps near the policy:
// 1 / c_max < rho < c_max (ReF-ER, section 3).
struct NearPolicy {
  // The bounds are exact: the largest float at most 1 / c_max, and c_max.
  explicit NearPolicy(float c_max);
  bool Contains(float rho) const { return (rho > low) & (rho < high); }
  float low, high;
};

// An episode has T steps and T + 1 states. Step t has the key of the episode
// + t; keys grow from episode to episode and are never reused. Each state is a
// row of columns. The distribution is over the steps' slots.
//
// For each step the memory stores the reward, the value V, the advantage A of the
// action, the importance weight rho, the divergence D_KL, the error (the
// distribution's priority) and the Retrace estimate
//     Q_t = r_t + discount (V_t+1 + min(1, rho_t+1) (Q_t+1 - V_t+1 - A_t+1)),
//     Q_T-1 = r_T-1 + discount V_T, where V_T = 0 at a true end
// with the scaled reward r (ReF-ER, equation 8; appendix E for A).
//
// All methods but Load are thread-safe. Rows are copied outside the lock: an
// episode that is being read is pinned, and its slots are reused only when its
// last reader is done.
class EpisodeMemory {
 public:
  enum class Removal { kOldest, kFarPolicy, kDivergence };

  // `column_bytes` is as in Rows. A seed of 0 takes one from the system.
  EpisodeMemory(size_t capacity, float discount,
                std::vector<size_t> column_bytes,
                const DistributionSpec& sampling, Removal removal,
                uint64_t seed);

  // A finished episode. Columns have num_steps + 1 states, and values num_steps + 1
  // elements, the last of which counts as 0 if the episode has terminated.
  struct NewEpisode {
    size_t num_steps;
    std::vector<ColumnSource> columns;
    const float* rewards;
    const float* values;
    const float* advantages;
    bool terminated;
  };

  // The destination of a draw. Arrays have an element for each step drawn, and
  // `columns` have H + 2 rows for each: at most H preceding states, the step's own
  // and the next. Rows in front of these repeat the episode's first state.
  struct Drawn {
    int64_t* keys;
    double* probabilities;
    float* rewards;
    float* discounts;
    bool* bootstraps;
    float* q_ret;
    float* v_tbc;  // V + min(1, rho) (Q - V - A) of the stored numbers.
    int64_t history;  // H.
    int32_t* lengths;  // Preceding states, at most H.
    std::vector<ColumnTarget> columns;
  };

  // The destination of a draw of windows. Arrays have an element for each window.
  struct Windows {
    int64_t* keys;     // Key of the first step.
    int64_t* lengths;  // Number of steps.
    bool* bootstraps;  // Whether the state after the last step is not a true end.
  };

  // The destination of the steps of windows: L steps and L + 1 states for each.
  struct WindowSteps {
    float* rewards;
    std::vector<ColumnTarget> columns;
  };

  // The results of updates for n steps; arrays have n elements.
  struct Refreshed {
    size_t n;
    const int64_t* keys;
    const float* values;
    const float* advantages;
    const float* rhos;
    const float* divergences;
    const float* errors;
    const float* next_values;  // Used at the last step unless it terminated.
  };

  struct Statistics {
    int64_t steps;
    int64_t episodes;
    int64_t held_bytes;  // Bytes of all variable values; see Rows.
    int64_t executed;    // Steps executed, as reported to CountSteps.
    int64_t removed;     // Steps removed.
    int64_t sampled;     // Steps and windows drawn, counted each time.
    int64_t updated;     // Steps refreshed, counted each time.
    int64_t missing;     // Refreshed steps that were gone.
    int64_t far_policy;  // Far steps, given the c_max of the last Refresh.
    double mean_divergence;
  };

  // Adds an episode of 1 to `capacity` steps with rho = 1 and D_KL = 0, and writes
  // its key. Removes whole episodes until it fits. Returns false, and adds
  // nothing, if more rows are being written or read than fit.
  bool Add(const NewEpisode& added, int64_t* key);

  // Draws `num_batches` batches one after another; no step occurs twice in a
  // batch. Sets `count` to the number of steps. With a seed other than 0 the draw
  // uses a generator of its own and does not change the memory's. Returns false
  // if there are fewer steps than a batch.
  bool Sample(size_t batch_size, size_t num_batches, uint64_t seed,
              const Drawn& drawn, int64_t* count);

  // Draws `num_batches` batches of episodes one after another, all with equal
  // probabilities and none twice in a batch, and from each a window of at most
  // max_steps steps. It starts at a uniform step, or at the latest step from which
  // it fits. L is the length of the longest window. All windows end with step
  // L - 1 and state L; a shorter window repeats its first step and that step's
  // state in front. `make_room` allocates for L steps; if it returns false nothing
  // more is written. Sets `count` to the number of episodes. Seeds are as for
  // Sample. Returns false if there are fewer episodes than a batch.
  bool SampleEpisodes(
      size_t batch_size, size_t num_batches, size_t max_steps, uint64_t seed,
      const Windows& windows,
      const std::function<bool(size_t longest, WindowSteps* steps)>& make_room,
      int64_t* count);

  // Stores the results of num_batches updates of equal size, in their order. Then
  // recomputes the Q of each affected episode's latest refreshed step and of all
  // steps before it. Skips steps that are gone and returns their number.
  int64_t Refresh(const Refreshed& refreshed, float c_max, size_t num_batches);

  // Writes the numbers stored for n steps, n of each kind: values, rhos,
  // divergences, errors (kUnknownPriority before a step's first update), Q and
  // advantages. Writes NaN for steps that are gone.
  static constexpr int64_t kStored = 6;
  void Read(const int64_t* keys, size_t n, float* stored) const;

  // Returns the root of the mean squared unscaled reward; 0 without steps.
  double RewardScale() const;
  // Divides rewards by scale + 1e-7 from now on, by 1 if the scale is 0. Stored
  // Q change at the next Refresh that reaches them, or at once if `recompute`.
  void SetRewardScale(double scale, bool recompute);

  // Writes the mean and population standard deviation over all states of each of
  // the column's elements, which must be floats. Holds the lock throughout, since
  // a run calls it only once.
  void Moments(size_t column, size_t num_elements, double* mean,
               double* deviation) const;

  // As in Memory. The structures take about 44 bytes per step.
  void Save(FileWriter& file);
  void Load(FileReader& file);

  void CountSteps(int64_t n);
  Statistics statistics() const;
  size_t capacity() const { return capacity_; }

  // Throws BrokenInvariant.
  void CheckInvariants() const;

 private:
  // Steps whose Q are computed together. A sweep stops early only between blocks.
  static constexpr int64_t kBlock = 32;
  // Calls of Refresh after which the sum of divergences is recomputed.
  static constexpr int64_t kRecountPeriod = 1024;

  // Arrays have an element for each state. The last one belongs to no step; it is
  // 0, except in values and errors.
  struct Episode {
    explicit Episode(size_t num_steps);

    int64_t num_steps;
    int64_t key = 0;
    bool terminated = false;
    bool is_removed = false;
    int32_t pins = 0;  // Readers of the rows.
    // The Q of steps 0 to `settled` agree with the stored numbers, with rewards
    // multiplied by reward_factor.
    int64_t settled = -1;
    float reward_factor = 1.0f;
    std::vector<int32_t> slots;
    std::vector<float> rewards, values, advantages, rhos, divergences, errors,
        q_ret;
    static constexpr std::vector<float> Episode::*kArrays[] = {
        &Episode::rewards, &Episode::values,      &Episode::advantages,
        &Episode::rhos,    &Episode::divergences, &Episode::errors,
        &Episode::q_ret};
  };

  // The step, or last state, in a slot.
  struct Place {
    Episode* episode;
    int32_t t;
    bool is_drawn;  // Whether it is in the batch that is being drawn.
  };

  using Episodes = std::deque<std::unique_ptr<Episode>>;

  // The methods below require mutex_ to be held.

  bool Reserve(size_t num_steps, std::vector<int32_t>* slots);
  void Remove(Episodes::iterator episode);
  Episodes::iterator NextToRemove();
  void Release(const Episode& episode);
  void Unpin(const std::vector<Episode*>& episodes);
  // Returns the episode of a step, or null if it is gone.
  Episode* Find(int64_t key) const;
  void DrawBatch(size_t n, std::mt19937_64& rng, int32_t* slots,
                 double* masses);
  void DrawRest(size_t n, std::mt19937_64& rng, int32_t* slots,
                double* masses);
  // Appends n different episodes.
  void DrawEpisodes(size_t n, std::mt19937_64& rng,
                    std::vector<Episode*>* episodes);
  void Store(Episode& episode, int64_t t, const Refreshed& refreshed, size_t i);
  // Computes the Q of step updated[0] and of the steps before it. `updated` are
  // the n steps of the episode whose numbers have changed, latest first.
  void Sweep(Episode& episode, const int64_t* updated, size_t n);
  // Computes the Q of steps first to last, at most kBlock.
  void SweepBlock(const Episode& episode, int64_t first, int64_t last,
                  float* q_ret) const;
  int64_t CountFar(const Episode& episode) const;
  int64_t CountFar() const;
  double SumDivergences() const;
  // Checks what calls rely on: all but numbers that follow from others.
  void CheckStructure() const;
  void CheckEpisode(const Episode& episode) const;
  // The members that are saved and loaded as they are, in this order.
  auto PlainMembers() {
    return std::tie(reward_factor_, c_max_, num_far_, sum_of_divergences_,
                    refreshs_, statistics_);
  }
  void LoadEpisode(FileReader& file);
  // Returns for each slot whether it holds a state.
  std::vector<bool> IsStored() const;

  const size_t capacity_;
  const float discount_;
  const Removal removal_;
  Rows rows_;  // Accessed without mutex_, in pinned or reserved slots only.

  // Not a FairMutex, since a sweep takes longer than waking a thread.
  mutable std::mutex mutex_;
  Episodes episodes_;  // In the order of keys.
  LazyArray<Place> places_;
  size_t reserved_ = 0;  // Steps of episodes being written.
  size_t num_steps_ = 0;
  int64_t next_key_ = 0;
  std::unique_ptr<Distribution> distribution_;
  std::mt19937_64 rng_;
  float reward_factor_ = 1.0f;
  float c_max_ = std::numeric_limits<float>::infinity();
  NearPolicy near_{c_max_};
  // Number of far steps, given c_max_; kNotCounted after c_max_ has changed.
  static constexpr int64_t kNotCounted = -1;
  mutable int64_t num_far_ = 0;
  double sum_of_divergences_ = 0;
  int64_t refreshs_ = 0;  // Since that sum was recomputed.
  Statistics statistics_ = {};
};

}  // namespace replay
