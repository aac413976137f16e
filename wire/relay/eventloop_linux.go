package relay

import (
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// eventLoop runs many sessions in one goroutine: it waits for any of their sockets and does what can be done at once.
// Nothing in it may block. What must (an announcement, the last words, the analysis of a long text) is done by another
// goroutine, which posts its result.
//
// Why, when goroutines are so convenient: the Go scheduler reads each socket until it says EAGAIN, then parks the
// goroutine and looks for another one, which costs two system calls and a switch of threads for every message. Nine
// tenths of what a proxy costs is spent in the kernel.
type eventLoop struct {
	sessions atomic.Int64
	epoll    int
	bell     int // eventfd, rung for mail
	buf      []byte
	scratch  []byte
	out      Output
	spare    [][]byte // for what a socket did not take
	legs     []*leg   // by number; nil is free
	free     []int32
	freed    []int32 // in this round: events in the same batch may still name them
	ended    chan struct{}

	mu   sync.Mutex
	mail []func()
	rung bool
}

const (
	loopBuffer = 64 << 10
	maxSpare   = 64
	bellNumber = -1
)

func newEventLoop() (*eventLoop, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	bell, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err == nil {
		if err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, bell, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: bellNumber}); err != nil {
			unix.Close(bell)
		}
	}
	if err != nil {
		unix.Close(epoll)
		return nil, err
	}
	l := &eventLoop{epoll: epoll, bell: bell, buf: make([]byte, loopBuffer), ended: make(chan struct{})}
	go l.run()
	return l, nil
}

// close ends the loop and waits for it. No session may be left.
func (l *eventLoop) close() {
	l.post(func() { l.epoll = -l.epoll })
	<-l.ended
}

// post has the loop call f. Safe from any goroutine, the loop's own too.
func (l *eventLoop) post(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mail = append(l.mail, f)
	if !l.rung {
		l.rung = true
		unix.Write(l.bell, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // fails with 2^64 rings unanswered, and when the loop has ended
	}
}

func (l *eventLoop) run() {
	defer close(l.ended)
	var events [128]unix.EpollEvent
	for l.epoll >= 0 {
		n, err := unix.EpollWait(l.epoll, events[:], -1)
		if err != nil {
			if err == unix.EINTR {
				continue
			}
			panic("epoll_wait: " + err.Error()) // EBADF, EFAULT, EINVAL: a bug here
		}
		for _, ev := range events[:n] {
			if ev.Fd == bellNumber {
				l.readMail()
			} else if leg := l.legs[ev.Fd]; leg != nil {
				leg.ready(ev.Events)
			}
		}
		l.free = append(l.free, l.freed...)
		l.freed = l.freed[:0]
	}
	unix.Close(-l.epoll)
	l.mu.Lock() // a late post must not ring what has the number by then
	unix.Close(l.bell)
	l.bell = -1
	l.mu.Unlock()
}

func (l *eventLoop) readMail() {
	var b [8]byte
	unix.Read(l.bell, b[:])
	l.mu.Lock()
	mail := l.mail
	l.mail, l.rung = nil, false
	l.mu.Unlock()
	for _, f := range mail {
		f()
	}
}

// number gives a leg its place in the table.
func (l *eventLoop) number(g *leg) {
	if k := len(l.free); k > 0 {
		g.number = l.free[k-1]
		l.free = l.free[:k-1]
		l.legs[g.number] = g
		return
	}
	g.number = int32(len(l.legs))
	l.legs = append(l.legs, g)
}

func (l *eventLoop) forget(g *leg) {
	g.want(0)
	l.legs[g.number] = nil
	l.freed = append(l.freed, g.number)
}

// take gives memory for what a socket did not take; give takes it back.
func (l *eventLoop) take() []byte {
	if k := len(l.spare); k > 0 {
		b := l.spare[k-1]
		l.spare = l.spare[:k-1]
		return b
	}
	return nil
}

func (l *eventLoop) give(b []byte) {
	if cap(b) <= 4*loopBuffer && len(l.spare) < maxSpare {
		l.spare = append(l.spare, b[:0])
	}
}

// detach takes a socket away from the Go runtime: a descriptor of our own for it, which is not in the runtime's poller.
func detach(c net.Conn) (fd int, ok bool) {
	raw, err := c.(interface {
		SyscallConn() (syscall.RawConn, error)
	}).SyscallConn()
	if err != nil {
		return 0, false
	}
	fd = -1
	raw.Control(func(old uintptr) {
		fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0)
	})
	runtime.KeepAlive(c)
	return fd, fd >= 0 && err == nil
}
