package etcdtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/test/freeport"
)

// Alone is a cluster of one member outside of a test, for programs whose main calls Main first.
type Alone struct {
	process *exec.Cmd
	dir     string
	host    string
}

// Durability says whether commits wait for the disk.
type Durability bool

const (
	Volatile Durability = false
	Durable  Durability = true
)

// RunAlone starts a member and waits until it answers. Close ends it
// and removes its files.
func RunAlone(durable Durability) (*Alone, error) {
	dir, err := os.MkdirTemp("", "etcd")
	if err != nil {
		return nil, err
	}
	a := &Alone{dir: dir}
	if err := a.start(durable); err != nil {
		a.Close()
		return nil, fmt.Errorf("etcdtest: %w", err)
	}
	return a, nil
}

func (a *Alone) start(durable Durability) error {
	var addresses [2]string
	for i := range addresses {
		var err error
		if addresses[i], err = freeport.Address(); err != nil {
			return err
		}
	}
	a.host = addresses[0]
	peer := "http://" + addresses[1]
	text, err := json.Marshal(memberConfig{Name: "m", Dir: filepath.Join(a.dir, "data"), Cluster: "m=" + peer,
		Client: a.Endpoint(), Peer: peer, AdvertisePeer: peer, Durable: durable})
	if err != nil {
		return err
	}
	a.process = exec.Command(os.Args[0])
	a.process.Env = append(os.Environ(), memberVar+"="+string(text))
	a.process.Stderr = os.Stderr
	if err := a.process.Start(); err != nil {
		return err
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{a.Endpoint()}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer client.Close()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := client.Get(ctx, "ready")
		cancel()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return errors.Join(errors.New("the member does not answer"), err)
		}
	}
}

// Endpoint is the member's URL for clients, Host its host and port.
func (a *Alone) Endpoint() string { return "http://" + a.host }
func (a *Alone) Host() string     { return a.host }

// Close ends the member with SIGKILL.
func (a *Alone) Close() {
	if a.process != nil && a.process.Process != nil {
		a.process.Process.Kill()
		a.process.Wait()
	}
	os.RemoveAll(a.dir)
}
