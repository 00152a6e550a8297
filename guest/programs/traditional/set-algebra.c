/**
 * Finds the documents that contain all of one to four words, behind a conventional network
 * interface (nanoPU, Figure 10). services/set-algebra.h has the messages and the work.
 */
#include <frame_service.h>
#include <services/set-algebra.h>

void prepare(void) { set_algebra_prepare(); }

static inline uint64_t serve(struct frame *frame, uint64_t payload_bytes) {
  uint64_t words = (payload_bytes + 7) / 8;
  uint64_t *payload = frame->payload;
  if (words < LOAD_WORDS + 2)
    return frame_refuse(frame);
  uint64_t count = frame_word(payload[LOAD_WORDS]);
  if (count > SET_ALGEBRA_MAX_WORDS || words != LOAD_WORDS + 1 + count)
    return frame_refuse(frame);
  struct set_algebra_set result;
  for (uint64_t place = 0; place < count; place++)
    if (!set_algebra_take(&result, place, frame_word(payload[LOAD_WORDS + 1 + place])))
      return frame_refuse(frame);
  swap_addresses(frame);
  payload[LOAD_WORDS] = frame_word(result.count);
  for (uint64_t document = 0; document < result.count; document++)
    payload[LOAD_WORDS + 1 + document] = frame_word(result.documents[document]);
  return (LOAD_WORDS + 1 + result.count) * sizeof *payload;
}

int main(void) { return frame_service(); }
