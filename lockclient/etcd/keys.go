package etcd

import (
	"encoding/json"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// layout of the keys:
//
//	PREFIX/NAME=w/LEASE   a writer, queued or holding
//	PREFIX/NAME=r/LEASE   a reader
//	PREFIX/=epoch         the epoch of tokens, absent for 0
//
// No lock name holds "=", so the keys of jobs are no prefix of those of jobs/42, and no lock is called "=epoch".
type layout struct{ prefix string }

const (
	defaultPrefix = "fenceproxy/locks"
	writers       = "w/"
	readers       = "r/"
)

func newLayout(prefix string) layout {
	if prefix = strings.TrimRight(prefix, "/"); prefix == "" {
		prefix = defaultPrefix
	}
	return layout{prefix + "/"}
}

func (l layout) epoch() string                { return l.prefix + "=epoch" }
func (l layout) all(name string) string       { return l.prefix + name + "=" }
func (l layout) writers(name string) string   { return l.all(name) + writers }
func (l layout) isWriter(name, k string) bool { return strings.HasPrefix(k, l.writers(name)) }

func (l layout) key(name string, m lockclient.Mode, id clientv3.LeaseID) string {
	kind := writers
	if m == lockclient.Shared {
		kind = readers
	}
	return l.all(name) + kind + strconv.FormatInt(int64(id), 16)
}

// rivals is the prefix of the keys that a claim waits for when they are older: a writer for all, a reader for writers.
func (l layout) rivals(name string, m lockclient.Mode) string {
	if m == lockclient.Shared {
		return l.writers(name)
	}
	return l.all(name)
}

// ref is what the client carries for the backend in a claim.
type ref struct {
	key   string
	rev   int64 // create revision of key: which is to say this claim, and the token's counter
	lease clientv3.LeaseID
	epoch int64
	term  *atomic.Uint64 // of the last keep-alive, 0 before the first: a grant went through the log
}

func (r ref) token() tokens.Token { return tokens.Token{Epoch: r.epoch, Counter: r.rev} }

// entry is the value of a lock's key.
type entry struct {
	Holder string    `json:"holder"`
	Epoch  int64     `json:"epoch,omitempty"`
	Asked  time.Time `json:"asked"`
}

func (e entry) String() string {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // strings, numbers and present times always marshal
	}
	return string(text)
}

// leader is the holder that a writer's key stands for. A value that somebody else wrote yields what the key alone tells.
func leader(kv *mvccpb.KeyValue) lockclient.Leader {
	var e entry
	if json.Unmarshal(kv.Value, &e) != nil {
		e = entry{Holder: "unknown"}
	}
	return lockclient.Leader{Holder: e.Holder, Token: tokens.Token{Epoch: e.Epoch, Counter: kv.CreateRevision}, Since: e.Asked}
}
