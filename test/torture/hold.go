package torture

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// holder holds back single messages of an actor's sessions: it cuts what the driver writes between two messages, say
// behind the Bind, and sends the rest later, or it keeps a reply that has arrived already.
type holder struct {
	mu     sync.Mutex
	random *rand.Rand
	often  float64
	most   time.Duration
	told   func(from int64, step string)
}

func (h *holder) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &heldConn{Conn: c, holder: h}, nil
}

// lot draws for how long to hold, and a number below n.
func (h *holder) lot(n int) (d time.Duration, where int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.random.Float64() >= h.often {
		return 0, 0
	}
	return time.Duration(h.random.Int64N(int64(h.most))), h.random.IntN(n)
}

func (h *holder) wait(d time.Duration, step string) {
	from := now()
	time.Sleep(d)
	h.told(from, step)
}

type heldConn struct {
	net.Conn
	*holder
	begun bool // the startup packet, which has no type, is gone
}

func (c *heldConn) Write(b []byte) (int, error) {
	if !c.begun {
		c.begun = true
		return c.Conn.Write(b)
	}
	ends, kinds := messages(b)
	if len(ends) == 0 {
		return c.Conn.Write(b)
	}
	d, where := c.lot(len(ends))
	if d == 0 {
		return c.Conn.Write(b)
	}
	if _, err := c.Conn.Write(b[:ends[where]]); err != nil {
		return 0, err
	}
	c.wait(d, "behind "+kinds[:where+1]+" of "+kinds)
	_, err := c.Conn.Write(b[ends[where]:])
	return len(b), err
}

func (c *heldConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && b[0] != 'R' {
		if d, _ := c.lot(1); d > 0 {
			c.wait(d, "before the reply "+string(b[0]))
		}
	}
	return n, err
}

// messages are the ends of the whole messages in b, and their types.
func messages(b []byte) (ends []int, kinds string) {
	for at := 0; at+5 <= len(b); {
		at2 := at + 1 + int(binary.BigEndian.Uint32(b[at+1:]))
		if at2 > len(b) || at2 <= at {
			break
		}
		kinds += string(b[at])
		at = at2
		ends = append(ends, at)
	}
	return ends, kinds
}
