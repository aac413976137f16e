package conversation

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Run plays a script on one route and returns the raw replies of the opening and of each message step, made comparable
// with those of other runs. The first reply that is not as written ends it with an error.
func (w *World) Run(t testing.TB, script Script, r Route, cut func([]byte) []int) (replies [][]byte, err error) {
	t.Helper()
	w.runs++
	p := &play{World: w, t: t, route: r, base: numbers(1_000_000 + 100*w.runs)}
	w.Cluster.Exec(t, w.DB, reset)
	defer p.end()
	for _, token := range script.Before {
		if err := p.present(token); err != nil {
			return nil, err
		}
	}
	params := []string{"user", user, "database", w.DB}
	for _, text := range script.Session {
		params = append(params, p.base.fill(text))
	}
	packet := Startup(params...)
	if script.Version != 0 {
		binary.BigEndian.PutUint32(packet[4:], script.Version)
	}
	if p.client, err = Open(w.addr[r], cut, packet); err != nil {
		return nil, err
	}
	want, _ := Expected(script.Opening, r)
	if want == "" {
		want = "Z(I)"
	}
	if err := p.opening(want); err != nil {
		return nil, fmt.Errorf("at startup: %w", err)
	}
	for _, step := range script.Steps {
		if err := p.step(step); err != nil {
			return p.replies, fmt.Errorf("line %d: %w", step.Line, err)
		}
	}
	return p.replies, p.nothingElse()
}

// play is one run under way.
type play struct {
	*World
	t       testing.TB
	route   Route
	base    numbers
	client  *Client
	replies [][]byte
	raises  []chan error
	holder  *pgx.Conn
}

func (p *play) end() {
	p.release()
	for _, raise := range p.raises {
		<-raise
	}
	if p.client != nil {
		p.client.Close()
	}
}

func (p *play) step(s Step) error {
	switch s.Verb {
	case "send":
		return p.send(s)
	case "other":
		p.Cluster.Exec(p.t, p.DB, p.base.fill(s.Arg))
	case "raise":
		return p.present(s.Arg)
	case "raise&":
		done := make(chan error, 1)
		go func() { done <- p.present(s.Arg) }()
		p.raises = append(p.raises, done)
	case "raised":
		raises := p.raises
		p.raises = nil
		for _, raise := range raises {
			select {
			case err := <-raise:
				if err != nil {
					return err
				}
			case <-time.After(replyLimit):
				return fmt.Errorf("still not raised")
			}
		}
	case "waiting":
		return p.waiting()
	case "hold":
		return p.hold(p.base.fill(s.Arg))
	case "release":
		return p.release()
	}
	return nil
}

func (p *play) send(s Step) error {
	var out []byte
	for _, line := range s.Send {
		var err error
		if out, err = Encode(out, p.base.fill(line)); err != nil {
			return err
		}
	}
	if err := p.client.Write(out); err != nil {
		return err
	}
	want, _ := Expected(s.Want, p.route)
	return p.expect(split(want))
}

// expect reads as many messages as there are words and compares them one by one.
func (p *play) expect(want []string) error {
	var raw []byte
	var got []string
	for i, word := range want {
		message, err := p.client.Next()
		if err != nil {
			return fmt.Errorf("want %s\n got %s, then %w", strings.Join(want, " "), strings.Join(got, " "), err)
		}
		shown := "EOF"
		if message != nil {
			shown = p.base.show(Show(message[0], message[5:]))
			raw = append(raw, message...)
			if message[0] == 'A' { // of a process that is another one in each run
				clear(raw[len(raw)-len(message)+5:][:4])
			}
		}
		got = append(got, shown)
		if shown != word {
			detail := ""
			if message != nil && message[0] == 'E' {
				detail = "\n     " + Fields(message[5:])['M'] + " / " + Fields(message[5:])['D'] + " / " + Fields(message[5:])['W']
			}
			return fmt.Errorf("word %d\nwant %s\n got %s%s", i+1, strings.Join(want, " "), strings.Join(got, " "), detail)
		}
	}
	p.replies = append(p.replies, p.base.hide(raw))
	return nil
}

// opening reads the replies to the startup packet; of R, S and K only their order and S's content are comparable.
func (p *play) opening(want string) error {
	var raw []byte
	var got []string
	for {
		message, err := p.client.Next()
		if err != nil {
			return err
		}
		if message == nil {
			got = append(got, "EOF")
			break
		}
		switch message[0] {
		case 'K':
			raw = append(raw, message[:5]...)
		case 'R', 'S':
			raw = append(raw, message...)
		default:
			raw = append(raw, message...)
			got = append(got, p.base.show(Show(message[0], message[5:])))
		}
		if message[0] == 'Z' {
			break
		}
	}
	p.replies = append(p.replies, p.base.hide(raw))
	if shown := strings.Join(got, " "); shown != want {
		return fmt.Errorf("want %s\n got %s", want, shown)
	}
	return nil
}

// nothingElse ends the session and sees that the server had nothing more to say.
func (p *play) nothingElse() error {
	p.client.Cut = nil
	end, _ := Encode(nil, "Terminate")
	p.client.Write(end)
	message, err := p.client.Next()
	if err == nil && message != nil {
		err = fmt.Errorf("after the last reply: %s", Show(message[0], message[5:]))
	}
	return err
}

// present is another session that carries a token; directly nobody does.
func (p *play) present(token string) error {
	addr := p.raiser[p.route]
	if addr == "" {
		return nil
	}
	c, err := Dial(addr, "user", user, "database", p.DB, "fence.token", p.base.fill(token))
	if err != nil {
		return err
	}
	defer c.Close()
	raw, err := c.UntilReady()
	if err != nil {
		return fmt.Errorf("presenting %s: %w", token, err)
	}
	last := raw[len(raw)-1]
	if last[0] != 'Z' {
		return fmt.Errorf("presenting %s: %s %s", token, Show(last[0], last[5:]), Fields(last[5:])['M'])
	}
	return nil
}

func (p *play) hold(token string) error {
	config, err := pgx.ParseConfig(fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", user, p.addr[p.route], p.DB))
	if err != nil {
		return err
	}
	config.RuntimeParams["fence.token"] = token
	if p.holder, err = pgx.ConnectConfig(context.Background(), config); err != nil {
		return err
	}
	_, err = p.holder.PgConn().Exec(context.Background(), "BEGIN; UPDATE acct SET bal = bal WHERE id = 2").ReadAll()
	return err
}

func (p *play) release() error {
	if p.holder == nil {
		return nil
	}
	_, err := p.holder.Exec(context.Background(), "COMMIT")
	p.holder.Close(context.Background())
	p.holder = nil
	return err
}

// waiting polls until a raise stands in the queue of an advisory lock.
func (p *play) waiting() error {
	if !p.route.Enforced() {
		return nil
	}
	conn, err := pgx.Connect(context.Background(), p.Cluster.DSN(p.DB, "postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	const query = `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND mode = 'ExclusiveLock'
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`
	for deadline := time.Now().Add(replyLimit); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		var waits bool
		if err := conn.QueryRow(context.Background(), query).Scan(&waits); err != nil || waits {
			return err
		}
	}
	return fmt.Errorf("no raise waits")
}
