#include "thinwire/cli/tensor_progress.h"

#include <memory>

#include "thinwire/base/interrupt.h"
#include "thinwire/events/progress.h"

namespace thinwire::cli {

checkpoint::TensorProgress show_tensors(const std::string& label) {
  return [label, shown = std::shared_ptr<events::Progress>()](size_t done, size_t all) mutable {
    if (!shown) {
      catch_interrupts();
      shown = std::make_shared<events::Progress>(label, static_cast<int64_t>(all));
    }
    if (interrupts().any) throw Interrupted("interrupted; nothing was written");
    if (done == all) return shown.reset();  // another may be shown after it
    shown->update(static_cast<int64_t>(done), {{"", "tensors"}});
  };
}

}  // namespace thinwire::cli
