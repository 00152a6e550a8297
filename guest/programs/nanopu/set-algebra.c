/**
 * Finds the documents that contain all of one to four words: set intersections.
 * services/set-algebra.h has the messages and the work.
 */
#include <lnic.h>
#define SERVICE_ON_ALL_HARTS
#include <nanopu/service.h>
#include <services/set-algebra.h>

void prepare(void) { set_algebra_prepare(); }

static inline void serve(void) {
  struct load_request request;
  if (!request_begin(&request, LOAD_WORDS + 2))
    return;
  uint64_t count = lnic_read();
  if (count > SET_ALGEBRA_MAX_WORDS || request.words != LOAD_WORDS + 1 + count) {
    refuse(request.header, LOAD_WORDS + 1);
    return;
  }
  struct set_algebra_set result;
  for (uint64_t place = 0; place < count; place++) {
    if (!set_algebra_take(&result, place, lnic_read())) {
      refuse(request.header, LOAD_WORDS + 2 + place);
      return;
    }
  }
  request_reply(&request, 1 + result.count);
  lnic_write_r(result.count);
  for (uint64_t document = 0; document < result.count; document++)
    lnic_write_r(result.documents[document]);
}

int main(void) { return service_on_all_harts(); }
