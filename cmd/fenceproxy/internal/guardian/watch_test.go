package guardian

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"
)

// A guardian that was starved beyond the deadline finds the renewal that moved it in its pipe. Mutant "run: the guardian
// hears of renewals before it looks at the clock".
func TestRenewalThatCameWhileTheGuardianDidNotRun(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	fmt.Fprintf(w, "until %d\n", now()+time.Hour)
	var report bytes.Buffer
	ended := make(chan syscall.WaitStatus, 1)
	ended <- 0 // the command's, so that run returns
	watch := &watch{limits: Limits{Grace: time.Second, Margin: 100 * time.Millisecond}, until: now() - time.Minute, report: &report}
	fd, err := syscall.Dup(int(r.Fd())) // newOrders takes it over
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if code := watch.run(newOrders(fd), ended); code != 0 || watch.lost || report.Len() > 0 {
		t.Errorf("code %d, lost %v, report %q", code, watch.lost, report.String())
	}
}
