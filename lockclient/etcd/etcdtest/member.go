package etcdtest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
)

const memberVar = "ETCDTEST_MEMBER"

// memberConfig is what a member's process is told.
type memberConfig struct {
	Name, Dir, Cluster          string
	Client, Peer, AdvertisePeer string
	Cert, Key, CA               string // for TLS with clients
	Mutual                      bool   // clients must have a certificate
	Existing                    bool
	Durable                     Durability
	Limit                       time.Duration // of its life, 0 for none
}

// Main is called first in TestMain: in a member's process it runs etcd and does not return.
func Main() {
	text := os.Getenv(memberVar)
	if text == "" {
		return
	}
	if err := runMember(text); err != nil {
		fmt.Fprintln(os.Stderr, "etcd member:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runMember(text string) error {
	syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0)
	var m memberConfig
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return err
	}
	one := func(text string) []url.URL {
		u, err := url.Parse(text)
		if err != nil {
			panic(err) // made in this package
		}
		return []url.URL{*u}
	}
	c := embed.NewConfig()
	c.Name, c.Dir, c.InitialCluster = m.Name, m.Dir, m.Cluster
	c.ListenClientUrls, c.AdvertiseClientUrls = one(m.Client), one(m.Client)
	c.ListenPeerUrls, c.AdvertisePeerUrls = one(m.Peer), one(m.AdvertisePeer)
	if m.Existing {
		c.ClusterState = embed.ClusterStateFlagExisting
	}
	c.ClientTLSInfo = transport.TLSInfo{CertFile: m.Cert, KeyFile: m.Key, ClientCertAuth: m.Mutual}
	if m.Mutual {
		c.ClientTLSInfo.TrustedCAFile = m.CA
	}
	c.TickMs, c.ElectionMs, c.UnsafeNoFsync = 50, 500, m.Durable == Volatile
	c.BcryptCost = 4 // the least: under the race detector a password check takes seconds
	c.LogLevel, c.LogOutputs = "panic", []string{"/dev/null"}
	e, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	var over <-chan time.Time
	if m.Limit > 0 {
		over = time.After(m.Limit)
	}
	select {
	case err := <-e.Err():
		return err
	case <-over:
		return nil
	}
}
