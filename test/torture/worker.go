package torture

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	_ "github.com/fenceproxy/fenceproxy/lockclient/etcd"
	_ "github.com/fenceproxy/fenceproxy/lockclient/postgres"
)

const workerVar = "TORTURE_WORKER"

// order is what a worker's process is told by a line on its standard input: play your parts for so long.
type order struct {
	Schedule
	Worker      int
	Incarnation int
	LogOnly     bool // write only what is never overwritten
	Length      time.Duration
	Parts       []part
	Proxies     []string // DSNs of the application role through the proxies
	Server      string   // DSN of the application role, directly
	Leases      string   // URLs of lock services
	Etcd        string
	Binary      string // fenceproxy
	Psql        string
}

// WorkerMain is called first in TestMain: in a worker's process it works and does not return.
func WorkerMain() {
	if os.Getenv(workerVar) == "" {
		return
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	w := &worker{out: json.NewEncoder(os.Stdout), clients: map[service]*lockclient.Client{}}
	for in.Scan() {
		if err := json.Unmarshal(in.Bytes(), &w.order); err != nil {
			fmt.Fprintln(os.Stderr, "torture: worker:", err)
			os.Exit(1)
		}
		w.play()
		w.tell(Event{Op: "over"})
	}
	os.Exit(0)
}

// worker is one process, with an actor for each of its parts.
type worker struct {
	order

	mu  sync.Mutex
	out *json.Encoder

	clients map[service]*lockclient.Client
	issue   func(fence string) int64 // tokens, instead of the counter in the database
}

// tell writes an event at once: what a process has not told when it is killed did not happen for the judges.
func (w *worker) tell(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.out.Encode(e); err != nil {
		os.Exit(1)
	}
}

func (w *worker) play() {
	ctx, cancel := context.WithTimeout(context.Background(), w.order.Length)
	defer cancel()
	w.act(ctx)
}

// act plays all parts until ctx ends.
func (w *worker) act(ctx context.Context) {
	var actors sync.WaitGroup
	for _, p := range w.Parts {
		a := &actor{
			worker: w,
			part:   p,
			name:   fmt.Sprintf("w%d.%s", w.Worker, p.Fence),
			random: rand.New(rand.NewPCG(derive(w.Seed, 100*w.Worker+p.Actor), uint64(w.Incarnation))),
		}
		a.hold = holder{
			random: rand.New(rand.NewPCG(derive(w.Seed, 100*w.Worker+p.Actor), 1000+uint64(w.Incarnation))),
			often:  w.Hold / 4, most: w.HoldFor,
			told: func(from int64, step string) {
				w.tell(Event{From: from, To: now(), Who: a.name, Fence: a.Fence, Op: Held, Shape: step})
			},
		}
		actors.Go(func() { a.run(ctx) })
	}
	actors.Wait()
}

// client of a lock service; they are shared by the actors and last as long as the process.
func (w *worker) client(s service) (*lockclient.Client, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.clients[s]; c != nil {
		return c, nil
	}
	url := w.Leases
	if s == etcd {
		url = w.Etcd
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := lockclient.Open(ctx, url, lockclient.WithTTL(lockTTL), lockclient.WithReleaseTimeout(time.Second))
	if err == nil {
		w.clients[s] = c
	}
	return c, err
}

// lockTTL is short, so that locks pass on while their holders are stopped.
const lockTTL = time.Second
