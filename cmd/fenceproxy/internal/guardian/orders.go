package guardian

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// order is a line of the wrapper.
type order struct {
	verb  string
	value int64
}

// orders are what the wrapper writes. They are read by whoever decides, when he decides: on a machine that is starved the
// thread that a blocking read waits in may wake long after the line that moves the deadline has come.
type orders struct {
	more chan struct{} // there may be some

	fd   int
	mu   sync.Mutex
	rest string // a line that has not come as a whole
	read []order
	end  bool
}

func newOrders(fd int) *orders {
	o := &orders{more: make(chan struct{}, 1), fd: fd}
	syscall.SetNonblock(fd, true)
	f := os.NewFile(uintptr(fd), "control") // by the poller now, for it does not block
	go func() {
		if raw, err := f.SyscallConn(); err == nil {
			raw.Read(func(uintptr) bool {
				o.mu.Lock()
				defer o.mu.Unlock()
				o.fetch()
				select {
				case o.more <- struct{}{}:
				default:
				}
				return o.end
			})
		}
	}()
	return o
}

// fetch reads what is there. It is called with mu held.
func (o *orders) fetch() {
	var buf [4096]byte
	for !o.end {
		n, err := syscall.Read(o.fd, buf[:])
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			return
		case n <= 0:
			o.end = true
			return
		}
		lines := strings.Split(o.rest+string(buf[:n]), "\n")
		o.rest = lines[len(lines)-1]
		for _, line := range lines[:len(lines)-1] {
			verb, value, _ := strings.Cut(line, " ")
			v, _ := strconv.ParseInt(value, 10, 64)
			o.read = append(o.read, order{verb, v})
		}
	}
}

// take returns all that has been written and not taken, and whether the wrapper is dead.
func (o *orders) take() (all []order, dead bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fetch()
	all, o.read = o.read, nil
	return all, o.end
}
