package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// faultDone is a fault that has happened: for traces.
type faultDone struct {
	From, To int64
	What     string
	Victim   string // "w2", "proxy 1", an actor's name for backends, ...
}

// adversary draws faults until ctx ends, and mends what it has broken.
func (w *world) adversary(ctx context.Context, s Schedule, ordered func(*hand) error) {
	if s.FaultEvery == 0 || len(s.Faults) == 0 {
		return
	}
	r := rand.New(rand.NewPCG(s.Seed, 1))
	var mending sync.WaitGroup
	defer mending.Wait()
	for {
		pause(ctx, time.Duration(r.ExpFloat64()*float64(s.FaultEvery)))
		if ctx.Err() != nil {
			return
		}
		for range 1 + r.IntN(2) { // often two at a time: a holder and its proxy, say
			w.strike(s, s.Faults[r.IntN(len(s.Faults))], r, &mending, ordered)
		}
	}
}

func (w *world) strike(s Schedule, f Fault, r *rand.Rand, mending *sync.WaitGroup, ordered func(*hand) error) {
	done := faultDone{From: now(), What: string(f)}
	tell := func() {
		done.To = now()
		w.mu.Lock()
		w.faults = append(w.faults, done)
		w.mu.Unlock()
	}
	stop := time.Duration(20+r.IntN(900)) * time.Millisecond
	which := r.IntN(1 << 20)
	switch f {
	case StopWorker:
		h := w.crew.hands[which%s.Workers]
		done.Victim = fmt.Sprintf("w%d", h.number)
		h.stop()
		mending.Go(func() {
			time.Sleep(stop)
			h.goOn()
			tell()
		})
	case KillWorker:
		h := w.crew.hands[which%s.Workers]
		done.Victim = fmt.Sprintf("w%d", h.number)
		if err := w.crew.kill(h); err != nil {
			w.t.Error(err)
		} else if err := ordered(h); err != nil {
			w.t.Error(err)
		}
		tell()
	case StopProxy:
		n := which % len(w.proxies)
		p := w.proxies[n]
		done.Victim = fmt.Sprintf("proxy %d", n)
		p.Signal(syscall.SIGSTOP)
		time.Sleep(stop / 2) // in the foreground: its process must not be replaced meanwhile
		p.Signal(syscall.SIGCONT)
		tell()
	case KillProxy:
		n := which % len(w.proxies)
		p := w.proxies[n]
		done.Victim = fmt.Sprintf("proxy %d", n)
		w.countEvictions(n)
		p.Kill()
		if err := p.Run(); err != nil {
			w.t.Error(err)
		}
		tell()
	case StopMember:
		n := which % 3
		done.Victim = fmt.Sprintf("etcd %d", n)
		w.members.Stop(n)
		time.Sleep(stop) // in the foreground, as with proxies
		w.members.Continue(n)
		tell()
	case CutServer:
		done.Victim = "proxy *"
		w.gate.cut()
		tell()
	case MuteServer:
		done.Victim = "proxy *"
		w.gate.mute(stop)
		mending.Go(func() {
			time.Sleep(stop)
			tell()
		})
	case KillMember:
		n := which % 3
		done.Victim = fmt.Sprintf("etcd %d", n)
		w.members.Restart(n)
		tell()
	case SplitEtcd:
		n := which % 3
		done.Victim = fmt.Sprintf("etcd %d", n)
		w.members.Split(n)
		mending.Go(func() {
			time.Sleep(stop * 2)
			w.members.Heal()
			tell()
		})
	case StopBackend, EndBackend:
		if w.cluster == nil {
			return
		}
		pid, name := w.someBackend(which)
		if pid == 0 {
			return
		}
		done.Victim = name
		if f == EndBackend {
			syscall.Kill(pid, syscall.SIGTERM)
			tell()
			return
		}
		syscall.Kill(pid, syscall.SIGSTOP)
		mending.Go(func() {
			time.Sleep(stop)
			syscall.Kill(pid, syscall.SIGCONT)
			tell()
		})
	case CrashServer:
		if w.cluster == nil {
			return
		}
		if pid, name := w.someBackend(which); pid != 0 && r.IntN(2) == 0 {
			done.Victim = name
			syscall.Kill(pid, syscall.SIGKILL)
		} else {
			w.cluster.Kill()
			w.cluster.Restart(w.t)
		}
		tell()
	}
}

// someBackend is one that serves an actor, or a proxy's control connection.
func (w *world) someBackend(which int) (pid int, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, w.server.SocketDSN(w.db, "postgres"))
	if err != nil {
		return 0, ""
	}
	defer c.Close(context.Background())
	rows, err := c.Query(ctx, `SELECT pid, coalesce(application_name, '') FROM pg_stat_activity
		WHERE datname = current_database() AND client_port IS NOT NULL AND client_port >= 0 AND application_name <> '' ORDER BY pid`)
	if err != nil {
		return 0, ""
	}
	type backend struct {
		Pid  int
		Name string
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[backend])
	if err != nil || len(all) == 0 {
		return 0, ""
	}
	b := all[which%len(all)]
	return b.Pid, b.Name
}

func (w *world) countEvictions(proxy int) {
	w.evictions += w.proxies[proxy].Metric(w.t, "fenceproxy_evictions_total")
}
