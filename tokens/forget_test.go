package tokens

import (
	"fmt"
	"testing"
	"time"
)

// A pattern such as jobs/* stands for as many fences as there are jobs: what was acknowledged long ago is no memory for ever.
func TestAcknowledgementsAreForgotten(t *testing.T) {
	d := &database{control: &Control{cfg: ControlConfig{Known: new(Known)}}, acknowledged: map[string]acknowledgement{}}
	for i := range 10_000 {
		name := fmt.Sprintf("jobs/%d", i)
		d.remember(Mark{Name: name, Token: Token{Counter: 1}}, "")
		if _, ok := d.remembered(target{name, Token{Counter: 1}}, ""); !ok {
			t.Fatalf("%s is forgotten at once", name)
		}
		a := d.acknowledged[name]
		a.at = a.at.Add(-2 * rememberFor)
		d.acknowledged[name] = a
	}
	if n := len(d.acknowledged); n > 2*minSwept {
		t.Errorf("%d are remembered", n)
	}
	// Those that count are not thrown away, and looked through now and then only.
	for i := range 1000 {
		d.remember(Mark{Name: fmt.Sprint(i), Token: Token{Counter: 1}}, "")
	}
	for i := range 1000 {
		if _, ok := d.remembered(target{fmt.Sprint(i), Token{Counter: 1}}, ""); !ok {
			t.Fatalf("%d is forgotten within %v", i, time.Duration(rememberFor))
		}
	}
}

// Databases come and go: what there is of one that nobody has used for long is given back, unless a raise goes on there.
func TestControlForgetsDatabases(t *testing.T) {
	c, err := NewControl(ControlConfig{DSN: "postgres://postgres@127.0.0.1:1/postgres"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	busy := c.database("busy")
	busy.flights[target{}] = &flight{}
	busy.used = busy.used.Add(-2 * unusedFor)
	for i := range 1000 {
		d := c.database(fmt.Sprint(i))
		d.used = d.used.Add(-2 * unusedFor)
	}
	if n := len(c.dbs); n > 2*minSwept {
		t.Errorf("%d are kept", n)
	}
	if c.database("busy") != busy {
		t.Error("forgotten while a raise goes on")
	}
	for i := range 1000 {
		if c.database(fmt.Sprint("new", i)) == nil {
			t.Fatal("none")
		}
	}
	if n := len(c.dbs); n < 1000 {
		t.Errorf("%d of 1000 in use are kept", n)
	}
}
