package wire

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestOptionsServer holds Options and Setting against what a real backend makes of the same packet.
func TestOptionsServer(t *testing.T) {
	c := pgtest.Shared(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, o := range optionCases {
		cfg, err := pgx.ParseConfig(c.DSN("postgres", "postgres"))
		if err != nil {
			t.Fatal(err)
		}
		cfg.RuntimeParams["options"] = o.in
		conn, err := pgx.ConnectConfig(ctx, cfg)
		if (err != nil) != o.refused {
			t.Errorf("%q: refused %v by the server: %v", o.in, err != nil, err)
		}
		if err != nil {
			continue
		}
		for _, p := range o.want {
			s := Startup{Params: []Param{{"options", o.in}}}
			want, _ := s.Setting(p.Name)
			var got string
			if err := conn.QueryRow(ctx, "select current_setting($1)", p.Name).Scan(&got); err != nil || got != want {
				t.Errorf("%q: the server has %s = %q, %v; want %q", o.in, p.Name, got, err, want)
			}
		}
		conn.Close(ctx)
	}
}
