package holding

import (
	"context"
	"time"

	"github.com/fenceproxy/fenceproxy/wire"
	"github.com/fenceproxy/fenceproxy/wire/relay"
)

// Enter implements relay.Holder.
func (h *Holder) Enter(ctx context.Context) (*relay.Tenure, *wire.Error) {
	limit := time.NewTimer(h.cfg.Wait)
	defer limit.Stop()
	for {
		h.mu.Lock()
		current, reading, changed := h.current, h.reading, h.changed
		h.mu.Unlock()
		if current != nil && current.lease.Check() == nil {
			return &current.Tenure, nil
		}
		switch h.cfg.WhenNotHeld {
		case Refuse:
			return nil, h.notHeld("")
		case ReadOnly:
			if current != nil { // just lost: reading still belongs to before
				break
			}
			return &relay.Tenure{ReadOnly: true, Over: reading, Words: &wire.Error{Severity: "FATAL", Code: "57P01",
				Message: "fenceproxy has taken the lock \"" + h.cfg.Lock + "\"",
				Hint:    "This session was read-only. Connect again to write."}}, nil
		}
		select {
		case <-changed:
		case <-limit.C:
			return nil, h.notHeld("Waited " + h.cfg.Wait.String() + ".")
		case <-ctx.Done():
			return nil, &wire.Error{Severity: "FATAL", Code: "57P03", Message: "the database system is shutting down"}
		}
	}
}

// notHeld has PostgreSQL's code for a server that cannot take connections now: drivers that know it try again.
func (h *Holder) notHeld(more string) *wire.Error {
	e := &wire.Error{Severity: "FATAL", Code: "57P03", Message: "fenceproxy does not hold the lock \"" + h.cfg.Lock + "\"", Detail: more}
	s := h.State()
	switch {
	case s.Problem != "":
		e.Hint = "This instance cannot take it: " + s.Problem + ". The log of fenceproxy has more."
	case s.Holder != "":
		e.Hint = "It is held by " + s.Holder + "."
	}
	return e
}
