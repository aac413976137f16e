package torture

import (
	"math/rand/v2"
	"time"
)

// Schedule is what a stretch of the run draws from its seed.
type Schedule struct {
	Seed    uint64
	Length  time.Duration
	Workers int

	Tenure     int           // transactions of a tenure, at most
	Rest       time.Duration // between two tenures of an actor, at most
	Stubborn   float64       // how often a worker goes on after a refusal
	Hold       float64       // how often it is held back at a step
	HoldFor    time.Duration // at most
	FaultEvery time.Duration // on average; 0 for none
	Faults     []Fault
}

// Fault is something that the adversary does.
type Fault string

const (
	StopWorker  Fault = "stop worker"
	KillWorker  Fault = "kill worker"
	StopProxy   Fault = "stop proxy"
	KillProxy   Fault = "kill proxy"
	StopBackend Fault = "stop backend"
	EndBackend  Fault = "terminate backend"
	StopMember  Fault = "stop etcd member"
	KillMember  Fault = "kill etcd member"
	SplitEtcd   Fault = "split etcd"           // one member on one side, two on the other
	CutServer   Fault = "cut off PostgreSQL"   // every connection of the proxies' sessions breaks
	MuteServer  Fault = "nothing gets through" // to PostgreSQL, for a while
	CrashServer Fault = "crash PostgreSQL"     // kill -9 of a backend, or an immediate shutdown
)

// drawn are the faults by weight.
var drawn = []Fault{StopWorker, StopWorker, StopWorker, KillWorker, StopProxy, KillProxy, StopBackend, StopBackend, EndBackend, StopMember, KillMember, SplitEtcd, CutServer, MuteServer}

// draw makes the schedule of a seed.
func draw(seed uint64) Schedule {
	r := rand.New(rand.NewPCG(seed, 0))
	s := Schedule{
		Seed:     seed,
		Length:   time.Duration(3000+r.IntN(5000)) * time.Millisecond,
		Workers:  3 + r.IntN(3),
		Tenure:   1 + r.IntN(30),
		Rest:     []time.Duration{20, 100, 300, 800}[r.IntN(4)] * time.Millisecond,
		Stubborn: r.Float64() * 0.6,
		Hold:     []float64{0, 0.01, 0.03, 0.1}[r.IntN(4)],
		HoldFor:  time.Duration(10+r.IntN(400)) * time.Millisecond,
	}
	if r.IntN(6) > 0 {
		s.FaultEvery = time.Duration(60+r.IntN(600)) * time.Millisecond
		for _, f := range drawn {
			if r.IntN(2) == 0 {
				s.Faults = append(s.Faults, f)
			}
		}
		if r.IntN(12) == 0 {
			s.Faults = append(s.Faults, CrashServer)
		}
	}
	return s
}

// derive is the seed of one of the many that hang on a seed: schedules of a run, actors of a schedule.
func derive(seed uint64, n int) uint64 {
	z := seed + 0x9e3779b97f4a7c15*uint64(n+1) // splitmix64
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
