package storm

import (
	"fmt"
	"strings"
	"sync/atomic"
)

// stage is how far a connection came before it was killed.
type stage int

const (
	connected stage = iota
	startingUp
	loggingIn
	authenticating
	idle
	querying
	inTransaction
	copying
	pipelining
	stageCount
)

var stageNames = [stageCount]string{"connected", "starting up", "logging in", "authenticating", "idle", "querying", "in transaction", "copying", "pipelining"}

// stages counts connections by stage.
type stages [stageCount]atomic.Int64

func (s *stages) add(at stage) { s[at].Add(1) }

func (s *stages) String() string {
	var parts []string
	for i := range s {
		parts = append(parts, fmt.Sprint(stageNames[i], " ", s[i].Load()))
	}
	return strings.Join(parts, ", ")
}
