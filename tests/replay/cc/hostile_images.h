// Hostile PNG files, for the sanitizers.
#ifndef TESTS_REPLAY_CC_HOSTILE_IMAGES_H_
#define TESTS_REPLAY_CC_HOSTILE_IMAGES_H_

#include <cstddef>

namespace replay {

// Decodes so many files of which most are damaged, and prints how many it could.
void AttackImages(size_t files);

}  // namespace replay

#endif  // TESTS_REPLAY_CC_HOSTILE_IMAGES_H_
